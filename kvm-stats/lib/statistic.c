// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string.h>

#include "statistic.h"

#if defined(__x86_64__) || defined(__i386__)
#define ARCH	"x86"
#elif defined(__aarch64__)
#define ARCH	"arm64"
#elif defined(__mips__)
#define ARCH	"mips"
#elif defined(__powerpc__)
#define ARCH	"powerpc"
#elif defined(__s390__)
#define ARCH	"s390"
#else
#define ARCH	"all"
#endif

#define STATISTIC(scope, name, type, size, unit, exponent, archs, words) \
	{ KVMSTATS_##scope, #name, KVMSTATS_##type, size, KVMSTATS_##unit, exponent, \
	  archs, words },

static const struct statistic all[] = {
#include "statistics.inc"
};

const struct statistic *statistic_find(enum kvmstats_scope scope, const char *name)
{
	const struct statistic *other = NULL;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i].scope != scope || strcmp(all[i].name, name))
			continue;
		if (strstr(all[i].archs, ARCH) || !strcmp(all[i].archs, "all"))
			return &all[i];
		other = &all[i];
	}
	return other;
}
