/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A temporary VM with one vCPU: a process may open the statistics of the VMs it created, so
 * their descriptors list the statistics of this kernel, and their values verify other
 * sources.
 */
#ifndef KVMSTATS_PROBE_VM_H
#define KVMSTATS_PROBE_VM_H

#include <stdbool.h>
#include <stddef.h>

/* Id of its vCPU: a value that is rare in memory, but possible */
#define PROBE_VCPU_ID 37

struct probe_vm {
	int vm, vcpu;			/* files of KVM */
	int vm_stats, vcpu_stats;	/* negative: this kernel has none */
	void *code;			/* a page of the VM's memory, while it lives */
	unsigned int halts;		/* exits so far: halts of the vCPU, or writes on arm64; 0 if it has not run */
};

/*
 * Make it, with a vCPU of this id. Returns 0, or a negative errno and the reason,
 * in words, in why.
 */
int probe_vm_open(struct probe_vm *own, int vcpu_id, char *why, size_t size);

/*
 * Where this is known how to (x86, arm64), let the vCPU run a few instructions, so that
 * not all statistics are 0: own->halts says how many have left the guest, by a halt or, on
 * arm64, a write to where no memory is.
 */
void probe_vm_run(struct probe_vm *own);

/* Run its vCPU until the next such exit, after probe_vm_run(); false if it cannot run. */
bool probe_vm_step(struct probe_vm *own);

void probe_vm_close(struct probe_vm *own);

#endif /* KVMSTATS_PROBE_VM_H */
