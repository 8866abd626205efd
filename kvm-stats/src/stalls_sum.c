// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "rec_encode.h"
#include "stalls_sum.h"
#include "xalloc.h"

const char *stall_name(uint64_t reason)
{
	static const char *const names[STALLS] = {
		[STALL_STOPPED] = "stopped",
		[STALL_FROZEN] = "frozen",
		[STALL_MEMORY] = "memory",
		[STALL_DISK] = "disk",
		[STALL_LOCK] = "lock",
		[STALL_WAIT] = "wait",
		[STALL_KVM] = "kvm",
		[STALL_PAUSED] = "paused",
		[STALL_UNKNOWN] = "unknown",
		[STALL_TIMED] = "timed",
	};

	return names[reason];
}

const char *stall_meaning(uint64_t reason)
{
	static const char *const meanings[STALLS] = {
		[STALL_STOPPED] = "the VMM is stopped by a signal or a debugger",
		[STALL_FROZEN] = "the VMM is frozen by its cgroup",
		[STALL_MEMORY] = "guest memory is not here: userfaultfd, swap, a limit of the cgroup",
		[STALL_DISK] = "the VMM waits for a file or a block device",
		[STALL_LOCK] = "the VMM waits for a lock or a condition",
		[STALL_WAIT] = "the VMM polls, sleeps, or waits for a pipe, a socket or a process",
		[STALL_KVM] = "KVM or another driver waits",
		[STALL_PAUSED] = "the VMM does not run the vCPU",
		[STALL_UNKNOWN] = "without a reason",
		[STALL_TIMED] = "the VMM waits for a condition with a timeout: it throttles the vCPU",
	};

	return meanings[reason];
}

uint64_t find_stall_time(const struct stalls_vm *vm, uint64_t reason)
{
	size_t i;

	for (i = 0; vm && i < vm->sum.count; i++) {
		if (stall_share_at(&vm->sum, i)->reason == reason)
			return stall_share_at(&vm->sum, i)->item.cost;
	}
	return 0;
}

static int compare_thread_tids(const void *x, const void *y)
{
	const uint32_t *a = x, *b = y;

	return (*a > *b) - (*a < *b);
}

/* Return true if a vCPU has had no exit since the previous sample: its VMM did not run it. */
static bool is_idle(const struct kvmstats_vcpu *vcpu)
{
	return !vcpu->first_sample && vcpu->last.known >> KVMSTATS_EXITS & 1 &&
	       !vcpu->last.event[KVMSTATS_EXITS];
}

/* Find the threads of idle vCPUs. */
static uint32_t *find_idle_threads(const struct kvmstats_vm *first, size_t *count)
{
	const struct kvmstats_vm *vm;
	uint32_t *tids;
	size_t room = 1;
	unsigned int i;

	for (vm = first; vm; vm = vm->next)
		room += vm->vcpus;
	tids = check_alloc(calloc(room, sizeof(*tids)));
	*count = 0;
	for (vm = first; vm; vm = vm->next) {
		for (i = 0; i < vm->vcpus; i++) {
			if (is_idle(vm->vcpu[i]))
				tids[(*count)++] = vm->vcpu[i]->tid;
		}
	}
	qsort(tids, *count, sizeof(*tids), compare_thread_tids);
	return tids;
}

static void add_stall(const struct stalls_sum *sum, struct stalls_vm *vm, uint64_t reason, uint64_t ns)
{
	if (ns)
		add_cost(&sum->sums, &vm->sum, &reason, ns);
}

/* A VMM that throttles a vCPU runs it again; one that has paused it does not. */
static bool is_sleep_of_vmm(uint64_t reason)
{
	return reason == STALL_LOCK || reason == STALL_WAIT || reason == STALL_TIMED;
}

