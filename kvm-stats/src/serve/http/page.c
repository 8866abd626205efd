// SPDX-License-Identifier: GPL-2.0-only
/* The page that lists the VMs */
#include <stdlib.h>

#include "ascii.h"
#include "page_parts.h"

#define QUIET_NAMES	100	/* of VMs without problems */

/* Draw the share of run, ready and throttled in the last five minutes. */
static void put_busy(struct buf *b, const struct vm_series *series)
{
	unsigned int steps = history_steps(series), i;
	uint16_t share[MODES];

	buf_str(b, "<td class=g>");
	if (steps < 2)
		return;
	buf_printf(b, "<svg class=line viewBox=\"0 0 %u 100\" preserveAspectRatio=none"
		   " aria-hidden=true><path d=\"M%u 100", HISTORY - 2, HISTORY - steps);
	for (i = steps - 1; i; i--) {
		if (history_shares(series, i, i - 1, share))
			buf_printf(b, "L%u %u", HISTORY - 1 - i, 100 -
				   (share[KVMSTATS_RUN] + share[KVMSTATS_READY] +
				    share[KVMSTATS_THROTTLED]) / 10);
	}
	buf_str(b, "V100z\"/></svg>");
}

static void put_row_html(struct buf *b, const struct row *row, unsigned int modes)
{
	const struct vm_series *series = row->series;
	unsigned int i;

	buf_str(b, series->ended ? "<tr class=gone><th scope=row>" : "<tr><th scope=row>");
	put_vm_link(b, series->label);
	buf_str(b, "<td class=problem>");
	put_problem(b, row);
	put_number(b, "", series->vcpus, 0, true);
	put_bar(b, row->share);
	for (i = 0; i < modes; i++)
		put_number(b, "", row->share[i], 1, row->time);
	put_number(b, " x", row->exits, 0, row->time);
	if (has_problem(row))
		put_busy(b, series);
	else
		buf_str(b, "<td>");
	buf_char(b, '\n');
}

static bool has_text(const char *in, const char *text)
{
	return ascii_contains(in, text);
}

/* Return true if a VM has this text in its identity, or this PID. */
static bool matches(const struct vm_series *series, const char *text)
{
	const struct kvmstats_identity *identity = &series->identity;
	char *end;

#define HAS(member, size) has_text(identity->member, text) ||
	return has_text(series->label, text) || IDENTITY_TEXTS(HAS)
	       has_text(identity_cgroup(identity), text) ||
	       (strtol(text, &end, 10) == identity->pid && !*end);
}

static void put_filter(struct buf *b, const struct page_request *request)
{
	buf_str(b, "<form><input type=search name=q maxlength=128 aria-label=filter value=\"");
	buf_html(b, request->filter);
	buf_str(b, "\" placeholder=\"name, PID, UUID, cgroup\"> <button>Filter</button>");
	if (*request->filter || request->all)
		buf_str(b, " <a href=\"./\">Only problems</a>");
	buf_str(b, "</form>\n");
}

static void put_key(struct buf *b, unsigned int modes)
{
	unsigned int i;

	buf_str(b, "<details><summary>");
	for (i = 0; i < modes; i++) {
		buf_str(b, "<span>");
		put_mode(b, i);
		buf_str(b, "</span> ");
	}
	buf_str(b, "<u>what is this?</u></summary><dl>");
	for (i = 0; i < modes; i++) {
		buf_str(b, "<dt>");
		put_mode(b, i);
		buf_str(b, "<dd>");
		put_meaning(b, i);
	}
	for (i = PROBLEM_ENDED + 1; i < PROBLEMS; i++) {
		buf_printf(b, "<dt class=problem>%s<dd>", problem_name(i));
		buf_html(b, problem_meaning(i));
	}
	buf_str(b, "<dt>exits/s<dd>exits of all vCPUs from the guest"
		"<dt>busy<dd>run, ready and throttled in the last five minutes, from 0 to 100 %"
		"</dl><p>Percentages are shares of a VM&#39;s vCPU time in the last minute.</p>"
		"</details>\n");
}

/* Write the rows that are asked for. Return how many are left out because the page is full. */
static unsigned int put_rows(struct buf *b, const struct rows *rows,
			     const struct page_request *request, unsigned int modes,
			     unsigned int *matching)
{
	const bool bounded = !request->all || *request->filter;
	const struct row *row;
	unsigned int left = 0;

	*matching = 0;
	for (row = rows->row; row < rows->row + rows->count; row++) {
		if (*request->filter ? !matches(row->series, request->filter) :
		    !request->all && !has_problem(row))
			continue;
		(*matching)++;
		if (bounded && b->len > PAGE_ROOM)
			left++;
		else
			put_row_html(b, row, modes);
	}
	return left;
}

/* Write the names of VMs without problems, and how much they run. */
static void put_quiet(struct buf *b, const struct rows *rows)
{
	const unsigned int quiet = rows->count - rows->problems - rows->ended;
	unsigned int named = 0, i;

	buf_printf(b, "<p id=quiet>%u%s", quiet,
		   quiet == 1 ? " VM without a problem" : " VMs without problems");
	if (rows->ended)
		buf_printf(b, ", %u ended", rows->ended);
	buf_str(b, ": <a href=\"?all=1\">all with numbers</a></p>\n<p class=names>");
	for (i = rows->problems; i < rows->count && named < QUIET_NAMES && b->len < PAGE_ROOM; i++) {
		if (rows->row[i].series->ended)
			continue;
		buf_str(b, "<span>");
		put_vm_link(b, rows->row[i].series->label);
		buf_printf(b, " %u %%</span>\n", (rows->row[i].share[KVMSTATS_RUN] + 5) / 10);
		named++;
	}
	if (named < quiet)
		buf_printf(b, "and %u more", quiet - named);
	buf_str(b, "</p>\n");
}

void page_list(struct buf *b, const struct model *m, const struct page_request *request)
{
	struct rows rows = make_rows(m);
	const unsigned int modes = shown_modes(&rows);
	unsigned int left, matching;

	put_head(b, m, request, &rows, NULL);
	put_filter(b, request);
	put_key(b, modes);
	buf_str(b, "<table id=vms><thead><tr><th scope=col>VM<th scope=col>problem<th scope=col class=n>vCPUs");
	put_mode_heads(b, modes);
	buf_str(b, "<th scope=col>busy</thead>\n<tbody>\n");
	left = put_rows(b, &rows, request, modes, &matching);
	buf_str(b, "</tbody></table>\n");
	if (left)
		buf_printf(b, "<p><b>%u more</b> are not shown: <a href=\"?all=1\">all</a></p>\n",
			   left);
	if (!matching)
		buf_str(b, *request->filter ? "<p>No VM has this text.</p>\n" : !rows.count ?
			"<p>There are no VMs.</p>\n" : "<p>No VM has a problem.</p>\n");
	if (!*request->filter && !request->all && rows.count > rows.problems)
		put_quiet(b, &rows);
	buf_str(b, "<p><a href=\"");
	/* Relative links work through a proxy that adds a prefix. */
	buf_html(b, request->metrics_path + 1);
	buf_str(b, "\">metrics</a> <a href=api/v1/vms>as JSON</a> <a href=healthz>health</a></p></body></html>\n");
	b->failed |= !rows.row;
	free(rows.row);
}
