// SPDX-License-Identifier: GPL-2.0-only
#include "app.h"

const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	return kvmstats_description(scope, name);
}
