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

/* Waits and stalls of less than 1 % of a CPU are not recorded. */
#define WAITS_DIVISOR	100

/* A BPF program whose sums are recorded */
struct program {
	const char *option;
	bool wanted, open;
	struct sums *sums;
	char kind;		/* letter of the chunks */
	size_t items;		/* recorded for each VM, at most */
	unsigned int divisor;	/* leaves out a VM with a smaller part of the time; 0: leaves out none */
};

enum { BLAME, EXITS, STALLS_PROGRAM, PROGRAMS };

struct record {
	struct recorder *recorder;
	struct kvmstats *k;
	struct blame_sum blame;
	struct exits_sum exits;
	struct stalls_sum stalls;
	struct program program[PROGRAMS];
	uint64_t written;	/* time of the sums that were written last */
};

static int open_program(struct record *r, unsigned int i, struct kvmstats_probe *probe)
{
	switch (i) {
	case BLAME:
		return blame_sum_open(&r->blame, false, kvmstats_first(r->k), probe);
	case EXITS:
		return exits_sum_open(&r->exits, EXITS_BY_REASON, false, probe);
	default:
		return stalls_sum_open(&r->stalls, false, kvmstats_first(r->k), probe);
	}
}

/* Return true if one is open. Without rights or events for them, the rest is recorded. */
static bool open_programs(struct record *r)
{
	bool any = false;
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		struct kvmstats_probe probe = { 0 };
		struct program *program = &r->program[i];

		if (!program->wanted)
			continue;
		program->open = !open_program(r, i, &probe);
		any |= program->open;
		if (!program->open)
			warnx("recording without %s: %s%s%s", program->option, probe.why,
			      *probe.help ? "; " : "", probe.help);
	}
	return any;
}

/* Close them. Return true if all that were wanted were open. */
static bool close_programs(struct record *r)
{
	bool all = true;
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		all &= r->program[i].open == r->program[i].wanted;
		if (r->program[i].open)
			close_sums(r->program[i].sums);
	}
	return all;
}

static void add_programs(struct record *r)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (r->program[i].open)
			add_sums(r->program[i].sums, kvmstats_first(r->k), NULL, 0);
	}
}

/* Take a sample, and what the BPF programs have counted by then. */
static void sample(struct record *r)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (r->program[i].open && read_sums(r->program[i].sums))
			errx(STATUS_NOTHING, "cannot read the sums of the BPF programs");
	}
	app_sample(r->k);
	add_programs(r);
}

static void write_programs(struct record *r, uint64_t interval)
{
	const uint64_t elapsed = app_now() - r->written;
	unsigned int i;

	/* Half an interval: a sample may be a little early. */
	if (elapsed + interval / 2 < SUMS_EVERY)
		return;
	for (i = 0; i < PROGRAMS; i++) {
		const struct program *program = &r->program[i];

		if (!program->open)
			continue;
		record_sums(program->sums, r->recorder, program->kind, program->items,
			    program->divisor ? elapsed / program->divisor : 1);
		forget_sums(program->sums, NULL, NULL);
	}
	r->written += elapsed;
}

int command_record(const struct settings *settings)
{
	const struct serve_options *wanted = &settings->serve->model;
	struct record r = { .program = {
		[BLAME] = { "--blame", wanted->owners, false, &r.blame.sums, RECORDED_BLAME,
			    wanted->owners, WAITS_DIVISOR },
		[EXITS] = { "--exits", wanted->exits, false, &r.exits.sums, RECORDED_EXITS,
			    wanted->exits, 0 },
		[STALLS_PROGRAM] = { "--stalls", wanted->stalls, false, &r.stalls.sums,
				     RECORDED_STALLS, STALL_REASONS, WAITS_DIVISOR },
	} };
	struct recorder_totals totals;
	bool complete;
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
	/* Loading takes some time: the first sample is when the programs begin. */
	if (open_programs(&r))
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
	complete = close_programs(&r);
	kvmstats_close(r.k);
	totals = recorder_close(r.recorder);
	print_totals(&totals, settings);
	return totals.lost || !complete ? STATUS_PARTIAL : STATUS_OK;
}
