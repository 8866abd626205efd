// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <time.h>

#include "columns.h"
#include "page_parts.h"
#include "page_style.h"
#include "stalls_sum.h"
#include "thresholds.h"

static void read_host_name(char name[65])
{
	FILE *f = fopen("/proc/sys/kernel/hostname", "re");

	*name = '\0';
	if (f && fscanf(f, "%64s", name) != 1)
		*name = '\0';
	if (f)
		fclose(f);
}

void put_time(struct buf *b, uint64_t time, const char *format)
{
	const time_t seconds = time / SECOND;
	char text[64];
	struct tm tm;

	if (localtime_r(&seconds, &tm) && strftime(text, sizeof(text), format, &tm))
		buf_html(b, text);
}

static void put_host_html(struct buf *b, const struct model *m, const struct rows *rows)
{
	if (!m->host.cpus)
		return;
	buf_printf(b, "<p id=host>Host: %u%s", m->host.cpus,
		   m->host.cpus == 1 ? " CPU, " : " CPUs, ");
	buf_fixed(b, m->vcpus * 10ULL / m->host.cpus, 1);
	buf_str(b, " vCPUs for each; guests run on <b>");
	buf_fixed(b, rows->run, 1);
	buf_str(b, " %</b> of the CPUs; vCPUs are ready (they wait for a CPU) for <b>");
	buf_fixed(b, rows->ready, 1);
	buf_str(b, " %</b> of their time; load ");
	buf_fixed(b, m->host.load, 2);
	if (m->host.cpu_pressure) {
		buf_str(b, "; CPU pressure ");
		buf_fixed(b, m->host.cpu_pressure / 10, 1);
		buf_str(b, " %");
	}
	buf_str(b, "</p>\n");
}

static void put_state(struct buf *b, const struct model *m, const struct page_request *request,
		      const struct rows *rows)
{
	const uint64_t age = request->now - m->time;
	unsigned int i;

	buf_str(b, "<p id=state>Sample of <b>");
	put_time(b, m->timestamp, "%Y-%m-%d %H:%M:%S %Z");
	buf_str(b, "</b>, source ");
	buf_html(b, m->source);
	buf_printf(b, "; %u%s%u%s<b>", m->vms, m->vms == 1 ? " VM, " : " VMs, ", m->vcpus,
		   m->vcpus == 1 ? " vCPU; " : " vCPUs; ");
	if (rows->problems)
		buf_u64(b, rows->problems);
	else
		buf_str(b, "none");
	buf_str(b, rows->problems == 1 ? " with a problem</b>." : " with problems</b>.");
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		if (!m->unread[i])
			continue;
		buf_printf(b, " <b>%u could not be read</b>: ", m->unread[i]);
		buf_html(b, m->why[i]);
		buf_char(b, '.');
	}
	buf_str(b, "</p>\n");
	/* Samples of a long interval are older. */
	if (age > STALE_SECONDS * SECOND && age > 2 * request->interval)
		buf_printf(b, "<p class=stale>Data are old: the last sample was taken"
			   " %llu s ago.</p>\n", (unsigned long long)(age / SECOND));
}

