// SPDX-License-Identifier: GPL-2.0-only
/*
 * PID 1 of the consumers' guest: cause exits and halts on every CPU indefinitely. Sleep more
 * than work, so that two vCPUs on one CPU are sometimes both halted: KVM does not poll
 * while the other vCPU runs.
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
		/* Cause exits ... */
		for (i = 0; i < 10; i++)
			__cpuid(0, a, b, c, d);
		/* ... and a halt. */
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
