/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Charges the time for which a vCPU's thread sleeps outside of a halt to a reason. The reason is
 * found when the thread goes to sleep, from its state, the system call that it is in, and whether
 * it runs the vCPU; no stack or kernel symbol is needed. The time is charged when the thread gets a
 * CPU again, without the wait for that CPU, and at each sample.
 *
 * Events can be lost: of a sleep whose end is lost, the thread's accounts have the length; one whose
 * begin is lost is charged to no reason.
 */
#ifndef KVMSTATS_BPF_STALLS_COUNT_H
#define KVMSTATS_BPF_STALLS_COUNT_H

#include "vcpu_thread.bpf.h"

/* <linux/sched.h> */
#define TASK_INTERRUPTIBLE	0x1
#define TASK_UNINTERRUPTIBLE	0x2
#define TASK_STOPPED_OR_TRACED	0xc
#define TASK_WAKEKILL		0x100
/* Linux 6.1 and later */
#define TASK_FROZEN		0x8000

#define IS_ARM64 bpf_core_field_exists(((struct pt_regs___arm64 *)0)->syscallno)

/* Set by the loader: offset of a statistic in struct kvm_vcpu, and the class of each system call */
const volatile __u32 vcpu_blocking;
const volatile __u8 calls[STALLS_CALLS];

/* Set by the loader: where an entry has its stalls */
const volatile __u32 stalls_offset;

static __always_inline struct stalls_vcpu *stalls_of(struct threads_vcpu *vcpu)
{
	return (void *)vcpu + stalls_offset;
}

static __always_inline bool is_frozen(struct task_struct *task, __u32 state)
{
	/* cgroup v1, or a suspend of the host */
	if (state & TASK_FROZEN)
		return true;
	/* cgroup v2. A parent that sleeps in vfork() also counts as frozen, but uninterruptibly. */
	return state & TASK_INTERRUPTIBLE && bpf_core_field_exists(task->frozen) &&
	       BPF_CORE_READ_BITFIELD(task, frozen);
}

/* The number of the system call that the thread is in; negative in a page fault of the VMM */
static __always_inline long find_call(struct task_struct *task)
{
	const struct pt_regs *regs = (const void *)bpf_task_pt_regs(task);

	if (IS_ARM64)
		return BPF_CORE_READ((const struct pt_regs___arm64 *)regs, syscallno);
	return BPF_CORE_READ(regs, orig_ax);
}

static __always_inline bool has_timeout(struct task_struct *task)
{
	const struct pt_regs *regs = (const void *)bpf_task_pt_regs(task);

	if (IS_ARM64)
		return BPF_CORE_READ((const struct pt_regs___arm64 *)regs, regs[3]);
	return BPF_CORE_READ(regs, r10);
}

/*
 * Why a thread sleeps in KVM_RUN. Without I/O, it waits for memory in states from which a signal
 * wakes it: for userfaultfd, or the lock of the address space. Other waits of KVM are for its locks.
 */
static __always_inline __u32 find_kvm_reason(struct task_struct *task, __u32 state)
{
	if (read_vcpu(task->preempt_notifiers.first, vcpu_blocking))
		return STALL_NONE;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait) || state & TASK_WAKEKILL)
		return STALL_MEMORY;
	/* arm64: a vCPU that is off sleeps in this state. */
	if (state & TASK_INTERRUPTIBLE && !IS_ARM64)
		return STALL_MEMORY;
	return STALL_KVM;
}

static __always_inline __u32 find_vmm_reason(struct task_struct *task, __u32 state)
{
	const long call = find_call(task);
	__u8 class;

	if (call < 0)
		return STALL_MEMORY;
	class = call < STALLS_CALLS ? calls[call & (STALLS_CALLS - 1)] : CALL_OTHER;
	if (class == CALL_FILE || BPF_CORE_READ_BITFIELD(task, in_iowait))
		return STALL_DISK;
	if (class == CALL_FUTEX)
		return has_timeout(task) ? STALL_TIMED : STALL_LOCK;
	if (class == CALL_IOCTL)
		return STALL_KVM;
	if (class == CALL_CHILD || !(state & TASK_UNINTERRUPTIBLE))
		return STALL_WAIT;
	return class == CALL_MEMORY ? STALL_MEMORY : STALL_DISK;
}

