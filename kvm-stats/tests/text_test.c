// SPDX-License-Identifier: GPL-2.0-only
/* Numbers as text: exact, and in as many characters as there is room for. */
#include <string.h>

#include "../src/text.h"
#include "tap.h"

static const struct kvmstats_desc plain = { .unit = KVMSTATS_NONE, .size = 1 };
static const struct kvmstats_desc ns = {
	.unit = KVMSTATS_SECONDS, .exponent = -9, .size = 1,
};
static const struct kvmstats_desc pages = {
	.type = KVMSTATS_INSTANT, .unit = KVMSTATS_BYTES, .base = KVMSTATS_POW2,
	.exponent = 12, .size = 1,
};
static const struct kvmstats_desc log_hist = {
	.type = KVMSTATS_LOG_HIST, .unit = KVMSTATS_SECONDS, .exponent = -9, .size = 65,
};
static const struct kvmstats_desc strange = {
	.type = 9, .unit = 7, .base = 3, .exponent = -3, .size = 1,
};

static void same(const char *what, const char *text, const char *want)
{
	tap_result(!strcmp(text, want), "%s: %s", what, text);
}

static void value(const char *what, const struct kvmstats_desc *desc, uint64_t n,
		  const char *want)
{
	char text[TEXT_SIZE];

	text_value(desc, n, text);
	same(what, text, want);
}

static void rate(const char *what, const struct kvmstats_desc *desc, uint64_t growth,
		 uint64_t elapsed, const char *want)
{
	char text[TEXT_SIZE];

	text_rate(desc, growth, elapsed, text);
	same(what, text, want);
}

static void rounded(uint64_t thousandths, const char *want)
{
	char text[TEXT_SIZE];

	text_short(thousandths, text);
	same("short", text, want);
}

/* Without a locale, the mark is ASCII. */
static void cut(const char *text, unsigned int width, size_t want, const char *want_mark)
{
	const char *mark;
	const size_t fits = text_fit_marked(text, width, &mark);

	tap_result(fits == want && !strcmp(mark, want_mark), "'%s' in %u columns: %zu and '%s'", text, width, fits, mark);
}

int main(void)
{
	const uint64_t second = 1000000000;
	char text[TEXT_SIZE];

	value("the largest number", &plain, UINT64_MAX, "18446744073709551615");
	value("nanoseconds as seconds", &ns, 1234567890123, "1234.567890123");
	value("nanoseconds with zeros", &ns, 5, "0.000000005");
	value("pages stay pages", &pages, 3, "3");
	value("what is not known stays a number", &strange, 1234, "1234");
	value("a histogram counts", &log_hist, 7, "7");
	text_value_unit(&pages, text);
	same("unit of pages", text, "2^12 B");
	text_bucket(&log_hist, 0, text);
	same("bucket 0", text, "0.000000000");
	text_bucket(&log_hist, 64, text);
	same("bucket 64", text, "9223372036.854775808");

	rate("per second", &plain, 1500, 2 * second, "750.0");
	rate("seconds per second", &ns, 250000000, second, "0.250000");
	rate("a long interval", &plain, 86400, 86400 * second, "1.0");
	rate("no interval", &plain, 86400, 0, "0.0");
	tap_result(kvmstats_rate(1ULL << 40, second) == (1ULL << 40) * 1000,
		   "no overflow in between");
	tap_result(kvmstats_rate(UINT64_MAX, 1) == UINT64_MAX, "the largest rate");
	tap_result(kvmstats_rate(3ULL << 40, 7 * second) == (3ULL << 40) * 1000 / 7,
		   "a fraction of a large number");
	tap_result(kvmstats_permille(second / 3, second) == 333, "a third");
	tap_result(kvmstats_permille(1ULL << 60, 1ULL << 61) == 500, "a long half");

	rounded(0, "0.0");
	rounded(99999, "99.9");
	rounded(100000, "100");
	rounded(9999999, "9999");
	rounded(10000000, "10.0k");
	rounded(123456000, "123k");
	rounded(99950000000, "99.9M");
	rounded(UINT64_MAX, "18.4P");

	cut("104.5", 5, 5, "");
	cut("104.5", 4, 3, ">");
	cut("104.5", 1, 0, ">");
	cut("104.5", 0, 0, "");
	cut("", 0, 0, "");

	tap_result(!text_bad_glob("a[]x]*?\\[b") && !text_bad_glob("[!a]"), "good patterns");
	tap_result(text_bad_glob("") && text_bad_glob("[") && text_bad_glob("[]") &&
		   text_bad_glob("x[!]") && text_bad_glob("\\"), "bad patterns");
	return tap_end();
}
