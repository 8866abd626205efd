/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sources: the open statistics files of one process, one per VM and vCPU. This
 * joins finding and reading for the commands, and speaks for them: what cannot
 * be done ends the program with one line; what can be done in part is said.
 * A program that goes on with the next process uses find.h and read.h itself.
 */
#ifndef KVM_STATS_SOURCE_H
#define KVM_STATS_SOURCE_H

#include <sys/types.h>

#include "find.h"
#include "read.h"

struct source {
	char label[32];		/* vm, vcpu3; with @FD where that is not unique */
	int fd;
	const struct stats_table *table;
	void *data, *before;	/* of the last read and the one before it */
	double time, time_before;
};

struct sources {
	pid_t pid;
	char comm[32];
	int pidfd;
	unsigned int count;
	struct source *source;
	struct stats_table table[2];	/* KVM_FD_VM, KVM_FD_VCPU */
};

void sources_open(struct sources *s, pid_t pid);

/* Read all values once. */
void sources_read(struct sources *s);

/* Seconds on a clock that is never set. */
double monotonic(void);

#endif /* KVM_STATS_SOURCE_H */
