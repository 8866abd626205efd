// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core makes of what a source reports: here of one that has VMs with a vCPU
 * each, whose values and clock the tests set. Needs no KVM.
 */
#include <errno.h>
#include <stdlib.h>

#include "source.h"
#include "tap.h"

#define MS	1000000ULL
#define ARRAY_LEN(x)	(sizeof(x) / sizeof((x)[0]))

static const struct kvmstats_desc vcpu_desc[] = {
	{ .name = "exits", .size = 1, .offset = 0 },
	{ .name = "halt_wait_ns", .size = 1, .offset = 8 },
	{ .name = "halt_poll_fail_ns", .size = 1, .offset = 16 },
	{ .name = "blocking", .type = KVMSTATS_INSTANT, .size = 1, .offset = 24 },
};

static const struct kvmstats_desc vm_desc[] = {
	{ .name = "remote_tlb_flush", .size = 1, .offset = 0 },
};

/* The next sample: keys of VMs of process 1, in the order of the report, up to 0;
 * what all of them have. */
static uint64_t keys[4] = { 1 };
static uint64_t clock_ns, tlb_flushes, exits, halt, poll_ns, blocking, run, ready;

static int test_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct kvmstats_table *vm = table_make(vm_desc, ARRAY_LEN(vm_desc));
	struct kvmstats_table *vcpu = table_make(vcpu_desc, ARRAY_LEN(vcpu_desc));

	if (!vm || !vcpu)
		return -ENOMEM;
	core_set_table(k, KVMSTATS_VM, vm);
	core_set_table(k, KVMSTATS_VCPU, vcpu);
	return 0;
}

static void report(struct kvmstats *k, uint64_t key)
{
	struct core_vcpu *vcpu;
	struct core_vm *vm;
	uint64_t *values;

	vm = core_vm(k, key, 1);
	vcpu = core_vcpu(k, vm, 0, 1);
	*(uint64_t *)core_vm_values(vm) = tlb_flushes;
	values = core_vcpu_values(vcpu);
	values[0] = exits + key;	/* which tells them apart */
	values[1] = halt;
	values[2] = poll_ns;
	values[3] = blocking;
	core_vcpu_times(vcpu, &(struct thread_times){
		.time = clock_ns, .has_run = true, .has_ready = true,
		.run = run, .ready = ready });
}

static int test_sample(struct kvmstats *k, void *state)
{
	unsigned int i;

	core_set_time(k, clock_ns);
	for (i = 0; i < ARRAY_LEN(keys) && keys[i]; i++)
		report(k, keys[i]);
	return 0;
}

static void test_close(struct kvmstats *k, void *state)
{
}

static const struct source_ops source_test = {
	.name = "test",
	.what = "what the test says",
	.open = test_open,
	.sample = test_sample,
	.close = test_close,
};

const struct source_ops *const source_list[] = { &source_test, NULL };

/* A second in which the vCPU ran 300 ms of which it polled 100, waited 200 for a
 * CPU, and halted for the rest, which the kernel has not counted yet. */
static void test_second(struct kvmstats *k, const struct kvmstats_vm *vm)
{
	const struct kvmstats_activity *sum = &vm->sum;

	tap_result(vm->fresh && !vm->elapsed && !sum->has_exits && !sum->exits && !sum->run,
		   "what is fresh has no time and no activity");

	clock_ns += 1000 * MS;
	exits += 50;
	tlb_flushes += 3;
	poll_ns += 100 * MS;
	run += 300 * MS;
	ready += 200 * MS;
	blocking = 1;
	kvmstats_sample(k);
	tap_result(!vm->fresh && vm->elapsed == 1000 * MS, "then it has what passed");
	tap_result(sum->run == 200 * MS && sum->poll == 100 * MS &&
		   sum->ready == 200 * MS, "the thread's time, polling apart");
	tap_result(sum->halt == 500 * MS, "an unfinished halt is counted");
	tap_result(sum->exits == 50 && sum->tlb_flushes == 3, "what happened");
	tap_result(kvmstats_rate(sum->exits, vm->elapsed) == 50000 &&
		   kvmstats_permille(sum->halt, vm->elapsed) == 500, "and rates of it");

	clock_ns += 1000 * MS;
	halt += 600 * MS;
	blocking = 0;
	run += 900 * MS;
	kvmstats_sample(k);
	tap_result(sum->halt == 100 * MS, "a halt that ends is not counted twice");
}

/* Two samples of the same time, on a machine with a coarse clock */
static void test_no_time(struct kvmstats *k, const struct kvmstats_vm *vm)
{
	const struct kvmstats_activity *sum = &vm->sum;

	exits += 7;
	tlb_flushes += 2;
	halt += MS;
	poll_ns += MS;
	run += MS;
	ready += MS;
	kvmstats_sample(k);
	tap_result(!vm->fresh && !vm->elapsed, "no time has passed: it is not fresh");
	tap_result(sum->has_exits && sum->exits == 7 && vm->vcpu[0]->last.exits == 7 &&
		   sum->tlb_flushes == 2, "what happened is counted");
	tap_result(sum->has_run && !sum->run && !sum->ready && !sum->halt && !sum->poll,
		   "it took none of the time");
	tap_result(!kvmstats_rate(sum->exits, vm->elapsed) &&
		   !kvmstats_permille(1, vm->elapsed), "there is no rate");

	clock_ns += 4 * MS;
	exits += 2;
	run += 3 * MS;
	kvmstats_sample(k);
	tap_result(vm->elapsed == 4 * MS && sum->exits == 2 && sum->run == 3 * MS,
		   "the next sample has its own alone");
}

/* Two digits for each VM of the list after a sample with these keys: the key, and
 * the number that it has of those of the process */
static unsigned int number(struct kvmstats *k, uint64_t a, uint64_t b, uint64_t c)
{
	const struct kvmstats_vm *vm;
	unsigned int said = 0;

	keys[0] = a;
	keys[1] = b;
	keys[2] = c;
	kvmstats_sample(k);
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		said = 100 * said + vm->nth +
		       10 * (*(const uint64_t *)vm->vcpu[0]->values - exits);
	return said;
}

static void test_numbers(struct kvmstats *k)
{
	tap_result(number(k, 1, 0, 0) == 10, "the only VM of a process has no number");
	tap_result(number(k, 9, 1, 8) == 119283,
		   "it is the first of those that come, which are numbered as reported");
	tap_result(number(k, 8, 9, 1) == 119283, "then the order of the report is nothing");
	tap_result(number(k, 8, 9, 0) == 119283 && kvmstats_first(k)->ended,
		   "one that has ended has its number still");
	tap_result(number(k, 8, 9, 0) == 9283, "then the others keep theirs");
	tap_result(number(k, 1, 8, 9) == 928314, "and one that comes has a new one");
}

int main(void)
{
	struct kvmstats *k;

	clock_ns = 1000 * MS;
	if (kvmstats_open(&k, NULL) || kvmstats_sample(k)) {
		printf("Bail out! the source of the test does not work\n");
		return 1;
	}
	test_second(k, kvmstats_first(k));
	test_no_time(k, kvmstats_first(k));
	test_numbers(k);
	kvmstats_close(k);
	return tap_end();
}
