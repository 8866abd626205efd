// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work for perf to measure in a guest: perf-work CPUIDS [CPUS]
 *					perf-work -h HYPERCALLS
 *
 * Execute CPUIDS CPUID instructions, each of which exits to the host, and keep one
 * function busy in between. With CPUS, move to the next CPU a hundred times.
 *
 * With -h, make hypercalls on CPU 0 instead, and print the largest number of hypercalls in
 * TICKS ticks. KVM counts hypercalls of user mode and rejects them. Unlike exits, they have
 * no other cause except perf itself.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

/* Ticks until the guest's PMU notices a migration, see pv_perf_migration.py. */
#define TICKS	2

/* A timer that is always pending must not delay the PMU's. */
#define TIMER_NS	50000000

static volatile unsigned long sum;

static __attribute__((noipa)) void busy_function(unsigned long turns)
{
	while (turns--)
		sum += turns;
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int make_hypercalls(unsigned long hypercalls)
{
	const struct itimerspec timer = { .it_value.tv_nsec = TIMER_NS };
	unsigned long part = hypercalls / 100 ?: 1, first[TICKS] = {}, most = 0, ticks = 0, i;
	int fd = timerfd_create(CLOCK_BOOTTIME, 0);
	unsigned int max, vendor, c, d;
	uint64_t tick = 0, now;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("perf-work: sched_setaffinity");
		return 1;
	}
	__cpuid(0, max, vendor, c, d);
	for (i = 0; i < hypercalls; i++) {
		unsigned long result = -1UL;

		if (vendor == signature_INTEL_ebx)
			asm volatile("vmcall" : "+a" (result) : : "memory");
		else
			asm volatile("vmmcall" : "+a" (result) : : "memory");
		if (i % part == 0)
			busy_function(1000000);
		/* This clock advances with each tick of CPU 0. */
		now = read_clock(CLOCK_MONOTONIC_COARSE);
		if (now == tick)
			continue;
		tick = now;
		if (i + 1 - first[ticks % TICKS] > most)
			most = i + 1 - first[ticks % TICKS];
		first[ticks++ % TICKS] = i + 1;
		if (timerfd_settime(fd, 0, &timer, NULL)) {
			perror("perf-work: timerfd_settime");
			return 1;
		}
	}
	printf("at most %lu hypercalls in %u ticks\n", most, TICKS);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long cpuids = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	unsigned long cpus = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	unsigned long part = cpuids / 100 ?: 1, i;
	unsigned int a, b, c, d;
	cpu_set_t set;

	if (argc > 2 && !strcmp(argv[1], "-h"))
		return make_hypercalls(strtoul(argv[2], NULL, 0));
	for (i = 0; i < cpuids; i++) {
		__cpuid(0, a, b, c, d);
		if (i % part)
			continue;
		busy_function(1000000);
		if (cpus) {
			CPU_ZERO(&set);
			CPU_SET(i / part % cpus, &set);
			if (sched_setaffinity(0, sizeof(set), &set)) {
				perror("perf-work: sched_setaffinity");
				return 1;
			}
		}
	}
	return 0;
}
