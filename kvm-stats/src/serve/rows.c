// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "rows.h"

#define WINDOW		12	/* steps of the history: a minute */

unsigned int history_steps(const struct vm_series *e)
{
	return e->nr_history < HISTORY ? e->nr_history : HISTORY;
}

static const uint64_t *history(const struct vm_series *e, unsigned int back)
{
	return e->history[(e->nr_history - 1 - back) % HISTORY];
}

static uint64_t growth(const struct vm_series *e, unsigned int from, unsigned int column)
{
	return history(e, 0)[column] - history(e, from)[column];
}

static uint64_t history_time(const struct vm_series *e, unsigned int back)
{
	return e->history_time[(e->nr_history - 1 - back) % HISTORY];
}

bool history_shares(const struct vm_series *e, unsigned int from, unsigned int to,
		    uint16_t share[MODES])
{
	return get_shares(history(e, from), history(e, to), share);
}

/* Return how many steps ago the last minute began, at most; 0 if there is no time yet. */
static unsigned int window(const struct vm_series *e)
{
	const unsigned int steps = history_steps(e);

	return steps > WINDOW ? WINDOW : steps ? steps - 1 : 0;
}

unsigned int stall_permille(const struct vm_series *e, unsigned int reason)
{
	unsigned int i, mode;
	uint64_t all = 0;

	for (i = 0; i < e->nr_vcpu; i++)
		for (mode = 0; mode < MODES; mode++)
			all += e->vcpu[i].now.mode[mode] - e->vcpu[i].mark[0].mode[mode];
	return kvmstats_permille(e->stall[reason] - e->stall_mark[0][reason], all);
}

/* Of VMs that are stuck, those that their VMMs do not run, probably on purpose, are last. */
static void find_stall(struct row *row)
{
	unsigned int reason, most = 0;

	for (reason = STALL_STOPPED; reason < STALLS; reason++) {
		if (stall_permille(row->e, reason) <= most)
			continue;
		most = stall_permille(row->e, reason);
		row->stall = reason;
	}
	if (!row->stall && row->e->state == 'F')
		row->stall = STALL_FROZEN;
	else if (!row->stall && (row->e->state == 'T' || row->e->state == 't'))
		row->stall = STALL_STOPPED;
	if (row->stall == STALL_PAUSED)
		row->judgement.weight = 0;
}

static struct row make_row(const struct vm_series *e)
{
	struct problem_facts facts = { .ended = e->ended };
	struct row row = { .e = e };
	const unsigned int from = window(e);

	if (from && history_shares(e, from, 0, row.share)) {
		row.time = history_time(e, 0) - history_time(e, from);
		row.exits = kvmstats_rate(growth(e, from, HISTORY_EXITS), row.time) / 1000;
		memcpy(facts.share, row.share, sizeof(facts.share));
		facts.exits = e->vcpus ? row.exits / e->vcpus : 0;
		facts.failed = growth(e, from, HISTORY_FAILED);
	}
	row.judgement = judge_problem(&facts);
	if (row.judgement.problem == PROBLEM_STUCK || row.judgement.problem == PROBLEM_STALLED)
		find_stall(&row);
	return row;
}

static int compare_problems(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	const int order = compare_judgements(&left->judgement, &right->judgement);

	if (order)
		return order;
	if (left->share[KVMSTATS_RUN] != right->share[KVMSTATS_RUN])
		return left->share[KVMSTATS_RUN] < right->share[KVMSTATS_RUN] ? 1 : -1;
	return strcmp(left->e->label, right->e->label);
}

/* Compute how the vCPUs of all VMs use the host; VMs can be observed for different times. */
static void add_up(struct rows *rows)
{
	uint64_t time, run = 0, ready = 0, vcpus = 0;
	const struct row *row;
	unsigned int i, mode, from;

	for (row = rows->row; row < rows->row + rows->count; row++) {
		from = window(row->e);
		for (mode = time = 0; row->time && mode < MODES; mode++)
			time += growth(row->e, from, mode);
		if (!time || row->e->ended)
			continue;
		/* millionths of the CPUs: many VMs use less than a thousandth */
		run += kvmstats_permille(1000 * growth(row->e, from, KVMSTATS_RUN),
					 growth(row->e, from, HISTORY_CPUS));
		/* thousandths of CPUs */
		vcpus += kvmstats_permille(time, row->time);
		ready += kvmstats_permille(growth(row->e, from, KVMSTATS_READY), row->time);
	}
	rows->run = run / 1000;
	rows->ready = kvmstats_permille(ready, vcpus);
	for (i = 0; i < rows->count; i++) {
		rows->problems += has_problem(&rows->row[i]);
		rows->ended += !!rows->row[i].e->ended;
		rows->unknown |= rows->row[i].share[KVMSTATS_UNKNOWN];
	}
}

struct rows make_rows(const struct model *m)
{
	struct rows rows = { 0 };
	const struct vm_series *e;
	unsigned int n = 0;

	for (e = m->first; e; e = e->next)
		n++;
	rows.row = calloc(n + 1, sizeof(*rows.row));
	if (!rows.row)
		return rows;
	for (e = m->first; e; e = e->next)
		rows.row[rows.count++] = make_row(e);
	qsort(rows.row, n, sizeof(*rows.row), compare_problems);
	add_up(&rows);
	return rows;
}
