/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SELFTEST_KVM_UCALL_H
#define SELFTEST_KVM_UCALL_H

#include "kvm_util.h"
#include "processor.h"

#define UCALL_EXIT_REASON	(vm_runs_on_hv() ? KVM_EXIT_PAPR_HCALL : KVM_EXIT_MMIO)

#define H_UCALL			H_PUT_TERM_CHAR

/* A global of the guest: the address that has no memory */
extern gva_t *ucall_exit_mmio_addr;

static inline void ucall_arch_do_ucall(gva_t uc)
{
	if (guest_has_hcalls)
		guest_hcall(H_UCALL, uc);
	else
		WRITE_ONCE(*ucall_exit_mmio_addr, uc);
}

#endif /* SELFTEST_KVM_UCALL_H */
