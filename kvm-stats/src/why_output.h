/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The output of "kvm-stats why" for the screen of "top". Another process runs the command, because
 * it observes for seconds, and the screen shows the same sentences and remedies.
 */
#ifndef WHY_OUTPUT_H
#define WHY_OUTPUT_H

#include "buf.h"
#include "input.h"

struct why_output {
	pid_t pid;		/* 0 once the command has ended */
	int fd;
	struct buf text;
};

/*
 * Start the command for a VM, or for all selected VMs if vm is NULL. It observes the host, or the time
 * of a recording until the present sample. Return NULL and write the reason to error if that is not
 * possible.
 */
struct why_output *why_output_start(const struct input *in, const struct settings *settings,
				    const struct kvmstats_vm *vm, char *error, size_t size);

/* Read what the command has written. Return true if there was more, or it has ended. */
bool why_output_read(struct why_output *output);

/* End the command if it runs. */
void why_output_free(struct why_output *output);

#endif /* WHY_OUTPUT_H */
