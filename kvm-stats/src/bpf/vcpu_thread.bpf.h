/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads of vCPUs, by TID: for threads.bpf.c and what it counts */
#ifndef KVMSTATS_BPF_VCPU_THREAD_H
#define KVMSTATS_BPF_VCPU_THREAD_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/kernel.h"
#include "threads.bpf.h"

/*
 * Set by the loader: what is counted. The kernel removes the code of the rest, which it may be too old
 * for. It verifies a global function even if none calls it, so these return at once.
 */
const volatile bool counts_waits;
const volatile bool counts_stalls;

/* <linux/sched.h> */
#define PF_KTHREAD	0x00200000

/* Offsets in struct kvm_vcpu, which may belong to a module: set by the loader */
const volatile __u32 vcpu_notifier;
const volatile __u32 vcpu_kvm;
const volatile __u32 vcpu_pid;

/* The loader sets the size of an entry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_VCPUS);
	__type(key, __u32);
	__type(value, struct threads_vcpu);
} vcpus SEC(".maps");

/* Entries of vcpus */
struct shares thread_counts;

/* Events that did not fit or were lost */
struct blame_counts counts;

/*
 * Filter by the low 16 bits: whether a thread may be a vCPU. Bits are never cleared; a wrong hit
 * costs a lookup.
 */
#define FILTER_BITS	65536
static __u64 tids[FILTER_BITS / 64];

static __always_inline bool in_filter(const __u64 *filter, __u32 id)
{
	return filter[id % FILTER_BITS / 64] >> id % 64 & 1;
}

static __always_inline void add_to_filter(__u64 *filter, __u32 id)
{
	__sync_fetch_and_or(&filter[id % FILTER_BITS / 64], 1ULL << id % 64);
}

static __always_inline bool has_vcpu(struct task_struct *task)
{
	return task->preempt_notifiers.first && !(task->flags & PF_KTHREAD);
}

static __always_inline struct threads_vcpu *find_vcpu(struct task_struct *task)
{
	__u32 tid = task->pid;
	struct threads_vcpu *vcpu;

	if (!in_filter(tids, tid))
		return NULL;
	vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	/* Another thread had this TID, or userspace has only announced this one. */
	return vcpu && vcpu->task == (__u64)task ? vcpu : NULL;
}

static __always_inline __u64 read_vcpu(const void *notifier, __u32 offset)
{
	const void *value = NULL;

	bpf_probe_read_kernel(&value, sizeof(value), notifier - vcpu_notifier + offset);
	return (__u64)value;
}

/*
 * Whether a thread that has a vCPU runs it: other threads have one during an ioctl that
 * does not run it, such as the VMM's main thread, which sets registers.
 */
static __always_inline bool runs_vcpu(struct task_struct *task)
{
	return read_vcpu(task->preempt_notifiers.first, vcpu_pid) == (__u64)task->thread_pid;
}

static __always_inline bool is_on_cpu(struct task_struct *task)
{
	__u32 on_cpu = 0;

	/* one byte since 7.3 */
	bpf_core_read(&on_cpu, bpf_core_field_size(task->on_cpu), &task->on_cpu);
	return on_cpu;
}

#endif /* KVMSTATS_BPF_VCPU_THREAD_H */
