/* SPDX-License-Identifier: GPL-2.0-only */
/* VMs for tests: the program of vmm.c */
#ifndef VM_H
#define VM_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "structures.h"

/*
 * A VMM that has started, or -1. It ends with its parent. prepare, if there is one, is
 * called with arg in its process before; false: it is not to start.
 */
static inline pid_t vm_start(char *const arguments[], bool (*prepare)(const void *arg),
			     const void *arg)
{
	int in[2], out[2];
	char ready;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare && !prepare(arg))
			_exit(126);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execv(arguments[0], arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	/* in[1] stays open: it ends when its input does */
	if (pid > 0 && read(out[0], &ready, 1) != 1)
		pid = -1;
	close(out[0]);
	return pid;
}

/* Return the most memory that this process has used, in KiB. */
static inline long max_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Return the time in these modes, a bit for each. */
static inline uint64_t sum_of(const struct kvmstats_times *times, unsigned int modes)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < KVMSTATS_MODES; i++)
		sum += modes >> i & 1 ? times->mode[i] : 0;
	return sum;
}

#endif /* VM_H */
