/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A VM of the program's own, with one vCPU, thrown away after use: every
 * process may open the statistics of its own VMs, so their descriptors say what
 * this kernel counts, and their values show whether another way to the same
 * statistics is right.
 */
#ifndef KVMSTATS_OWN_VM_H
#define KVMSTATS_OWN_VM_H

#include <stddef.h>

/*
 * Of its vCPU: found by chance in few places of memory, but possible. And no VM of
 * anybody else's has this one alone.
 */
#define OWN_VCPU_ID 37

struct own_vm {
	int vm, vcpu;			/* files of KVM */
	int vm_stats, vcpu_stats;	/* negative: this kernel has none */
	void *code;			/* a page of the VM's memory, while it lives */
	unsigned int halts;		/* of the vCPU, on arm64 writes; 0: it has not run */
};

/*
 * Make it, with a vCPU of this id. Returns 0, or a negative errno and the reason,
 * in words, in why.
 */
int own_vm_open(struct own_vm *own, int vcpu_id, char *why, size_t size);

/*
 * Where this is known how to (x86, arm64), let the vCPU run a few instructions, so that
 * not all statistics are 0: own->halts says how many have left the guest, by a halt or, on
 * arm64, a write to where no memory is.
 */
void own_vm_run(struct own_vm *own);

void own_vm_close(struct own_vm *own);

#endif /* KVMSTATS_OWN_VM_H */
