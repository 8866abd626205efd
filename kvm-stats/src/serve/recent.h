/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which of many items have series: those with the largest recent values. One that has a series
 * is replaced only by one with twice its value, so series seldom change.
 */
#ifndef SERVE_RECENT_H
#define SERVE_RECENT_H

#include <stdbool.h>
#include <stdint.h>

/* Values lose their weight in this time. */
#define RECENT_NS	(300 * 1000000000ULL)

/* The recent value after a sample, which covers the time elapsed */
static inline uint64_t recent_add(uint64_t recent, uint64_t growth, uint64_t elapsed)
{
	const double kept = elapsed < RECENT_NS ? 1 - (double)elapsed / RECENT_NS : 0;

	return recent * kept + growth;
}

static inline bool recent_replaces(uint64_t recent, uint64_t other)
{
	return recent > 2 * other;
}

#endif /* SERVE_RECENT_H */
