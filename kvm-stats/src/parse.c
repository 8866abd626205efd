// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "parse.h"

uint64_t parse_seconds(const char *name, const char *text)
{
	const uint64_t most = 86400 * SECOND;
	uint64_t unit = SECOND, n = 0;
	bool point = false;
	const char *c;

	for (c = text; (isdigit((unsigned char)*c) || (*c == '.' && !point)) && n <= most; c++) {
		if (*c == '.') {
			point = true;
		} else if (point) {
			unit /= 10;
			n += (*c - '0') * unit;
		} else {
			n = n * 10 + (*c - '0') * SECOND;
		}
	}
	if (*c || n < SECOND / 10 || n > most)
		errx(STATUS_USAGE, "--%s '%s': must be 0.1 to 86400 seconds", name, text);
	return n;
}

unsigned long parse_number(const char *name, const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9 ||
	    !strtoul(text, NULL, 10))
		errx(STATUS_USAGE, "--%s '%s': must be 1 to 999999999", name, text);
	return strtoul(text, NULL, 10);
}

uint64_t parse_size(const char *name, const char *text)
{
	const size_t digits = strspn(text, "0123456789");
	uint64_t n = digits && digits < 10 ? strtoull(text, NULL, 10) : 0;

	if (!strcmp(text + digits, "G"))
		n <<= 30;
	else if (!strcmp(text + digits, "M"))
		n <<= 20;
	else if (!strcmp(text + digits, "K"))
		n <<= 10;
	else if (text[digits])
		n = 0;
	if (n < 64 << 10 || n > 1ULL << 40)
		errx(STATUS_USAGE, "--%s '%s': must be 64K to 1024G", name, text);
	return n;
}

/* Parse digits after a point, as nanoseconds. Return the rest of the text, NULL if there is none. */
static const char *parse_fraction(const char *text, uint64_t *ns)
{
	uint64_t unit = SECOND;

	*ns = 0;
	if (*text != '.')
		return text;
	if (!isdigit((unsigned char)*++text))
		return NULL;
	for (; isdigit((unsigned char)*text); text++) {
		unit /= 10;
		*ns += (*text - '0') * unit;
	}
	return text;
}

/* Parse Z, +02:00, +0200 or +02, as seconds. Return the rest of the text, NULL if it is invalid. */
static const char *parse_offset(const char *text, long *offset)
{
	const char *digits = text + 1;
	long hours, minutes = 0;

	*offset = 0;
	if (*text == 'Z' || *text == 'z')
		return text + 1;
	if (strspn(digits, "0123456789") < 2)
		return NULL;
	hours = (digits[0] - '0') * 10 + digits[1] - '0';
	digits += 2;
	if (*digits) {
		digits += *digits == ':';
		if (strspn(digits, "0123456789") != 2)
			return NULL;
		minutes = (digits[0] - '0') * 10 + digits[1] - '0';
		digits += 2;
	}
	*offset = (hours * 60 + minutes) * 60;
	if (*text == '-')
		*offset = -*offset;
	return hours < 24 && minutes < 60 ? digits : NULL;
}

/* Return the offset of local time from UTC at a time, in seconds. */
static long offset_at(time_t time)
{
	struct tm tm;

	return localtime_r(&time, &tm) ? tm.tm_gmtoff : 0;
}

/*
 * Find the times at which local clocks show the fields: the clocks can be changed on the day
 * before and after. Set twice if there are two; if there is none, return the time that clocks
 * would have shown.
 */
static time_t local_time(const struct tm *tm, bool last, bool *twice)
{
	struct tm copy = *tm;
	const time_t utc = timegm(&copy);
	const long before = offset_at(utc - 86400), after = offset_at(utc + 86400);
	const bool fits_before = offset_at(utc - before) == before;
	const bool fits_after = offset_at(utc - after) == after;

	*twice = fits_before && fits_after && before != after;
	return utc - ((*twice ? last : fits_after && !fits_before) ? after : before);
}

/* Return true if this is the name of local time then. */
static bool is_zone(time_t time, const char *name)
{
	struct tm tm;

	return localtime_r(&time, &tm) && !strcmp(tm.tm_zone, name);
}

/* Parse @SECONDS, also in the form of Prometheus, 1.795928245e+09 */
static uint64_t parse_since_1970(const char *text)
{
	char *end;
	const long double seconds = strtold(text, &end);

	if (!isdigit((unsigned char)*text) || *end || !(seconds > 0 && seconds < INT64_MAX / SECOND))
		return 0;
	return seconds * SECOND + 0.5L;
}

uint64_t parse_time_text(const char *text, bool last, time_t day, bool *twice)
{
	static const char *const formats[] = {
		"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dt%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
		"%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M",
	};
	const char *end = NULL;
	uint64_t fraction = 0;
	struct tm tm;
	long offset = 0;
	time_t t;
	size_t i;

	*twice = false;
	if (*text == '@')
		return parse_since_1970(text + 1);
	for (i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		memset(&tm, 0, sizeof(tm));
		if (formats[i][1] == 'H' && !localtime_r(&day, &tm))
			return 0;
		tm.tm_sec = 0;
		end = strptime(text, formats[i], &tm);
		if (end && strstr(formats[i], "%S"))
			end = parse_fraction(end, &fraction);
		if (end && (!*end || strchr(" Zz+-", *end) || isupper((unsigned char)*end)) && *end != 'T')
			break;
		end = NULL;
	}
	if (!end)
		return 0;
	/* A page has a blank before the zone. */
	end += *end == ' ';
	t = local_time(&tm, last, twice);
	if (*twice && is_zone(local_time(&tm, !last, twice), end))
		t = local_time(&tm, !last, twice);
	if (*end && is_zone(t, end)) {
		*twice = false;
	} else if (*end) {
		end = strcmp(end, "UTC") && strcmp(end, "GMT") ? parse_offset(end, &offset) : "";
		if (!end || *end)
			return 0;
		t = timegm(&tm) - offset;
		*twice = false;
	}
	return t > 0 ? t * SECOND + fraction : 0;
}

uint64_t parse_time(const char *name, const char *text, bool last)
{
	const time_t now = time(NULL);
	char used[TIME_SIZE];
	bool twice;
	uint64_t time = parse_time_text(text, last, now, &twice);

	/* An hour without a date is the last one. */
	if (time > (now + 1) * SECOND && strcspn(text, ":") <= 2)
		time = parse_time_text(text, last, now - 86400, &twice);
	if (!time)
		errx(STATUS_USAGE, "--%s '%s': must be a time such as 03:00, 2026-11-22T03:00, 2026-11-22T03:00:00+01:00 or @SECONDS",
		     name, text);
	if (twice) {
		app_time_text(time, used);
		warnx("--%s '%s': clocks showed this time twice, using %s; add Z or an offset for the other one",
		      name, text, used);
	}
	return time;
}
