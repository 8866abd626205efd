// SPDX-License-Identifier: GPL-2.0-only
/* The page of one VM */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exits_sum.h"
#include "observation.h"
#include "page_parts.h"
#include "stalls_sum.h"
#include "text.h"
#include "xalloc.h"

static void put_fact(struct buf *b, const char *name, const char *value)
{
	if (!*value)
		return;
	buf_printf(b, "<dt>%s<dd>", name);
	buf_html(b, value);
	buf_char(b, '\n');
}

static void put_identity_html(struct buf *b, const struct vm_series *series)
{
	const struct kvmstats_identity *identity = &series->identity;
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", identity->pid);
	buf_str(b, "<h2>Identity</h2>\n<dl>");
	put_fact(b, "PID", identity->pid ? pid : "");
	put_fact(b, "VMM", identity->vmm);
	put_fact(b, "name", strcmp(identity->name, series->label) ? identity->name : "");
	put_fact(b, "UUID", identity->uuid);
	put_fact(b, "machine", identity->machine);
	put_fact(b, "pod", identity->pod_uid);
	put_fact(b, "container", identity->container_id);
	put_fact(b, "cgroup", identity_cgroup(identity));
	if (series->start) {
		buf_str(b, "<dt>started<dd>");
		put_time(b, series->start * 1000000, "%Y-%m-%d %H:%M:%S %Z");
	}
	buf_str(b, "</dl>\n");
}

/* The modes with their meanings */
static void put_modes_html(struct buf *b, const struct row *row)
{
	unsigned int i;

	buf_str(b, "<h2>Time of its vCPUs in the last minute</h2>\n<table id=modes><tbody>\n");
	for (i = 0; i < MODES; i++) {
		if (i == KVMSTATS_UNKNOWN && !row->share[i])
			continue;
		buf_str(b, "<tr><th scope=row>");
		put_mode(b, i);
		buf_str(b, "<td class=v>");
		if (row->time)
			buf_fixed(b, row->share[i], 1);
		buf_str(b, row->time ? " %<td>" : "-<td>");
		put_meaning(b, i);
		buf_char(b, '\n');
	}
	buf_str(b, "<tr><th scope=row>exits<td class=v>");
	if (row->time)
		buf_u64(b, row->exits);
	buf_str(b, row->time ? " /s<td>exits of all vCPUs from the guest\n" : "-<td>\n");
	buf_str(b, "</tbody></table>\n");
}

/* When a minute of struct hour began, since 1970 */
static uint64_t minute_time(const struct model *m, uint64_t minute)
{
	return m->timestamp - (m->time - minute * MINUTE);
}

static void put_minute_text(struct buf *b, const struct model *m, uint64_t minute, unsigned int x,
			    const uint16_t share[MODES])
{
	unsigned int i;

	buf_printf(b, "<rect x=%u width=1 height=1000><title>", x);
	put_time(b, minute_time(m, minute), "%H:%M");
	for (i = 0; i < MODES; i++) {
		if (!share[i])
			continue;
		buf_printf(b, " %s ", kvmstats_mode_name(i));
		buf_fixed(b, share[i], 1);
		buf_str(b, " %");
	}
	buf_str(b, "</title></rect>");
}

/* Draw a bar for each of the last 60 minutes, the present one last. */
static void put_hour(struct buf *b, const struct model *m, const struct vm_series *series)
{
	const uint64_t *total = m->modes ? series->value + m->modes->first : NULL;
	/* Wraps around if the host was booted since then. */
	const uint64_t first = m->time / MINUTE - MINUTES + 1;
	unsigned int base[MINUTES] = { 0 }, mode, x;
	uint16_t share[MINUTES][MODES];

	buf_str(b, "<h2>The last hour</h2>\n<p>One bar per minute, from 0 to 100 % of its vCPU time; "
		"no bar: this program did not watch the VM.</p>\n"
		"<svg id=hour viewBox=\"0 0 60 1000\" preserveAspectRatio=none role=img "
		"aria-label=\"time of the vCPUs by minute\">");
	for (x = 0; x < MINUTES; x++)
		if (!total || !hour_shares(&series->hour, total, first + x, share[x]))
			memset(share[x], 0, sizeof(share[x]));
	for (mode = 0; mode < MODES; mode++) {
		buf_printf(b, "<path class=%s d=\"", kvmstats_mode_name(mode));
		for (x = 0; x < MINUTES; x++) {
			if (!share[x][mode])
				continue;
			base[x] += share[x][mode];
			buf_printf(b, "M%u %dv%uh.9v-%uz", x, 1000 - (int)base[x],
				   share[x][mode], share[x][mode]);
		}
		buf_str(b, "\"/>");
	}
	buf_str(b, "<g class=texts>");
	for (x = 0; x < MINUTES; x++)
		if (base[x])
			put_minute_text(b, m, first + x, x, share[x]);
	buf_str(b, "</g></svg>\n<p class=axis>");
	for (x = 0; x <= MINUTES; x += MINUTES / 4) {
		buf_str(b, "<span>");
		put_time(b, minute_time(m, first + x - (x == MINUTES)), "%H:%M");
		buf_str(b, "</span>");
	}
	buf_str(b, "</p>\n");
}

