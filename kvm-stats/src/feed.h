/* SPDX-License-Identifier: GPL-2.0-only */
/* The VMs that a command is about: of this host now, or of a recording. */
#ifndef FEED_H
#define FEED_H

#include "app.h"
#include "host.h"
#include "recording.h"

struct feed {
	struct kvmstats *k;		/* NULL: it is a recording */
	struct recording *rec;
	unsigned long sample;		/* of the recording */
};

/*
 * With its first sample; of a recording, the one at settings->at, or the first or
 * last one. wait: go on without a source of statistics until one works. Checks the
 * selectors among the first words of the command.
 */
enum feed_start { FEED_FIRST, FEED_LAST };
void feed_open(struct feed *f, const struct settings *settings, enum feed_start start,
	       bool wait, int selectors);
void feed_close(struct feed *f);

/* The next sample; false: the recording has no more. Ends the program on errors. */
bool feed_next(struct feed *f);
/* The same, but errors are left for feed_problem(). */
bool feed_try(struct feed *f);

/* In a recording: by samples, or to a time; false: it is there already */
bool feed_step(struct feed *f, long samples);
bool feed_go(struct feed *f, uint64_t time);

struct kvmstats_vm *feed_first(const struct feed *f);
const struct kvmstats_table *feed_table(const struct feed *f, enum kvmstats_scope scope);
const char *feed_source(const struct feed *f);
unsigned int feed_unread(const struct feed *f, const char **why);
const char *feed_problem(const struct feed *f);
struct host feed_host(const struct feed *f);
uint64_t feed_time(const struct feed *f);	/* since 1970, nanoseconds */

/* As app_status() */
int feed_status(const struct feed *f, unsigned int shown, bool selected);

#endif /* FEED_H */
