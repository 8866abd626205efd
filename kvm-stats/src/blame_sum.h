/* SPDX-License-Identifier: GPL-2.0-only */
/* Charges of bpf/blame.h, added up for each VM and by names of owners */
#ifndef BLAME_SUM_H
#define BLAME_SUM_H

#include "bpf/blame.h"
#include "sums.h"

#define OWNER_NAME_SIZE	(LABEL_SIZE + 16)

/* Who ran while the VM waited */
struct blame_share {
	struct sum_item item;
	struct blame_key {
		char kind[8];	/* "vm", "self", "process"... */
		char name[OWNER_NAME_SIZE];	/* padded with zeros */
	} key;
	uint32_t pid;		/* a process of it, or 0 */
	uint64_t cgroup;	/* id of that process's; 0 in a recording */
	uint32_t starter;	/* the process from which it comes; 0 in a recording */
};

struct blame_victim {
	struct sum sum;
	pid_t counted;		/* process of the VM that the next two are of */
	uint64_t waited;	/* before the sum began */
	uint64_t unseen;	/* without an entry */
	struct blame_waits ended;	/* waits that have ended */
	struct blame_waits open;	/* those that have not, with their length so far */
};

struct blame_sum {
	struct sums sums;
	struct blame *blame;
	void *paths;		/* tree of the paths of cgroups */
	enum blame_by by;
	bool clean;		/* different names that look alike in a label are one owner */
	bool begun;		/* the next sample of the VMs is since the last one */
};

extern const struct sums_type blame_sums;

/* The waits of a VM; those that are open as if they ended now */
struct blame_waits all_waits(const struct blame_victim *victim);
void add_waits(struct blame_waits *sum, const struct blame_waits *waits);
/* Their number, and their mean length, 0 without waits */
uint64_t count_waits(const struct blame_waits *waits);
uint64_t mean_wait(const struct blame_waits *waits);

static inline struct blame_share *blame_share_at(const struct blame_victim *victim, size_t i)
{
	return victim->sum.items ? (struct blame_share *)victim->sum.items + i : NULL;
}

/* The largest owner whose kind is one of these words; NULL if there is none, or no victim */
const struct blame_share *find_owner(const struct blame_victim *victim, const char *kinds);

/*
 * Add up the owners of all VMs; a VM that keeps itself waiting is an owner like any other one.
 * total is all 0 before; the caller frees its items.
 */
void blame_sum_total(const struct sums *sums, struct sum *total);

#endif /* BLAME_SUM_H */
