/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is known of statistics by their names, of every kernel that has the
 * definitions: statistics.inc.
 */
#ifndef KVMSTATS_STATISTIC_H
#define KVMSTATS_STATISTIC_H

#include "kvmstats.h"

struct statistic {
	enum kvmstats_scope scope;
	const char *name;
	unsigned int type, size, unit;
	int exponent;
	const char *archs;	/* as in the kernel's arch/, or "all" */
	const char *words;
};

/* On this machine's architecture, or else on another one; NULL: it has no such line. */
const struct statistic *statistic_find(enum kvmstats_scope scope, const char *name);

/*
 * The positions, in 64-bit words, of the statistics of one value whose names match, at
 * most "room"; returns how many there are. Of the parts between '|' the first that matches
 * any is taken; patterns of glob(7), those after '!' are left out.
 */
unsigned int statistic_words(const struct kvmstats_table *table, const char *patterns,
			     uint16_t *words, unsigned int room);

#endif /* KVMSTATS_STATISTIC_H */
