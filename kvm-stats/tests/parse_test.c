// SPDX-License-Identifier: GPL-2.0-only
/* Times that are typed or copied: all forms that kvm-stats and others print. Prints TAP. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "app.h"
#include "parse.h"
#include "tap.h"

/* 2026-11-29T05:26:47Z, and a summer's day */
#define NOVEMBER	1795930007ULL
#define JULY		1783000000ULL

static const struct {
	const char *text;
	uint64_t time;		/* milliseconds since 1970; 0 if invalid */
} times[] = {
	{ "2026-11-29T05:26:47Z", 1795930007000 },
	{ "2026-11-29T05:26:47.533Z", 1795930007533 },
	{ "2026-11-29t05:26:47.533z", 1795930007533 },
	{ "2026-11-29T06:26:47+01:00", 1795930007000 },
	{ "2026-11-29T06:26:47.5+0100", 1795930007500 },
	{ "2026-11-28T23:56:47-05:30", 1795930007000 },
	{ "2026-11-29 05:26Z", 1795929960000 },
	/* as pages print it */
	{ "2026-11-29 06:26:47 CET", 1795930007000 },
	{ "2026-11-29 05:26:47 UTC", 1795930007000 },
	/* local time */
	{ "2026-11-29T06:26:47", 1795930007000 },
	{ "2026-11-29 06:26:47.25", 1795930007250 },
	{ "2026-11-29", 1795906800000 },
	{ "2026-07-02T15:46:40", 1783000000000 },
	/* seconds since 1970 */
	{ "@1795930007", 1795930007000 },
	{ "@1795930007.533", 1795930007533 },
	{ "@1.795930007e+09", 1795930007000 },
	/* on this day */
	{ "06:26", 1795929960000 },
	{ "06:26:47", 1795930007000 },
	{ "05:26Z", 1795929960000 },
	/* clocks go back: the first time, unless a zone or an offset says which */
	{ "2026-10-25T02:30", 1792888200000 },
	{ "2026-10-25T02:30:00+01:00", 1792891800000 },
	{ "2026-10-25 02:30:00 CEST", 1792888200000 },
	{ "2026-10-25 02:30:00 CET", 1792891800000 },
	{ "2026-10-25T01:59:59", 1792886399000 },
	{ "2026-10-25T03:00:00", 1792893600000 },
	/* clocks go forward over this time */
	{ "2026-03-29T02:30", 1774747800000 },
	/* invalid */
	{ "", 0 }, { "yesterday", 0 }, { "2026-11-29T", 0 }, { "2026-11-29T05:26:47.", 0 },
	{ "2026-11-29T05:26:47+", 0 }, { "2026-11-29T05:26:47+1", 0 }, { "2026-11-29T05:26:47+25:00", 0 },
	{ "2026-11-29T05:26:47Zx", 0 }, { "2026-11-29 05:26:47 XYZ", 0 }, { "@", 0 }, { "@-1", 0 },
	{ "@1e99", 0 }, { "@nan", 0 }, { "@1x", 0 }, { "25:00", 0 }, { "2026-13-01", 0 },
};

int main(void)
{
	char text[TIME_SIZE];
	uint64_t time;
	bool twice;
	size_t i;

	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	for (i = 0; i < sizeof(times) / sizeof(*times); i++) {
		time = parse_time_text(times[i].text, false, NOVEMBER, &twice);
		tap_result(time / 1000000 == times[i].time, "'%s' is %" PRIu64 ".%03u, at %" PRIu64,
			   times[i].text, times[i].time / 1000, (unsigned int)(times[i].time % 1000),
			   time / 1000000);
	}
	time = parse_time_text("2026-10-25T02:30", false, JULY, &twice);
	tap_result(twice, "an ambiguous hour is recognized");
	time = parse_time_text("2026-10-25T02:30", true, JULY, &twice);
	tap_result(twice && time == 1792891800 * SECOND, "an interval ends with the second one");
	parse_time_text("2026-10-25T02:30+02:00", true, JULY, &twice);
	tap_result(!twice, "an offset is not ambiguous");
	app_time_text(1795930007533 * (SECOND / 1000) + 999, text);
	tap_result(parse_time_text(text, false, 0, &twice) == 1795930007533 * (SECOND / 1000),
		   "a time that log prints is accepted: %s", text);
	return tap_end();
}
