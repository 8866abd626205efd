/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The BPF program that follows the threads of vCPUs, and counts what "blame" and "stalls" show. It is
 * loaded once for both; nothing is attached before threads_open() or after the last threads_close().
 */
#ifndef KVMSTATS_BPF_THREADS_H
#define KVMSTATS_BPF_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source.h"
#include "threads.bpf.h"

struct threads_list {
	struct blame_thread *list;	/* sorted by TID */
	size_t count, room;
};

/* What is counted, by bit */
#define THREADS_WAITS	1
#define THREADS_STALLS	2

struct threads {
	struct threads_bpf *program;
	unsigned int counts;
	unsigned int users;	/* that have not closed it */
	const struct kvmstats_vm *first;	/* VMs while the program is loaded */
	struct threads_list live;
	bool takes_stalls;		/* some user does */
	struct threads_list exited;	/* then: those whose stalls it has not taken yet */
};

/*
 * Load and attach the program, with entries for all vCPUs of these VMs. counts: THREADS_WAITS,
 * THREADS_STALLS or both. Returns 0, or a negative errno with p->why and p->help filled in.
 */
int threads_open(struct threads **opened, unsigned int counts, const struct kvmstats_vm *first,
		 struct kvmstats_probe *p);
void threads_close(struct threads *threads);

/*
 * As threads_open() for one count, but share a program that has it already. shared: it, or NULL. Each
 * user calls threads_close().
 */
int threads_share(struct threads **opened, struct threads *shared, unsigned int count,
		  const struct kvmstats_vm *first, struct kvmstats_probe *p);

/* Enter vCPUs, charge what is open up to now, and list the vCPUs. Returns 0 or a negative errno. */
int threads_sample(struct threads *threads);

/* After a sample of the VMs: enter the vCPUs that the program has not seen, and list all again. */
void threads_enter(struct threads *threads, const struct kvmstats_vm *first);

bool threads_have(const struct threads *threads, uint32_t tid);

/* Share max entries, before the program is loaded. Return a negative errno without random bytes. */
int begin_shares(struct shares *shares, uint32_t max);

#endif /* KVMSTATS_BPF_THREADS_H */
