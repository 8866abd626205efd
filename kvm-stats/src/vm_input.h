/* SPDX-License-Identifier: GPL-2.0-only */
/* The VMs that a command is about: of this host now, or of a recording. */
#ifndef VM_INPUT_H
#define VM_INPUT_H

#include "app.h"
#include "host.h"
#include "recording.h"

struct vm_input {
	struct kvmstats *k;		/* NULL if the input is a recording */
	struct recording *rec;
	unsigned long sample;		/* index in the recording */
};

/*
 * Open this host, with one sample, or a recording at settings->at or at its first or last
 * sample. wait: continue without a source of statistics until one works. Checks the selectors
 * among the first arguments of the command.
 */
enum input_start { INPUT_FIRST, INPUT_LAST };
void input_open(struct vm_input *f, const struct settings *settings, enum input_start start,
	       bool wait, int selectors);
void input_close(struct vm_input *f);

/* The next sample; false: the recording has no more. Ends the program on errors. */
bool input_next(struct vm_input *f);
/* Like input_next(), but errors are left for input_problem(). */
bool input_next_nofail(struct vm_input *f);

/* Seek in a recording, by samples or to a time. Return false if already there. */
bool input_seek_samples(struct vm_input *f, long samples);
bool input_seek_time(struct vm_input *f, uint64_t time);

struct kvmstats_vm *input_first(const struct vm_input *f);
const struct kvmstats_table *input_table(const struct vm_input *f, enum kvmstats_scope scope);
const char *input_source(const struct vm_input *f);
unsigned int input_failed_reads(const struct vm_input *f, const char **why);
const char *input_problem(const struct vm_input *f);
struct host input_host(const struct vm_input *f);
uint64_t input_time(const struct vm_input *f);	/* since 1970, nanoseconds */

/* As app_status() */
int input_status(const struct vm_input *f, unsigned int shown, bool selected);

#endif /* VM_INPUT_H */
