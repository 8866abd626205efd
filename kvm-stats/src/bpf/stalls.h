/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time for which vCPUs sleep outside of a halt, by reason: what the BPF program of threads counts */
#ifndef KVMSTATS_STALLS_H
#define KVMSTATS_STALLS_H

#include <stddef.h>
#include <stdint.h>

#include "source.h"
#include "threads.bpf.h"

struct stalls;
struct threads;

/* A vCPU's thread */
struct stalls_row {
	struct blame_vm vm;
	uint32_t tid;
	uint64_t ns[STALLS];		/* since stalls_open() */
	uint64_t growth[STALLS];	/* since the previous sample */
};

/*
 * Use the program, see threads_share(), check it with a thread that sleeps, and enter the vCPUs of all
 * VMs. Returns 0, or a negative errno with p->why and p->help filled in.
 */
int stalls_open(struct stalls **stalls, struct threads *shared, const struct kvmstats_vm *first,
		struct kvmstats_probe *p);
void stalls_close(struct stalls *stalls);

/* After a sample of the VMs: enter vCPUs that the program has not seen in KVM_RUN. */
void stalls_enter(struct stalls *stalls, const struct kvmstats_vm *first);

/*
 * Read everything, as of the last sample of blame if blame has taken one since the last call, otherwise as
 * of now: read blame first. Returns 0 or a negative errno.
 */
int stalls_sample(struct stalls *stalls);

/* As of the last sample, by TID; valid until the next one. Of stalls_enter(), new threads are listed. */
const struct stalls_row *stalls_rows(const struct stalls *stalls, size_t *n);
const struct blame_thread *stalls_threads(const struct stalls *stalls, size_t *n);

/* Return the number of switches of vCPUs without an entry. */
uint64_t stalls_lost(const struct stalls *stalls);

/*
 * Let the thread of a vCPU of this process sleep, and compare the charge with its length. Returns
 * 0, or a negative errno with p->why and p->help filled in: -EPROTO if the charge is wrong.
 */
int stalls_check(struct stalls *stalls, struct kvmstats_probe *p);

#endif /* KVMSTATS_STALLS_H */
