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
	s->next_blame = app_now() + DOCTOR_INTERVAL;
}

/* Load the BPF program if it is due, for the samples after this one. */
static void retry_blame(struct server *s)
{
	struct kvmstats_probe probe = { 0 };

	if (app_now() < s->next_blame)
		return;
	s->next_blame = app_now() + DOCTOR_INTERVAL;
	if (blame_sum_open(&s->blame, false, kvmstats_first(s->k), &probe)) {
		if (strcmp(probe.why, s->blame_why))
			warnx("blame: %s%s%s; will retry", probe.why, *probe.help ? "; " : "",
			      probe.help);
		memcpy(s->blame_why, probe.why, sizeof(s->blame_why));
		return;
	}
	s->blame.clean = true;
	*s->blame_why = '\0';
	s->source_changes = kvmstats_source_changes(s->k);
	pthread_mutex_lock(&s->lock);
	s->model->blame = &s->blame;
	pthread_mutex_unlock(&s->lock);
}

/* Read the charges before a sample of the VMs, which may be newer. */
static void read_blame(struct server *s)
{
	/* Offsets in the program may be those of another module. */
	if (s->model->blame && (kvmstats_source_changes(s->k) != s->source_changes ||
				read_sums(&s->blame.sums)))
		close_blame(s);
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

static void take_sample(struct server *s, uint64_t *next_diagnosis)
{
	uint64_t begin = app_now(), now;
	bool no_source, exits;
	int ret;

	read_blame(s);
	/* recording_open() has taken the first sample. */
	ret = s->rec && !s->model->samples ? 0 : kvmstats_sample(s->k);
	no_source = !strcmp(kvmstats_source(s->k), "none");
	exits = s->exits.exits && !read_sums(&s->exits.sums);
	if (s->model->blame)
		add_sums(&s->blame.sums, kvmstats_first(s->k), NULL, 0);
	if (no_source)
		diagnose(s, next_diagnosis);
	now = app_now();
	pthread_mutex_lock(&s->lock);
	if (!ret)
		model_update(s->model, s->k, now, now - begin);
	if (!ret && exits)
		update_exits(s, now);
	if (!no_source)
		snprintf(s->health, sizeof(s->health), "%s%s", kvmstats_problem(s->k),
			 ret ? "\n" : "");
	pthread_mutex_unlock(&s->lock);
	if (s->model->blame)
		forget_sums(&s->blame.sums, NULL, NULL);
	else if (s->settings.model.owners && !no_source)
		retry_blame(s);
}

/* Wait until the next sample is due or wanted. Return false to stop. */
static bool wait_for_next(struct server *s, uint64_t *next)
{
	struct timespec until = { .tv_sec = *next / SECOND, .tv_nsec = *next % SECOND };
	bool stop;
	int ret;

	pthread_mutex_lock(&s->lock);
	s->sample_wanted = false;
	do {
		ret = s->stop || s->sample_wanted ? ETIMEDOUT :
		      pthread_cond_timedwait(&s->wake, &s->lock, &until);
	} while (!ret);
	if (s->sample_wanted)
		*next = app_now();
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
	return NULL;
}

bool request_sample(struct server *s)
{
	uint64_t now = app_now();
	bool due;

	pthread_mutex_lock(&s->lock);
	due = !s->model->samples || (!s->rec && now - s->model->time > s->interval / 8 * 7);
	if (due && s->model->samples) {
		s->sample_wanted = true;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	return due;
}
