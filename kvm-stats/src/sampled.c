// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "input.h"
#include "sampled.h"
#include "stop.h"
#include "xalloc.h"

/* Open the sums: of the recording, or of the BPF program. */
static void open_or_exit(const struct sampled *command, const struct input *in)
{
	struct kvmstats_probe probe = { 0 };

	if (in->rec)
		read_recorded_sums(command->sums, command->type, in->rec);
	else if (open_sums(command->sums, command->type, NULL, kvmstats_first(in->k), &probe))
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
			 uint64_t time, uint64_t elapsed)
{
	const struct sums *sums = command->sums;
	struct out *out = NULL;
	char now[TIME_SIZE];
	size_t i;

	if (format == OUT_TABLE)
		printf("%safter %.1f s\n", first ? "" : "\n", elapsed / 1e9);
	app_time_text(time, now);
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

/* Read the next sample and its sums. Return false if the recording has no more. */
static bool read_next(const struct settings *settings, struct sums *sums, struct input *in)
{
	if (read_sums(sums))
		errx(STATUS_NOTHING, "%s: cannot read the sums of the BPF program", app_command);
	if (!input_next(in))
		return false;
	add_sums(sums, kvmstats_first(in->k), settings->args, settings->nr_args);
	return true;
}

/* Return true if the sums are written after this sample: without --delay, only after the last one. */
static bool is_written(const struct settings *settings, const struct input *in, bool last)
{
	return last || (settings->interval && !in->rec);
}

int sampled_run(const struct settings *settings, const struct sampled *command)
{
	struct sums *sums = command->sums;
	unsigned long round = 0;
	unsigned int unread = 0;
	bool more, last, first = true;
	uint64_t start, next;
	struct input in;
	int status;

	if (!settings->from)
		stop_catch(STATUS_PARTIAL, NULL);
	input_open(&in, settings, INPUT_FIRST, false, settings->nr_args);
	sums->continues = true;
	open_or_exit(command, &in);
	/* Loading takes some time: sums of the VMs' times begin with the program's. */
	if (!in.rec)
		app_sample(in.k);
	add_sums(sums, kvmstats_first(in.k), settings->args, settings->nr_args);
	if (!sums->count && settings->nr_args && !in.rec) {
		status = input_status(&in, 0, settings->args, settings->nr_args);
		goto out;
	}
	if (!in.rec && !settings->interval && isatty(STDERR_FILENO))
		warnx("observing; Ctrl-C prints the result");
	start = input_time(&in);
	next = app_now();
	do {
		if (!in.rec)
			app_wait(in.k, &next, settings->interval ?: SECOND);
		more = read_next(settings, sums, &in);
		unread |= kvmstats_failed_reads(in.k, NULL);
		round += more;
		last = !more || stop_requested() || round == settings->count;
		if (!is_written(settings, &in, last))
			continue;
		if (in.rec && !recording_has(in.rec, command->kind))
			errx(STATUS_NOTHING, "%s: recorded without --%s", settings->from, app_command);
		write_sample(command, settings->format, first, input_time(&in),
			     input_time(&in) - start);
		app_flush();
		first = false;
	} while (!last);
	if (sums->dropped)
		warnx("%s: %zu VMs that exited were left out: more than %d", app_command,
		      sums->dropped, MAX_EXITED);
	status = input_status(&in, sums->count, settings->args, settings->nr_args);
	if (sums->count && unread)
		status = STATUS_PARTIAL;
out:
	if (!in.rec)
		command->report_lost(command->arg);
	close_sums(sums);
	input_close(&in);
	return status;
}
