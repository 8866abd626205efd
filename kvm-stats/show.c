// SPDX-License-Identifier: GPL-2.0-only
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "show.h"

#define TYPE(name)	(KVM_STATS_TYPE_##name >> KVM_STATS_TYPE_SHIFT)
#define UNIT(name)	(KVM_STATS_UNIT_##name >> KVM_STATS_UNIT_SHIFT)
#define BASE(name)	(KVM_STATS_BASE_##name >> KVM_STATS_BASE_SHIFT)

/* Words for the fields of the flags, which have four bits each. */
#define NR_WORDS	16

static const char * const types[NR_WORDS] = {
	[TYPE(CUMULATIVE)]	= "cumulative",
	[TYPE(INSTANT)]		= "instant",
	[TYPE(PEAK)]		= "peak",
	[TYPE(LINEAR_HIST)]	= "linear_hist",
	[TYPE(LOG_HIST)]	= "log_hist",
};

static const char * const units[NR_WORDS] = {
	[UNIT(NONE)]		= "none",
	[UNIT(BYTES)]		= "bytes",
	[UNIT(SECONDS)]		= "seconds",
	[UNIT(CYCLES)]		= "cycles",
	[UNIT(BOOLEAN)]		= "boolean",
};

static const char * const short_units[NR_WORDS] = {
	[UNIT(NONE)]		= "-",
	[UNIT(BYTES)]		= "B",
	[UNIT(SECONDS)]		= "s",
	[UNIT(CYCLES)]		= "cycles",
	[UNIT(BOOLEAN)]		= "bool",
};

static const char * const bases[NR_WORDS] = {
	[BASE(POW10)]		= "pow10",
	[BASE(POW2)]		= "pow2",
};

static const char * const numbers[NR_WORDS] = {
	"0", "1", "2", "3", "4", "5", "6", "7",
	"8", "9", "10", "11", "12", "13", "14", "15",
};

static const char *word(const char * const *words, unsigned int field)
{
	return words[field] ? words[field] : numbers[field];
}

static bool is_histogram(const struct stats_desc *desc)
{
	return desc->type == TYPE(LINEAR_HIST) || desc->type == TYPE(LOG_HIST);
}

/* Is the value written with a decimal point, to have it in the plain unit? */
static bool is_decimal(const struct stats_desc *desc)
{
	return desc->size == 1 && desc->type <= TYPE(PEAK) &&
	       units[desc->unit] && desc->base == BASE(POW10) &&
	       desc->exponent < 0 && desc->exponent >= -19;
}

static __u64 power_of_10(int exponent)
{
	__u64 n = 1;

	while (exponent-- > 0)
		n *= 10;
	return n;
}

double stats_factor(const struct stats_desc *desc)
{
	return is_decimal(desc) ? power_of_10(-desc->exponent) : 1;
}

static void put_unit(const struct stats_desc *desc, char *buf, size_t size)
{
	const char *unit = word(short_units, desc->unit);
	int exponent = is_decimal(desc) ? 0 : desc->exponent;

	if (!exponent)
		snprintf(buf, size, "%s", unit);
	else if (desc->base == BASE(POW10) && desc->unit == UNIT(SECONDS) &&
		 exponent >= -9 && exponent < 0 && exponent % 3 == 0)
		snprintf(buf, size, "%c%s", "num"[(exponent + 9) / 3], unit);
	else
		snprintf(buf, size, "%s^%d %s",
			 desc->base == BASE(POW10) ? "10" :
			 desc->base == BASE(POW2) ? "2" : "?", exponent, unit);
}

static void put_value(const struct stats_desc *desc, __u64 value, char *buf,
		      size_t size)
{
	unsigned long long n = value, divisor;

	if (desc->unit == UNIT(BOOLEAN) && n <= 1) {
		snprintf(buf, size, n ? "yes" : "no");
	} else if (is_decimal(desc)) {
		divisor = power_of_10(-desc->exponent);
		snprintf(buf, size, "%llu.%0*llu", n / divisor,
			 -desc->exponent, n % divisor);
	} else {
		snprintf(buf, size, "%llu", n);
	}
}

void stats_text(const struct stats_desc *desc, const void *data,
		struct stats_text *text)
{
	unsigned long long samples = 0;
	unsigned int i;

	text->type = word(types, desc->type);
	put_unit(desc, text->unit, sizeof(text->unit));
	if (is_histogram(desc)) {
		for (i = 0; i < desc->size; i++)
			samples += stats_value(desc, data, i);
		snprintf(text->value, sizeof(text->value), "%llu samples",
			 samples);
	} else if (desc->size > 1) {
		snprintf(text->value, sizeof(text->value), "%u values",
			 desc->size);
	} else {
		put_value(desc, stats_value(desc, data, 0), text->value,
			  sizeof(text->value));
	}
}

int wider_name(int width, const struct stats_desc *desc)
{
	int len = strlen(desc->name);

	return len > width ? len : width;
}

void show_table(const char *scope, const struct stats_table *table)
{
	unsigned int i;

	for (i = 0; i < table->count; i++) {
		const struct stats_desc *desc = &table->desc[i];

		printf("%s %s %s %s %s %d %u %u %u\n", scope, desc->name,
		       word(types, desc->type), word(units, desc->unit),
		       word(bases, desc->base), desc->exponent, desc->offset,
		       desc->size, desc->bucket_size);
	}
}

/* The lowest number that is counted in bucket i. */
static unsigned long long bucket_start(const struct stats_desc *desc,
				       unsigned int i)
{
	if (desc->type == TYPE(LINEAR_HIST))
		return (unsigned long long)desc->bucket_size * i;
	return i ? 1ULL << (i - 1) : 0;
}

static void show_values(const struct stats_desc *desc, const void *data,
			const char *unit)
{
	unsigned long long value;
	unsigned int i;
	char end[24];

	for (i = 0; i < desc->size; i++) {
		value = stats_value(desc, data, i);
		if (!is_histogram(desc)) {
			printf("    [%u] %llu\n", i, value);
			continue;
		}
		if (!value)
			continue;
		/* the last one takes all that is larger, too */
		if (i == desc->size - 1)
			strcpy(end, "...");
		else
			sprintf(end, "%llu", bucket_start(desc, i + 1));
		printf("    [%llu, %s) %s: %llu\n", bucket_start(desc, i), end,
		       unit, value);
	}
}

void show_source(const struct source *source)
{
	const struct stats_table *table = source->table;
	struct stats_text text;
	int width = 0;
	unsigned int i;

	for (i = 0; i < table->count; i++)
		width = wider_name(width, &table->desc[i]);
	printf("%s\n  %-*s %-11s %-7s %20s\n", source->label, width, "NAME",
	       "TYPE", "UNIT", "VALUE");
	for (i = 0; i < table->count; i++) {
		const struct stats_desc *desc = &table->desc[i];

		stats_text(desc, source->data, &text);
		printf("  %-*s %-11s %-7s %20s\n", width, desc->name, text.type,
		       text.unit, text.value);
		if (is_histogram(desc) || desc->size > 1)
			show_values(desc, source->data, text.unit);
	}
}
