/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef KVMSTATS_IDENTITY_H
#define KVMSTATS_IDENTITY_H

#include "structures.h"

/* Beginning of a cgroup's path: Kata keeps only the vCPU threads in the cgroup of the pod. */
#define KATA_OVERHEAD	"/kata_overhead/"

/*
 * Derive the identity from the contents of /proc files: comm, a command line of size bytes
 * with a '\0' after each argument (and one more after the last byte), /proc/PID/cgroup, with
 * that of a thread if it begins with KATA_OVERHEAD. pid is 0 if it is not known. The previous contents
 * of identity are not used, and the caller calls identity_clear(). Return false if out of memory.
 */
bool identity_from_proc(const char *comm, const char *cmdline, size_t size,
			const char *cgroups, pid_t pid, struct kvmstats_identity *identity);

/* Is the process a VMM that this library recognizes? */
bool identity_is_vmm(const struct kvmstats_identity *identity);

/* Its process hides, but what it calls itself is known. */
void identity_set_name(struct kvmstats_identity *identity, const char *name);

#endif /* KVMSTATS_IDENTITY_H */
