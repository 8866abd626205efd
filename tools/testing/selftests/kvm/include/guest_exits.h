/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest that makes a known number of exits, and the statistics they move
 */
#ifndef SELFTEST_KVM_GUEST_EXITS_H
#define SELFTEST_KVM_GUEST_EXITS_H

#include <stdbool.h>
#include <stdint.h>

#include "kvm_util.h"

/*
 * What one run of a vCPU with guest_exits() adds to a member of the
 * architecture's struct kvm_vcpu_stat: exactly that, or, where the host has a
 * hand in it too, at least that.
 */
struct guest_exit_stat {
	const char *name;
	unsigned int per_run;
	bool exact;
};

/* The last entry has no name.  NULL if the guests below cannot run here. */
const struct guest_exit_stat *guest_exit_stats(void);

/* Guest code: exit to userspace, again and again */
void guest_exits(void);

/* Guest code: stay in KVM_RUN, until a signal comes */
void guest_spins(void);

/* Guest code: halt, which waits in KVM_RUN until a signal comes */
void guest_halts(void);

/*
 * Create a VM and its first vCPU.  More vCPUs, which need not have the same
 * guest code, come from vm_vcpu_add_default().
 */
struct kvm_vm *vm_create_guest(uint32_t vcpuid, void *guest_code);

/* Run a vCPU that has guest_exits() n times */
void vcpu_run_exits(struct kvm_vm *vm, uint32_t vcpuid, unsigned int n);

/* Fail the test unless that is why guest_exits() leaves KVM_RUN. */
void guest_exit_check(uint32_t exit_reason);

/* Guest code of guests with page tables: exit to userspace once */
void guest_sync(void);

/* Needed if the library does not identify a vCPU by its id. */
int vm_get_fd(struct kvm_vm *vm);
int vcpu_get_fd(struct kvm_vm *vm, uint32_t vcpuid);
void vm_vcpu_add_default(struct kvm_vm *vm, uint32_t vcpuid, void *guest_code);
struct kvm_vcpu *vcpu_of(struct kvm_vm *vm, uint32_t vcpuid);

#endif /* SELFTEST_KVM_GUEST_EXITS_H */
