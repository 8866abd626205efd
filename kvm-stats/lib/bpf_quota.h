/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For how long a vCPU could not run because of a quota. The kernel has this time for each
 * cgroup and CPU, not for each thread. A thread that stayed on its CPU waited for as long as
 * the threads of its cgroup on that CPU. Threads that moved to other CPUs share the time of
 * their cgroup on all CPUs, in proportion to their waits; it is exact if a cgroup has one.
 */
#ifndef KVMSTATS_BPF_QUOTA_H
#define KVMSTATS_BPF_QUOTA_H

#include <stddef.h>

#include "bpf/record.h"

struct quota_thread;
struct quota_group;
struct quota_queue;

/* Begin with all zeros. */
struct bpf_quota {
	struct quota_thread *threads;	/* tables by hash; room is a power of 2 */
	struct quota_group *groups;
	struct quota_queue *queues;
	size_t room, vcpus;
};

/* Update the times with the records of a sample, of vCPUs and others. 0 or -ENOMEM */
int bpf_quota_update(struct bpf_quota *quota, const struct bpf_record **records, int n);

/* Return the time of a vCPU, of one of these records, since its thread was first seen. */
__u64 bpf_quota_throttled(const struct bpf_quota *quota, const struct bpf_record *record);

void bpf_quota_free(struct bpf_quota *quota);

#endif /* KVMSTATS_BPF_QUOTA_H */
