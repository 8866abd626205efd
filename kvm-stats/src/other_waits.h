/* SPDX-License-Identifier: GPL-2.0-only */
/* How long the threads of VMMs that are not vCPUs wait for a CPU: I/O threads, vhost workers, the emulator */
#ifndef OTHER_WAITS_H
#define OTHER_WAITS_H

#include "structures.h"

struct other_waits;

/* Read the waits of all VMs up to now. proc: a procfs. The caller passes the result to free_other_waits(). */
struct other_waits *read_other_waits(int proc, const struct kvmstats_vm *first);
void free_other_waits(struct other_waits *waits);

/* What the threads of a VM's process did between two reads; all 0 if the process has several VMs */
struct other_use {
	uint64_t elapsed, ran, waited;	/* nanoseconds */
	pid_t tid;		/* thread that waited most; 0 if all ran at once */
	char comm[32];		/* its name */
};

struct other_use find_other_use(const struct other_waits *before, const struct other_waits *now, pid_t pid);

#endif /* OTHER_WAITS_H */
