/* SPDX-License-Identifier: GPL-2.0-only */
/* How the vCPUs of a VM spent each minute of the last hour: 900 bytes */
#ifndef SERVE_HOUR_H
#define SERVE_HOUR_H

#include "metrics.h"

#define MINUTES		60
#define MINUTE		(60 * 1000000000ULL)

struct hour {
	uint64_t minute;		/* the present one, CLOCK_MONOTONIC; 0 before the first sample */
	uint64_t begin[MODES];		/* totals when it began */
	uint16_t share[MINUTES][MODES];	/* permille; of minute n at n % MINUTES */
};

/* Get the shares of the modes in the time between two totals, permille. Return this time. */
uint64_t get_shares(const uint64_t from[MODES], const uint64_t to[MODES], uint16_t share[MODES]);

/* Add the totals of a sample. Minutes without a sample get the average. */
void hour_add(struct hour *hour, const uint64_t total[MODES], uint64_t now);

/*
 * Get the shares for a minute in the last hour, permille; total: at the last sample. Return false if
 * the VM had no vCPU time in that minute, or the program did not run.
 */
bool hour_shares(const struct hour *hour, const uint64_t total[MODES], uint64_t minute,
		 uint16_t share[MODES]);

#endif /* SERVE_HOUR_H */
