/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

/* Return the time of a clock in nanoseconds. */
uint64_t read_clock(clockid_t clock);

#endif /* CLOCK_H */
