// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work for perf to measure in a guest: perf-work CPUIDS [CPUS]
 *
 * Execute CPUIDS CPUID instructions, each of which exits to the host, and keep one
 * function busy in between. With CPUS, move to the next CPU a hundred times.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static volatile unsigned long sum;

static __attribute__((noipa)) void busy_function(unsigned long turns)
{
	while (turns--)
		sum += turns;
}

int main(int argc, char **argv)
{
	unsigned long cpuids = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	unsigned long cpus = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	unsigned long part = cpuids / 100 ?: 1, i;
	unsigned int a, b, c, d;
	cpu_set_t set;

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
