// SPDX-License-Identifier: GPL-2.0-only
/* The thread that reads samples, and replaces the sample in the model */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "logging.h"
#include "notify.h"
#include "rec_encode.h"
#include "sampler.h"
#include "serve.h"
#include "stop.h"

bool exports_program(const struct server *s, enum program program)
{
	const struct program_options *options = &s->settings.model.programs;

	return program == PROGRAM_BLAME ? options->owners :
	       program == PROGRAM_EXITS ? options->exits : options->stalls;
}

void open_recorded_sums(struct server *s, const char *path)
{
	unsigned int i;

	s->paced = recording_count(s->in.rec);
	open_recorded_programs(&s->programs, s->in.rec);
	for (i = 0; i < PROGRAMS; i++) {
		/* As when a host is sampled: each VM has its own series. */
		s->programs.open[i]->continues = false;
		if (!exports_program(s, i))
			s->programs.open[i] = NULL;
		else if (s->paced && !s->follows && !recording_has(s->in.rec, program_kinds[i]))
			errx(STATUS_NOTHING, "%s: recorded without --%s", path, program_names[i]);
	}
}

/* Return true if the sample has the sums of a program that is exported. */
static bool has_sums(const struct server *s, enum program program)
{
	struct rec_bytes contents;

	if (!s->programs.open[program])
		return false;
	/* The sampler writes them with each sample while the program works. */
	if (s->live)
		return recording_added(s->in.rec, 0, program_kinds[program], &contents);
	return recording_has(s->in.rec, program_kinds[program]);
}

static bool keeps_series(void *model, const struct sum *vm)
{
	return model_has(model, vm->label);
}

/* Export the exits; forget those of VMs without series. */
static void update_exits(struct server *s, uint64_t now)
{
	forget_sums(&s->programs.exits.sums, keeps_series, s->model);
	model_set_exits(s->model, &s->programs.exits, now - s->exits_time);
	s->exits_time = now;
}

/* Add the last sample. Sums that it has not are unknown from then on. */
static void add_observed(struct server *s, struct observation *o)
{
	struct sums **open;
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		open = &o->programs.open[i];
		if (has_sums(s, i) == !!*open)
			continue;
		if (*open) {
			close_sums(*open);
			*open = NULL;
		} else {
			read_recorded_program(&o->programs, i, s->in.rec);
			(*open)->continues = false;
		}
	}
	observation_add(o, s->in.k, NULL, 0);
}

static void observe(struct server *s)
{
	if (s->observed_changes != kvmstats_source_changes(s->in.k)) {
		s->observed_changes = kvmstats_source_changes(s->in.k);
		observation_close(&s->observed[0]);
		observation_close(&s->observed[1]);
	}
	add_observed(s, &s->observed[0]);
	add_observed(s, &s->observed[1]);
	if (s->model->marks) {
		observation_close(&s->observed[s->older]);
		s->older = !s->older;
	}
	s->model->observed = &s->observed[s->older];
}

/* Get what the sampler has written about the sample and the host. */
static void take_report(const struct recording *rec, struct sampler_report *report, struct host *host)
{
	struct rec_bytes t;

	if (!recording_added(rec, 0, RECORDED_REPORT, &t))
		return;
	report->duration = take_number(&t);
	report->cpu = take_number(&t);
	report->failed = take_number(&t);
	host->cpu_pressure = take_number(&t);
	take_text(&t, report->health, sizeof(report->health) - 1);
	if (report->failed)
		strcat(report->health, "\n");
}

/* Return true if another file has replaced FILE since the last sample. */
static bool is_replaced(const struct server *s)
{
	return s->follows && s->replaced != recording_replaced(s->in.rec);
}

/*
 * Start all counters from 0 when FILE is replaced: a server that starts later cannot read those of
 * the older files, and Prometheus would take lower counters for growth.
 */
static void restart_counters(struct server *s)
{
	s->replaced = recording_replaced(s->in.rec);
	s->model->restart = true;
	close_programs(&s->programs);
	open_recorded_sums(s, "-");
}

/* Return when the sample was taken, by app_now(): before the start, if it was in the file by then. */
static uint64_t sample_time(const struct server *s, uint64_t now)
{
	const uint64_t wall = app_wall(now), taken = recording_now(s->in.rec);
	uint64_t time;

	if (!s->follows || s->caught_up || taken > wall)
		return now;
	/* before the boot of this host */
	time = wall - taken < now ? now - (wall - taken) : 0;
	return time > s->model->time ? time : s->model->time;
}

