/* SPDX-License-Identifier: GPL-2.0-only */
/* Commands that attach a BPF program, and print sums of VMs after each sample */
#ifndef SAMPLED_H
#define SAMPLED_H

#include "json.h"
#include "sums.h"

struct sampled {
	struct sums *sums;
	const struct sums_type *type;
	void *arg;		/* for all functions */
	const struct out_column *columns;
	char kind;		/* of chunks in a recording; "record" has an option of the same name */
	void (*write_rows)(void *arg, struct out *out, const char *now, struct sum *sum);
	/* Write the members of a VM's object. */
	void (*write_json)(void *arg, struct json *j, struct sum *sum);
	/* Add up the sums of several VMs, for one more sum; or NULL. */
	void (*total)(const struct sums *sums, struct sum *total);
	/* Report values that are in no sum, before it is closed. */
	void (*report_lost)(void *arg);
};

/*
 * Take samples until interrupted or settings->count of them, one a second or every
 * settings->interval. Write the sums after the last one; with an interval, after each; of a
 * recording, once. Return the exit status.
 */
int sampled_run(const struct settings *settings, const struct sampled *command);

#endif /* SAMPLED_H */
