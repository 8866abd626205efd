/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Exits of vCPUs by reason, with the time that each took. Loads and attaches a BPF program;
 * nothing is attached before exits_open() or after exits_close().
 */
#ifndef KVMSTATS_EXITS_H
#define KVMSTATS_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blame.bpf.h"
#include "exits.bpf.h"
#include "source.h"

struct exits;

#define EXITS_SUMS (sizeof(((struct exits_cell *)0)->sum) / sizeof(__u64))

/* Add up two cells, without their buckets. */
static inline void exits_add(struct exits_cell *to, const struct exits_cell *from)
{
	size_t i;

	for (i = 0; i < EXITS_SUMS; i++)
		to->sum[i] += from->sum[i];
	if (from->max > to->max)
		to->max = from->max;
}

/* A cell and the open exit of its vCPU, since exits_open() */
struct exits_row {
	struct exits_key key;
	struct exits_cell cell;
	struct exits_cell growth;	/* since the sample before; max is cell.max */
};

/*
 * Load the program, check it with a vCPU that exits a known number of times, and attach it.
 * addresses: separate I/O exits by address. Returns 0, or a negative errno with p->why and
 * p->help filled in.
 */
int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p);
void exits_close(struct exits *exits);

/* Read everything. Returns 0 or a negative errno. */
int exits_sample(struct exits *exits);

/* As of the last sample; valid until the next one */
const struct exits_row *exits_rows(const struct exits *exits, size_t *n);
const struct blame_thread *exits_threads(const struct exits *exits, size_t *n);
struct exits_counts exits_counts(const struct exits *exits);

/*
 * The name of a reason as the kernel's headers have it; a reason without a name by number.
 * Returns buf.
 */
#define EXIT_NAME_SIZE 40
const char *exit_name(uint32_t isa, uint32_t reason, char buf[EXIT_NAME_SIZE]);

/* Return true if the reason is a halt of the vCPU. */
bool exit_is_halt(uint32_t isa, uint32_t reason);

/*
 * Let a vCPU of this thread exit a known number of times, and compare with the program's
 * count. Returns 0, or a negative errno with p->why and p->help filled in: -EOPNOTSUPP if
 * KVM reports no exits, -EPROTO if a count is wrong.
 */
int exits_check(struct exits *exits, struct kvmstats_probe *p);

#endif /* KVMSTATS_EXITS_H */
