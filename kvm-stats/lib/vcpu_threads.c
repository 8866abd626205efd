// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Threads that run several vCPUs. KVM stores for each vCPU which thread ran it last, so
 * several vCPUs, also of several VMs, can have the same thread. The time of a thread belongs
 * to one vCPU if no other vCPU was active on that thread since the previous sample; otherwise
 * it is unknown to which.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"

static struct vcpu_thread *find_slot(const struct kvmstats *k, pid_t tid)
{
	size_t at = tid * 0x9e3779b97f4a7c15ULL >> 32;

	for (;; at++) {
		struct vcpu_thread *thread = &k->threads[at & (k->thread_room - 1)];

		if (!thread->tid || thread->tid == tid)
			return thread;
	}
}

struct vcpu_thread *vcpu_thread_find(const struct kvmstats *k, pid_t tid)
{
	struct vcpu_thread *thread = k->thread_room ? find_slot(k, tid) : NULL;

	return thread && thread->tid ? thread : NULL;
}

/* Each vCPU adds two threads at most: the present one and the previous one. */
static bool make_thread_room(struct kvmstats *k)
{
	size_t room = 64, vcpus = 0;
	struct vcpu_thread *more;
	unsigned int i;

	for (i = 0; i < k->vms; i++)
		vcpus += k->vm[i]->vcpus;
	while (room < 4 * vcpus)
		room *= 2;
	if (room > k->thread_room) {
		more = realloc(k->threads, room * sizeof(*more));
		if (!more)
			return false;
		k->threads = more;
		k->thread_room = room;
	}
	memset(k->threads, 0, k->thread_room * sizeof(*k->threads));
	return true;
}

static bool is_present(const struct core_vm *vm, const struct core_vcpu *vcpu)
{
	return vm->seen && vcpu->seen;
}

/* The vCPU may have been run since the previous sample. */
static bool was_active(const struct core_vcpu *vcpu)
{
	return !unchanged(vcpu) || vcpu->thread.loaded || vcpu->account.thread.loaded;
}

/* A vCPU that is gone, or has another thread now, may have been run by the previous one. */
static void add_threads(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu)
{
	const bool present = is_present(vm, vcpu), active = !present || was_active(vcpu);
	const pid_t tid = present ? vcpu->pub.tid : 0;
	struct vcpu_thread *thread;

	if (tid > 0) {
		thread = find_slot(k, tid);
		thread->tid = tid;
		thread->vcpus++;
		thread->active += active;
	}
	if (vcpu->thread_tid > 0 && vcpu->thread_tid != tid) {
		thread = find_slot(k, vcpu->thread_tid);
		thread->tid = vcpu->thread_tid;
		thread->active += active;
	}
	if (!present)
		vcpu->thread_tid = NO_TID;
}

static enum thread_time attribute(const struct kvmstats *k, const struct core_vcpu *vcpu)
{
	const struct vcpu_thread *thread = vcpu_thread_find(k, vcpu->pub.tid);
	const bool active = was_active(vcpu);

	if (!thread || (thread->active == active && (active || thread->vcpus == 1)))
		return THREAD_TIME_OWN;
	return active ? THREAD_TIME_UNKNOWN : THREAD_TIME_OTHER;
}

bool vcpu_threads_attribute(struct kvmstats *k)
{
	unsigned int i, j;

	if (!make_thread_room(k))
		return false;
	for (i = 0; i < k->vms; i++) {
		for (j = 0; j < k->vm[i]->vcpus; j++)
			add_threads(k, k->vm[i], k->vm[i]->vcpu[j]);
	}
	for (i = 0; i < k->vms; i++) {
		for (j = 0; j < k->vm[i]->pub.vcpus; j++)
			k->vm[i]->vcpu[j]->thread_time = attribute(k, k->vm[i]->vcpu[j]);
	}
	return true;
}
