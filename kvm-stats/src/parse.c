// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
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

uint64_t parse_time_text(const char *text)
{
	static const char * const formats[] = {
		"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
		"%Y-%m-%d %H:%M", "%Y-%m-%d",
	};
	const char *end = NULL;
	struct tm tm;
	time_t t = -1;
	size_t i;

	for (i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		memset(&tm, 0, sizeof(tm));
		tm.tm_isdst = -1;
		end = strptime(text, formats[i], &tm);
		if (end && (!*end || !strcmp(end, "Z")))
			break;
		end = NULL;
	}
	if (end)
		t = *end ? timegm(&tm) : mktime(&tm);
	return t > 0 ? t * SECOND : 0;
}

uint64_t parse_time(const char *name, const char *text)
{
	const uint64_t time = parse_time_text(text);

	if (!time)
		errx(STATUS_USAGE, "--%s '%s': must be a time such as 2026-11-22T03:00", name, text);
	return time;
}
