/* SPDX-License-Identifier: GPL-2.0-only */
/* What is behind struct kvmstats: the core's own, sources use source.h. */
#ifndef KVMSTATS_CORE_H
#define KVMSTATS_CORE_H

#include "source.h"

/*
 * What the kernels call one and the same thing, as positions in the values:
 * s390 has no number of exits but a dozen kinds of them.
 */
#define ROLE_PARTS	48
struct role {
	unsigned int count;	/* 0: there is no such statistic */
	uint16_t word[ROLE_PARTS];
};

enum role_name {
	ROLE_EXITS,
	ROLE_IO,
	ROLE_INTERRUPTS,
	ROLE_TLB_FLUSHES,
	ROLE_HALT,
	ROLE_POLL,
	ROLE_BLOCKING,
	ROLES,
};

struct core_vcpu {
	struct kvmstats_vcpu pub;	/* must be the first */
	bool seen;
	uint64_t *now, *before;
	/* /proc/PID/task/TID/schedstat, or given by the source */
	int sched_fd;
	pid_t sched_tid;
	bool times_given, has_times, had_times;
	uint64_t run, ready, run_before, ready_before;
	uint64_t credit;	/* of a halt that has not ended: counted already */
};

struct core_vm {
	struct kvmstats_vm pub;		/* must be the first */
	uint64_t key;
	bool seen, had_values;
	uint64_t *now, *before, *sum, *growth;
	struct core_vcpu **vcpu;
	unsigned int room, cursor;
};

struct kvmstats {
	const struct source_ops *source;
	void *state;
	int proc;
	struct kvmstats_table *table[KVMSTATS_SCOPES];
	struct role role[KVMSTATS_SCOPES][ROLES];
	struct core_vm *first, *cursor;
	uint64_t time;			/* not 0: given by the source */
	char problem[256];
	unsigned int unread;
	char why[256];
};

/* Find the roles of a table's statistics. */
void activity_roles(const struct kvmstats_table *table, struct role *role);

/* Fill in sum, growth and activity of a VM that was just read. */
void activity_update(struct kvmstats *k, struct core_vm *vm);

#endif /* KVMSTATS_CORE_H */
