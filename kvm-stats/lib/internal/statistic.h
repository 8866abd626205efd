/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Properties of statistics by name, for every kernel that has the definitions:
 * statistics.inc
 */
#ifndef KVMSTATS_STATISTIC_H
#define KVMSTATS_STATISTIC_H

#include "structures.h"

struct statistic {
	enum kvmstats_scope scope;
	const char *name;
	unsigned int type, size, unit;
	int exponent;
	const char *archs;	/* as in the kernel's arch/, or "all" */
	const char *description;
};

/* Look up this architecture first, then any; NULL if unknown. */
const struct statistic *statistic_find(enum kvmstats_scope scope, const char *name);

/*
 * Store the positions, in 64-bit words, of the single-value statistics whose names match, at
 * most "room"; return their number. '|' separates alternatives, the first that matches
 * anything is used; each is a list of glob(7) patterns, and '!' excludes names.
 */
unsigned int statistic_indexes(const struct kvmstats_table *table, const char *patterns,
			     uint16_t *words, unsigned int room);

#endif /* KVMSTATS_STATISTIC_H */
