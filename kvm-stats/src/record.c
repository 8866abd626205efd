// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "blame_sum.h"
#include "exits_sum.h"
#include "stalls_sum.h"
#include "serve/settings.h"
#include "stop.h"

/* Extrapolate the size from the samples so far. */
static void print_totals(const struct recorder_totals *t, const struct settings *settings)
{
	const double seconds = settings->interval / 1e9;

	fprintf(stderr, "kvm-stats: %llu samples, %llu bytes",
		(unsigned long long)t->samples, (unsigned long long)t->bytes);
	if (t->vms)
		fprintf(stderr, ": %.1f MB per VM and day",
			(double)t->bytes / t->vms * 86400 / seconds / 1e6);
	if (t->lost)
		fprintf(stderr, "; %llu samples were lost", (unsigned long long)t->lost);
	putc('\n', stderr);
}

/* Owners of waits and reasons of exits are recorded at this interval, or at each sample. */
#define SUMS_EVERY	(10 * SECOND)

/* VMs that waited less than this share of a CPU have no owners in the recording. */
#define WAITS_DIVISOR	100

struct record {
	struct recorder *recorder;
	struct kvmstats *k;
	unsigned int owners, reasons;	/* recorded for each VM, at most */
	bool wants_stalls;
	bool has_blame, has_exits, has_stalls;
	struct blame_sum blame;
	struct exits_sum exits;
	struct stalls_sum stalls;
	uint64_t written;	/* time of the sums that were written last */
};

/* A host without this right or event is still worth recording. */
static bool opened(int error, const char *what, const struct kvmstats_probe *probe)
{
	if (error)
		warnx("recording without %s: %s%s%s", what, probe->why, *probe->help ? "; " : "",
		      probe->help);
	return !error;
}

static void open_programs(struct record *r)
{
	struct kvmstats_probe probe = { 0 };

	if (r->owners)
		r->has_blame = opened(blame_sum_open(&r->blame, false, kvmstats_first(r->k), &probe),
				      "--blame", &probe);
	if (r->reasons)
		r->has_exits = opened(exits_sum_open(&r->exits, EXITS_BY_REASON, false, &probe),
				      "--exits", &probe);
	if (r->wants_stalls)
		r->has_stalls = opened(stalls_sum_open(&r->stalls, false, kvmstats_first(r->k),
						       &probe), "--stalls", &probe);
}

static void close_programs(struct record *r)
{
	if (r->has_blame)
		close_sums(&r->blame.sums);
	if (r->has_exits)
		close_sums(&r->exits.sums);
	if (r->has_stalls)
		close_sums(&r->stalls.sums);
}

static void add_programs(struct record *r)
{
	if (r->has_blame)
		add_sums(&r->blame.sums, kvmstats_first(r->k), NULL, 0);
	if (r->has_exits)
		add_sums(&r->exits.sums, kvmstats_first(r->k), NULL, 0);
	if (r->has_stalls)
		add_sums(&r->stalls.sums, kvmstats_first(r->k), NULL, 0);
}

/* Take a sample, and what the BPF programs have counted by then. */
static void sample(struct record *r)
{
	if ((r->has_blame && read_sums(&r->blame.sums)) ||
	    (r->has_exits && read_sums(&r->exits.sums)) ||
	    (r->has_stalls && read_sums(&r->stalls.sums)))
		errx(STATUS_NOTHING, "cannot read the sums of the BPF programs");
	app_sample(r->k);
	add_programs(r);
}

static void write_sums(struct record *r, struct sums *sums, char kind, size_t items, uint64_t least)
{
	record_sums(sums, r->recorder, kind, items, least);
	forget_sums(sums, NULL, NULL);
}

static void write_programs(struct record *r, uint64_t interval)
{
	const uint64_t elapsed = app_now() - r->written;

	/* Half an interval: a sample may be a little early. */
	if (elapsed + interval / 2 < SUMS_EVERY)
		return;
	if (r->has_blame)
		write_sums(r, &r->blame.sums, RECORDED_BLAME, r->owners, elapsed / WAITS_DIVISOR);
	if (r->has_exits)
		write_sums(r, &r->exits.sums, RECORDED_EXITS, r->reasons, 1);
	if (r->has_stalls)
		write_sums(r, &r->stalls.sums, RECORDED_STALLS, STALL_REASONS, elapsed / WAITS_DIVISOR);
	r->written += elapsed;
}

int command_record(const struct settings *settings)
{
	struct record r = { .owners = settings->serve->model.owners,
			    .reasons = settings->serve->model.exits,
			    .wants_stalls = settings->serve->model.stalls };
	struct recorder_totals totals;
	unsigned long round = 0;
	uint64_t next;

	if (settings->nr_args != 1)
		errx(STATUS_USAGE, "record needs a FILE to write to");
	r.recorder = recorder_open(settings->args[0], settings->max_size);
	stop_catch(STATUS_PARTIAL, NULL);
	/* a service has no terminal to lose */
	if (!isatty(STDERR_FILENO))
		signal(SIGHUP, SIG_IGN);
	r.k = app_open(!settings->count);
	open_programs(&r);
	/* Loading takes some time: the first sample is when the programs begin. */
	if (r.has_blame || r.has_exits || r.has_stalls)
		app_sample(r.k);
	add_programs(&r);
	next = r.written = app_now();
	for (;;) {
		recorder_sample(r.recorder, r.k, host_now(), app_wall(app_now()));
		if (++round == settings->count)
			break;
		app_wait(r.k, &next, settings->interval);
		if (stop_requested())
			break;
		sample(&r);
		write_programs(&r, settings->interval);
	}
	close_programs(&r);
	kvmstats_close(r.k);
	totals = recorder_close(r.recorder);
	print_totals(&totals, settings);
	return totals.lost || r.has_blame != !!r.owners || r.has_exits != !!r.reasons ||
	       r.has_stalls != r.wants_stalls ?
	       STATUS_PARTIAL : STATUS_OK;
}
