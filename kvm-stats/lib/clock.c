// SPDX-License-Identifier: LGPL-2.1-or-later
/* Apart from its users, so that tests can replace it. */
#include "clock.h"

uint64_t read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}