/* Why a thread sleeps, or STALL_NONE */
static __always_inline __u32 find_reason(struct task_struct *task)
{
	const __u32 state = task->__state;

	if (!state || state & TASK_DEAD)
		return STALL_NONE;
	/* Before is_frozen(): a thread that is stopped is frozen for its cgroup. */
	if (state & TASK_STOPPED_OR_TRACED)
		return STALL_STOPPED;
	if (is_frozen(task, state))
		return STALL_FROZEN;
	if (bpf_core_field_exists(task->in_memstall) && BPF_CORE_READ_BITFIELD(task, in_memstall))
		return STALL_MEMORY;
	if (has_vcpu(task) && runs_vcpu(task))
		return find_kvm_reason(task, state);
	return find_vmm_reason(task, state);
}

/*
 * When the sleep of a thread ended that has been woken: it has waited for a CPU since, as run_delay
 * will have it, and run, if the switch by which it got the CPU was lost. A thread that was preempted
 * while it went to sleep was not woken, and did not wait.
 */
static __always_inline __u64 find_end(const struct stalls_vcpu *stalls, struct task_struct *task,
				      __u64 clock, __u64 now)
{
	const __u64 queued = task->sched_info.last_queued;
	const __u64 waited = task->sched_info.run_delay - stalls->run_delay;
	const __u64 ran = task->se.sum_exec_runtime - stalls->ran;

	/* The clock of another CPU may be behind. */
	return now - waited - ran - (queued && clock > queued ? clock - queued : 0);
}

static __always_inline void note_accounts(struct stalls_vcpu *stalls, struct task_struct *task)
{
	stalls->run_delay = task->sched_info.run_delay;
	stalls->ran = task->se.sum_exec_runtime;
}

static __always_inline void charge_stall(struct stalls_vcpu *stalls, __u64 since, __u64 end)
{
	const __u32 reason = stalls->reason;

	if ((__s64)(end - since) > 0 && reason < STALLS)
		__sync_fetch_and_add(&stalls->ns[reason], end - since);
}

/* A thread gets a CPU; or loses it, and the end of its sleep was lost. */
static __always_inline void end_stall(struct stalls_vcpu *stalls, struct task_struct *task, __u64 clock)
{
	const __u64 since = __sync_lock_test_and_set(&stalls->since, 0);

	if (since)
		charge_stall(stalls, since, find_end(stalls, task, clock, bpf_ktime_get_ns()));
}

/* A thread has lost its CPU, and sleeps. */
static __always_inline void begin_stall(struct stalls_vcpu *stalls, struct task_struct *task)
{
	const __u32 reason = find_reason(task);

	stalls->reason = reason;
	note_accounts(stalls, task);
	__sync_lock_test_and_set(&stalls->since, reason ? bpf_ktime_get_ns() : 0);
}

/* A thread loses its CPU to another one. from: its entry, or NULL */
static __always_inline void switch_stalls(struct threads_vcpu *from, struct task_struct *prev,
					  struct task_struct *next)
{
	struct threads_vcpu *to = find_vcpu(next);

	if (to && stalls_of(to)->since)
		end_stall(stalls_of(to), next, prev->se.cfs_rq->rq->clock);
	if (from && stalls_of(from)->since)
		end_stall(stalls_of(from), prev, 0);
	if (from && prev->__state)
		begin_stall(stalls_of(from), prev);
}

/*
 * Charge the open stall up to now. The reason can change while the thread sleeps: the freezer of
 * cgroup v1 does not wake a thread that sleeps already.
 */
static __always_inline void sample_stall(struct stalls_vcpu *stalls, struct task_struct *task)
{
	const bool asleep = task->__state && !is_on_cpu(task);
	__u64 since = stalls->since, now = bpf_ktime_get_ns(), end;
	const bool queued = task->sched_info.last_queued;
	__u32 reason;

	if (!since) {
		reason = asleep && !queued ? find_reason(task) : STALL_NONE;
		if (!reason)
			return;
		stalls->reason = reason;
		note_accounts(stalls, task);
		end = now;
	} else if (asleep || queued) {
		end = find_end(stalls, task, task->se.cfs_rq->rq->clock, now);
	} else {
		/* The thread runs: its next switch ends the stall. */
		return;
	}
	/* Another program is faster: it charges the stall. */
	if (__sync_val_compare_and_swap(&stalls->since, since, end) != since)
		return;
	if (since)
		charge_stall(stalls, since, end);
	if (!queued)
		stalls->reason = find_reason(task);
	/* The thread may have been given a CPU before the stall was open. */
	if (!since && (!task->__state || is_on_cpu(task)))
		__sync_val_compare_and_swap(&stalls->since, end, 0);
}

#endif /* KVMSTATS_BPF_STALLS_COUNT_H */
