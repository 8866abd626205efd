/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PARSE_H
#define PARSE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Parse numbers with a unit: seconds as nanoseconds, a size in bytes, and a positive number.
 * They exit with status 2 and one line, which begins with --NAME, if text is invalid.
 */
uint64_t parse_seconds(const char *name, const char *text);
uint64_t parse_size(const char *name, const char *text);
unsigned long parse_number(const char *name, const char *text);

/*
 * Parse a time as nanoseconds since 1970: local, or with Z or an offset, @SECONDS, or an hour of the
 * last 24. If local clocks showed the time twice, use the first one, or the second one if last is
 * set, and print it.
 */
uint64_t parse_time(const char *name, const char *text, bool last);

/*
 * Parse a time without a message: return 0 if it is invalid. Without a date, it is on the local day
 * of another time. Set twice if local clocks showed it twice.
 */
uint64_t parse_time_text(const char *text, bool last, time_t day, bool *twice);

#endif /* PARSE_H */
