/* SPDX-License-Identifier: GPL-2.0-only */
/* How long the threads of VMMs that are not vCPUs wait for a CPU: I/O threads, vhost workers, the emulator */
#ifndef OTHER_WAITS_H
#define OTHER_WAITS_H

#include "structures.h"

struct other_waits;

/* Read the waits of all VMs up to now. proc: a procfs. The caller passes the result to free_other_waits(). */
struct other_waits *read_other_waits(int proc, const struct kvmstats_vm *first);
void free_other_waits(struct other_waits *waits);

/*
 * Return the nanoseconds for which the threads of a VM's process waited between two reads, and set the name
 * of the one that waited for most of it. Return 0 if the process has several VMs.
 */
uint64_t find_other_wait(const struct other_waits *before, const struct other_waits *now, pid_t pid, char comm[32]);

#endif /* OTHER_WAITS_H */
