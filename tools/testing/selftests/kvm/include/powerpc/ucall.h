/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTEST_KVM_UCALL_H
#define SELFTEST_KVM_UCALL_H

#include "kvm_util.h"

#define UCALL_EXIT_REASON	KVM_EXIT_MMIO

/* A global of the guest: the address that has no memory */
extern gva_t *ucall_exit_mmio_addr;

static inline void ucall_arch_do_ucall(gva_t uc)
{
	WRITE_ONCE(*ucall_exit_mmio_addr, uc);
}

#endif /* SELFTEST_KVM_UCALL_H */
