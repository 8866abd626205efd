/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM of the program's own, with one vCPU, thrown away after use: every
 * process may open the statistics of its own VMs, so their descriptors say what
 * this kernel counts, and their values show whether another way to the same
 * statistics is right.
 */
#ifndef KVMSTATS_OWN_VM_H
#define KVMSTATS_OWN_VM_H

#include <stdbool.h>
#include <stddef.h>

/* Found by chance in few places of memory, and possible on every host. */
#define OWN_VCPU_ID 37

struct own_vm {
	int vm, vcpu;			/* files of KVM */
	int vm_stats, vcpu_stats;	/* KVM_GET_STATS_FD; -1: before Linux 5.14 */
	void *code;			/* a page of the VM's memory, while it lives */
	unsigned int halts;		/* of the vCPU; 0: it could not be let run */
};

/*
 * Make it and, where this is known how to (x86), let the vCPU run a few
 * instructions, so that its statistics are not all 0. Returns 0, or a negative
 * errno and the reason, in words, in why.
 */
int own_vm_open(struct own_vm *own, char *why, size_t size);
void own_vm_close(struct own_vm *own);

#endif /* KVMSTATS_OWN_VM_H */
