// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "blame.h"
#include "bpf_program.h"
#include "threads.h"
#include "src/bpf/threads.skel.h"

/* Batches may have a bucket more than the map has entries. */
#define WAITS_ROOM	(2 * BLAME_VMS)

/* Entries that remain free until pairs that no longer grow are removed */
#define SPARE_PAIRS	(BLAME_CHARGES / 2)

struct blame {
	struct threads *threads;
	struct threads_bpf *program;	/* theirs */
	/* Last sample and the one before it, sorted by pair */
	struct blame_row *rows, *before;
	size_t count, count_before;
	struct blame_pair *keys;
	struct blame_charge *values;
	size_t room;
	/* Waits that ended, by VM */
	struct blame_vm *vms;
	struct blame_waits *waits;
	__u32 waited;
};

/* Remove the pairs of the VMs of this process: those of the check. */
static void forget_blame_check(struct blame *b)
{
	const int map = bpf_map__fd(b->program->maps.charges);
	size_t i;

	for (i = 0; i < b->count; i++)
		if (b->rows[i].pair.vm.tgid == (uint32_t)getpid())
			bpf_map_delete_elem(map, &b->rows[i].pair);
}

int blame_open(struct blame **opened, struct threads *shared, const struct kvmstats_vm *first,
	       struct kvmstats_probe *p)
{
	/* Batches may have a bucket more than the map has entries. */
	const size_t room = 2 * BLAME_CHARGES;
	struct blame *b = calloc(1, sizeof(*b));
	int error = -ENOMEM;

	if (b) {
		b->room = room;
		b->rows = calloc(room, sizeof(*b->rows));
		b->before = calloc(room, sizeof(*b->before));
		b->keys = calloc(room, sizeof(*b->keys));
		b->values = calloc(room, sizeof(*b->values));
		b->vms = calloc(WAITS_ROOM, sizeof(*b->vms));
		b->waits = calloc(WAITS_ROOM, sizeof(*b->waits));
	}
	if (!b || !b->rows || !b->before || !b->keys || !b->values || !b->vms || !b->waits)
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
	else
		error = threads_share(&b->threads, shared, THREADS_WAITS, first, p);
	if (!error) {
		b->program = b->threads->program;
		error = blame_check(b, p) ?: blame_sample(b);
	}
	if (error) {
		blame_close(b);
		return error;
	}
	forget_blame_check(b);
	blame_sample(b);
	blame_enter(b, first);
	*opened = b;
	return 0;
}

void blame_close(struct blame *b)
{
	if (!b)
		return;
	threads_close(b->threads);
	free(b->rows);
	free(b->before);
	free(b->keys);
	free(b->values);
	free(b->vms);
	free(b->waits);
	free(b);
}

bool blame_lists(const struct blame *b, uint32_t tid)
{
	return threads_have(b->threads, tid);
}

static void announce_vmms(struct blame *b, const struct kvmstats_vm *first)
{
	__u64 *const tgids = b->program->bss->tgids;
	const struct kvmstats_vm *vm;
	size_t bit;

	for (vm = first; vm; vm = vm->next) {
		bit = vm->identity.pid % (8 * sizeof(b->program->bss->tgids));
		if (!vm->ended)
			__sync_fetch_and_or(&tgids[bit / 64], 1ULL << bit % 64);
	}
}

void blame_enter(struct blame *b, const struct kvmstats_vm *first)
{
	announce_vmms(b, first);
	threads_enter(b->threads, first);
}

static int compare_blame_rows(const void *x, const void *y)
{
	const struct blame_row *a = x, *b = y;

	return memcmp(&a->pair, &b->pair, sizeof(a->pair));
}

static int read_charges(struct blame *b)
{
	size_t i;
	int error;

	error = bpf_program_read(bpf_map__fd(b->program->maps.charges), b->keys,
				 sizeof(*b->keys), b->values, sizeof(*b->values), b->room,
				 &b->count);
	if (error)
		return error;
	for (i = 0; i < b->count; i++) {
		b->rows[i].pair = b->keys[i];
		b->rows[i].ns = b->values[i].ns;
		b->rows[i].pid = b->values[i].process;
		b->rows[i].starter = b->values[i].process >> BLAME_STARTER_SHIFT;
		b->rows[i].removed = false;
	}
	qsort(b->rows, b->count, sizeof(*b->rows), compare_blame_rows);
	return 0;
}

/*
 * Add the pair of each VM for time that is not named, unless the map has it: it may have been
 * removed, and when the map is full the program cannot add it. Returns the number of added ones.
 * bpf_map_update_batch() has no BPF_NOEXIST.
 */
