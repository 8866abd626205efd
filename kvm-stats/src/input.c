// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <string.h>

#include "input.h"
#include "source.h"

bool input_has_time(const struct input *in, uint64_t time)
{
	const uint64_t printed = SECOND / 1000;	/* resolution of app_time_text() */
	bool before = false, after = false;
	unsigned long i;

	for (i = 0; i < recording_count(in->rec); i++) {
		before |= recording_time(in->rec, i) / printed <= time / printed;
		after |= recording_time(in->rec, i) >= time;
	}
	return before && after;
}

const char *input_new_problem(struct input *in)
{
	if (in->warned || !*recording_problem(in->rec))
		return NULL;
	in->warned = true;
	return recording_problem(in->rec);
}

void input_warn_problem(struct input *in)
{
	const char *problem = input_new_problem(in);

	if (problem)
		warnx("%s", problem);
}

static void seek_start(struct input *in, const struct settings *settings)
{
	const uint64_t at = settings->at;
	char first[TIME_SIZE], last[TIME_SIZE];

	app_time_text(input_time(in), first);
	if (!recording_count(in->rec))
		errx(STATUS_USAGE, "--at: standard input can be read from its start only");
	if (!input_has_time(in, at)) {
		app_time_text(recording_time(in->rec, recording_count(in->rec) - 1), last);
		warnx("%s has no sample of this time: it begins at %s and ends at %s",
		      settings->from, first, last);
	}
	input_seek_time(in, at);
}

/* Exit if the present sample is not before --until. */
static void check_end(struct input *in, const struct settings *settings)
{
	char now[TIME_SIZE], until[TIME_SIZE];

	if (!in->until || input_time(in) < in->until)
		return;
	app_time_text(input_time(in), now);
	app_time_text(in->until, until);
	errx(STATUS_NOTHING, "%s has no sample before %s: it %s at %s", settings->from, until,
	     settings->at ? "continues" : "begins", now);
}

void input_open(struct input *in, const struct settings *settings, enum input_start start,
		bool wait, int selectors)
{
	memset(in, 0, sizeof(*in));
	if (settings->from) {
		in->rec = recording_open(settings->from, &in->k);
		input_warn_problem(in);
		in->until = settings->until;
		if (settings->at)
			seek_start(in, settings);
		else if (start == INPUT_LAST)
			input_seek_samples(in, recording_count(in->rec));
		check_end(in, settings);
	} else {
		in->k = app_open(wait);
	}
	app_check_selectors(kvmstats_first(in->k), settings->args, selectors);
}

void input_close(struct input *in)
{
	kvmstats_close(in->k);
}

bool input_seek_samples(struct input *in, long samples)
{
	const long last = (long)recording_count(in->rec) - 1;
	const long from = recording_position(in->rec);
	long to = from + samples;

	to = to < 0 ? 0 : to > last ? last : to;
	/* what comes from a pipe cannot be read again */
	if (to == from || last < 0)
		return false;
	recording_seek(in->rec, to);
	return true;
}

/* The earliest from this time on: the host's clock may have been set back, or have been wrong. */
bool input_seek_time(struct input *in, uint64_t time)
{
	const unsigned long count = recording_count(in->rec);
	unsigned long i, found = count;

	for (i = 0; i < count; i++) {
		if (recording_time(in->rec, i) >= time &&
		    (found == count || recording_time(in->rec, i) < recording_time(in->rec, found)))
			found = i;
	}
	return input_seek_samples(in, (long)found - (long)recording_position(in->rec));
}

bool input_fetch(struct input *in)
{
	return !in->rec || (recording_fetch(in->rec) &&
			    (!in->until || recording_fetched(in->rec) < in->until));
}

bool input_next_nofail(struct input *in)
{
	if (!input_fetch(in))
		return false;
	kvmstats_sample(in->k);
	return true;
}

bool input_next(struct input *in)
{
	if (in->rec)
		return input_next_nofail(in);
	app_sample(in->k);
	return true;
}

const char *input_problem(const struct input *in)
{
	const char *problem = kvmstats_problem(in->k);

	return in->rec && !*problem ? recording_problem(in->rec) : problem;
}

int input_proc(const struct input *in)
{
	return in->rec ? -1 : core_proc(in->k);
}

struct host input_host(const struct input *in)
{
	return in->rec ? recording_host(in->rec) : host_now();
}

uint64_t input_time(const struct input *in)
{
	const struct kvmstats_vm *vm;
	uint64_t time = 0;

	if (in->rec)
		return recording_now(in->rec);
	/* all VMs of a sample have one time: that of the last one */
	for (vm = kvmstats_first(in->k); vm; vm = vm->next) {
		if (time < vm->time)
			time = vm->time;
	}
	return app_wall(time ? time : app_now());
}

int input_status(struct input *in, unsigned int shown, char **args, int n)
{
	unsigned int unread;
	const char *why;

	if (!in->rec)
		return app_status(in->k, shown, args, n);
	app_flush();
	input_warn_problem(in);
	unread = kvmstats_failed_reads(in->k, &why);
	if (!shown && n && kvmstats_first(in->k))
		app_warn_unmatched("VM", args, n);
	else if (!shown)
		warnx("no VM is in this sample");
	if (unread)
		warnx("%u could not be read then: %s", unread, why);
	if (!shown)
		return STATUS_NOTHING;
	return unread || *kvmstats_problem(in->k) ? STATUS_PARTIAL : STATUS_OK;
}
