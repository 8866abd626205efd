/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sums of VMs over several samples: a VM that takes the place of one that has exited
 * continues its sum, and the VMs of a BPF program are found by the threads of their vCPUs.
 */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "app.h"
#include "bpf/blame.h"

/* VMs whose labels and sums are kept after they have exited */
#define MAX_EXITED	1024

/* The VM that a sum is of now; the first member of each sum */
struct followed {
	char label[LABEL_SIZE];
	char name[128];		/* identity.name */
	pid_t pid;
	unsigned int nth;	/* number in its process */
	/* the VM before it: its end can be reported in the sample of its successor */
	pid_t ended_pid;
	unsigned int ended_nth;
	bool live;
};

struct known_vm {
	struct blame_vm vm;
	char label[LABEL_SIZE];	/* label of its sum, if it is selected */
	bool live, selected;
};

struct follow {
	void *sums;
	size_t size;		/* bytes of one sum */
	bool continues;		/* a VM continues the sum of a VM with its name that exited */
	size_t count, room;
	struct known_vm *known;	/* label of each VM of the kernel */
	size_t known_count, known_room;
	size_t dropped;		/* by follow_limit() */
};

/* Like qsort(), but the array may be NULL if it is empty. */
void follow_sort(void *array, size_t count, size_t size,
		 int (*compare)(const void *, const void *));

/* Return memory for at least one more element than count; exits without memory. */
void *follow_grow(void *memory, size_t count, size_t *room, size_t size);

/*
 * After a sample: find the VMs of all sums, or those that take their places, and add sums,
 * all 0, of other selected VMs. threads: those of vCPUs that the BPF program has seen
 */
void follow_sample(struct follow *f, const struct kvmstats_vm *first, char **words, int n,
		   const struct blame_thread *threads, size_t count);
void follow_free(struct follow *f);

/*
 * Remove the last ones of the sums of VMs that have exited if there are more than MAX_EXITED.
 * release frees what a sum has.
 */
void follow_limit(struct follow *f, void (*release)(void *sum));

/* The sum of a VM as the kernel knows it; NULL if it is not selected */
void *follow_sum(const struct follow *f, const struct blame_vm *vm);

/* The sum that a VM of the sample continues; NULL if there is none */
void *follow_find(const struct follow *f, const struct kvmstats_vm *vm);

/* The label of a VM, or of the first one of its process if kvm is 0; NULL if unknown */
const char *follow_label(const struct follow *f, uint64_t kvm, uint32_t tgid);

#endif /* FOLLOW_H */
