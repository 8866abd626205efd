/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef KVMSTATS_IDENTITY_H
#define KVMSTATS_IDENTITY_H

#include "kvmstats.h"

/* Read it out of a procfs; what cannot be read stays "". */
void identity_read(int proc, pid_t pid, struct kvmstats_identity *identity);

/*
 * Derive the identity from the contents of /proc files: comm, a command line of size bytes
 * with a '\0' after each argument (and one more after the last byte), /proc/PID/cgroup.
 */
void identity_from_proc(const char *comm, const char *cmdline, size_t size,
	      const char *cgroups, struct kvmstats_identity *identity);

/* Is the process a VMM that this library recognizes? */
bool identity_is_vmm(const struct kvmstats_identity *identity);

/* Its process hides, but what it calls itself is known. */
void identity_set_name(struct kvmstats_identity *identity, const char *name);

#endif /* KVMSTATS_IDENTITY_H */