static size_t restore_unknown_pairs(const struct blame *b)
{
	const int map = bpf_map__fd(b->program->maps.charges);
	struct blame_row unknown = { .pair.owner.kind = BLAME_UNKNOWN };
	const struct blame_thread *thread = b->threads->live.list;
	const struct blame_charge none = { 0 };
	const struct blame_row *found;
	size_t i, added = 0;

	for (i = 0; i < b->threads->live.count; i++, thread++) {
		if (i && !memcmp(&thread->vm, &thread[-1].vm, sizeof(thread->vm)))
			continue;
		unknown.pair.vm = thread->vm;
		found = bsearch(&unknown, b->rows, b->count, sizeof(*b->rows), compare_blame_rows);
		if (!found || found->removed)
			added += !bpf_map_update_elem(map, &unknown.pair, &none, BPF_NOEXIST);
	}
	return added;
}

/* Count the entries that each group has for names. */
static void count_names(const struct blame *b)
{
	__u32 *names = b->program->bss->named_pairs;
	const __u32 seed = b->program->bss->thread_counts.seed;
	size_t i;

	memset(names, 0, sizeof(b->program->bss->named_pairs));
	for (i = 0; i < b->count; i++) {
		const struct blame_owner *owner = &b->rows[i].pair.owner;

		if (*owner->comm && !b->rows[i].removed)
			__sync_fetch_and_add(&names[hash_group(owner, seed) % BLAME_GROUPS], 1);
	}
}

/* Compare with the sample before; make space in the map if it is nearly full. */
static void find_charge_growth(struct blame *b)
{
	const int map = bpf_map__fd(b->program->maps.charges);
	const bool full = b->count > BLAME_CHARGES - SPARE_PAIRS;
	struct blame_charge last;
	size_t i, j = 0, removed = 0;

	for (i = 0; i < b->count; i++) {
		struct blame_row *row = &b->rows[i];

		while (j < b->count_before && compare_blame_rows(&b->before[j], row) < 0)
			j++;
		row->growth = row->ns;
		if (j == b->count_before || compare_blame_rows(&b->before[j], row))
			continue;
		if (!b->before[j].removed)
			row->growth -= b->before[j].ns;
		/* Charges can be added between the two reads. */
		if (full && !row->growth &&
		    !bpf_map_lookup_and_delete_elem(map, &row->pair, &last)) {
			row->growth = last.ns - row->ns;
			row->removed = true;
			removed++;
		}
	}
	b->program->bss->pairs = b->count - removed + (removed ? restore_unknown_pairs(b) : 0);
	count_names(b);
}

/* Remove the waits that have ended from the map. */
static int take_waits(struct blame *b)
{
	struct shares *shares = &b->program->bss->wait_shares;
	__u64 position;

	b->waited = WAITS_ROOM;
	if (bpf_map_lookup_and_delete_batch(bpf_map__fd(b->program->maps.ended_waits), NULL, &position,
					    b->vms, b->waits, &b->waited, NULL) && errno != ENOENT)
		return -errno;
	memset(shares->user, 0, sizeof(shares->user));
	shares->all = 0;
	return 0;
}

int blame_sample(struct blame *b)
{
	struct blame_row *rows = b->before;
	int error;

	b->before = b->rows;
	b->rows = rows;
	b->count_before = b->count;
	error = threads_sample(b->threads) ?: take_waits(b) ?: read_charges(b);
	if (!error)
		find_charge_growth(b);
	return error;
}

const struct blame_row *blame_rows(const struct blame *b, size_t *n)
{
	*n = b->count;
	return b->rows;
}

size_t blame_ended_waits(const struct blame *b, const struct blame_vm **vms,
			 const struct blame_waits **waits)
{
	*vms = b->vms;
	*waits = b->waits;
	return b->waited;
}

const struct blame_thread *blame_threads(const struct blame *b, size_t *n)
{
	*n = b->threads->live.count;
	return b->threads->live.list;
}

struct blame_counts blame_counts(const struct blame *b)
{
	return b->program->bss->counts;
}

bool blame_cgroup(const struct blame *b, uint64_t id, struct blame_cgroup *cgroup)
{
	const int map = bpf_map__fd(b->program->maps.cgroups);

	if (!id)
		return false;
	if (!bpf_map_lookup_elem(map, &id, cgroup))
		return true;
	/* A new one took its entry: the program is to name it again. */
	b->program->bss->named[id % BLAME_CGROUPS] = 0;
	return false;
}

uint64_t blame_take_exited(struct blame *b, uint32_t tgid, uint64_t most)
{
	const int map = bpf_map__fd(b->program->maps.exited);
	uint64_t charged = 0, rest;

	if (bpf_map_lookup_elem(map, &tgid, &charged))
		return 0;
	if (charged <= most) {
		bpf_map_delete_elem(map, &tgid);
		return charged;
	}
	rest = charged - most;
	bpf_map_update_elem(map, &tgid, &rest, BPF_ANY);
	return most;
}
