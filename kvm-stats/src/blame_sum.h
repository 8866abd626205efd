/* SPDX-License-Identifier: GPL-2.0-only */
/* Charges of lib/blame.h, added up for each VM and by names of owners */
#ifndef BLAME_SUM_H
#define BLAME_SUM_H

#include "blame.h"
#include "follow.h"

#define OWNER_NAME_SIZE	(LABEL_SIZE + 16)

/* Who ran while the VM waited */
struct blame_share {
	const char *kind;	/* "vm", "self", "process"... */
	char name[OWNER_NAME_SIZE];
	uint32_t pid;		/* a process of it, or 0 */
	uint64_t ns;
	/* for src/serve/waits.c: */
	uint64_t growth;	/* since it was exported */
	uint64_t recent;	/* weighted by age */
	bool listed;
};

struct blame_victim {
	struct followed vm;
	uint64_t ns;		/* sum of the shares */
	pid_t counted;		/* process of the VM that the next two are of */
	uint64_t waited;	/* before the sum began */
	uint64_t unseen;	/* without an entry */
	struct blame_share *shares;	/* the largest first */
	size_t count, room;
};

struct blame_sum {
	struct blame *blame;
	enum blame_by by;
	struct follow follow;
	bool begun;		/* the next sample of the VMs is since the last one */
	/* The sums that follow has */
	struct blame_victim *victims;
	size_t count;
};

/* Like blame_open(); continues: as struct follow */
int blame_sum_open(struct blame_sum *sum, bool continues, const struct kvmstats_vm *first,
		   struct kvmstats_probe *p);
void blame_sum_close(struct blame_sum *sum);

/*
 * Read the charges; then, after a sample of the VMs, which may be newer than the charges,
 * add up those of the selected VMs. Standard error reports each VM that continues the sum
 * of another one.
 */
int blame_sum_read(struct blame_sum *sum);
void blame_sum_add(struct blame_sum *sum, const struct kvmstats_vm *first, char **words, int n);

/* Return the sum of a VM, or NULL. */
struct blame_victim *blame_sum_find(const struct blame_sum *sum, const struct kvmstats_vm *vm);

/* Add up the owners of all VMs; a VM that keeps itself waiting is an owner like any other one. */
void blame_sum_total(const struct blame_sum *sum, struct blame_victim *total);

/* Remove the sums of VMs that have exited. */
void blame_sum_forget(struct blame_sum *sum);

#endif /* BLAME_SUM_H */
