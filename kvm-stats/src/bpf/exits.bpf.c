// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Adds up the exits of each vCPU by reason. An exit lasts from kvm_exit to kvm_entry of the
 * same thread. Time in userspace, halts and waits for a CPU (run_delay of the thread) are
 * kept apart from time in the kernel.
 *
 * A vCPU runs on one CPU at a time, and no other vCPU uses its cells: no atomic operation
 * is needed. KVM may be a module, whose types require CAP_SYS_ADMIN: the tracepoints are
 * raw ones, and the loader passes the offsets in KVM's structures.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/kernel.h"
#include "exits.bpf.h"
#include "log2.bpf.h"

/* Set by the loader; isa is 0 on x86, where kvm_exit has it as an argument. */
const volatile __u32 isa;
const volatile __u32 vcpu_notifier;
const volatile __u32 vcpu_kvm;
const volatile __u32 vcpu_id;
const volatile __u32 svm_vmcb;
const volatile __u32 vmcb_exit_code;
const volatile __u32 vmx_exit_reason;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EXITS_SLOTS);
	__type(key, __u32);
	__type(value, struct exits_vcpu);
} vcpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, EXITS_CELLS);
	__type(key, __u32);
	__type(value, struct exits_place);
} cells SEC(".maps");

struct exits_counts counts;
/* Slots and cells */
struct shares slot_shares, cell_shares;
__u32 serials;		/* the last one that was given to a vCPU */

/* An array costs a third of a hash table for each event. */
static __always_inline struct exits_vcpu *find_vcpu(const struct task_struct *task)
{
	const __u32 tid = task->pid;
	struct exits_vcpu *v;
	__u32 i, slot;

	for (i = 0; i < EXITS_PROBES; i++) {
		slot = (EXITS_SLOT(tid) + i) % EXITS_SLOTS;
		v = bpf_map_lookup_elem(&vcpus, &slot);
		if (!v || v->tid == tid)
			return v;
	}
	return NULL;
}

static __always_inline __u32 read_u32(const void *from)
{
	__u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), from);
	return value;
}

/* The thread has run no vCPU before, or another one. */
static __noinline int set_vcpu(struct exits_vcpu *v, const struct task_struct *task,
			       __u64 notifier)
{
	const void *vcpu = (const void *)(notifier - vcpu_notifier);
	const struct exits_vcpu first = {
		.tid = task->pid,
		.serial = __sync_fetch_and_add(&serials, 1) + 1,
		.notifier = notifier,
		.delay = task->sched_info.run_delay,
		.kvm = (__u64)read_pointer(vcpu + vcpu_kvm),
		.tgid = task->tgid,
		.vcpu = read_u32(vcpu + vcpu_id),
		.uid = task->cred->uid.val,
	};

	*v = first;
	return 0;
}

static __noinline struct exits_vcpu *add_vcpu(const struct task_struct *task)
{
	const __u32 tid = task->pid, uid = task->cred->uid.val;
	struct exits_vcpu *v;
	__u32 i, slot;

	if (!take_entry(&slot_shares, uid))
		return NULL;
	for (i = 0; i < EXITS_PROBES; i++) {
		slot = (EXITS_SLOT(tid) + i) % EXITS_SLOTS;
		v = bpf_map_lookup_elem(&vcpus, &slot);
		if (!v || !__sync_val_compare_and_swap(&v->tid, 0, tid))
			return v;
	}
	return_entry(&slot_shares, uid);
	return NULL;
}

/*
 * The i-th place that a key may have. A part of the hash is the distance between them, so that cells of
 * one user do not occupy all places of another one's. One product alone is linear in the serial: cells
 * of consecutive serials then lie in lines, and all places of some key may be on one.
 */
static __always_inline struct exits_place *place_at(const struct exits_key *key, __u32 i)
{
	__u32 hash = key->serial ^ key->reason << 12 ^ key->space ^ (__u32)key->address ^
		     (__u32)(key->address >> 32) ^ cell_shares.seed, place;

	hash *= 2654435769U;
	hash ^= hash >> 15;
	hash *= 2654435769U;
	place = ((hash >> 17) + i * (hash | 1)) % EXITS_CELLS;
	return bpf_map_lookup_elem(&cells, &place);
}

