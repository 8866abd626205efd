/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PARSE_H
#define PARSE_H

#include <stdint.h>

/*
 * Parse numbers with a unit: seconds as nanoseconds, a size in bytes, and a positive number.
 * They exit with status 2 and one line, which begins with --NAME, if text is invalid.
 */
uint64_t parse_seconds(const char *name, const char *text);
uint64_t parse_size(const char *name, const char *text);
unsigned long parse_number(const char *name, const char *text);

/* Parse a local time, or UTC if it ends with Z, as nanoseconds since 1970. */
uint64_t parse_time(const char *name, const char *text);
/* Parse a time without a message: return 0 if it is invalid. */
uint64_t parse_time_text(const char *text);

#endif /* PARSE_H */
