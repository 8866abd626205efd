// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>

#include "programs.h"
#include "stop.h"

/* Extrapolate the size from the samples so far. */
static void print_totals(const struct recorder_totals *t, const struct settings *settings)
{
	const double seconds = settings->interval / 1e9;

	fprintf(stderr, "kvm-stats: %llu samples, %llu bytes",
		(unsigned long long)t->samples, (unsigned long long)t->bytes);
	if (t->vms)
		fprintf(stderr, ": %.2f MB per VM and day",
			(double)t->bytes / t->vms * 86400 / seconds / 1e6);
	if (t->lost)
		fprintf(stderr, "; %llu samples were lost", (unsigned long long)t->lost);
	putc('\n', stderr);
}

/* Owners of waits and reasons of exits are recorded at this interval, or at each sample. */
#define SUMS_EVERY	(10 * SECOND)

/* Waits and stalls of less than 1 % of a CPU are not recorded. */
#define WAITS_DIVISOR	100

/* How the sums of a BPF program are recorded */
struct recorded {
	bool wanted;
	size_t items;		/* the largest ones per VM */
	unsigned int divisor;	/* leaves out a VM with a smaller part of the time; 0: leaves out none */
};

struct record {
	struct recorder *recorder;
	struct kvmstats *k;
	struct programs programs;
	struct recorded recorded[PROGRAMS];
	uint64_t written;	/* time of the sums that were written last */
};

/* Open what the user wants. Return true if any is open. */
static bool open_wanted(struct record *r)
{
	unsigned int i, wanted = 0;

	for (i = 0; i < PROGRAMS; i++)
		wanted |= r->recorded[i].wanted << i;
	return wanted && open_or_warn(&r->programs, wanted, "recording", kvmstats_first(r->k));
}

static bool has_all_wanted(const struct record *r)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (r->recorded[i].wanted && !r->programs.open[i])
			return false;
	}
	return true;
}

/* Take a sample, and what the BPF programs have counted by then. */
static void sample(struct record *r)
{
	if (!read_programs(&r->programs))
		errx(STATUS_NOTHING, "cannot read the sums of the BPF programs");
	app_sample(r->k);
	add_programs(&r->programs, kvmstats_first(r->k), NULL, 0);
}

static void write_sums(struct record *r, uint64_t interval)
{
	const uint64_t elapsed = app_now() - r->written;
	unsigned int i;

	/* Half an interval: a sample may be a little early. */
	if (elapsed + interval / 2 < SUMS_EVERY)
		return;
	for (i = 0; i < PROGRAMS; i++) {
		const struct recorded *recorded = &r->recorded[i];
		struct sums *sums = r->programs.open[i];

		if (!sums)
			continue;
		record_sums(sums, r->recorder, program_kinds[i], recorded->items,
			    recorded->divisor ? elapsed / recorded->divisor : 1);
		forget_sums(sums, NULL, NULL);
	}
	r->written += elapsed;
}

int command_record(const struct settings *settings)
{
	const struct program_options *wanted = &settings->programs;
	struct record r = { .recorded = {
		[PROGRAM_BLAME] = { wanted->owners, wanted->owners, WAITS_DIVISOR },
		[PROGRAM_EXITS] = { wanted->exits, wanted->exits, 0 },
		[PROGRAM_STALLS] = { wanted->stalls, STALLS, WAITS_DIVISOR },
	} };
	struct recorder_totals totals;
	bool complete;
	unsigned long round = 0;
	uint64_t next;

	if (settings->nr_args != 1)
		errx(STATUS_USAGE, "record needs a FILE to write to");
	r.recorder = recorder_open(settings->args[0], settings->max_size);
	stop_catch(STATUS_PARTIAL, NULL);
	stop_ignore_hangup();
	r.k = app_open(!settings->count);
	/* Loading takes some time: the first sample is when the programs begin. */
	if (open_wanted(&r))
		app_sample(r.k);
	add_programs(&r.programs, kvmstats_first(r.k), NULL, 0);
	next = r.written = app_now();
	for (;;) {
		recorder_sample(r.recorder, r.k, host_now(), app_wall(app_now()));
		if (++round == settings->count)
			break;
		app_wait(r.k, &next, settings->interval);
		if (stop_requested())
			break;
		sample(&r);
		write_sums(&r, settings->interval);
	}
	complete = has_all_wanted(&r);
	close_programs(&r.programs);
	kvmstats_close(r.k);
	totals = recorder_close(r.recorder);
	print_totals(&totals, settings);
	return totals.lost || !complete ? STATUS_PARTIAL : STATUS_OK;
}