/* Write the start of a page. Without a script, the page asks for its successor. */
static void put_document(struct buf *b, const char *host, unsigned int problems, const char *vm)
{
	buf_str(b, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>");
	if (problems && !vm)
		buf_printf(b, "(%u) ", problems);
	buf_html(b, vm ? vm : host);
	buf_str(b, vm ? " on " : ": VMs");
	buf_html(b, vm ? host : "");
	buf_str(b, "</title><meta name=viewport content=\"width=device-width, initial-scale=1\">"
		"<meta http-equiv=refresh content=" REFRESH_SECONDS ">"
		"<link rel=stylesheet href=style.css></head>\n<body>"
		"<p id=old>Data are old: this page was not refreshed for " OLD_SECONDS
		" s. The server or the network does not answer.</p>\n");
}

void put_head(struct buf *b, const struct model *m, const struct page_request *request,
	      const struct rows *rows, const char *vm)
{
	char host[65];

	read_host_name(host);
	put_document(b, host, rows->problems, vm);
	buf_str(b, vm ? "<p><a href=\"./\">All VMs of " : "<h1>VMs of ");
	buf_html(b, host);
	buf_str(b, vm ? "</a></p>\n<h1>" : "</h1>\n");
	if (vm) {
		buf_html(b, vm);
		buf_str(b, "</h1>\n");
	}
	put_host_html(b, m, rows);
	put_state(b, m, request, rows);
}

void page_too_old(struct buf *b, const struct model *m, const struct page_request *request,
		  const char *problem)
{
	char host[65];

	read_host_name(host);
	put_document(b, host, 0, NULL);
	buf_str(b, "<h1>VMs of ");
	buf_html(b, host);
	buf_str(b, "</h1>\n<p class=stale>");
	if (m->samples) {
		buf_printf(b, "The last sample is too old: it was taken %llu s ago, at ",
			   (unsigned long long)((request->now - m->time) / SECOND));
		put_time(b, m->timestamp, "%Y-%m-%d %H:%M:%S %Z");
	} else {
		buf_str(b, "No sample was taken yet");
	}
	buf_str(b, ".</p>\n<p>");
	buf_html(b, problem);
	buf_str(b, "</p>\n<p>This page asks again every " REFRESH_SECONDS " s. <a href=healthz>Health</a>"
		"</p></body></html>\n");
}

void put_vm_link(struct buf *b, const char *label)
{
	buf_str(b, "<a href=\"vm?vm=");
	buf_url(b, label);
	buf_str(b, "\">");
	buf_html(b, label);
	buf_str(b, "</a>");
}

void put_problem(struct buf *b, const struct row *row)
{
	const enum problem problem = row->judgement.problem;

	buf_str(b, problem_name(problem));
	if ((problem == PROBLEM_STUCK || problem == PROBLEM_STALLED) && row->stall)
		buf_printf(b, "<small>%s: %s</small>", stall_name(row->stall),
			   stall_meaning(row->stall));
	else if (problem > PROBLEM_ENDED)
		buf_printf(b, "<small>%s</small>", problem_meaning(problem));
	if (problem == PROBLEM_STARVED && row->series->waits)
		waits_summary(b, row->series->waits);
}

/* A narrow screen omits a number that is 0. */
void put_number(struct buf *b, const char *class, uint64_t n, unsigned int digits, bool known)
{
	buf_printf(b, "<td class=\"n%s%s\">", class, n ? "" : " z");
	if (known)
		buf_fixed(b, n, digits);
	else
		buf_char(b, '-');
}

void put_mode_heads(struct buf *b, unsigned int modes)
{
	unsigned int i;

	buf_str(b, "<th scope=col>time");
	for (i = 0; i < modes; i++)
		buf_printf(b, "<th scope=col class=n>%s %%", kvmstats_mode_name(i));
	buf_str(b, "<th scope=col class=n>exits/s");
}

/*
 * Each rectangle covers the end of the one before, so it needs one number only. The numbers are in
 * the same row as text.
 */
void put_bar(struct buf *b, const uint16_t share[MODES])
{
	unsigned int i, end = 0;

	buf_str(b, "<td class=g><svg class=bar viewBox=\"0 0 1000 9\" preserveAspectRatio=none aria-hidden=true>");
	for (i = 0; i < MODES; i++)
		end += share[i];
	for (i = MODES; i-- > 0; end -= share[i]) {
		if (share[i])
			buf_printf(b, "<rect class=%s width=%u height=9 />",
				   kvmstats_mode_name(i), end);
	}
	buf_str(b, "</svg>");
}

void put_mode(struct buf *b, enum kvmstats_mode mode)
{
	const char *name = kvmstats_mode_name(mode);

	buf_printf(b, "<svg class=key viewBox=\"0 0 9 9\" aria-hidden=true>"
		   "<rect width=9 height=9 class=%s /></svg>%s", name, name);
}

void put_meaning(struct buf *b, enum kvmstats_mode mode)
{
	const char *what;
	unsigned int i;

	for (i = 0; i < columns_count; i++) {
		if (columns[i].kind != COLUMN_PERCENT || columns[i].index != mode)
			continue;
		/* A remark in parentheses is about the screen of "top". */
		what = columns[i].what;
		buf_put(b, what, strcspn(what, "("));
	}
}
