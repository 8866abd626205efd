// SPDX-License-Identifier: GPL-2.0-only
#include "app.h"
#include "statistic.h"

const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	const struct statistic *statistic = statistic_find(scope, name);

	return statistic ? statistic->words : "";
}