static void add_rows(const struct stalls_sum *sum, const struct kvmstats_vm *first)
{
	const struct stalls_row *rows;
	struct stalls_vm *vm;
	size_t i, count, idle_count;
	uint32_t *idle = find_idle_threads(first, &idle_count);
	uint64_t reason;
	bool paused;

	rows = stalls_rows(sum->stalls, &count);
	for (i = 0; i < count; i++) {
		vm = find_kernel_sum(&sum->sums, &rows[i].vm);
		if (!vm)
			continue;
		paused = bsearch(&rows[i].tid, idle, idle_count, sizeof(*idle), compare_thread_tids);
		for (reason = STALL_STOPPED; reason < STALLS; reason++)
			add_stall(sum, vm, paused && is_sleep_of_vmm(reason) ? STALL_PAUSED : reason,
				  rows[i].growth[reason]);
	}
	free(idle);
}

/* A vCPU that its VMM has never run has no thread. */
static void add_unstarted(const struct stalls_sum *sum, struct stalls_vm *to, const struct kvmstats_vm *vm)
{
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++) {
		if (!vm->vcpu[i]->tid && is_idle(vm->vcpu[i]))
			add_stall(sum, to, STALL_PAUSED, vm->vcpu[i]->last.times.mode[KVMSTATS_OTHER]);
	}
}

static int open_stalls_program(struct sums *sums, struct threads *shared, const struct kvmstats_vm *first,
			       struct kvmstats_probe *p)
{
	return stalls_open(&container_of(sums, struct stalls_sum, sums)->stalls, shared, first, p);
}

static int read_stalls_program(struct sums *sums)
{
	return stalls_sample(container_of(sums, struct stalls_sum, sums)->stalls);
}

static void put_stall(const void *item, struct bytes *b)
{
	const struct stall_share *share = item;

	bytes_number(b, share->reason);
	bytes_time(b, share->item.cost);
}

static void take_stall(struct sums *sums, struct sum *vm, struct rec_bytes *t)
{
	const uint64_t reason = take_most(t, STALLS - 1), ns = take_time(t);

	if (reason < STALL_STOPPED)
		t->wrong = true;
	else
		add_cost(sums, vm, &reason, ns);
}

static void clear_times(struct sum *vm)
{
	/* A stall that was booked early in this sample is not unknown in the next one. */
	container_of(vm, struct stalls_vm, sum)->other -= vm->cost;
}

static void add_times(struct sums *sums, const struct kvmstats_vm *first)
{
	const struct kvmstats_vm *v;
	struct stalls_vm *vm;

	add_elapsed(sums, first);
	for (v = first; v; v = v->next) {
		vm = find_sum(sums, v);
		if (!vm)
			continue;
		vm->other += v->sum.times.mode[KVMSTATS_OTHER];
		if (!sums->rec)
			add_unstarted(container_of(sums, struct stalls_sum, sums), vm, v);
	}
}

static void add_stalls(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	struct stalls_sum *sum = container_of(sums, struct stalls_sum, sums);
	const struct blame_thread *threads;
	struct stalls_vm *vm;
	size_t i, count;

	if (sums->rec) {
		take_recorded_sums(sums, RECORDED_STALLS, first, args, n);
		add_times(sums, first);
		return;
	}
	stalls_enter(sum->stalls, first);
	threads = stalls_threads(sum->stalls, &count);
	begin_sums(sums, first, args, n, threads, count);
	if (sum->begun)
		add_times(sums, first);
	add_rows(sum, first);
	for (i = 0; i < sums->count; i++) {
		vm = sum_at(sums, i);
		if (vm->other > (int64_t)vm->sum.cost)
			add_stall(sum, vm, STALL_UNKNOWN, vm->other - vm->sum.cost);
	}
	sum->begun = true;
	end_sums(sums);
}

static void close_stalls_program(struct sums *sums)
{
	stalls_close(container_of(sums, struct stalls_sum, sums)->stalls);
}

const struct sums_type stalls_sums = {
	.all_size = sizeof(struct stalls_sum), .size = sizeof(struct stalls_vm),
	.item_size = sizeof(struct stall_share), .key_size = sizeof(uint64_t),
	.open = open_stalls_program, .read = read_stalls_program, .add = add_stalls,
	.close = close_stalls_program, .clear = clear_times, .put = put_stall, .take = take_stall,
};
