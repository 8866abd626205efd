// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_quota.h"
#include "stat_group.h"

/* A vCPU whose thread has, or had, a quota */
struct quota_thread {
	__u64 object;			/* the vCPU; 0 if the slot is free */
	struct bpf_thread thread;	/* at the last sample */
	__u64 total;			/* throttled since this thread was first seen */
	__u64 rt_credit;		/* time for which a real-time quota can have throttled it */
	bool seen;
	/* In this sample */
	__u64 waited;
	bool moved;
};

/* A cgroup, in one sample */
struct quota_group {
	__u64 group;		/* 0 if the slot is free */
	__u64 left;		/* throttled time that is not that of a vCPU */
	__u64 waited;		/* by the vCPUs that moved to other CPUs */
};

/* A cgroup on one CPU, in one sample: the kernel counts a stop once for all threads there. */
struct quota_queue {
	__u64 queue;		/* 0 if the slot is free */
	__u64 taken;		/* longest throttled time among its vCPUs */
};

static bool has_quota(const struct bpf_record *record)
{
	return record->vcpu_id >= 0 && (record->thread.group || record->thread.rt_period);
}

/* Return the element with this key, which is its first member, or the free one for it. */
static void *find_quota_slot(const struct bpf_quota *quota, void *table, size_t size, __u64 key)
{
	size_t at = key * 0x9e3779b97f4a7c15ULL >> 32;
	__u64 *slot;

	/* There is always space. */
	do {
		slot = (__u64 *)((char *)table + (at++ & (quota->room - 1)) * size);
	} while (*slot && *slot != key);
	return slot;
}

static struct quota_thread *thread_slot(const struct bpf_quota *quota, __u64 object)
{
	return find_quota_slot(quota, quota->threads, sizeof(*quota->threads), object);
}

static struct quota_group *group_slot(const struct bpf_quota *quota, __u64 group)
{
	return find_quota_slot(quota, quota->groups, sizeof(*quota->groups), group);
}

static struct quota_queue *queue_slot(const struct bpf_quota *quota, __u64 group, __u64 rq)
{
	const __u64 queue = (group * 0x9e3779b97f4a7c15ULL ^ rq) ?: 1;
	struct quota_queue *slot = find_quota_slot(quota, quota->queues, sizeof(*quota->queues), queue);

	slot->queue = queue;
	return slot;
}

/* Keep the vCPUs of the previous sample, and make space for as many new ones. */
static int rebuild(struct bpf_quota *quota, size_t vcpus)
{
	struct bpf_quota old = *quota;
	size_t room = 64, i;

	while (room < 2 * (vcpus + old.vcpus))
		room *= 2;
	quota->threads = calloc(room, sizeof(*quota->threads));
	quota->groups = calloc(room, sizeof(*quota->groups));
	quota->queues = calloc(room, sizeof(*quota->queues));
	if (!quota->threads || !quota->groups || !quota->queues) {
		free(quota->threads);
		free(quota->groups);
		free(quota->queues);
		*quota = old;
		return -ENOMEM;
	}
	quota->room = room;
	quota->vcpus = 0;
	for (i = 0; i < old.room; i++) {
		if (!old.threads[i].seen)
			continue;
		*thread_slot(quota, old.threads[i].object) = old.threads[i];
		quota->vcpus++;
	}
	free(old.threads);
	free(old.groups);
	free(old.queues);
	return 0;
}

static __u64 waited(const struct bpf_thread *thread)
{
	return thread->ready + thread->queued_for;
}

/*
 * Return for how long a real-time quota that is used up has stopped the thread in this period: less
 * than 0 if the stop is longer than the rest of a period, because the thread ran too long before.
 */
static double rt_stop(const struct bpf_thread *thread)
{
	const __u64 stop = thread->rt_period - thread->rt_runtime;

	if (!(thread->flags & BPF_RT_THROTTLED))
		return 0;
	return (double)stop - growth_of(thread->rt_next, thread->time);
}

/*
 * The kernel does not measure for how long real-time quotas stop threads. A quota that is used up
 * stops a thread until the next period: in all periods between two samples if it is used up at
 * both, otherwise in as many as the thread used up. A thread that used less than 90 % may have
 * used up none. One that is not stopped at both, in the same period, has used up none.
 */
