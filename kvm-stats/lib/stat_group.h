/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups of statistics with the same meaning: kernels give them different names, or s390
 * counts a dozen kinds of exits instead of all exits.
 */
#ifndef KVMSTATS_STAT_GROUP_H
#define KVMSTATS_STAT_GROUP_H

#include "events.h"
#include "structures.h"

#define MAX_SUMMED_STATS	48

struct stat_group {
	unsigned int count;	/* 0 if the kernel has no such statistic */
	uint16_t index[MAX_SUMMED_STATS];	/* among the values */
};

enum stat_group_name {
	/* after the events: KVMSTATS_EXITS and so on */
	GROUP_HALT = KVMSTATS_EVENTS,
	GROUP_POLL,
	GROUP_BLOCKING,
	GROUPS,
};

/* Find the statistics of each group in a table. */
void stat_groups_find(const struct kvmstats_table *table, struct stat_group *group);

/* Return the sum over a group, and the growth of this sum. */
uint64_t stat_group_sum(const struct stat_group *group, const uint64_t *values);
uint64_t stat_group_growth(const struct stat_group *group, const uint64_t *now,
			   const uint64_t *before);

static inline uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Return how much a counter grew: 0 if it was reset through debugfs. */
static inline uint64_t growth_of(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

#endif /* KVMSTATS_STAT_GROUP_H */
