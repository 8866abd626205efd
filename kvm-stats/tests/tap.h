/* SPDX-License-Identifier: GPL-2.0-only */
/* Test results as the Test Anything Protocol has them, one line each. */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stdio.h>

static unsigned int tap_count, tap_failed;

#define tap_result(ok, ...) do {					\
	bool tap_ok = (ok);						\
									\
	tap_failed += !tap_ok;						\
	printf("%s %u - ", tap_ok ? "ok" : "not ok", ++tap_count);	\
	printf(__VA_ARGS__);						\
	putchar('\n');							\
} while (0)

/* The plan; returns what main() has to. */
static inline int tap_end(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed || !tap_count;
}

#endif /* TAP_H */
