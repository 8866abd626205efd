// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "text.h"
#include "utf8.h"

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

static const char *word(const char * const *names, unsigned int field)
{
	static const char * const numbers[FIELDS] = {
		"0", "1", "2", "3", "4", "5", "6", "7",
		"8", "9", "10", "11", "12", "13", "14", "15",
	};

	field %= FIELDS;
	return names[field] ? names[field] : numbers[field];
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

void text_decimal(uint64_t value, int digits, char *buf)
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
	text_decimal(value, text_is_histogram(desc) ? 0 : decimals(desc), buf);
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
		text_decimal(rate, 6, buf);
	} else {
		text_decimal(rate / 100, digits + 1, buf);
	}
}

void text_bucket(const struct kvmstats_desc *desc, unsigned int i, char *buf)
{
	uint64_t start = 0;

	if (desc->type == KVMSTATS_LINEAR_HIST)
		start = (uint64_t)desc->bucket_size * i;
	else if (i)
		start = 1ULL << (i - 1);
	text_decimal(start, decimals(desc), buf);
}

void text_thousandths(uint64_t rate, char *buf)
{
	text_decimal(rate / 100, 1, buf);
}

void text_short(uint64_t rate, char *buf)
{
	static const char ends[] = "kMGTPE";
	uint64_t n = rate / 1000;
	int end = -1;

	if (rate < 100000) {
		text_decimal(rate / 100, 1, buf);
	} else if (n < 10000) {
		text_decimal(n, 0, buf);
	} else {
		/* n is in tenths of the next larger unit. */
		for (n /= 100, end = 0; n >= 10000 && ends[end + 1]; end++)
			n /= 1000;
		if (n < 1000)
			snprintf(buf, TEXT_SIZE, "%" PRIu64 ".%" PRIu64 "%c", n / 10,
				 n % 10, ends[end]);
		else
			snprintf(buf, TEXT_SIZE, "%" PRIu64 "%c", n / 10, ends[end]);
	}
}

uint64_t text_share(uint64_t part, uint64_t all)
{
	return all ? (uint64_t)(1e6 * part / all + 0.5) : 0;
}

void text_permille(unsigned int permille, char *buf)
{
	text_decimal(permille, 1, buf);
}

size_t text_character(const char *text, uint32_t *code)
{
	const size_t n = utf8_length(text);
	size_t i;

	*code = n == 1 ? *text : *text & (0x7f >> n);
	for (i = 1; i < n; i++)
		*code = *code << 6 | (text[i] & 0x3f);
	return n;
}

size_t text_put(uint32_t code, char *to)
{
	size_t i, n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (i = n - 1; i; i--, code >>= 6)
		to[i] = 0x80 | (code & 0x3f);
	to[0] = n == 1 ? code : (0xf0 << (4 - n) & 0xff) | code;
	return n;
}

bool text_hidden(uint32_t code)
{
	/* controls, marks of direction, joiners, and blanks that are not U+0020 */
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{ 0x00, 0x1f }, { 0x7f, 0xa0 }, { 0xad, 0xad }, { 0x34f, 0x34f },
		{ 0x61c, 0x61c }, { 0x115f, 0x1160 }, { 0x1680, 0x1680 },
		{ 0x17b4, 0x17b5 }, { 0x180b, 0x180f }, { 0x2000, 0x200f },
		{ 0x2028, 0x202f }, { 0x205f, 0x206f }, { 0x2800, 0x2800 },
		{ 0x3000, 0x3000 }, { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff }, { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	size_t i;

	for (i = 0; i < sizeof(hidden) / sizeof(*hidden); i++) {
		if (code >= hidden[i].first && code <= hidden[i].last)
			return true;
	}
	return false;
}

static void escape(const char *name, char *to, size_t size, bool terminal)
{
	const char *c = name;
	char text[16];
	uint32_t code;
	size_t bytes, n = 0;

	for (; *c; c += bytes) {
		bytes = text_character(c, &code);
		if (!bytes) {
			bytes = 1;
			snprintf(text, sizeof(text), "\\x%02x", (unsigned char)*c);
		} else if (text_hidden(code) ||
			   (terminal && code == ' ' &&
			    (c == name || !c[1] || c[1] == ' ')) ||
			   /* what it cannot show; what would join the column before */
			   (terminal && code >= 0x80 && wcwidth(code) < (c == name))) {
			snprintf(text, sizeof(text), code < 0x80 ? "\\x%02x" :
				 code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
		} else {
			snprintf(text, sizeof(text), "%.*s", (int)bytes, c);
		}
		if (n + strlen(text) >= size)
			break;
		strcpy(to + n, text);
		n += strlen(text);
	}
	to[n] = '\0';
}

void text_shown(const char *name, char *to, size_t size)
{
	escape(name, to, size, true);
}

void text_line(const char *name, char *to, size_t size)
{
	escape(name, to, size, false);
}

/* Columns up to end, or of as much as fits into width of them: bytes are returned. */
static size_t measure(const char *shown, unsigned int width, unsigned int *columns)
{
	const char *c = shown;
	uint32_t code;
	size_t bytes;
	int wide;

	for (*columns = 0; *c; c += bytes) {
		bytes = text_character(c, &code);
		wide = bytes ? wcwidth(code) : 1;
		if (wide < 0)
			wide = 1;
		if (*columns + wide > width)
			break;
		*columns += wide;
		bytes += !bytes;
	}
	return c - shown;
}

unsigned int text_width(const char *shown)
{
	unsigned int columns;

	measure(shown, -1, &columns);
	return columns;
}

size_t text_fit(const char *shown, unsigned int width)
{
	unsigned int columns;

	return measure(shown, width, &columns);
}

size_t text_fit_marked(const char *shown, unsigned int width, const char **mark)
{
	const size_t fits = text_fit(shown, width);

	*mark = "";
	if (!shown[fits] || !width)
		return fits;
	*mark = wcwidth(0x2026) == 1 ? "\u2026" : ">";
	return text_fit(shown, width - 1);
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
