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
#include "probe_vm.h"

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
 * Load the program and compare its records of the caller's probe VM, whose vCPU has
 * PROBE_VCPU_ID and has run if possible, with the VM's statistics files; or, if the kernel
 * has none, with the actions of the vCPU. Returns 0, or a negative errno with the message
 * in why: -EPROTO if a record is wrong.
 */
int bpf_iterator_open_checked(struct bpf_iterator **iterator,
			      const struct bpf_kvm_types *types,
			      const struct probe_vm *own, char *why, size_t why_size);

/* Add to p->why and p->help why the kernel refused to load a program. */
void bpf_explain_load(int error, struct kvmstats_probe *p);

/* Return false if the error is not a shortage of files or memory, which is not the kernel's fault. */
bool bpf_explain_shortage(int error, struct kvmstats_probe *p);

#endif /* KVMSTATS_BPF_CHECK_H */
