// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fnmatch.h>
#include <stdio.h>
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
#elif defined(__riscv)
#define ARCH	"riscv"
#elif defined(__loongarch__)
#define ARCH	"loongarch"
#else
#define ARCH	"all"
#endif

#define STATISTIC(scope, name, type, size, unit, exponent, archs, description) \
	{ KVMSTATS_##scope, #name, KVMSTATS_##type, size, KVMSTATS_##unit, exponent, \
	  archs, description },

static const struct statistic all[] = {
#include "statistics.inc"
#include "statistics-upstream.inc"
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

const char *kvmstats_description(enum kvmstats_scope scope, const char *name)
{
	const struct statistic *statistic = statistic_find(scope, name);

	return statistic ? statistic->description : "";
}

/* One part of the patterns, which ends at '|' or at the end */
static bool matches_pattern(const char *part, const char *name)
{
	bool has = false;
	char word[64];
	size_t n;

	while (*part && *part != '|') {
		n = strcspn(part, " |");
		snprintf(word, sizeof(word), "%.*s", (int)n, part);
		if (*word == '!')
			has = has && fnmatch(word + 1, name, 0);
		else
			has = has || !fnmatch(word, name, 0);
		part += n + (part[n] == ' ');
	}
	return has;
}

unsigned int statistic_indexes(const struct kvmstats_table *table, const char *patterns,
			     uint16_t *words, unsigned int room)
{
	const char *part = patterns, *end;
	unsigned int i, n = 0;

	for (;;) {
		for (i = 0; i < table->count && n < room; i++) {
			if (table->desc[i].size == 1 && matches_pattern(part, table->desc[i].name))
				words[n++] = table->desc[i].offset / sizeof(uint64_t);
		}
		end = strchr(part, '|');
		if (n || !end)
			return n;
		part = end + 1;
	}
}