static void put_vcpu_html(struct buf *b, const struct vcpu_series *v, unsigned int modes)
{
	uint16_t share[MODES];
	const uint64_t all = get_shares(v->mark[0].mode, v->now.mode, share);
	unsigned int i;

	buf_printf(b, "<tr><th scope=row>vCPU %u<td class=\"n t\">", v->id);
	if (v->tid)
		buf_u64(b, v->tid);
	else
		buf_char(b, '-');
	put_bar(b, share);
	for (i = 0; i < modes; i++)
		put_number(b, "", share[i], 1, all);
	put_number(b, " x", kvmstats_rate(v->now.exits - v->mark[0].exits, all) / 1000, 0, all);
	buf_char(b, '\n');
}

static void put_vcpus_html(struct buf *b, const struct model *m, const struct vm_series *series,
			   unsigned int modes)
{
	unsigned int i;

	buf_str(b, "<h2>vCPUs</h2>\n");
	if (m->mark[0])
		buf_printf(b, "<p>In the last %llu s.</p>\n",
			   (unsigned long long)((m->time - m->mark[0]) / SECOND));
	buf_str(b, "<table id=vcpus><thead><tr><th scope=col>vCPU<th scope=col class=n>thread");
	put_mode_heads(b, modes);
	buf_str(b, "</thead>\n<tbody>\n");
	for (i = 0; i < series->nr_vcpu && b->len < PAGE_ROOM; i++)
		put_vcpu_html(b, &series->vcpu[i], modes);
	buf_str(b, "</tbody></table>\n");
	if (i < series->nr_vcpu)
		buf_printf(b, "<p><b>%u more vCPUs</b> are not shown; kvm-stats top shows them."
			   "</p>\n", series->nr_vcpu - i);
}

/* How to get something that is not measured; on: the program was asked for it */
static void put_missing(struct buf *b, bool on, const char *option)
{
	if (on)
		buf_str(b, "<p>None yet.</p>\n");
	else
		buf_printf(b, "<p>Not measured: start kvm-stats serve with <code>%s</code>.</p>\n",
			   option);
}

static void put_owners_html(struct buf *b, const struct model *m, const struct vm_series *series)
{
	unsigned int i;

	buf_str(b, "<h2>Who ran while it waited for a CPU</h2>\n");
	if (!series->waits || !series->waits->count || !series->waits->recent) {
		put_missing(b, m->options->programs.owners, "--blame 5");
		return;
	}
	buf_str(b, "<p>Shares of the time that its vCPUs were ready or throttled in the last five "
		"minutes.</p>\n<table id=owners><thead><tr><th scope=col>owner<th scope=col>kind"
		"<th scope=col class=n>share %</thead>\n<tbody>\n");
	for (i = 0; i < series->waits->count; i++) {
		const struct wait_owner *owner = &series->waits->owner[i];

		buf_str(b, "<tr><th scope=row>");
		buf_html(b, owner->key.name);
		buf_str(b, "<td>");
		buf_html(b, strcmp(owner->key.kind, "self") ? owner->key.kind : "this VM");
		put_number(b, "", kvmstats_permille(owner->recent, series->waits->recent), 1, true);
		buf_char(b, '\n');
	}
	buf_str(b, "</tbody></table>\n");
}

static void put_exits_html(struct buf *b, const struct model *m, const struct vm_series *series)
{
	char name[EXIT_NAME_SIZE];
	uint64_t recent = 0;
	size_t i;

	buf_str(b, "<h2>Its most expensive exits</h2>\n");
	if (!series->exits || !series->exits->sum.listed) {
		put_missing(b, m->options->programs.exits, "--exits 5");
		return;
	}
	for (i = 0; i < series->exits->sum.count; i++)
		recent += exits_total_at(series->exits, i)->item.recent;
	buf_str(b, "<p>Shares of exit time in the last five minutes, halts included; numbers and "
		"seconds since kvm-stats serve started.</p>\n<table id=exits><thead><tr>"
		"<th scope=col>reason<th scope=col class=n>share %<th scope=col class=n>exits"
		"<th scope=col class=n>kernel s<th scope=col class=n>VMM s</thead>\n<tbody>\n");
	for (i = 0; i < series->exits->sum.count; i++) {
		const struct exits_total *total = exits_total_at(series->exits, i);

		if (!total->item.listed)
			continue;
		buf_str(b, "<tr><th scope=row>");
		buf_html(b, exit_name(total->cell.isa, total->key.reason, name));
		put_number(b, "", kvmstats_permille(total->item.recent, recent), 1, true);
		put_number(b, " c", total->cell.count, 0, true);
		put_number(b, " k", total->cell.kernel / 1000000, 3, true);
		put_number(b, " u", total->cell.user / 1000000, 3, true);
		buf_char(b, '\n');
	}
	buf_str(b, "</tbody></table>\n");
}

