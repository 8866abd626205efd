// SPDX-License-Identifier: GPL-2.0-only
/* The thread that samples, and replaces the sample in the model */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "serve.h"

#define DOCTOR_INTERVAL	(10 * SECOND)

/*
 * Store the report of doctor, which explains why no source works. Some of its probes
 * create a VM, so they run at intervals only.
 */
static void diagnose(struct server *s, uint64_t *next)
{
	struct kvmstats_probe probe;
	char text[sizeof(s->health)] = "";
	size_t n = 0;
	unsigned int i;

	if (app_now() < *next)
		return;
	*next = app_now() + DOCTOR_INTERVAL;
	for (i = 0; !probe_source(i, NULL, &probe); i++) {
		if (n < sizeof(text))
			n += snprintf(text + n, sizeof(text) - n, "%s: %s%s%s\n", probe.name,
				      probe.why, *probe.help ? ": " : "", probe.help);
	}
	pthread_mutex_lock(&s->lock);
	memcpy(s->health, text, sizeof(text));
	pthread_mutex_unlock(&s->lock);
}

static void close_blame(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->model->blame = NULL;
	pthread_mutex_unlock(&s->lock);
	close_sums(&s->blame.sums);
	s->blame_retry.next = app_now() + DOCTOR_INTERVAL;
}

static void close_stalls(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->model->stalls = false;
	pthread_mutex_unlock(&s->lock);
	close_sums(&s->stalls.sums);
	s->stalls_retry.next = app_now() + DOCTOR_INTERVAL;
}

/* Return true if it is time to load the program. */
static bool is_due(struct retry *retry)
{
	if (app_now() < retry->next)
		return false;
	retry->next = app_now() + DOCTOR_INTERVAL;
	return true;
}

/*
 * Note whether the program was loaded; report why it was not, unless that is known. Return true if
 * it was.
 */
static bool note_loaded(struct server *s, struct retry *retry, const char *name, int error,
			const struct kvmstats_probe *probe)
{
	if (error && strcmp(probe->why, retry->why))
		warnx("%s: %s%s%s; will retry", name, probe->why, *probe->help ? "; " : "",
		      probe->help);
	snprintf(retry->why, sizeof(retry->why), "%s", error ? probe->why : "");
	retry->source_changes = kvmstats_source_changes(s->k);
	return !error;
}

/* Load the BPF program if it is due, for the samples after this one. */
static void retry_blame(struct server *s)
{
	struct kvmstats_probe probe = { 0 };

	if (!is_due(&s->blame_retry) ||
	    !note_loaded(s, &s->blame_retry, "blame",
			 blame_sum_open(&s->blame, false, kvmstats_first(s->k), &probe), &probe))
		return;
	s->blame.clean = true;
	pthread_mutex_lock(&s->lock);
	s->model->blame = &s->blame;
	pthread_mutex_unlock(&s->lock);
}

static void retry_stalls(struct server *s)
{
	struct kvmstats_probe probe = { 0 };

	if (!is_due(&s->stalls_retry) ||
	    !note_loaded(s, &s->stalls_retry, "stalls",
			 stalls_sum_open(&s->stalls, false, kvmstats_first(s->k), &probe), &probe))
		return;
	pthread_mutex_lock(&s->lock);
	s->model->stalls = true;
	pthread_mutex_unlock(&s->lock);
}

/* Read the charges before a sample of the VMs, which may be newer. */
static bool read_charges(struct server *s, const struct retry *retry, struct sums *sums)
{
	if (s->rec)
		return true;
	/* Offsets in the program may be those of another module. */
	return kvmstats_source_changes(s->k) == retry->source_changes && !read_sums(sums);
}

static bool keeps_series(void *model, const struct sum *vm)
{
	return model_has(model, vm->label);
}

/* Add up the exits; forget those of VMs without series. */
static void update_exits(struct server *s, uint64_t now)
{
	add_sums(&s->exits.sums, kvmstats_first(s->k), NULL, 0);
	forget_sums(&s->exits.sums, keeps_series, s->model);
	model_set_exits(s->model, &s->exits, now - s->exits_time);
	s->exits_time = now;
}

static bool has_recorded(const struct server *s, char kind, bool wanted)
{
	return s->rec && wanted && recording_has(s->rec, kind);
}

