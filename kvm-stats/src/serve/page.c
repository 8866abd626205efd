// SPDX-License-Identifier: GPL-2.0-only
/*
 * The HTML page and its JSON equivalent: VMs, sorted by problem. The page needs no script
 * and loads nothing from other servers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "page.h"
#include "problem.h"
#include "text.h"

#define WINDOW		12	/* steps of the history: a minute */
#define PERMILLE	1000

struct row {
	const struct vm_series *e;
	struct judgement judgement;
	uint64_t time;			/* that the numbers are of, nanoseconds */
	unsigned int share[MODES];	/* permille of all vCPUs' time */
	uint64_t exits;			/* per second */
};

static const uint64_t *history(const struct vm_series *e, unsigned int back)
{
	return e->history[(e->nr_history - 1 - back) % HISTORY];
}

static uint64_t history_time(const struct vm_series *e, unsigned int back)
{
	return e->history_time[(e->nr_history - 1 - back) % HISTORY];
}

/* Compute the shares of the modes between two steps. Return false if no time passed. */
static bool shares(const struct vm_series *e, unsigned int from, unsigned int to,
		   unsigned int share[MODES])
{
	uint64_t all = 0;
	unsigned int i;

	for (i = 0; i < MODES; i++)
		all += history(e, to)[i] - history(e, from)[i];
	for (i = 0; i < MODES; i++)
		share[i] = kvmstats_permille(history(e, to)[i] - history(e, from)[i], all);
	return all;
}

