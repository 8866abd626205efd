/* SPDX-License-Identifier: GPL-2.0-only */
/* The VMs of the model as rows of a table: the last minute of each, and its problem */
#ifndef SERVE_ROWS_H
#define SERVE_ROWS_H

#include "serve/model.h"
#include "problem.h"

struct row {
	const struct vm_series *series;
	struct judgement judgement;
	uint64_t time;			/* that the numbers are of, nanoseconds */
	uint16_t share[MODES];		/* permille of all vCPUs' time */
	uint64_t exits;			/* per second */
	unsigned int stall;		/* the main reason for the mode other; 0 if unknown */
};

/* All VMs in the last minute */
struct rows {
	struct row *row;		/* the worst first; NULL without memory */
	unsigned int count, problems, ended;
	unsigned int run;		/* permille of the host's CPUs */
	unsigned int ready;		/* permille of all vCPUs' time */
	bool unknown;			/* some time is in the mode unknown */
};

struct rows make_rows(const struct model *m);

static inline bool has_problem(const struct row *row)
{
	return row->judgement.problem > PROBLEM_ENDED;
}

/*
 * Compute the shares of the modes between two steps of the history, counted from the last one.
 * Return false if no time passed.
 */
bool history_shares(const struct vm_series *series, unsigned int from, unsigned int to,
		    uint16_t share[MODES]);

/* Return the share of a stall in the vCPUs' time since the older mark, permille. */
unsigned int stall_permille(const struct vm_series *series, unsigned int reason);

/* Return the number of steps that the history has. */
unsigned int history_steps(const struct vm_series *series);

#endif /* SERVE_ROWS_H */