/* A place that was freed may be followed by others. */
static __always_inline struct exits_cell *find_place(const struct exits_key *key)
{
	struct exits_place *place;
	__u32 i;

	for (i = 0; i < EXITS_PLACES; i++) {
		place = place_at(key, i);
		if (!place)
			return NULL;
		if (place->key.serial == key->serial && place->key.reason == key->reason &&
		    place->key.space == key->space && place->key.address == key->address)
			return &place->cell;
	}
	return NULL;
}

static __noinline struct exits_cell *add_cell(struct exits_vcpu *v, struct exits_key *key,
					      __u32 tid)
{
	struct exits_place *place;
	struct exits_cell *cell;
	__u32 i;

	if (key->space) {
		if (v->addresses >= EXITS_ADDRESSES) {
			key->space = EXITS_NO_ADDRESS;
			key->address = 0;
			cell = find_place(key);
			if (cell)
				return cell;
		} else {
			v->addresses++;
		}
	}
	if (!take_entry(&cell_shares, v->uid))
		return NULL;
	for (i = 0; i < EXITS_PLACES; i++) {
		place = place_at(key, i);
		if (!place)
			return NULL;
		if (__sync_val_compare_and_swap(&place->taken, 0, v->uid + 1ULL))
			continue;
		cell = &place->cell;
		cell->kvm = v->kvm;
		cell->tgid = v->tgid;
		cell->tid = tid;
		cell->vcpu = v->vcpu;
		cell->isa = v->isa;
		place->key.reason = key->reason;
		place->key.space = key->space;
		place->key.address = key->address;
		__sync_lock_test_and_set(&place->key.serial, key->serial);
		return cell;
	}
	return_entry(&cell_shares, v->uid);
	return NULL;
}

static __always_inline struct exits_cell *find_cell(struct exits_vcpu *v, __u32 reason,
						    __u32 tid)
{
	struct exits_key key = { .serial = v->serial, .reason = reason };
	struct exits_cell *cell;

	if (v->space && reason == v->reason) {
		key.space = v->space;
		key.address = v->address;
	}
	cell = find_place(&key);
	if (!cell)
		cell = add_cell(v, &key, tid);
	if (!cell)
		__sync_fetch_and_add(&counts.no_cell, 1);
	return cell;
}

/* End the phase in userspace, if there is one, of which ready is a part. */
static __always_inline void end_user(struct exits_vcpu *v, __u64 end, __u64 ready)
{
	__u64 ns;

	if (!v->user_since)
		return;
	ns = end - v->user_since;
	v->user_since = 0;
	if ((__s64)ns > 0 && ns > ready)
		v->user += ns - ready;
}

/* Add the growth of run_delay to ready; returns it. */
static __always_inline __u64 take_delay(struct exits_vcpu *v, const struct task_struct *task)
{
	const __u64 delay = task->sched_info.run_delay, growth = delay - v->delay;

	v->delay = delay;
	v->ready += growth;
	return growth;
}

/* The exit ends; the guest runs, or the thread exits. */
static __always_inline void close_exit(struct exits_vcpu *v, const struct task_struct *task,
				       __u64 now)
{
	struct exits_cell *cell = find_cell(v, v->reason, task->pid);
	const __u64 all = now - v->exit;
	__u64 kernel, cost;
	__u32 bucket;

	end_user(v, now, take_delay(v, task));
	if (cell) {
		kernel = all - v->user - v->ready - v->halt;
		if ((__s64)kernel < 0)
			kernel = 0;
		cost = kernel + v->user;
		cell->count++;
		cell->kernel += kernel;
		cell->user += v->user;
		cell->ready += v->ready + v->early;
		cell->halt += v->halt;
		if (cost > cell->max)
			cell->max = cost;
		bucket = find_bucket(cost, EXITS_SHIFT, EXITS_BUCKETS);
		cell->bucket[bucket]++;
	}
	v->exit = v->user = v->ready = v->halt = v->early = 0;
	v->space = EXITS_NO_ADDRESS;
}

