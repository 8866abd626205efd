// SPDX-License-Identifier: LGPL-2.1-or-later
#include "stat_group.h"
#include "statistic.h"

/* Statistics of each group, as for statistic_indexes() */
static const char *const group_statistics[GROUPS] = {
#define EVENT(event, name, statistics, ...)	[KVMSTATS_##event] = statistics,
	EVENTS(EVENT)
#undef EVENT
	[GROUP_HALT] = "halt_wait_ns",
	[GROUP_POLL] = "halt_poll_success_ns halt_poll_fail_ns",
	[GROUP_BLOCKING] = "blocking",
};

void stat_groups_find(const struct kvmstats_table *table, struct stat_group *group)
{
	unsigned int i;

	for (i = 0; i < GROUPS; i++)
		group[i].count = statistic_indexes(table, group_statistics[i], group[i].index,
						MAX_SUMMED_STATS);
}

uint64_t stat_group_sum(const struct stat_group *group, const uint64_t *values)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < group->count; i++)
		sum += values[group->index[i]];
	return sum;
}

uint64_t stat_group_growth(const struct stat_group *group, const uint64_t *now, const uint64_t *before)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < group->count; i++)
		sum += growth_of(now[group->index[i]], before[group->index[i]]);
	return sum;
}
