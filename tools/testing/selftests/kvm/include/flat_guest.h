/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guests that run without page tables: the definitions that an architecture
 * provides for lib/flat_guest.c.  FLAT_GUEST_VADDR is the virtual address of
 * guest physical address 0.
 */
#ifndef SELFTEST_KVM_FLAT_GUEST_H
#define SELFTEST_KVM_FLAT_GUEST_H

#include <linux/compiler.h>

#include "kvm_util.h"

/* From the linker; absent from a program that has no guest code */
extern char __start_guest_code[] __weak;
extern char __stop_guest_code[] __weak;

void flat_vcpu_setup(struct kvm_vm *vm, uint32_t vcpuid, vm_vaddr_t pc,
		     vm_vaddr_t sp);

#endif /* SELFTEST_KVM_FLAT_GUEST_H */
