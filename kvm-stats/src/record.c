// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "stop.h"
#include "input.h"

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

int command_record(const struct settings *settings)
{
	struct recorder_totals totals;
	unsigned long round = 0;
	struct recorder *r;
	struct kvmstats *k;
	uint64_t next;

	if (settings->nr_args != 1)
		errx(STATUS_USAGE, "record needs a FILE to write to");
	r = recorder_open(settings->args[0], settings->max_size);
	stop_catch(STATUS_PARTIAL, NULL);
	/* a service has no terminal to lose */
	if (!isatty(STDERR_FILENO))
		signal(SIGHUP, SIG_IGN);
	k = app_open_waiting(!settings->count);
	next = app_now();
	for (;;) {
		recorder_sample(r, k, host_now(), app_wall(app_now()));
		if (++round == settings->count)
			break;
		app_wait(k, &next, settings->interval);
		if (stop_requested())
			break;
		app_sample(k);
	}
	kvmstats_close(k);
	totals = recorder_close(r);
	print_totals(&totals, settings);
	return totals.lost ? STATUS_PARTIAL : STATUS_OK;
}
