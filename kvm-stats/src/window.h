/* SPDX-License-Identifier: GPL-2.0-only */
/* What VMs did in several samples together */
#ifndef WINDOW_H
#define WINDOW_H

#include "app.h"

struct window_vm {
	char label[LABEL_SIZE];
	pid_t pid;			/* in its last sample, as the next two */
	unsigned int vcpus;
	bool ended;
	struct kvmstats_activity activity;
	uint64_t elapsed;			/* nanoseconds */
	/* Sums of the largest time that a vCPU had in each sample */
	uint64_t most[KVMSTATS_MODES];
	uint64_t failed;	/* instructions that KVM could not emulate */
};

struct window {
	struct window_vm *vm;
	size_t vms;
};

/* Return how many instructions KVM could not emulate since the previous sample. */
uint64_t count_failures(const struct kvmstats *k, const struct kvmstats_vm *vm);

/* Add the selected VMs of a sample. Exits without memory. */
void window_add(struct window *w, const struct kvmstats *k, char **args, int n);

/* Return the VM with this label, NULL if there is none. */
struct window_vm *window_find(const struct window *w, const char *label);

void window_free(struct window *w);

#endif /* WINDOW_H */
