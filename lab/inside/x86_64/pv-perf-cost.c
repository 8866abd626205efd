// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure a guest's context switch, out of and into a task with perf events of the host: the
 * hypercalls of arch/x86/kernel/kvm_pv_perf.c, and OPEN and CLOSE of each event for comparison.
 * Requires QEMU's -icount, which makes the time stamp counter count instructions:
 *
 *   lab/run --icount x86_64 -- build/7.3/userland/x86_64/bin/pv-perf-cost
 *
 * Print a figure per line, NAME VALUE: the median of the instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "x86_64/pv_perf.h"

#define MAX_EVENTS	5
#define ROUNDS		101
/* No period ends during a measurement. */
#define LONG_PERIOD	(1000 * (uint64_t)PERIOD)

/* Each in one page, because the guest passes physical addresses. */
static struct kvm_pv_perf_attr attrs[MAX_EVENTS] __aligned(512);
static uint64_t rounds[ROUNDS] __aligned(1024);
static uint64_t failures;

static uint64_t read_tsc(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high));
	return (uint64_t)high << 32 | low;
}

static void call(uint64_t op, uint64_t a1)
{
	failures += !!kvm_hypercall(KVM_HC_PV_PERF, op, a1, 0, 0);
}

/* Events that count stay enabled: one READ_ALL for each direction. */
static void read_all(uint64_t events, uint64_t gpa)
{
	call(KVM_PV_PERF_READ_ALL, BIT(events) - 1);
	call(KVM_PV_PERF_READ_ALL, BIT(events) - 1);
}

static void disable_and_enable(uint64_t events, uint64_t gpa)
{
	uint64_t id;

	for (id = 0; id < events; id++)
		call(KVM_PV_PERF_DISABLE, id);
	for (id = 0; id < events; id++)
		call(KVM_PV_PERF_ENABLE, id);
}

static void close_and_open(uint64_t events, uint64_t gpa)
{
	uint64_t id;

	for (id = 0; id < events; id++)
		call(KVM_PV_PERF_CLOSE, id);
	for (id = 0; id < events; id++)
		call(KVM_PV_PERF_OPEN, gpa + id * sizeof(*attrs));
}

/* a1: number of events; a2: address of attrs */
#define GUEST_MEASURES(way)						\
static void guest_measures_##way(struct pv_guest *guest)		\
{									\
	uint64_t i, start;						\
									\
	for (i = 0; i < ROUNDS; i++) {					\
		start = read_tsc();					\
		way(guest->a1, guest->a2);				\
		rounds[i] = read_tsc() - start;				\
	}								\
}
GUEST_MEASURES(read_all)
GUEST_MEASURES(disable_and_enable)
GUEST_MEASURES(close_and_open)

static int compare(const void *a, const void *b)
{
	return (*(uint64_t *)a > *(uint64_t *)b) - (*(uint64_t *)a < *(uint64_t *)b);
}

static void measure(struct kvm_vm *vm, const char *name, unsigned int events,
		    void (*func)(struct pv_guest *guest))
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	uint64_t *found = in_guest(vm, rounds[0]);

	guest->a1 = events;
	guest->a2 = gpa_of(vm, attrs[0]);
	pv_run(vm, 0, func);
	TEST_ASSERT(!*in_guest(vm, failures), "%s: a hypercall failed", name);
	qsort(found, ROUNDS, sizeof(*found), compare);
	printf("switch_%s_%u %llu\n", name, events, (unsigned long long)found[ROUNDS / 2]);
}

/* Measure the switch with some events, and CLOSE and OPEN for comparison. */
static void measure_both(struct kvm_vm *vm, const char *name, unsigned int events,
			 void (*func)(struct pv_guest *guest))
{
	static const char *const stats[MAX_EVENTS] = {
		"exits", "io_exits", "irq_exits", "halt_exits", "mmio_exits",
	};
	char opened[32];
	unsigned int id;
	int64_t r;

	for (id = 0; id < events; id++) {
		if (!strcmp(name, "stats"))
			pv_stat_attr(vm, id, stats[id]);
		else
			pv_clock_attr(vm, id, PERF_COUNT_SW_CPU_CLOCK,
				      strcmp(name, "clocks") ? LONG_PERIOD : 0);
		*in_guest(vm, attrs[id]) = *in_guest(vm, pv_attrs[0]);
		r = pv_open_event(vm, 0);
		TEST_ASSERT(!r, "OPEN returned %ld", (long)r);
	}
	measure(vm, name, events, func);
	snprintf(opened, sizeof(opened), "open_%s", name);
	measure(vm, opened, events, guest_measures_close_and_open);
	pv_reset(vm);
}

int main(void)
{
	struct kvm_vm *vm;

	pv_begin();
	vm = pv_create_vm();
	measure_both(vm, "stats", 1, guest_measures_read_all);
	measure_both(vm, "stats", 5, guest_measures_read_all);
	measure_both(vm, "clocks", 1, guest_measures_read_all);
	measure_both(vm, "clocks", 5, guest_measures_read_all);
	measure_both(vm, "samples", 1, guest_measures_disable_and_enable);
	measure_both(vm, "samples", 5, guest_measures_disable_and_enable);
	kvm_vm_free(vm);
	pv_end();
}
