/* SPDX-License-Identifier: GPL-2.0-only */
/* Cells of bpf/exits.h, added up for each VM */
#ifndef EXITS_SUM_H
#define EXITS_SUM_H

#include "bpf/exits.h"
#include "sums.h"

struct exits_total {
	struct sum_item item;	/* group: id of the vCPU if they are apart, else 0 */
	struct exits_key key;	/* serial: the same */
	struct exits_cell cell;	/* without buckets */
	uint64_t bucket[EXITS_BUCKETS];
};

struct exits_vm {
	struct sum sum;
	struct exits_cmdline {
		pid_t pid;	/* process; 0 if no command line was read */
		char *text;	/* NULL if the process did not let it be read */
		size_t size;
		uint64_t due;	/* when it is tried again */
		unsigned int tries;
	} cmdline;
};

struct exits_sum {
	struct sums sums;
	struct exits *exits;
	enum exits_by by;	/* set before it is opened */
};

extern const struct sums_type exits_sums;

static inline struct exits_total *exits_total_at(const struct exits_vm *vm, size_t i)
{
	return vm->sum.items ? (struct exits_total *)vm->sum.items + i : NULL;
}

/*
 * The device at an address of a VM as its VMM's command line has it (iobase= or ioport=),
 * or as the host names a port that all PCs have; "" if neither does. Returns buf. Reads the
 * command line once.
 */
#define DEVICE_SIZE 64
const char *exits_device(struct exits_vm *vm, const struct exits_key *key, char buf[DEVICE_SIZE]);

#endif /* EXITS_SUM_H */
