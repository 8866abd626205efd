/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads of vCPUs, for BPF programs with a map "vcpus" of them by TID. The program defines VCPU as
 * the type of its entries, which have the address of the thread in "task"; 0: userspace has only
 * announced the thread.
 */
#ifndef KVMSTATS_BPF_VCPU_THREAD_H
#define KVMSTATS_BPF_VCPU_THREAD_H

/* <linux/sched.h> */
#define PF_KTHREAD	0x00200000

/* Offsets in struct kvm_vcpu, which may belong to a module: set by the loader */
const volatile __u32 vcpu_notifier;
const volatile __u32 vcpu_kvm;
const volatile __u32 vcpu_pid;

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

static __always_inline VCPU *find_vcpu(struct task_struct *task)
{
	__u32 tid = task->pid;
	VCPU *vcpu;

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

/* Entries of vcpus */
struct shares thread_counts;

static __always_inline __u32 uid_of(struct task_struct *task)
{
	return task->cred->uid.val;
}

/* Add an empty entry. Return NULL if the map is full, or the user's share of it. */
static __always_inline VCPU *add_entry(struct task_struct *task)
{
	const __u32 tid = task->pid, uid = uid_of(task);
	VCPU *vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	static const VCPU none;

	/* Another thread had this TID. */
	if (vcpu && vcpu->task)
		return_entry(&thread_counts, vcpu->uid);
	if (!take_entry(&thread_counts, uid)) {
		bpf_map_delete_elem(&vcpus, &tid);
		return NULL;
	}
	bpf_map_update_elem(&vcpus, &tid, &none, BPF_ANY);
	vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	if (!vcpu)
		return_entry(&thread_counts, uid);
	else
		vcpu->uid = uid;
	return vcpu;
}

/* The program enters a vCPU's thread. If it is in its VMM, announced has the VM. */
static VCPU *add_vcpu(struct task_struct *task, const VCPU *announced);

/* Return the entry of any thread that runs a vCPU, or that userspace has announced as one. */
static __always_inline VCPU *find_or_add_vcpu(struct task_struct *task)
{
	VCPU *vcpu = find_vcpu(task);
	__u32 tid = task->pid;

	if (vcpu)
		return vcpu;
	vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	if (!(vcpu && !vcpu->task) && !(has_vcpu(task) && runs_vcpu(task)))
		return NULL;
	return add_vcpu(task, vcpu);
}

#endif /* KVMSTATS_BPF_VCPU_THREAD_H */
