/* SPDX-License-Identifier: GPL-2.0-only */
/* The samples that a command is about: of this host, or of a recording. */
#ifndef INPUT_H
#define INPUT_H

#include "app.h"
#include "host.h"
#include "recording.h"

struct input {
	struct kvmstats *k;
	struct recording *rec;		/* NULL for this host */
	bool warned;			/* input_new_problem() has returned the problem */
	uint64_t until;			/* time since 1970 where the input ends, or 0 */
};

/*
 * Open this host, with one sample, or a recording: at settings->at, or at its first or last
 * sample. wait: as for app_open(). Checks the selectors among the first arguments of the
 * command.
 */
enum input_start { INPUT_FIRST, INPUT_LAST };
void input_open(struct input *in, const struct settings *settings, enum input_start start,
		bool wait, int selectors);
void input_close(struct input *in);

/* Get the next sample of a recording for kvmstats_sample(); false: it has no more. */
bool input_fetch(struct input *in);
/* The next sample; false: the recording has no more. Ends the program on errors of a source. */
bool input_next(struct input *in);
/* Like input_next(), but errors are left for kvmstats_problem(). */
bool input_next_nofail(struct input *in);

/* Seek in a recording, by samples or to a time. Return false if already there. */
bool input_seek_samples(struct input *in, long samples);
bool input_seek_time(struct input *in, uint64_t time);

/* Return true if a recording has samples before and after this time, or at it. */
bool input_has_time(const struct input *in, uint64_t time);

/* Return the problem with the recording once, otherwise NULL. */
const char *input_new_problem(struct input *in);
/* Print it. */
void input_warn_problem(struct input *in);

/* Return the problem with the sample or the recording, "" if there is none. */
const char *input_problem(const struct input *in);
/* A directory with the processes of this host; -1 for a recording */
int input_proc(const struct input *in);
struct host input_host(const struct input *in);
uint64_t input_time(const struct input *in);	/* since 1970, nanoseconds */

/* As app_status() */
int input_status(struct input *in, unsigned int shown, char **args, int n);

#endif /* INPUT_H */
