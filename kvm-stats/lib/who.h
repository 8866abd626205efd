/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef KVMSTATS_WHO_H
#define KVMSTATS_WHO_H

#include "kvmstats.h"

/* Read it out of a procfs; what cannot be read stays "". */
void who_is(int proc, pid_t pid, struct kvmstats_who *who);

/*
 * The same of what was read: comm, a command line of size bytes with a '\0' after
 * each argument (and one more after the last byte), /proc/PID/cgroup.
 */
void who_from(const char *comm, const char *cmdline, size_t size,
	      const char *cgroups, struct kvmstats_who *who);

/* Its process hides, but what it calls itself is known. */
void who_call(struct kvmstats_who *who, const char *name);

#endif /* KVMSTATS_WHO_H */