void update_model(struct server *s, uint64_t begin, bool failed)
{
	struct sampler_report report = { .failed = failed };
	bool blame, stalls;
	struct host host;
	uint64_t now;

	s->began = true;
	host = recording_host(s->in.rec);
	now = app_now();
	report.duration = now - begin;
	now = sample_time(s, now);
	snprintf(report.health, sizeof(report.health), "%s%s", kvmstats_problem(s->in.k),
		 report.failed ? "\n" : "");
	if (s->live)
		take_report(s->in.rec, &report, &host);
	if (!report.failed)
		model_find_states(s->model, s->in.k, now);
	pthread_mutex_lock(&s->lock);
	if (is_replaced(s))
		restart_counters(s);
	blame = has_sums(s, PROGRAM_BLAME);
	stalls = has_sums(s, PROGRAM_STALLS);
	/* Under the lock, because responses read the exits of the sample before. */
	add_programs(&s->programs, kvmstats_first(s->in.k), NULL, 0);
	s->model->blame = blame ? &s->programs.blame : NULL;
	s->model->stalls = stalls;
	if (!report.failed) {
		s->model->host = host;
		model_update(s->model, s->in.k, now, report.duration);
		if (!s->only_samples)
			observe(s);
		s->model->cpu = report.cpu;
		if (!s->live)
			s->model->timestamp = recording_now(s->in.rec);
		if (has_sums(s, PROGRAM_EXITS))
			update_exits(s, now);
		if (stalls)
			model_add_stalls(s->model, &s->programs.stalls.sums);
	}
	memcpy(s->health, report.health, sizeof(s->health));
	pthread_mutex_unlock(&s->lock);
	if (blame)
		forget_sums(&s->programs.blame.sums, NULL, NULL);
	if (stalls)
		forget_sums(&s->programs.stalls.sums, NULL, NULL);
}

bool sample_is_due(const struct server *s, uint64_t last)
{
	return app_now() - last > s->interval / 8 * 7;
}

/* Wait until the next sample of a file is due. Return false to stop. */
static bool wait_for_interval(struct server *s, uint64_t next)
{
	struct timespec until = { .tv_sec = next / SECOND, .tv_nsec = next % SECOND };
	bool stop;

	pthread_mutex_lock(&s->lock);
	while (!s->stop && !pthread_cond_timedwait(&s->wake, &s->lock, &until))
		;
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

/* Return false if there is no sample. */
static bool read_sample(struct server *s)
{
	const uint64_t begin = app_now();
	bool failed = false;

	/* recording_open() has taken the first sample. */
	if (s->began && !input_fetch(&s->in))
		return false;
	if (is_replaced(s))
		recording_seek_file(s->in.rec);
	else if (s->began)
		failed = kvmstats_sample(s->in.k);
	update_model(s, begin, failed);
	return true;
}

static void read_new_samples(struct server *s)
{
	const char *problem;

	while (!stop_requested() && read_sample(s))
		;
	problem = input_new_problem(&s->in);
	if (problem)
		log_message(LOG_LEVEL_WARN, "%s", problem);
}

void catch_up(struct server *s)
{
	recording_seek_file(s->in.rec);
	read_new_samples(s);
	s->caught_up = true;
}

void *sample_until_stopped(void *server)
{
	struct server *s = server;
	const uint64_t one = 1;
	uint64_t next = app_now();

	do {
		/* The last sample of a recording becomes too old, as if the host did not answer. */
		if (s->follows)
			read_new_samples(s);
		else if (!read_sample(s))
			break;
		if (write(s->sample_done, &one, sizeof(one)) < 0)
			break;
		next += s->interval;
		/* Samples of a pipe come when they are taken. */
	} while (!s->paced || wait_for_interval(s, next));
	/* The sampler has ended. */
	if (s->live)
		stop_request();
	return NULL;
}

bool request_sample(struct server *s)
{
	bool due;

	pthread_mutex_lock(&s->lock);
	due = !s->model->samples || (s->live && sample_is_due(s, s->model->time));
	pthread_mutex_unlock(&s->lock);
	if (due && s->live)
		notify_sampler(SAMPLE_WANTED);
	return due;
}
