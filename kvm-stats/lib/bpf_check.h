/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Is what the BPF program copies what the kernel's descriptors describe? Type
 * information is not always that of the code that runs, and wrong values look
 * like right ones: so both are asked, and a VM of the program's own.
 */
#ifndef KVMSTATS_BPF_CHECK_H
#define KVMSTATS_BPF_CHECK_H

#include <stddef.h>

#include "bpf_iterator.h"
#include "bpf_layout.h"
#include "own_vm.h"

/*
 * Descriptors against type information: every statistic is a member of the
 * structure, where and as long as the descriptor says, and together they are as
 * long as the structure. kind is "VM" or "vCPU". Returns 0, or -EPROTO and the
 * reason, in words, in why.
 */
int bpf_check_types(const char *kind, const struct kvmstats_table *described,
		    const struct kvmstats_table *members, __u32 size,
		    char *why, size_t why_size);

/*
 * Load the program, and compare what it copies of the caller's own VM, whose vCPU
 * has OWN_VCPU_ID and has run if it can, with what the VM's statistics files say;
 * where the kernel has none, with what its vCPU did. Returns 0, or a negative errno
 * and the reason, in words, in why: -EPROTO if it copies something else.
 */
int bpf_iterator_open_checked(struct bpf_iterator **iterator,
			      const struct bpf_kvm_types *types,
			      const struct own_vm *own, char *why, size_t why_size);

#endif /* KVMSTATS_BPF_CHECK_H */
