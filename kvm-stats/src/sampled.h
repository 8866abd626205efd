/* SPDX-License-Identifier: GPL-2.0-only */
/* Commands that attach a BPF program, and print sums of VMs after each sample */
#ifndef SAMPLED_H
#define SAMPLED_H

#include "follow.h"

struct sampled {
	/* As blame_open() */
	int (*open)(void *arg, const struct kvmstats_vm *first, struct kvmstats_probe *p);
	/* Read the program's sums. Return 0 or a negative errno. */
	int (*read)(void *arg);
	/* After a sample of the VMs, add up the sums of the selected ones. */
	void (*add)(void *arg, const struct kvmstats_vm *first, char **words, int n);
	void (*write)(void *arg, bool first, uint64_t elapsed);
	void (*close)(void *arg);
};

/* Run until interrupted or for settings->count samples. Return the exit status. */
int sampled_run(const struct settings *settings, const struct sampled *command,
		const struct follow *follow, void *arg);

#endif /* SAMPLED_H */
