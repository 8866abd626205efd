/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * powerpc processor specific defines
 */
#ifndef SELFTEST_KVM_PROCESSOR_H
#define SELFTEST_KVM_PROCESSOR_H

#include "kvm_util.h"

#ifndef vcpu_ioctl	/* a function in the library of Linux 5.10 */
/*
 * A book3s guest starts in real mode, an e500v2 guest with a TLB entry that
 * maps its first 256M one to one.
 */
#define FLAT_GUEST_VADDR	0

#include "flat_guest.h"

static inline bool vm_runs_on_hv(void)
{
	return false;
}

static inline unsigned long guest_hcall(unsigned long nr, unsigned long arg)
{
	return 0;
}

#define guest_has_hcalls	false
#else
/* A global of the guest */
extern bool guest_has_hcalls;

/* With kvm-hv, the library supports only guests with radix trees; kvm-pr has none. */
static inline bool vm_runs_on_hv(void)
{
	return kvm_check_cap(KVM_CAP_PPC_MMU_RADIX);
}

static inline unsigned long guest_hcall(unsigned long nr, unsigned long arg)
{
	register unsigned long r3 asm("r3") = nr;
	register unsigned long r4 asm("r4") = arg;

	/* "sc 1" */
	asm volatile(".long 0x44000022"
		     : "+r" (r3), "+r" (r4)
		     : : "r0", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "ctr",
			 "xer", "cr0", "cr1", "cr5", "cr6", "cr7", "memory");
	return r3;
}

void radix_pgd_alloc(struct kvm_vm *vm);
void radix_pg_map(struct kvm_vm *vm, gva_t gva, gpa_t gpa);
gpa_t radix_gva2gpa(struct kvm_vm *vm, gva_t gva);
#endif

#define H_PUT_TERM_CHAR	0x58	/* left to userspace */
#define H_CEDE		0xe0	/* waits */
#define H_CONFER	0xe4	/* to vCPU -1, does nothing */

#endif /* SELFTEST_KVM_PROCESSOR_H */