/* Export what is wanted and recorded; of a pipe, from the first sums on. */
static void find_recorded(struct server *s)
{
	const struct serve_options *wanted = &s->settings.model;

	pthread_mutex_lock(&s->lock);
	if (has_recorded(s, RECORDED_BLAME, wanted->owners))
		s->model->blame = &s->blame;
	if (has_recorded(s, RECORDED_STALLS, wanted->stalls))
		s->model->stalls = true;
	pthread_mutex_unlock(&s->lock);
}

static void take_sample(struct server *s, uint64_t *next_diagnosis)
{
	uint64_t begin = app_now(), now;
	bool no_source, exits;
	struct host host;
	int ret;

	if (s->model->blame && !read_charges(s, &s->blame_retry, &s->blame.sums))
		close_blame(s);
	if (s->model->stalls && !read_charges(s, &s->stalls_retry, &s->stalls.sums))
		close_stalls(s);
	/* recording_open() has taken the first sample. */
	ret = s->rec && !s->model->samples ? 0 : kvmstats_sample(s->k);
	no_source = !strcmp(kvmstats_source(s->k), "none");
	exits = has_recorded(s, RECORDED_EXITS, s->settings.model.exits) ||
		(s->exits.exits && !read_sums(&s->exits.sums));
	find_recorded(s);
	if (s->model->blame)
		add_sums(&s->blame.sums, kvmstats_first(s->k), NULL, 0);
	if (s->model->stalls)
		add_sums(&s->stalls.sums, kvmstats_first(s->k), NULL, 0);
	if (no_source)
		diagnose(s, next_diagnosis);
	host = s->rec ? recording_host(s->rec) : host_now();
	now = app_now();
	if (!ret)
		model_find_states(s->model, s->k, now);
	pthread_mutex_lock(&s->lock);
	if (!ret) {
		model_update(s->model, s->k, now, now - begin);
		s->model->host = host;
	}
	if (!ret && exits)
		update_exits(s, now);
	if (!ret && s->model->stalls)
		model_add_stalls(s->model, &s->stalls.sums);
	if (!no_source)
		snprintf(s->health, sizeof(s->health), "%s%s", kvmstats_problem(s->k),
			 ret ? "\n" : "");
	pthread_mutex_unlock(&s->lock);
	if (s->model->blame)
		forget_sums(&s->blame.sums, NULL, NULL);
	else if (s->settings.model.owners && !no_source && !s->rec)
		retry_blame(s);
	if (s->model->stalls)
		forget_sums(&s->stalls.sums, NULL, NULL);
	else if (s->settings.model.stalls && !no_source && !s->rec)
		retry_stalls(s);
}

/* The last sample is almost an interval old. */
static bool sample_is_due(const struct server *s)
{
	return app_now() - s->model->time > s->interval / 8 * 7;
}

/* Wait until the next sample is due or wanted. Return false to stop. */
static bool wait_for_next(struct server *s, uint64_t *next)
{
	struct timespec until = { .tv_sec = *next / SECOND, .tv_nsec = *next % SECOND };
	bool stop;
	int ret;

	pthread_mutex_lock(&s->lock);
	/* Wanted while the last one was taken: it may have been taken long ago. */
	s->sample_wanted = s->sample_wanted && sample_is_due(s);
	do {
		ret = s->stop || s->sample_wanted ? ETIMEDOUT :
		      pthread_cond_timedwait(&s->wake, &s->lock, &until);
	} while (!ret);
	if (s->sample_wanted)
		*next = app_now();
	s->sample_wanted = false;
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

void *sample_until_stopped(void *server)
{
	struct server *s = server;
	const uint64_t interval = s->interval, one = 1;
	uint64_t next = app_now(), next_diagnosis = 0;

	do {
		/* The last sample of a recording becomes too old, as if the host did not answer. */
		if (s->rec && s->model->samples && !recording_fetch(s->rec))
			break;
		take_sample(s, &next_diagnosis);
		if (write(s->sample_done, &one, sizeof(one)) < 0)
			break;
		/* Samples of a pipe come when they are taken. */
		if (s->rec && !s->paced) {
			next = app_now();
			continue;
		}
		/* If samples take longer than the interval, don't catch up. */
		next += interval;
		if (next < app_now())
			next = app_now() + interval;
	} while (wait_for_next(s, &next));
	if (s->model->blame)
		close_blame(s);
	if (s->model->stalls)
		close_stalls(s);
	return NULL;
}

bool request_sample(struct server *s)
{
	bool due;

	pthread_mutex_lock(&s->lock);
	due = !s->model->samples || (!s->rec && sample_is_due(s));
	if (due && s->model->samples) {
		s->sample_wanted = true;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	return due;
}
