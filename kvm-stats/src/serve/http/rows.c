// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "rows.h"

#define WINDOW		12	/* steps of the history: a minute */

unsigned int history_steps(const struct vm_series *series)
{
	return series->nr_history < HISTORY ? series->nr_history : HISTORY;
}

static const uint64_t *history(const struct vm_series *series, unsigned int back)
{
	return series->history[(series->nr_history - 1 - back) % HISTORY];
}

static uint64_t growth(const struct vm_series *series, unsigned int from, unsigned int column)
{
	return history(series, 0)[column] - history(series, from)[column];
}

static uint64_t history_time(const struct vm_series *series, unsigned int back)
{
	return series->history_time[(series->nr_history - 1 - back) % HISTORY];
}

bool history_shares(const struct vm_series *series, unsigned int from, unsigned int to,
		    uint16_t share[MODES])
{
	return get_shares(history(series, from), history(series, to), share);
}

/* Return how many steps ago the last minute began, at most; 0 if there is no time yet. */
static unsigned int window(const struct vm_series *series)
{
	const unsigned int steps = history_steps(series);

	return steps > WINDOW ? WINDOW : steps ? steps - 1 : 0;
}

unsigned int stall_permille(const struct vm_series *series, unsigned int reason)
{
	unsigned int i, mode;
	uint64_t all = 0;

	for (i = 0; i < series->nr_vcpu; i++)
		for (mode = 0; mode < MODES; mode++)
			all += series->vcpu[i].now.mode[mode] - series->vcpu[i].mark[0].mode[mode];
	return kvmstats_permille(series->stall[reason] - series->stall_mark[0][reason], all);
}

/* Of VMs that are stuck, those that their VMMs do not run, probably on purpose, are last. */
static void find_stall(struct row *row)
{
	unsigned int reason, most = 0;

	for (reason = STALL_STOPPED; reason < STALLS; reason++) {
		if (stall_permille(row->series, reason) <= most)
			continue;
		most = stall_permille(row->series, reason);
		row->stall = reason;
	}
	if (!row->stall && row->series->state == 'F')
		row->stall = STALL_FROZEN;
	else if (!row->stall && (row->series->state == 'T' || row->series->state == 't'))
		row->stall = STALL_STOPPED;
	if (row->stall == STALL_PAUSED)
		row->judgement.weight = 0;
}

static struct row make_row(const struct vm_series *series)
{
	struct problem_facts facts = { .ended = series->ended };
	struct row row = { .series = series };
	const unsigned int from = window(series);

	if (from && history_shares(series, from, 0, row.share)) {
		row.time = history_time(series, 0) - history_time(series, from);
		row.exits = kvmstats_rate(growth(series, from, HISTORY_EXITS), row.time) / 1000;
		memcpy(facts.share, row.share, sizeof(facts.share));
		facts.exits = series->vcpus ? row.exits / series->vcpus : 0;
		facts.failed = growth(series, from, HISTORY_FAILED);
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
	return strcmp(left->series->label, right->series->label);
}

/* Compute how the vCPUs of all VMs use the host; VMs can be observed for different times. */
static void add_up(struct rows *rows)
{
	uint64_t time, run = 0, ready = 0, vcpus = 0;
	const struct row *row;
	unsigned int i, mode, from;

	for (row = rows->row; row < rows->row + rows->count; row++) {
		from = window(row->series);
		for (mode = time = 0; row->time && mode < MODES; mode++)
			time += growth(row->series, from, mode);
		if (!time || row->series->ended)
			continue;
		/* millionths of the CPUs: many VMs use less than a thousandth */
		run += kvmstats_permille(1000 * growth(row->series, from, KVMSTATS_RUN),
					 growth(row->series, from, HISTORY_CPUS));
		/* thousandths of CPUs */
		vcpus += kvmstats_permille(time, row->time);
		ready += kvmstats_permille(growth(row->series, from, KVMSTATS_READY), row->time);
	}
	rows->run = run / 1000;
	rows->ready = kvmstats_permille(ready, vcpus);
	for (i = 0; i < rows->count; i++) {
		rows->problems += has_problem(&rows->row[i]);
		rows->ended += !!rows->row[i].series->ended;
		rows->unknown |= rows->row[i].share[KVMSTATS_UNKNOWN];
	}
}

struct rows make_rows(const struct model *m)
{
	struct rows rows = { 0 };
	const struct vm_series *series;
	unsigned int n = 0;

	for (series = m->first; series; series = series->next)
		n++;
	rows.row = calloc(n + 1, sizeof(*rows.row));
	if (!rows.row)
		return rows;
	for (series = m->first; series; series = series->next)
		rows.row[rows.count++] = make_row(series);
	qsort(rows.row, n, sizeof(*rows.row), compare_problems);
	add_up(&rows);
	return rows;
}
