/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the running kernel has the statistics of a VM and a vCPU: from its type
 * information (BTF), which every user may read.
 */
#ifndef KVMSTATS_BPF_LAYOUT_H
#define KVMSTATS_BPF_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/record.h"
#include "source.h"

struct bpf_kvm_types {
	struct bpf_layout layout;
	/*
	 * The members: names, offsets and sizes are the structure's; types and
	 * units, which it does not have, are guessed from the names.
	 */
	struct kvmstats_table *vm, *vcpu;
};

/*
 * Look KVM's types up; bpf_types_free() frees what was found. Returns 0, or a
 * negative errno and the reason, in words, in why.
 */
int bpf_types_find(struct bpf_kvm_types *types, char *why, size_t size);
void bpf_types_free(struct bpf_kvm_types *types);

#endif /* KVMSTATS_BPF_LAYOUT_H */
