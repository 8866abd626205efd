// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

/* Words for the fields of a descriptor's flags, which have four bits each. */
#define FIELDS	16

static const char * const types[FIELDS] = {
	[KVMSTATS_CUMULATIVE]	= "cumulative",
	[KVMSTATS_INSTANT]	= "instant",
	[KVMSTATS_PEAK]		= "peak",
	[KVMSTATS_LINEAR_HIST]	= "linear_hist",
	[KVMSTATS_LOG_HIST]	= "log_hist",
};

static const char * const units[FIELDS] = {
	[KVMSTATS_NONE]		= "none",
	[KVMSTATS_BYTES]	= "bytes",
	[KVMSTATS_SECONDS]	= "seconds",
	[KVMSTATS_CYCLES]	= "cycles",
	[KVMSTATS_BOOLEAN]	= "boolean",
};

static const char * const short_units[FIELDS] = {
	[KVMSTATS_NONE]		= "-",
	[KVMSTATS_BYTES]	= "B",
	[KVMSTATS_SECONDS]	= "s",
	[KVMSTATS_CYCLES]	= "cycles",
	[KVMSTATS_BOOLEAN]	= "bool",
};

static const char * const bases[FIELDS] = {
	[KVMSTATS_POW10]	= "pow10",
	[KVMSTATS_POW2]		= "pow2",
};

static const char *word(const char * const *words, unsigned int field)
{
	static const char * const numbers[FIELDS] = {
		"0", "1", "2", "3", "4", "5", "6", "7",
		"8", "9", "10", "11", "12", "13", "14", "15",
	};

	field %= FIELDS;
	return words[field] ? words[field] : numbers[field];
}

const char *text_type(unsigned int type)
{
	return word(types, type);
}

const char *text_unit(unsigned int unit)
{
	return word(units, unit);
}

const char *text_base(unsigned int base)
{
	return word(bases, base);
}

bool text_is_histogram(const struct kvmstats_desc *desc)
{
	return desc->type == KVMSTATS_LINEAR_HIST || desc->type == KVMSTATS_LOG_HIST;
}

/* How many of the value's digits are after the point, to have the plain unit */
static int decimals(const struct kvmstats_desc *desc)
{
	bool known = units[desc->unit % FIELDS] && desc->base == KVMSTATS_POW10 &&
		     desc->type <= KVMSTATS_LOG_HIST;

	return known && desc->exponent < 0 && desc->exponent >= -19 ?
	       -desc->exponent : 0;
}

void text_value_unit(const struct kvmstats_desc *desc, char *buf)
{
	const char *unit = word(short_units, desc->unit);
	int exponent = decimals(desc) ? 0 : desc->exponent;

	/* a histogram counts; its bounds have the unit */
	if (!exponent)
		snprintf(buf, TEXT_SIZE, "%s", unit);
	else
		snprintf(buf, TEXT_SIZE, "%s^%d %s",
			 desc->base == KVMSTATS_POW10 ? "10" :
			 desc->base == KVMSTATS_POW2 ? "2" : "?", exponent, unit);
}

static void put_decimal(uint64_t value, int digits, char *buf)
{
	uint64_t divisor = 1;
	int i;

	for (i = 0; i < digits; i++)
		divisor *= 10;
	if (digits)
		snprintf(buf, TEXT_SIZE, "%" PRIu64 ".%0*" PRIu64, value / divisor,
			 digits, value % divisor);
	else
		snprintf(buf, TEXT_SIZE, "%" PRIu64, value);
}

void text_value(const struct kvmstats_desc *desc, uint64_t value, char *buf)
{
	put_decimal(value, text_is_histogram(desc) ? 0 : decimals(desc), buf);
}

void text_rate(const struct kvmstats_desc *desc, uint64_t growth, uint64_t elapsed,
	       char *buf)
{
	uint64_t rate = kvmstats_rate(growth, elapsed);
	int digits = text_is_histogram(desc) ? 0 : decimals(desc);

	if (digits > 3) {
		/* 0.123456 seconds per second, of nanoseconds */
		for (; digits > 3; digits--)
			rate /= 10;
		put_decimal(rate, 6, buf);
	} else {
		put_decimal(rate / 100, digits + 1, buf);
	}
}

void text_bucket(const struct kvmstats_desc *desc, unsigned int i, char *buf)
{
	uint64_t start = 0;

	if (desc->type == KVMSTATS_LINEAR_HIST)
		start = (uint64_t)desc->bucket_size * i;
	else if (i)
		start = 1ULL << (i - 1);
	put_decimal(start, decimals(desc), buf);
}

void text_thousandths(uint64_t rate, char *buf)
{
	put_decimal(rate / 100, 1, buf);
}

void text_short(uint64_t rate, char *buf)
{
	static const char ends[] = "kMGTPE";
	uint64_t n = rate / 1000;
	int end = -1;

	if (rate < 100000) {
		put_decimal(rate / 100, 1, buf);
	} else if (n < 10000) {
		put_decimal(n, 0, buf);
	} else {
		/* n is in tenths of the unit that comes next */
		for (n /= 100, end = 0; n >= 10000 && ends[end + 1]; end++)
			n /= 1000;
		if (n < 1000)
			snprintf(buf, TEXT_SIZE, "%" PRIu64 ".%" PRIu64 "%c", n / 10,
				 n % 10, ends[end]);
		else
			snprintf(buf, TEXT_SIZE, "%" PRIu64 "%c", n / 10, ends[end]);
	}
}

void text_permille(unsigned int permille, char *buf)
{
	put_decimal(permille, 1, buf);
}

const char *text_bad_glob(const char *glob)
{
	const char *c, *end;

	for (c = glob; *c; c++) {
		if (*c == '\\') {
			if (!*++c)
				return "ends in a backslash";
			continue;
		}
		if (*c != '[')
			continue;
		/* "]" may be the first of a set */
		end = c + 1;
		end += *end == '!' || *end == '^';
		end = *end ? strchr(end + 1, ']') : NULL;
		if (!end)
			return "has a [ without ]";
		c = end;
	}
	return *glob ? NULL : "is empty";
}
