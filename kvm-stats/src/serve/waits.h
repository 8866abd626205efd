/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Exported owners of the time for which a VM waited for a CPU (bpf/blame.h).
 *
 * Each VM has a limited number of owners, those with the longest times of the last minutes. The time of all other owners is one more series.
 */
#ifndef SERVE_WAITS_H
#define SERVE_WAITS_H

#include "blame_sum.h"
#include "buf.h"


struct wait_owner {
	struct blame_key key;
	uint64_t ns;
	uint64_t recent;	/* of the last minutes, weighted by age */
};

struct waits {
	struct wait_owner owner[OWNERS_MAX];	/* the largest recent time first */
	unsigned int count;
	uint64_t other_ns;	/* of owners at times at which they were not exported */
	uint64_t recent;	/* of all owners */
	struct blame_waits ended;	/* lengths of the waits that have ended */
};

/* Add a sample, which covers this time, and take the victim's waits. Export at most max owners. */
void waits_update(struct waits *waits, const struct sums *sums, struct blame_victim *victim,
		  unsigned int max, uint64_t elapsed);

/* Write "short of CPU: build-17 ran 62 % of the time it waited"; nothing without owners. */
void waits_summary(struct buf *b, const struct waits *waits);

#endif /* SERVE_WAITS_H */
