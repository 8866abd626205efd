// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "vm_input.h"

void input_open(struct vm_input *f, const struct settings *settings, enum input_start start,
	       bool wait, int selectors)
{
	memset(f, 0, sizeof(*f));
	if (settings->from) {
		f->rec = recording_open(settings->from);
		if (*recording_problem(f->rec))
			warnx("%s", recording_problem(f->rec));
		if (settings->at)
			input_seek_time(f, settings->at);
		else if (start == INPUT_LAST)
			input_seek_samples(f, recording_count(f->rec));
	} else {
		f->k = app_open_waiting(wait);
	}
	app_check_selectors(input_first(f), settings->args, selectors);
}

void input_close(struct vm_input *f)
{
	if (f->rec)
		recording_close(f->rec);
	kvmstats_close(f->k);
}

bool input_seek_samples(struct vm_input *f, long samples)
{
	const long last = recording_count(f->rec) - 1;
	long to = (long)f->sample + samples;

	to = to < 0 ? 0 : to > last ? last : to;
	if (to == (long)f->sample)
		return false;
	f->sample = to;
	recording_seek(f->rec, to);
	return true;
}

bool input_seek_time(struct vm_input *f, uint64_t time)
{
	unsigned long i = 0;

	while (i + 1 < recording_count(f->rec) && recording_time(f->rec, i) < time)
		i++;
	return input_seek_samples(f, (long)i - (long)f->sample);
}

bool input_next_nofail(struct vm_input *f)
{
	if (f->rec)
		return input_seek_samples(f, 1);
	kvmstats_sample(f->k);
	return true;
}

bool input_next(struct vm_input *f)
{
	if (f->rec)
		return input_seek_samples(f, 1);
	app_sample(f->k);
	return true;
}

struct kvmstats_vm *input_first(const struct vm_input *f)
{
	return f->rec ? recording_first(f->rec) : kvmstats_first(f->k);
}

const struct kvmstats_table *input_table(const struct vm_input *f, enum kvmstats_scope scope)
{
	return f->rec ? recording_table(f->rec, scope) : kvmstats_table(f->k, scope);
}

const char *input_source(const struct vm_input *f)
{
	return f->rec ? recording_source(f->rec) : kvmstats_source(f->k);
}

unsigned int input_failed_reads(const struct vm_input *f, const char **why)
{
	return f->rec ? recording_failed_reads(f->rec, why) : kvmstats_failed_reads(f->k, why);
}

const char *input_problem(const struct vm_input *f)
{
	return f->rec ? recording_problem(f->rec) : kvmstats_problem(f->k);
}

struct host input_host(const struct vm_input *f)
{
	return f->rec ? recording_host(f->rec) : host_now();
}

uint64_t input_time(const struct vm_input *f)
{
	const struct kvmstats_vm *vm;
	uint64_t time = 0;

	if (f->rec)
		return recording_time(f->rec, f->sample);
	/* all VMs of a sample have one time: that of the last one */
	for (vm = kvmstats_first(f->k); vm; vm = vm->next) {
		if (time < vm->time)
			time = vm->time;
	}
	return app_wall(time ? time : app_now());
}

int input_status(const struct vm_input *f, unsigned int shown, bool selected)
{
	unsigned int unread;
	const char *why;

	if (f->k)
		return app_status(f->k, shown, selected);
	app_flush();
	unread = input_failed_reads(f, &why);
	if (!shown)
		warnx("no VM %s", selected && input_first(f) ? "matches" : "is in this sample");
	if (unread)
		warnx("%u could not be read then: %s", unread, why);
	return !shown ? STATUS_NOTHING : unread ? STATUS_PARTIAL : STATUS_OK;
}
