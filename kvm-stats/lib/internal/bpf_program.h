/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the commands that attach a BPF program have in common */
#ifndef KVMSTATS_BPF_PROGRAM_H
#define KVMSTATS_BPF_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "structures.h"

/* What BPF programs other than the source's are for, by bit */
enum bpf_program_kind { BPF_BLAME = 1, BPF_EXITS = 2, BPF_STALLS = 4 };

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
 * Find the offsets of a program for these kinds, and check that the kernel has its tracepoints and
 * helpers. Returns 0, or a negative errno and the reason in why.
 */
int bpf_program_layout_find(unsigned int kinds, struct bpf_program_layout *found,
			    char *why, size_t size);

/*
 * Find the kernel's types, then load and attach: load returns 0 or a negative errno. Returns the
 * error, with p->why and p->help filled in.
 */
int bpf_program_open(unsigned int kinds,
		     int (*load)(void *arg, const struct bpf_program_layout *layout),
		     void *arg, struct kvmstats_probe *p);

/*
 * Read a whole map. keys and values have space for so many entries, which must exceed the
 * map's by a bucket; *count is set to the number read. Returns 0 or a negative errno.
 */
int bpf_program_read(int map, void *keys, size_t key_size, void *values, size_t value_size,
		     size_t space, size_t *count);

#endif /* KVMSTATS_BPF_PROGRAM_H */
