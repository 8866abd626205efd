/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Time for which vCPUs waited for a CPU, by the threads that ran there instead: what the BPF program
 * of threads counts
 */
#ifndef KVMSTATS_BLAME_H
#define KVMSTATS_BLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source.h"
#include "threads.bpf.h"

struct blame;
struct threads;

struct blame_row {
	struct blame_pair pair;
	uint64_t ns;		/* since blame_open() */
	uint64_t growth;	/* since the sample before */
	uint32_t pid;		/* a process of the owner, or 0 */
	uint32_t starter;	/* from which it comes, or 0 */
	bool removed;		/* the pair counts from 0 after this sample */
};

/*
 * Use the program, see threads_share(), check it with a thread that waits for another one, and enter
 * the vCPUs of all VMs. Returns 0, or a negative errno with p->why and p->help filled in.
 */
int blame_open(struct blame **blame, struct threads *shared, const struct kvmstats_vm *first,
	       struct kvmstats_probe *p);
void blame_close(struct blame *blame);

/*
 * After a sample of the VMs: enter the vCPUs that the program has not seen in KVM_RUN, such as
 * those that only wait, or sleep in their VMM. VMMs whose vCPUs have not run are known from then on.
 */
void blame_enter(struct blame *blame, const struct kvmstats_vm *first);

/* Read everything. Returns 0 or a negative errno. */
int blame_sample(struct blame *blame);

/* As of the last sample; valid until the next one. Of blame_enter(), new threads are listed. */
const struct blame_row *blame_rows(const struct blame *blame, size_t *n);
const struct blame_thread *blame_threads(const struct blame *blame, size_t *n);
struct blame_counts blame_counts(const struct blame *blame);

/* Return true if the thread has an entry: all its waits are charged. */
bool blame_lists(const struct blame *blame, uint32_t tid);

/*
 * Return the nanoseconds that were charged to those vCPUs of a process that have exited, at most
 * so many. Each is returned once.
 */
uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most);

/*
 * Return the number of VMs whose waits ended between the last two calls of blame_sample(), and set
 * the VMs and these waits. Valid until the next call.
 */
size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vms,
			 const struct blame_waits **waits);

/* The names of a cgroup by its id; false: not known */
bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup);

/*
 * Let a vCPU of this process wait for another thread on the same CPU, and compare the
 * charges with the kernel's own account of both threads. Returns 0, or a negative errno
 * with p->why and p->help filled in: -EPROTO if a charge is wrong.
 */
int blame_check(struct blame *blame, struct kvmstats_probe *p);

#endif /* KVMSTATS_BLAME_H */
