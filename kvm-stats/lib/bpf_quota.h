/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Throttled time is booked for all CPUs that a group with a quota uses together: as many
 * as the vCPUs of a VM in it are on, each of which waits for it as long as the others.
 */
#ifndef KVMSTATS_BPF_QUOTA_H
#define KVMSTATS_BPF_QUOTA_H

#include <stddef.h>

#include "bpf/record.h"

struct bpf_place;

/* Begin with all zeros. */
struct bpf_quota {
	struct bpf_place *places;	/* a table by hash; room is a power of 2 */
	size_t room;
};

/* Count the CPUs of all groups in a sample. 0 or -ENOMEM */
int bpf_quota_count(struct bpf_quota *quota, const struct bpf_record **records, int n);

/* On how many the VM's vCPUs of its group are, of one of these records */
unsigned int bpf_quota_cpus(const struct bpf_quota *quota, const struct bpf_record *record);

void bpf_quota_free(struct bpf_quota *quota);

#endif /* KVMSTATS_BPF_QUOTA_H */