static void judge(struct row *row, const struct vm_series *e)
{
	unsigned int last = e->nr_history < HISTORY ? e->nr_history : HISTORY, from;
	struct problem_facts facts = { .ended = e->ended };

	memset(row, 0, sizeof(*row));
	row->e = e;
	from = last > WINDOW ? WINDOW : last - 1;
	if (last && from && shares(e, from, 0, row->share)) {
		row->time = history_time(e, 0) - history_time(e, from);
		row->exits = kvmstats_rate(history(e, 0)[HISTORY_EXITS] -
					   history(e, from)[HISTORY_EXITS], row->time) / 1000;
		memcpy(facts.share, row->share, sizeof(facts.share));
		facts.exits = e->vcpus ? row->exits / e->vcpus : 0;
		facts.failed = history(e, 0)[HISTORY_FAILED] - history(e, from)[HISTORY_FAILED];
	}
	row->judgement = judge_problem(&facts);
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

static struct row *rows(const struct model *m, unsigned int *n)
{
	const struct vm_series *e;
	struct row *row;

	*n = 0;
	for (e = m->first; e; e = e->next)
		(*n)++;
	row = calloc(*n + 1, sizeof(*row));
	*n = 0;
	for (e = m->first; e && row; e = e->next)
		judge(&row[(*n)++], e);
	if (row)
		qsort(row, *n, sizeof(*row), compare_problems);
	return row;
}

static void write_waits(struct json *j, const struct waits *waits)
{
	unsigned int i;

	if (!waits)
		return;
	json_open(j, "waits", '[');
	for (i = 0; i < waits->count; i++) {
		const struct wait_owner *owner = &waits->owner[i];

		json_open(j, NULL, '{');
		json_text(j, "kind", owner->key.kind);
		json_text(j, "owner", owner->key.name);
		json_fixed(j, "percent", kvmstats_permille(owner->recent, waits->recent), 1);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void write_vm(struct json *j, const struct row *row)
{
	const struct vm_series *e = row->e;
	unsigned int i;

	j->line = "\n";
	json_open(j, NULL, '{');
	json_text(j, "vm", e->label);
	json_text(j, "name", e->identity.name);
	json_text(j, "uuid", e->identity.uuid);
	json_text(j, "vmm", e->identity.vmm);
	json_fixed(j, "pid", e->identity.pid, 0);
	json_text(j, "machine", e->identity.machine);
	json_text(j, "pod_uid", e->identity.pod_uid);
	json_text(j, "container_id", e->identity.container_id);
	json_text(j, "cgroup", e->identity.cgroup);
	json_fixed(j, "vcpus", e->vcpus, 0);
	json_literal(j, "ended", e->ended ? "true" : "false");
	json_text(j, "problem", problem_name(row->judgement.problem));
	json_fixed(j, "seconds", row->time, 9);
	for (i = 0; row->time && i < MODES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s_percent", kvmstats_mode_name(i));
		json_fixed(j, name, row->share[i], 1);
	}
	if (row->time)
		json_fixed(j, "exits_per_second", row->exits, 0);
	write_waits(j, e->waits);
	json_close(j, '}');
}

void page_json(struct buf *b, struct model *m, uint64_t now)
{
	unsigned int i, n;
	struct row *row = rows(m, &n);
	struct json j = { .buf = b };

	json_open(&j, NULL, '{');
	json_text(&j, "version", KVMSTATS_VERSION);
	json_text(&j, "source", m->source);
	json_fixed(&j, "samples", m->samples, 0);
	json_fixed(&j, "sample_age_seconds", now - m->time, 9);
	json_open(&j, "unreadable", '[');
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		if (!m->unread[i])
			continue;
		json_open(&j, NULL, '{');
		json_fixed(&j, "number", m->unread[i], 0);
		json_text(&j, "reason", kvmstats_reason_name(i));
		json_text(&j, "why", m->why[i]);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_open(&j, "vms", '[');
	for (i = 0; row && i < n; i++)
		write_vm(&j, &row[i]);
	j.line = "\n";
	json_close(&j, ']');
	json_close(&j, '}');
	buf_char(b, '\n');
	if (!row)
		b->failed = true;
	free(row);
}

static void put_bar(struct buf *b, const struct row *row)
{
	unsigned int i, at = 0;

	buf_str(b, "<svg class=bar viewBox=\"0 0 1000 100\" preserveAspectRatio=none role=img aria-label=\"");
	for (i = 0; i < MODES; i++) {
		if (!row->share[i])
			continue;
		buf_str(b, kvmstats_mode_name(i));
		buf_char(b, ' ');
		buf_fixed(b, row->share[i], 1);
		buf_str(b, " % ");
	}
	buf_str(b, "\">");
	for (i = 0; i < MODES; i++) {
		if (!row->share[i])
			continue;
		buf_str(b, "<rect class=");
		buf_str(b, kvmstats_mode_name(i));
		buf_str(b, " x=");
		buf_u64(b, at);
		buf_str(b, " width=");
		buf_u64(b, row->share[i]);
		buf_str(b, " height=100 />");
		at += row->share[i];
	}
	buf_str(b, "</svg>");
}

/* Draw the share of run and ready in the last five minutes. */
static void put_busy_line(struct buf *b, const struct vm_series *e)
{
	unsigned int last = e->nr_history < HISTORY ? e->nr_history : HISTORY, i;
	unsigned int share[MODES];

	buf_str(b, "<svg class=line viewBox=\"0 0 ");
	buf_u64(b, (HISTORY - 2) * 10);
	buf_str(b, " 100\" preserveAspectRatio=none aria-hidden=true><polyline points=\"");
	for (i = last; i > 1; i--) {
		if (!shares(e, i - 1, i - 2, share))
			continue;
		buf_u64(b, (HISTORY - i) * 10);
		buf_char(b, ',');
		buf_u64(b, 98 - (share[KVMSTATS_RUN] + share[KVMSTATS_READY] + share[KVMSTATS_THROTTLED]) *
			96 / PERMILLE);
		buf_char(b, ' ');
	}
	buf_str(b, "\"/></svg>");
}

static void put_html_cell(struct buf *b, const char *title, uint64_t n, unsigned int digits,
			  bool known)
{
	buf_str(b, "<td class=n data-of=\"");
	buf_str(b, title);
	buf_str(b, "\">");
	if (known)
		buf_fixed(b, n, digits);
	else
		buf_char(b, '-');
}

/* Return true if the column of the mode unknown is needed. */
static bool any_unknown(const struct row *row, unsigned int n)
{
	while (n--) {
		if (row[n].share[KVMSTATS_UNKNOWN])
			return true;
	}
	return false;
}

static void put_html_row(struct buf *b, const struct row *row, unsigned int modes)
{
	static const char *const titles[MODES] = {
		"run %", "ready %", "throttled %", "halt %", "poll %", "other %", "unknown %",
	};
	const struct vm_series *e = row->e;
	char text[TEXT_SIZE];
	unsigned int i;

	buf_str(b, e->ended ? "<tr class=gone><th scope=row title=\"" : "<tr><th scope=row title=\"");
	buf_html(b, e->identity.vmm);
	snprintf(text, sizeof(text), " %d ", e->identity.pid);
	buf_str(b, text);
	buf_html(b, e->identity.uuid);
	buf_str(b, "\">");
	buf_html(b, e->label);
	buf_str(b, "</th><td class=problem>");
	buf_str(b, problem_name(row->judgement.problem));
	if (row->judgement.problem == PROBLEM_STARVED && e->waits)
		waits_summary(b, e->waits);
	put_html_cell(b, "vCPUs", e->vcpus, 0, true);
	buf_str(b, "<td class=g>");
	put_bar(b, row);
	for (i = 0; i < modes; i++)
		put_html_cell(b, titles[i], row->share[i], 1, row->time);
	put_html_cell(b, "exits/s", row->exits, 0, row->time);
	buf_str(b, "<td class=g>");
	put_busy_line(b, e);
	buf_str(b, "\n");
}

void page_html(struct buf *b, struct model *m, uint64_t now, const char *metrics_path)
{
	unsigned int i, n, problems = 0, modes;
	struct row *row = rows(m, &n);
	char host[65] = "";
	FILE *f = fopen("/proc/sys/kernel/hostname", "re");

	if (f) {
		if (fscanf(f, "%64s", host) != 1)
			*host = '\0';
		fclose(f);
	}
	for (i = 0; row && i < n; i++)
		problems += row[i].judgement.problem > PROBLEM_ENDED;
	modes = row && any_unknown(row, n) ? MODES : KVMSTATS_UNKNOWN;
	buf_str(b, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>");
	buf_html(b, host);
	buf_str(b, ": VMs</title>"
		"<meta name=viewport content=\"width=device-width, initial-scale=1\">"
		"<meta http-equiv=refresh content=5>"
		"<link rel=stylesheet href=style.css></head>\n"
		"<body><h1>VMs of ");
	buf_html(b, host);
	buf_str(b, "</h1>\n<p id=state>");
	buf_u64(b, m->vms);
	buf_str(b, m->vms == 1 ? " VM, " : " VMs, ");
	buf_u64(b, m->vcpus);
	buf_str(b, m->vcpus == 1 ? " vCPU; <b>" : " vCPUs; <b>");
	if (problems) {
		buf_u64(b, problems);
		buf_str(b, " with problems");
	} else {
		buf_str(b, "none with problems");
	}
	buf_str(b, "</b>. Source ");
	buf_html(b, m->source);
	buf_str(b, ", sampled ");
	buf_fixed(b, (now - m->time) / 100000000, 1);
	buf_str(b, " s ago.");
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		if (!m->unread[i])
			continue;
		buf_str(b, " <b>");
		buf_u64(b, m->unread[i]);
		buf_str(b, " could not be read</b>: ");
		buf_html(b, m->why[i]);
		buf_char(b, '.');
	}
	buf_str(b, "</p>\n<p class=key>");
	for (i = 0; i < modes; i++) {
		buf_str(b, "<svg viewBox=\"0 0 10 10\" aria-hidden=true><rect width=10 height=10 class=");
		buf_str(b, kvmstats_mode_name(i));
		buf_str(b, " /></svg>");
		buf_str(b, kvmstats_mode_name(i));
		buf_char(b, ' ');
	}
	buf_str(b, "of the vCPUs' time in the last minute; the line: running or ready, "
		"the last five minutes</p>\n"
		"<table id=vms><thead><tr><th scope=col>VM<th scope=col>problem<th scope=col>vCPUs"
		"<th scope=col>time<th scope=col>run %<th scope=col>ready %"
		"<th scope=col>throttled %<th scope=col>halt %<th scope=col>poll %"
		"<th scope=col>other %");
	buf_str(b, modes < MODES ? "" : "<th scope=col>unknown %");
	buf_str(b, "<th scope=col>exits/s<th scope=col>busy</thead>\n<tbody>\n");
	for (i = 0; row && i < n; i++)
		put_html_row(b, &row[i], modes);
	buf_str(b, "</tbody></table>\n<p><a href=\"");
	/* Relative links work through a proxy that adds a prefix. */
	buf_html(b, metrics_path + 1);
	buf_str(b, "\">metrics</a> <a href=api/v1/vms>as JSON</a> <a href=healthz>health</a></p></body></html>\n");
	if (!row)
		b->failed = true;
	free(row);
}

const char page_style[] =
":root { color-scheme: light dark; --line: #8888; --run: #2a7de1; --ready: #d62728;"
" --throttled: #9b2fae; --halt: #8883; --poll: #e8a317; --other: #555a; }\n"
"body { font: 14px/1.4 system-ui, sans-serif; margin: 0.7em; }\n"
"h1 { font-size: 1.3em; margin: 0; }\n"
"p { margin: 0.4em 0; }\n"
"table { border-collapse: collapse; width: 100%; }\n"
"th, td { padding: 0.2em 0.5em; border-bottom: 1px solid var(--line); text-align: left; }\n"
"thead th { font-weight: normal; white-space: nowrap; }\n"
"tbody th { overflow-wrap: anywhere; min-width: 8em; max-width: 22em; }\n"
".n { text-align: right; font-variant-numeric: tabular-nums; }\n"
"thead th:nth-child(3), thead th:nth-child(n+5):not(:last-child) { text-align: right; }\n"
".problem { color: #d62728; font-weight: bold; }"
" .problem small { display: block; font-weight: normal; }\n"
".gone { opacity: 0.6; }\n"
".bar, .line { display: block; width: 9em; height: 1.1em; }\n"
".line { background: #8881; } .line polyline { fill: none; stroke: var(--run);"
" stroke-width: 2; vector-effect: non-scaling-stroke; }\n"
".key svg { width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0.5em; }\n"
".run { fill: var(--run); } .ready { fill: var(--ready); }"
" .throttled { fill: var(--throttled); } .halt { fill: var(--halt); }"
" .poll { fill: var(--poll); } .other { fill: var(--other); } .unknown { fill: none; }\n"
"@media (max-width: 60em) {\n"
" thead { position: absolute; left: -9999px; }\n"
" tr { display: flex; flex-wrap: wrap; gap: 0 0.8em; padding: 0.4em 0;"
" border-bottom: 1px solid var(--line); }\n"
" th, td { border: 0; padding: 0; } tbody th { width: 100%; max-width: none; min-width: 0; }\n"
" td.g { width: 100%; } .bar, .line { width: 100%; }\n"
" .n::after { content: \" \" attr(data-of); opacity: 0.7; }\n"
" td:empty { display: none; }\n"
"}\n";
