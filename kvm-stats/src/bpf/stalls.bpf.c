// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Charges the time for which a vCPU's thread sleeps outside of a halt to a reason. The reason is
 * found when the thread goes to sleep, from its state, the system call that it is in, and whether
 * it runs the vCPU; no stack or kernel symbol is needed. The time is charged when the thread gets a
 * CPU again, without the wait for that CPU, and at each sample.
 *
 * Events can be lost: of a sleep whose end is lost, the thread's accounts have the length; one whose
 * begin is lost is charged to no reason.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/kernel.h"
#include "stalls.bpf.h"

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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STALLS_VCPUS);
	__type(key, __u32);
	__type(value, struct stalls_vcpu);
} vcpus SEC(".maps");

#define VCPU	struct stalls_vcpu
#include "vcpu_thread.bpf.h"

__u64 no_vcpu;		/* switches of vCPUs without an entry */

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

/* The thread runs a vCPU for the first time, or another one. */
static __always_inline void set_vcpu(struct stalls_vcpu *vcpu, struct task_struct *task)
{
	const void *notifier = task->preempt_notifiers.first;

	vcpu->notifier = (__u64)notifier;
	vcpu->vm.kvm = read_vcpu(notifier, vcpu_kvm);
	vcpu->vm.tgid = task->tgid;
}

/* Enter a vCPU's thread. If it is in its VMM, announced has the VM. */
static __noinline struct stalls_vcpu *add_vcpu(struct task_struct *task,
					       const struct stalls_vcpu *announced)
{
	const struct blame_vm vm = announced ? announced->vm : (struct blame_vm){ 0 };
	struct stalls_vcpu *vcpu = add_entry(task);

	if (!vcpu) {
		__sync_fetch_and_add(&no_vcpu, 1);
		return NULL;
	}
	vcpu->vm = vm;
	if (has_vcpu(task) && runs_vcpu(task))
		set_vcpu(vcpu, task);
	vcpu->task = (__u64)task;
	add_to_filter(tids, task->pid);
	return vcpu;
}

/*
 * When the sleep of a thread ended that has been woken: it has waited for a CPU since, as run_delay
 * will have it, and run, if the switch by which it got the CPU was lost. A thread that was preempted
 * while it went to sleep was not woken, and did not wait.
 */
static __always_inline __u64 find_end(const struct stalls_vcpu *vcpu, struct task_struct *task,
				      __u64 clock, __u64 now)
{
	const __u64 queued = task->sched_info.last_queued;
	const __u64 waited = task->sched_info.run_delay - vcpu->run_delay;
	const __u64 ran = task->se.sum_exec_runtime - vcpu->ran;

	/* The clock of another CPU may be behind. */
	return now - waited - ran - (queued && clock > queued ? clock - queued : 0);
}

static __always_inline void note_accounts(struct stalls_vcpu *vcpu, struct task_struct *task)
{
	vcpu->run_delay = task->sched_info.run_delay;
	vcpu->ran = task->se.sum_exec_runtime;
}

static __always_inline void charge(struct stalls_vcpu *vcpu, __u64 since, __u64 end)
{
	const __u32 reason = vcpu->reason;

	if ((__s64)(end - since) > 0 && reason < STALLS)
		__sync_fetch_and_add(&vcpu->ns[reason], end - since);
}

/* A thread gets a CPU; or loses it, and the end of its sleep was lost. */
static __always_inline void end_stall(struct stalls_vcpu *vcpu, struct task_struct *task, __u64 clock)
{
	const __u64 since = __sync_lock_test_and_set(&vcpu->since, 0);

	if (since)
		charge(vcpu, since, find_end(vcpu, task, clock, bpf_ktime_get_ns()));
}

/* A thread has lost its CPU, and sleeps. */
static __always_inline void begin_stall(struct stalls_vcpu *vcpu, struct task_struct *task)
{
	const __u32 reason = find_reason(task);

	vcpu->reason = reason;
	note_accounts(vcpu, task);
	__sync_lock_test_and_set(&vcpu->since, reason ? bpf_ktime_get_ns() : 0);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(stalls_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct stalls_vcpu *from = find_vcpu(prev), *to = find_vcpu(next);

	if (to && to->since)
		end_stall(to, next, prev->se.cfs_rq->rq->clock);
	if (!from && has_vcpu(prev) && runs_vcpu(prev))
		from = add_vcpu(prev, NULL);
	if (!from)
		return 0;
	if (has_vcpu(prev) && (__u64)prev->preempt_notifiers.first != from->notifier &&
	    runs_vcpu(prev))
		set_vcpu(from, prev);
	if (from->since)
		end_stall(from, prev, 0);
	if (prev->__state)
		begin_stall(from, prev);
	return 0;
}

/*
 * Charge the open stall up to now. The reason can change while the thread sleeps: the freezer of
 * cgroup v1 does not wake a thread that sleeps already.
 */
static __always_inline void sample_stall(struct stalls_vcpu *vcpu, struct task_struct *task)
{
	const bool asleep = task->__state && !is_on_cpu(task);
	__u64 since = vcpu->since, now = bpf_ktime_get_ns(), end;
	const bool queued = task->sched_info.last_queued;
	__u32 reason;

	if (!since) {
		reason = asleep && !queued ? find_reason(task) : STALL_NONE;
		if (!reason)
			return;
		vcpu->reason = reason;
		note_accounts(vcpu, task);
		end = now;
	} else if (asleep || queued) {
		end = find_end(vcpu, task, task->se.cfs_rq->rq->clock, now);
	} else {
		/* The thread runs: its next switch ends the stall. */
		return;
	}
	/* Another program is faster: it charges the stall. */
	if (__sync_val_compare_and_swap(&vcpu->since, since, end) != since)
		return;
	if (since)
		charge(vcpu, since, end);
	if (!queued)
		vcpu->reason = find_reason(task);
	/* The thread may have been given a CPU before the stall was open. */
	if (!since && (!task->__state || is_on_cpu(task)))
		__sync_val_compare_and_swap(&vcpu->since, end, 0);
}

/*
 * At each sample: enter vCPUs that run or that userspace has announced, charge stalls that are open
 * up to now, and list all vCPUs. This program can be preempted by the other one.
 */
SEC("iter/task")
int stalls_sample(struct bpf_iter__task *ctx)
{
	struct blame_thread thread = { 0 };
	struct task_struct *task = ctx->task;
	struct stalls_vcpu *vcpu;

	/* NULL after the last thread */
	if (!task)
		return 0;
	vcpu = find_or_add_vcpu(task);
	if (!vcpu)
		return 0;
	sample_stall(vcpu, task);
	thread.vm = vcpu->vm;
	thread.tid = task->pid;
	bpf_seq_write(ctx->meta->seq, &thread, sizeof(thread));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
