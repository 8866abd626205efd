// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampled.h"
#include "xalloc.h"

static void open_or_exit(const struct sampled *command, struct kvmstats *k)
{
	struct kvmstats_probe probe = { 0 };

	if (command->open(command->arg, kvmstats_first(k), &probe))
		errx(STATUS_NOTHING, "%s: %s%s%s", app_command, probe.why,
		     *probe.help ? "; " : "", probe.help);
}

/* Write a sum as rows, or as a line of JSON if out is NULL. */
static void write_sum(const struct sampled *command, struct out *out, const char *now,
		      struct sum *sum)
{
	struct buf b = { 0 };
	struct json j = { .buf = &b };

	if (out) {
		command->write_rows(command->arg, out, now, sum);
		return;
	}
	json_open(&j, NULL, '{');
	command->write_json(command->arg, &j, sum);
	json_close(&j, '}');
	json_print_line(&j);
	buf_free(&b);
}

static void write_sample(const struct sampled *command, enum out_format format, bool first,
			 uint64_t elapsed)
{
	const struct sums *sums = command->sums;
	struct out *out = NULL;
	char now[TIME_SIZE];
	size_t i;

	if (format == OUT_TABLE)
		printf("%safter %.1f s\n", first ? "" : "\n", elapsed / 1e9);
	app_time_text(app_wall(app_now()), now);
	if (format != OUT_JSON_LINES)
		out = out_open(format == OUT_CSV && !first ? OUT_CSV_MORE : format,
			       command->columns);
	for (i = 0; i < sums->count; i++)
		write_sum(command, out, now, sum_at(sums, i));
	if (command->total && sums->count > 1) {
		struct sum *total = check_alloc(calloc(1, sums->type->size));

		command->total(sums, total);
		write_sum(command, out, now, total);
		free(total->items);
		free(total);
	}
	if (out)
		out_close(out);
}

int sampled_run(const struct settings *settings, const struct sampled *command)
{
	struct kvmstats *k = app_open();
	struct sums *sums = command->sums;
	unsigned long round = 0;
	unsigned int unread = 0;
	const char *why;
	uint64_t start, next;
	int status;

	app_check_selectors(kvmstats_first(k), settings->args, settings->nr_args);
	open_or_exit(command, k);
	/* Loading takes some time: sums of the VMs' times begin with the program's. */
	app_sample(k);
	add_sums(sums, kvmstats_first(k), settings->args, settings->nr_args);
	if (!sums->count && settings->nr_args) {
		status = app_status(k, 0, true);
		goto out;
	}
	start = next = app_now();
	do {
		app_wait(k, &next, settings->interval);
		if (read_sums(sums))
			errx(STATUS_NOTHING, "%s: cannot read the sums of the BPF program",
			     app_command);
		app_sample(k);
		unread |= kvmstats_failed_reads(k, &why);
		add_sums(sums, kvmstats_first(k), settings->args, settings->nr_args);
		write_sample(command, settings->format, !round, app_now() - start);
		app_flush();
	} while (++round != settings->count);
	if (sums->dropped)
		warnx("%s: %zu VMs that exited were left out: more than %d", app_command,
		      sums->dropped, MAX_EXITED);
	status = app_status(k, sums->count, settings->nr_args);
	if (sums->count && unread)
		status = STATUS_PARTIAL;
out:
	command->report_lost(command->arg);
	close_sums(sums);
	kvmstats_close(k);
	return status;
}
