/* SPDX-License-Identifier: GPL-2.0-only */
/* Cells of lib/exits.h, added up for each VM */
#ifndef EXITS_SUM_H
#define EXITS_SUM_H

#include "exits.h"
#include "follow.h"

struct exits_total {
	struct exits_key key;	/* serial: id of the vCPU if they are apart, else 0 */
	struct exits_cell cell;	/* without buckets */
	uint64_t bucket[EXITS_BUCKETS];
	/* for src/serve/reasons.c: */
	uint64_t growth;	/* cost since the last update */
	uint64_t recent;	/* weighted by age */
	bool listed;
};

struct exits_vm {
	struct followed vm;
	uint64_t elapsed;	/* time of its vCPUs */
	struct exits_total *totals;	/* by vCPU, then the most expensive first */
	size_t count, room;
	unsigned int listed;	/* number of totals, for src/serve/reasons.c */
	struct exits_cmdline {
		pid_t pid;	/* process; 0 if no command line was read */
		char *text;	/* NULL if the process did not let it be read */
		size_t size;
		uint64_t due;	/* when it is tried again */
		unsigned int tries;
	} cmdline;
};

struct exits_sum {
	struct exits *exits;
	enum exits_by by;
	struct follow follow;
	/* The sums that follow has */
	struct exits_vm *vms;
	size_t count;
};

/* Like exits_open(); continues: as struct follow */
int exits_sum_open(struct exits_sum *sum, enum exits_by by, bool continues,
		   struct kvmstats_probe *p);
void exits_sum_close(struct exits_sum *sum);

/*
 * Read the exits; then, after a sample of the VMs, add up those of the selected VMs. A VM
 * that takes the place of one that has exited continues its sum.
 */
int exits_sum_read(struct exits_sum *sum);
void exits_sum_add(struct exits_sum *sum, const struct kvmstats_vm *first, char **words, int n);

/* Forget the sum of a VM, by its index. */
void exits_sum_remove(struct exits_sum *sum, size_t i);

/* Time in the kernel and in userspace */
static inline uint64_t exits_cost(const struct exits_cell *cell)
{
	return cell->kernel + cell->user;
}

/*
 * The device at an address of a VM as its VMM's command line has it (iobase= or ioport=),
 * or as the host names a port that all PCs have; "" if neither does. Returns buf. Reads the
 * command line once.
 */
#define DEVICE_SIZE 64
const char *exits_device(struct exits_vm *vm, const struct exits_key *key, char buf[DEVICE_SIZE]);

#endif /* EXITS_SUM_H */
