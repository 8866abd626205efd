/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTEST_KVM_UTIL_ARCH_H
#define SELFTEST_KVM_UTIL_ARCH_H

#include <stdbool.h>

struct kvm_mmu_arch {};
struct kvm_vm_arch {
	bool radix;
};

#endif /* SELFTEST_KVM_UTIL_ARCH_H */
