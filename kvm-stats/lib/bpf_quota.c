// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_quota.h"

/* A CPU used by vCPUs of a VM in a group; cpu 0: the group and the number of its CPUs */
struct bpf_place {
	__u64 vm, group, cpu;
	unsigned int cpus;
};

static bool has_quota(const struct bpf_record *record)
{
	return record->vcpu_id >= 0 && record->thread.group;
}

/* Where it is, or would be; groups are not 0. There is always room. */
static struct bpf_place *find_place(const struct bpf_quota *quota,
				    const struct bpf_record *record, __u64 cpu)
{
	const __u64 mixed = ((record->vm * 31 + record->thread.group) * 31 + cpu) *
			    0x9e3779b97f4a7c15;
	size_t at = (mixed >> 32) & (quota->room - 1);
	struct bpf_place *place;

	for (;; at = (at + 1) & (quota->room - 1)) {
		place = &quota->places[at];
		if (!place->group || (place->vm == record->vm && place->cpu == cpu &&
				      place->group == record->thread.group))
			return place;
	}
}

static bool add_place(struct bpf_quota *quota, const struct bpf_record *record, __u64 cpu)
{
	struct bpf_place *place = find_place(quota, record, cpu);
	bool added = !place->group;

	place->vm = record->vm;
	place->group = record->thread.group;
	place->cpu = cpu;
	return added;
}

int bpf_quota_count(struct bpf_quota *quota, const struct bpf_record **records, int n)
{
	size_t room = 64, with = 0;
	struct bpf_place *more;
	int i;

	for (i = 0; i < n; i++)
		with += has_quota(records[i]);
	if (!with)
		return 0;
	/* two each at most, and half of it is free */
	while (room < 4 * with)
		room *= 2;
	if (room > quota->room) {
		more = realloc(quota->places, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		quota->places = more;
		quota->room = room;
	}
	memset(quota->places, 0, quota->room * sizeof(*quota->places));
	for (i = 0; i < n; i++) {
		if (!has_quota(records[i]))
			continue;
		add_place(quota, records[i], 0);
		if (add_place(quota, records[i], records[i]->thread.rq))
			find_place(quota, records[i], 0)->cpus++;
	}
	return 0;
}

unsigned int bpf_quota_cpus(const struct bpf_quota *quota, const struct bpf_record *record)
{
	return has_quota(record) ? find_place(quota, record, 0)->cpus : 1;
}

void bpf_quota_free(struct bpf_quota *quota)
{
	free(quota->places);
	quota->places = NULL;
	quota->room = 0;
}
