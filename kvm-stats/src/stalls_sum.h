/* SPDX-License-Identifier: GPL-2.0-only */
/* Stalls of bpf/stalls.h, added up for each VM by reason */
#ifndef STALLS_SUM_H
#define STALLS_SUM_H

#include "bpf/stalls.h"
#include "sums.h"

struct stall_share {
	struct sum_item item;
	uint64_t reason;
};

struct stalls_vm {
	struct sum sum;
	int64_t other;		/* OTHER of its vCPUs, less the stalls of samples before */
};

struct stalls_sum {
	struct sums sums;
	struct stalls *stalls;
	bool begun;		/* the next sample of the VMs is since the last one */
};

extern const struct sums_type stalls_sums;

static inline struct stall_share *stall_share_at(const struct sum *sum, size_t i)
{
	return sum->items ? (struct stall_share *)sum->items + i : NULL;
}

/* Return the time of a reason, 0 if vm is NULL. */
uint64_t find_stall_time(const struct stalls_vm *vm, uint64_t reason);

/* The name of a reason: one word; and what it means */
const char *stall_name(uint64_t reason);
const char *stall_meaning(uint64_t reason);

#endif /* STALLS_SUM_H */