static __always_inline void count_only(struct exits_vcpu *v, __u32 reason, __u32 tid)
{
	struct exits_cell *cell = find_cell(v, reason, tid);

	if (cell)
		cell->count++;
}

SEC("raw_tp/kvm_exit")
int exits_exit(struct bpf_raw_tracepoint_args *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	const __u64 notifier = (__u64)task->preempt_notifiers.first;
	const void *vcpu = (const void *)(notifier - vcpu_notifier);
	struct exits_vcpu *v = find_vcpu(task);

	if (!notifier)
		return 0;
	if (!v)
		v = add_vcpu(task);
	if (!v) {
		__sync_fetch_and_add(&counts.no_vcpu, 1);
		return 0;
	}
	if (v->notifier != notifier) {
		set_vcpu(v, task, notifier);
		v->isa = isa ?: ctx->args[1];
	}
	if (v->exit) {
		/* The event that ended the exit was lost, and its time with it. */
		__sync_fetch_and_add(&counts.healed, 1);
		count_only(v, v->reason, task->pid);
		v->user = v->halt = v->user_since = 0;
		v->space = EXITS_NO_ADDRESS;
		v->delay = task->sched_info.run_delay;
	}
	v->exit = now;
	/* A preemptible kernel may switch the thread out before it reports the exit. */
	v->ready = 0;
	v->early = take_delay(v, task);
	v->ready = 0;
	if (isa == EXITS_ARM64) {
		const __u32 code = ctx->args[0] & 0x7fffffff;

		v->reason = code == 2 ? ctx->args[1] : EXITS_NO_TRAP | code;
	} else if (v->isa == EXITS_SVM) {
		v->reason = read_u32(read_pointer(vcpu + svm_vmcb) + vmcb_exit_code);
	} else {
		v->reason = read_u32(vcpu + vmx_exit_reason);
	}
	return 0;
}

SEC("raw_tp/kvm_entry")
int exits_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exits_vcpu *v = find_vcpu(task);

	if (!v)
		return 0;
	if (v->exit)
		close_exit(v, task, bpf_ktime_get_ns());
	else
		count_only(v, EXITS_UNTRACED, task->pid);
	return 0;
}

SEC("raw_tp/kvm_userspace_exit")
int exits_userspace(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exits_vcpu *v = find_vcpu(task);

	if (!v || !v->exit || v->user_since)
		return 0;
	take_delay(v, task);
	v->user_since = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/kvm_vcpu_wakeup")
int exits_wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exits_vcpu *v = find_vcpu(task);
	__u64 ns = ctx->args[0], ready, part;

	if (!v || !v->exit)
		return 0;
	ready = take_delay(v, task);
	part = ready < ns ? ready : ns;
	end_user(v, bpf_ktime_get_ns() - ns, ready - part);
	v->halt += ns - part;
	return 0;
}

/* The first address of the open exit */
static __always_inline void set_address(__u32 space, __u64 address)
{
	struct exits_vcpu *v = find_vcpu(bpf_get_current_task_btf());

	if (!v || !v->exit || v->space)
		return;
	v->space = space;
	v->address = address;
}

/* kvm_pio: (rw, port, size, count, data) */
SEC("raw_tp/kvm_pio")
int exits_pio(struct bpf_raw_tracepoint_args *ctx)
{
	set_address(EXITS_PORT, ctx->args[1] & 0xffff);
	return 0;
}

/* kvm_mmio: (type, len, gpa, val) */
SEC("raw_tp/kvm_mmio")
int exits_mmio(struct bpf_raw_tracepoint_args *ctx)
{
	set_address(EXITS_MMIO, ctx->args[2]);
	return 0;
}

/* kvm_fast_mmio: (gpa) */
SEC("raw_tp/kvm_fast_mmio")
int exits_fast_mmio(struct bpf_raw_tracepoint_args *ctx)
{
	set_address(EXITS_MMIO, ctx->args[0]);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int exits_thread(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exits_vcpu *v = find_vcpu(task);

	if (!v)
		return 0;
	if (v->exit)
		close_exit(v, task, bpf_ktime_get_ns());
	v->notifier = 0;
	return_entry(&slot_shares, v->uid);
	__sync_lock_test_and_set(&v->tid, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
