// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Follows the threads of vCPUs for "blame" and "stalls". Each event of the host's scheduler runs one
 * program, whatever is counted.
 */
#include "blame_count.bpf.h"
#include "stalls_count.bpf.h"

/* When an entry was evicted last */
static __u64 evicted;

/* Add an empty entry. Return NULL if the map is full, or the user's share of it. */
static __always_inline struct threads_vcpu *add_entry(struct task_struct *task)
{
	const __u32 tid = task->pid, uid = task->cred->uid.val;
	struct threads_vcpu *vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	static const struct threads_vcpu none;

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

/* The thread runs a vCPU for the first time, or another one. */
static __always_inline void set_vcpu(struct threads_vcpu *vcpu, struct task_struct *task)
{
	const void *notifier = task->preempt_notifiers.first;

	vcpu->notifier = (__u64)notifier;
	vcpu->vm.kvm = read_vcpu(notifier, vcpu_kvm);
}

/*
 * Enter a vCPU's thread. It may be in its VMM at this moment: then announced has the VM. A
 * thread that was created after this program was loaded has not waited before for another VM.
 */
static __noinline struct threads_vcpu *add_vcpu(struct task_struct *task,
						const struct threads_vcpu *announced)
{
	const __u64 kvm = announced ? announced->vm.kvm : 0;
	struct threads_vcpu *vcpu = add_entry(task);

	if (!vcpu) {
		__sync_fetch_and_add(&counts.no_vcpu, 1);
		return NULL;
	}
	vcpu->vm.kvm = kvm;
	vcpu->vm.tgid = task->tgid;
	if (has_vcpu(task) && runs_vcpu(task))
		set_vcpu(vcpu, task);
	if (counts_waits) {
		if (task->start_time < (evicted > opened ? evicted : opened))
			vcpu->blame.first_delay = task->sched_info.run_delay;
		vcpu->blame.turn = turn;
		add_pair(&vcpu->vm);
		add_to_filter(tgids, task->tgid);
	}
	vcpu->task = (__u64)task;
	add_to_filter(tids, task->pid);
	return vcpu;
}

/* Return the entry of any thread that runs a vCPU, or that userspace has announced as one. */
static __always_inline struct threads_vcpu *find_or_add_vcpu(struct task_struct *task)
{
	struct threads_vcpu *vcpu = find_vcpu(task);
	__u32 tid = task->pid;

	if (vcpu)
		return vcpu;
	vcpu = bpf_map_lookup_elem(&vcpus, &tid);
	if (!(vcpu && !vcpu->task) && !(has_vcpu(task) && runs_vcpu(task)))
		return NULL;
	return add_vcpu(task, vcpu);
}

/* The thread runs another vCPU now. */
static __noinline void move_vcpu(struct threads_vcpu *vcpu, struct task_struct *task)
{
	set_vcpu(vcpu, task);
	if (counts_waits)
		add_pair(&vcpu->vm);
}

static __always_inline void delete_entry(const struct threads_vcpu *vcpu, __u32 tid)
{
	return_entry(&thread_counts, vcpu->uid);
	bpf_map_delete_elem(&vcpus, &tid);
}

/* The thread exits. Userspace removes its entry, after it has read its stalls. */
static __noinline void remove_vcpu(struct task_struct *task, struct threads_vcpu *vcpu)
{
	if (counts_waits)
		keep_charged(vcpu);
	if (counts_stalls)
		vcpu->task = THREADS_EXITED;
	else
		delete_entry(vcpu, task->pid);
}

/*
 * Remove the entry of a thread that has had no vCPU since the sample before last, if more than half
 * of the entries are in use. Return false if it remains. "stalls" counts threads without a vCPU.
 */
static __always_inline bool evict_vcpu(struct task_struct *task, struct threads_vcpu *vcpu)
{
	if (counts_stalls || thread_counts.all <= thread_counts.max / 2 || turn - vcpu->blame.turn < 2 ||
	    has_vcpu(task) || __sync_val_compare_and_swap(&vcpu->blame.since, 0, RESERVED))
		return false;
	evicted = bpf_ktime_get_ns();
	keep_charged(vcpu);
	delete_entry(vcpu, task->pid);
	return true;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(threads_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct threads_vcpu *from = find_vcpu(prev);
	struct blame_cpu *cpu = NULL;
	struct wait wait;

	if (counts_waits) {
		cpu = begin_switch(prev, next);
		if (!cpu)
			return 0;
	}
	if (!from && has_vcpu(prev) && runs_vcpu(prev))
		from = add_vcpu(prev, NULL);
	if (from) {
		if (counts_waits) {
			heal(from, prev, &wait);
			if (has_vcpu(prev))
				from->blame.turn = turn;
		}
		if (has_vcpu(prev) && (__u64)prev->preempt_notifiers.first != from->notifier &&
		    runs_vcpu(prev))
			move_vcpu(from, prev);
	}
	if (counts_stalls)
		switch_stalls(from, prev, next);
	if (counts_waits)
		switch_waits(cpu, from, prev, next, &wait);
	if (from && prev->__state & TASK_DEAD)
		remove_vcpu(prev, from);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(threads_wakeup, struct task_struct *task)
{
	struct threads_vcpu *vcpu = find_vcpu(task);

	if (counts_waits && vcpu)
		begin_woken_wait(vcpu, task);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(threads_migrate, struct task_struct *task, int to)
{
	struct threads_vcpu *vcpu = find_vcpu(task);

	if (counts_waits && vcpu)
		move_wait(vcpu, task, to);
	return 0;
}

/*
 * A row of threads_sample(), which one process reads. It is not on the stack: Linux 6.1 allows 512
 * bytes for a chain of functions, each rounded up to 32.
 */
static struct blame_thread sampled;

/*
 * At each sample: enter vCPUs that run or that userspace has announced, charge waits and stalls that
 * are open up to now, and list all vCPUs. This program can be preempted by the others.
 */
SEC("iter/task")
int threads_sample(struct bpf_iter__task *ctx)
{
	struct blame_thread *thread = &sampled;
	struct task_struct *task = ctx->task;
	struct threads_vcpu *vcpu;

	/* NULL after the last thread */
	if (!task)
		return 0;
	vcpu = find_or_add_vcpu(task);
	if (!vcpu)
		return 0;
	if (counts_waits) {
		if (evict_vcpu(task, vcpu))
			return 0;
		list_waits(thread, vcpu, task);
	}
	if (counts_stalls) {
		sample_stall(stalls_of(vcpu), task);
		__builtin_memcpy(thread->stalls, stalls_of(vcpu)->ns, sizeof(thread->stalls));
	}
	thread->vm = vcpu->vm;
	thread->tid = task->pid;
	bpf_seq_write(ctx->meta->seq, thread, sizeof(*thread));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
