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

/* BPF programs other than the source's */
enum bpf_program_kind { BPF_BLAME, BPF_EXITS, BPF_STALLS };

/* Offsets from the preempt notifiers of a thread to its vCPU; 0 if the program does not need one */
struct bpf_program_layout {
	__u32 vcpu_notifier;	/* list node in struct kvm_vcpu */
	__u32 vcpu_kvm;
	__u32 vcpu_pid;		/* struct pid of the thread that runs the vCPU */
	/* exits: the reason; 0 if it is not this host's */
	__u32 vcpu_id;
	__u32 svm_vmcb;		/* pointer in struct vcpu_svm */
	__u32 vmcb_exit_code;
	__u32 vmx_exit_reason;	/* in struct vcpu_vmx */
	bool ports;		/* has tracepoints for port I/O */
	/* stalls: whether the vCPU is halted */
	__u32 vcpu_blocking;
};

/*
 * Find the offsets of a program, and check that the kernel has its tracepoints and helpers. Returns
 * 0, or a negative errno and the reason in why.
 */
int bpf_program_layout_find(enum bpf_program_kind kind, struct bpf_program_layout *found,
			    char *why, size_t size);

#endif /* KVMSTATS_BPF_LAYOUT_H */
