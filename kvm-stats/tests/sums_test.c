// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums of "blame" and "exits": which reasons have series, and VMs that have exited. Shares of
 * times in "top" and "log". Prints TAP.
 */
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "exits_sum.h"
#include "serve/reasons.h"
#include "tap.h"

#define SECOND	1000000000ULL

/* Listed reasons as digits, by their numbers */
static const char *listed(const struct exits_vm *vm)
{
	static char text[16];
	size_t i, n = 0;

	for (i = 0; i < vm->count; i++)
		if (vm->totals[i].listed)
			text[n++] = '0' + vm->totals[i].key.reason;
	text[n] = '\0';
	return text;
}

/* A sample in which reason i costs cost[i] seconds */
static void add_sample(struct exits_vm *vm, const unsigned int cost[3], uint64_t elapsed)
{
	size_t i;

	for (i = 0; i < vm->count; i++) {
		vm->totals[i].cell.kernel += cost[i] * SECOND;
		vm->totals[i].growth += cost[i] * SECOND;
	}
	reasons_update(vm, 2, elapsed);
}

static void test_reasons(void)
{
	struct exits_total totals[3] = { { .key.reason = 0 }, { .key.reason = 1 }, { .key.reason = 2 } };
	struct exits_vm vm = { .totals = totals, .count = 3 };

	add_sample(&vm, (unsigned int[]){ 5, 3, 1 }, SECOND);
	tap_result(!strcmp(listed(&vm), "01"), "the most expensive reasons have series: %s", listed(&vm));
	add_sample(&vm, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&vm), "01"), "a reason that costs a little more gets none: %s",
		   listed(&vm));
	add_sample(&vm, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&vm), "02"), "a reason that costs twice as much replaces another one: %s",
		   listed(&vm));
	add_sample(&vm, (unsigned int[]){ 0, 1, 0 }, 400 * SECOND);
	tap_result(!strcmp(listed(&vm), "12") || !strcmp(listed(&vm), "01"),
		   "costs of more than five minutes ago do not count: %s", listed(&vm));
	tap_result(vm.listed == 2, "two reasons have series");
}

#define VMS	(MAX_EXITED + 100)

static unsigned int released;

static void release(void *sum)
{
	released++;
}

static void test_exited(void)
{
	static struct followed sums[VMS];
	struct follow f = { .sums = sums, .size = sizeof(*sums), .count = VMS };
	unsigned int i, live = 0;

	for (i = 0; i < VMS; i++) {
		snprintf(sums[i].label, sizeof(sums[i].label), "vm-%u", i);
		sums[i].live = i % 20 == 19;
		live += sums[i].live;
	}
	follow_limit(&f, release);
	tap_result(f.count == MAX_EXITED + live && f.dropped == VMS - f.count &&
		   released == f.dropped, "%zu sums remain, %u are released", f.count, released);
	for (i = 0; i < f.count && live; i++)
		live -= sums[i].live;
	tap_result(!live, "all VMs that exist remain");
	tap_result(!strcmp(sums[0].label, "vm-0"), "the first sums remain");
}

static const char *ready_of(const struct item *item)
{
	static char text[COLUMN_SIZE];

	column_cell(&columns[column_by_title("READY")], item, text);
	return text;
}

/* vCPUs are read one after the other, each with its own clock. */
static void test_shares(void)
{
	struct kvmstats_vcpu vcpus[2] = { 0 };
	struct kvmstats_vcpu *list[] = { &vcpus[0], &vcpus[1] };
	struct kvmstats_vm vm = { .elapsed = SECOND, .vcpus = 2, .vcpu = list };
	struct item item;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct kvmstats_times *t = &vcpus[i].last.times;

		t->elapsed = t->mode[KVMSTATS_READY] = i ? SECOND / 100 * 99 : SECOND / 1000 * 1029;
		t->known = -1;
		kvmstats_add_activity(&vm.sum, &vcpus[i].last);
	}
	item = item_vcpu(&vm, &vcpus[0]);
	tap_result(!strcmp(ready_of(&item), "100.0"),
		   "a vCPU that only waited, in a longer time than its VM: %s %%", ready_of(&item));
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "100.0"),
		   "a vCPU that only waited, in a shorter time: %s %%", ready_of(&item));
	item = item_vm(&vm);
	tap_result(!strcmp(ready_of(&item), "200.0") && item_ready(&item) == 1000,
		   "a VM with these vCPUs: %s %%", ready_of(&item));
	vcpus[1].last.times.elapsed = vcpus[1].last.times.mode[KVMSTATS_READY] = SECOND / 10;
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "10.0"),
		   "a vCPU that was created since the previous sample: %s %%", ready_of(&item));
	vm.ended = true;
	vcpus[1].last.times.elapsed = SECOND / 4 * 3;
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "10.0"), "a vCPU of a VM that has ended: %s %%",
		   ready_of(&item));
}

int main(void)
{
	test_shares();
	test_reasons();
	test_exited();
	return tap_end();
}
