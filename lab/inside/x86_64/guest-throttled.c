// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sample with a clock of the PMU kvm_pv that perf throttles at each tick, so that perf stops
 * and starts it: guest-throttled SECONDS
 *
 * Exit when the event has not been on its CPU for two seconds, or fail after SECONDS and print
 * how long the event was enabled and on its CPU. Print nothing before that: perf stat, which
 * runs this program, writes the lines of its intervals in pieces to the same file.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test_util.h"

#define MS	1000000
/* KVM_PV_PERF_TYPE_SOFTWARE and PERF_COUNT_SW_CPU_CLOCK, as the PMU combines them */
#define CPU_CLOCK	(1 << 16)
/* Intervals per second; the program exits after UNCHANGED intervals without the event. */
#define PER_SECOND	5
#define UNCHANGED	(2 * PER_SECOND)

static int read_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/kvm_pv/type", "r");
	int type;

	TEST_ASSERT(file && fscanf(file, "%i", &type) == 1, "no PMU kvm_pv");
	fclose(file);
	return type;
}

/* Allow one sample per tick at 100 ticks per second. */
static void throttle(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "w");

	TEST_ASSERT(file && fputs("100", file) != EOF && !fclose(file),
		    "cannot set perf_event_max_sample_rate");
}

/* Keep the CPU busy: the clock of a CPU that is idle stands. */
static void stay_busy(uint64_t ns)
{
	struct timespec now;
	uint64_t end = 0, at;

	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		at = now.tv_sec * 1000000000ull + now.tv_nsec;
		end = end ?: at + ns;
	} while (at < end);
}

int main(int argc, char **argv)
{
	int intervals = argc > 1 ? atoi(argv[1]) * PER_SECOND : 0, unchanged = 0, fd;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = read_type(),
		.config = CPU_CLOCK,
		.sample_period = MS,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	/* Count, time enabled, time running */
	uint64_t values[3] = { 0 }, before = 0;
	cpu_set_t first;

	throttle();
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(first), &first), "cannot run on CPU 0");
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	TEST_ASSERT(fd >= 0, "cannot open the event");
	while (intervals-- > 0 && unchanged < UNCHANGED) {
		stay_busy(1000 * MS / PER_SECOND);
		TEST_ASSERT(read(fd, values, sizeof(values)) == sizeof(values),
			    "cannot read the event");
		unchanged = values[2] == before ? unchanged + 1 : 0;
		before = values[2];
	}
	if (unchanged < UNCHANGED)
		printf("the event was enabled for %lu ms, on its CPU for %lu ms\n",
		       values[1] / MS, values[2] / MS);
	return unchanged < UNCHANGED;
}
