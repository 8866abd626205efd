// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of the guest that the consumers run: gives every CPU what KVM counts,
 * exits and halts, for ever. It sleeps more than it works, so that of two vCPUs
 * on one CPU both halt at times: KVM does not poll while the other one runs.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void work(void)
{
	unsigned int a, b, c, d, i;

	for (;;) {
		/* This always leaves the guest, ... */
		for (i = 0; i < 10; i++)
			__cpuid(0, a, b, c, d);
		/* ... and here the CPU has nothing to do. */
		usleep(50000);
	}
}

int main(void)
{
	long cpu, cpus = sysconf(_SC_NPROCESSORS_CONF);

	printf("guest runs on %ld CPUs\n", cpus);
	fflush(stdout);
	for (cpu = 1; cpu < cpus; cpu++) {
		cpu_set_t set;

		if (fork())
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			exit(1);
		work();
	}
	work();
}