static void put_stalls_html(struct buf *b, const struct model *m, const struct vm_series *series)
{
	unsigned int reason, permille, n = 0;

	buf_str(b, "<h2>Why its vCPUs slept outside of halts (other)</h2>\n");
	if (!m->stalls) {
		put_missing(b, m->options->programs.stalls, "--stalls");
		return;
	}
	buf_str(b, "<table id=stalls><tbody>\n");
	for (reason = STALL_STOPPED; reason < STALLS; reason++) {
		permille = stall_permille(series, reason);
		if (!permille)
			continue;
		n++;
		buf_printf(b, "<tr><th scope=row>%s<td class=v>", stall_name(reason));
		buf_fixed(b, permille, 1);
		buf_str(b, " %<td>");
		buf_html(b, stall_meaning(reason));
		buf_char(b, '\n');
	}
	buf_str(b, n ? "</tbody></table>\n" : "</tbody></table>\n<p>They did not.</p>\n");
}

/* Write a text as "why" does: a name in it must not change the order of the characters. */
static void put_sentence(struct buf *b, const char *text)
{
	const size_t size = TEXT_SHOWN(strlen(text) + 1);
	char *shown = check_alloc(malloc(size));

	text_shown(text, shown, size);
	buf_html(b, shown);
	free(shown);
}

static void put_cause_html(struct buf *b, const struct why_rule *rule, const struct why_vm *vm,
			   const struct why_host *host)
{
	/* No command: the host is not examined. */
	struct remedy remedy = find_remedy(rule, vm, host);
	char *text = format_why(rule->text, vm, host);

	buf_printf(b, "<li>%.1f s: ", rule->time(vm) / 1e9);
	put_sentence(b, text);
	if (*remedy.text) {
		buf_str(b, "<br><b>to do:</b> ");
		put_sentence(b, remedy.text);
	}
	buf_char(b, '\n');
	free(text);
	free_remedy(&remedy);
}

/* Write the sentences of "why" about the same time as the shares of vCPUs. */
static void put_causes_html(struct buf *b, const struct model *m, const struct row *row)
{
	struct why_host host = { .cpus = m->host.cpus };
	const struct window_vm *window = NULL;
	struct why_vm vm;
	unsigned int i;

	if (m->observed)
		window = window_find(&m->observed->window, row->series->label);
	if (!window)
		return;
	vm = observed_vm(m->observed, window - m->observed->window.vm);
	set_observed_host(m->observed, &host);
	find_causes(&vm, &host);
	if (!vm.causes)
		return;
	buf_printf(b, "<h2>What cost it time</h2>\n<p>In the last %.0f s, it lost %.1f of %.1f vCPU-seconds.</p>\n"
		   "<ul id=why>\n", window->elapsed / 1e9, get_lost_time(&vm) / 1e9,
		   window->activity.times.elapsed / 1e9);
	for (i = 0; i < vm.causes; i++)
		put_cause_html(b, vm.cause[i], &vm, &host);
	buf_str(b, "</ul>\n");
}

bool page_vm(struct buf *b, const struct model *m, const struct page_request *request)
{
	struct rows rows = make_rows(m);
	const struct row *row;

	for (row = rows.row; row < rows.row + rows.count && strcmp(row->series->label, request->vm); row++)
		;
	if (!rows.row || row == rows.row + rows.count) {
		free(rows.row);
		return false;
	}
	put_head(b, m, request, &rows, row->series->label);
	buf_str(b, "<p class=problem>");
	put_problem(b, row);
	if (row->judgement.problem == PROBLEM_ENDED)
		buf_str(b, ": these are its last values");
	else if (!has_problem(row))
		buf_str(b, "<span class=fine>No problem</span>");
	buf_str(b, "</p>\n");
	put_causes_html(b, m, row);
	/* This process has no access to what "why" examines. A PID needs no quotes in a shell. */
	if (has_problem(row) && row->judgement.problem != PROBLEM_ENDED)
		buf_printf(b, "<p><code>kvm-stats why %d</code> on this host examines its cgroups and threads, "
			   "and prints commands.</p>\n", row->series->identity.pid);
	put_hour(b, m, row->series);
	put_modes_html(b, row);
	put_owners_html(b, m, row->series);
	put_exits_html(b, m, row->series);
	put_stalls_html(b, m, row->series);
	put_identity_html(b, row->series);
	put_vcpus_html(b, m, row->series, shown_modes(&rows));
	buf_str(b, "</body></html>\n");
	free(rows.row);
	return true;
}