static __u64 rt_growth(struct quota_thread *t, const struct bpf_thread *now)
{
	const __u64 stop = now->rt_period - now->rt_runtime;
	const struct bpf_thread *before = &t->thread;
	double periods, used, credit;
	__u64 grew;

	if (!before->rt_period)
		return 0;
	periods = (double)growth_of(now->rt_next, before->rt_next) / now->rt_period;
	used = growth_of(before->rt_used + growth_of(now->run, before->run), now->rt_used);
	used /= now->rt_runtime;
	if (!(now->flags & before->flags & BPF_RT_THROTTLED)) {
		if ((now->flags | before->flags) & BPF_RT_THROTTLED ||
		    (periods && used >= 0.9 * periods))
			periods = used;
		else
			periods = 0;
	}
	/* Wrong records can make it larger than 64 bits. */
	credit = t->rt_credit + periods * stop + rt_stop(now) - rt_stop(before);
	t->rt_credit = credit > 1e18 ? 1e18 : credit > 0 ? credit : 0;
	grew = at_most(t->waited, t->rt_credit);
	t->rt_credit = at_most(t->rt_credit - grew, now->rt_period);
	return grew;
}

/* Compute the time of a vCPU, unless it moved to another CPU. */
static void update_thread(struct bpf_quota *quota, struct quota_thread *t,
			  const struct bpf_record *record)
{
	const struct bpf_thread *now = &record->thread;
	struct quota_queue *queue;
	struct quota_group *group;
	__u64 grew = 0;

	t->moved = false;
	/* A thread that has exited may have run a vCPU at this address. */
	if (!t->object || t->thread.born != now->born) {
		quota->vcpus += !t->object;
		t->object = record->object;
		t->total = 0;
		t->rt_credit = 0;
		t->thread = *now;
	}
	t->seen = true;
	t->waited = growth_of(waited(now), waited(&t->thread));
	if (now->rt_period) {
		grew = rt_growth(t, now);
	} else if (now->group && now->group == t->thread.group) {
		group = group_slot(quota, now->group);
		if (!group->group) {
			group->group = now->group;
			group->left = growth_of(now->group_throttled, t->thread.group_throttled);
		}
		t->moved = now->rq != t->thread.rq || now->moves != t->thread.moves;
		if (t->moved) {
			group->waited += t->waited;
		} else {
			grew = at_most(t->waited, growth_of(now->throttled, t->thread.throttled));
			queue = queue_slot(quota, now->group, now->rq);
			group->left -= at_most(group->left, growth_of(grew, queue->taken));
			if (queue->taken < grew)
				queue->taken = grew;
		}
	}
	t->total += grew;
	t->thread = *now;
}

static void share_rest(const struct bpf_quota *quota, struct quota_thread *t)
{
	const struct quota_group *group;
	double part;

	if (!t->moved || !t->waited)
		return;
	group = group_slot(quota, t->thread.group);
	/* Wrong records can add up to any sum, also to 0. */
	part = group->waited > group->left ? (double)group->left / group->waited : 1;
	t->total += part < 1 ? t->waited * part : t->waited;
}

int bpf_quota_update(struct bpf_quota *quota, const struct bpf_record **records, int n)
{
	size_t vcpus = 0, at;
	int i, error;

	for (i = 0; i < n; i++)
		vcpus += has_quota(records[i]);
	/* the usual case */
	if (!vcpus && !quota->vcpus)
		return 0;
	error = rebuild(quota, vcpus);
	if (error)
		return error;
	for (at = 0; at < quota->room; at++)
		quota->threads[at].seen = false;
	for (i = 0; i < n; i++) {
		if (has_quota(records[i]))
			update_thread(quota, thread_slot(quota, records[i]->object), records[i]);
	}
	for (at = 0; at < quota->room; at++)
		share_rest(quota, &quota->threads[at]);
	return 0;
}

__u64 bpf_quota_throttled(const struct bpf_quota *quota, const struct bpf_record *record)
{
	return quota->vcpus ? thread_slot(quota, record->object)->total : 0;
}

void bpf_quota_free(struct bpf_quota *quota)
{
	free(quota->threads);
	free(quota->groups);
	free(quota->queues);
	memset(quota, 0, sizeof(*quota));
}
