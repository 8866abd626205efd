// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "feed.h"

void feed_open(struct feed *f, const struct settings *settings, enum feed_start start,
	       bool wait, int selectors)
{
	memset(f, 0, sizeof(*f));
	if (settings->from) {
		f->rec = recording_open(settings->from);
		if (*recording_problem(f->rec))
			warnx("%s", recording_problem(f->rec));
		if (settings->at)
			feed_go(f, settings->at);
		else if (start == FEED_LAST)
			feed_step(f, recording_count(f->rec));
	} else {
		f->k = app_open_waiting(wait);
	}
	app_check_selectors(feed_first(f), settings->words, selectors);
}

void feed_close(struct feed *f)
{
	if (f->rec)
		recording_close(f->rec);
	kvmstats_close(f->k);
}

bool feed_step(struct feed *f, long samples)
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

bool feed_go(struct feed *f, uint64_t time)
{
	unsigned long i = 0;

	while (i + 1 < recording_count(f->rec) && recording_time(f->rec, i) < time)
		i++;
	return feed_step(f, (long)i - (long)f->sample);
}

bool feed_try(struct feed *f)
{
	if (f->rec)
		return feed_step(f, 1);
	kvmstats_sample(f->k);
	return true;
}

bool feed_next(struct feed *f)
{
	if (f->rec)
		return feed_step(f, 1);
	app_sample(f->k);
	return true;
}

struct kvmstats_vm *feed_first(const struct feed *f)
{
	return f->rec ? recording_first(f->rec) : kvmstats_first(f->k);
}

const struct kvmstats_table *feed_table(const struct feed *f, enum kvmstats_scope scope)
{
	return f->rec ? recording_table(f->rec, scope) : kvmstats_table(f->k, scope);
}

const char *feed_source(const struct feed *f)
{
	return f->rec ? recording_source(f->rec) : kvmstats_source(f->k);
}

unsigned int feed_unread(const struct feed *f, const char **why)
{
	return f->rec ? recording_unread(f->rec, why) : kvmstats_unread(f->k, why);
}

const char *feed_problem(const struct feed *f)
{
	return f->rec ? recording_problem(f->rec) : kvmstats_problem(f->k);
}

struct host feed_host(const struct feed *f)
{
	return f->rec ? recording_host(f->rec) : host_now();
}

uint64_t feed_time(const struct feed *f)
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

int feed_status(const struct feed *f, unsigned int shown, bool selected)
{
	unsigned int unread;
	const char *why;

	if (f->k)
		return app_status(f->k, shown, selected);
	app_flush();
	unread = feed_unread(f, &why);
	if (!shown)
		warnx("no VM %s", selected && feed_first(f) ? "matches" : "is in this sample");
	if (unread)
		warnx("%u could not be read then: %s", unread, why);
	return !shown ? STATUS_NOTHING : unread ? STATUS_PART : STATUS_OK;
}
