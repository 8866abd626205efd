// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that makes a known number of exits, and the statistics they move
 *
 * guest_exit() makes one exit that KVM handles itself, then one to userspace:
 * two kinds, so that their counters cannot be confused.  Between
 * two calls of KVM_RUN the guest has always done both equally often.  A
 * counter next to theirs, that must not move, completes the list.
 */
#include <linux/compiler.h>

#include "guest_exits.h"
#include "processor.h"

/* Guests with page tables can call every function. */
#ifndef __guest_code
#define __guest_code
#endif

#if defined(__x86_64__)

#include <linux/kvm_para.h>

#define GUEST_CAN_RUN		true
#define GUEST_EXIT_REASON	KVM_EXIT_IO

static const struct guest_exit_stat stats[] = {
	{ "exits", 2, false },
	{ "hypercalls", 1, true },
	{ "io_exits", 1, true },
	{ "mmio_exits", 0, true },
	{ }
};

static __always_inline void guest_exit(void)
{
	unsigned long nr = KVM_HC_VAPIC_POLL_IRQ;	/* does nothing */

	/* On AMD, KVM turns this into a VMMCALL at the first call. */
	asm volatile("vmcall" : "+a" (nr) : : "memory");
	guest_sync();
}

static __always_inline void guest_halt(void)
{
	asm volatile("hlt");
}

#elif defined(__aarch64__)

#define GUEST_CAN_RUN		true
#define GUEST_EXIT_REASON	KVM_EXIT_MMIO

static const struct guest_exit_stat stats[] = {
	{ "exits", 2, false },
	{ "hvc_exit_stat", 1, true },
	{ "mmio_exit_user", 1, true },
	{ "mmio_exit_kernel", 0, true },
	{ }
};

static __always_inline void guest_exit(void)
{
	register unsigned long x0 asm("x0") = 0x80000000; /* SMCCC_VERSION */

	asm volatile("hvc #0" : "+r" (x0) : : "x1", "x2", "x3", "memory");
	guest_sync();
}

static __always_inline void guest_halt(void)
{
	asm volatile("wfi");
}

#elif defined(__mips__)

/* VZ guests have other addresses and other exits. */
#define GUEST_CAN_RUN		kvm_check_cap(KVM_CAP_MIPS_TE)
#define GUEST_EXIT_REASON	KVM_EXIT_MMIO

static const struct guest_exit_stat stats[] = {
	{ "cop_unusable_exits", 1, true },
	{ "addrerr_st_exits", 1, true },
	{ "addrerr_ld_exits", 0, true },
	{ }
};

static __always_inline void guest_exit(void)
{
	unsigned long count;

	/* CP0 Count: KVM patches reads of most other registers into loads. */
	asm volatile("mfc0 %0, $9" : "=r" (count) : : "memory");
	/* All of KSeg1 is MMIO. */
	WRITE_ONCE(*(uint32_t *)0xa8000000, 0);
}

static __always_inline void guest_halt(void)
{
	asm volatile("wait");
}

#elif defined(__powerpc__)

/*
 * A guest of kvm-hv need not exit for a privileged instruction: it makes
 * hypercalls. There are none on Linux 5.10, whose library has no such guests.
 */
#define GUEST_CAN_RUN		(vm_runs_on_hv() || kvm_check_cap(KVM_CAP_PPC_GET_PVINFO))
#define GUEST_EXIT_REASON	(vm_runs_on_hv() ? KVM_EXIT_PAPR_HCALL : KVM_EXIT_MMIO)
#define GUEST_STATS		(vm_runs_on_hv() ? hcall_stats : stats)

static const struct guest_exit_stat hcall_stats[] = {
	{ "sum_exits", 2, false },
	{ "mmio_exits", 0, true },
	{ }
};

static const struct guest_exit_stat stats[] = {
	{ "emulated_inst_exits", 1, true },
	{ "mmio_exits", 1, true },
	{ "syscall_exits", 0, true },
	{ }
};

static __always_inline void guest_exit(void)
{
	unsigned long msr;

	if (guest_has_hcalls) {
		guest_hcall(H_CONFER, -1);
		guest_sync();
		return;
	}
	asm volatile("mfmsr %0" : "=r" (msr) : : "memory");
	/* An e500v2 guest also has a translation there, but no memory. */
	WRITE_ONCE(*(uint32_t *)0x08000000, 0);
}

static __always_inline void guest_halt(void)
{
	unsigned long msr;

	if (guest_has_hcalls) {
		guest_hcall(H_CEDE, 0);
		return;
	}
	/* Bit 0x40000: on BookE Wait State Enable, on Book3S power management */
	asm volatile("mfmsr %0; oris %0, %0, 4; mtmsr %0"
		     : "=r" (msr) : : "memory");
}

#elif defined(__riscv)

#define GUEST_CAN_RUN		true
#define GUEST_EXIT_REASON	KVM_EXIT_RISCV_SBI

/* KVM counts a call of the SBI only if userspace handles it. */
static const struct guest_exit_stat stats[] = {
	{ "exits", 2, false },
	{ "ecall_exit_stat", 1, true },
	{ "wfi_exit_stat", 0, true },
	{ }
};

static __always_inline void guest_exit(void)
{
	register unsigned long a6 asm("a6") = 0;	/* sbi_get_spec_version() */
	register unsigned long a7 asm("a7") = 0x10;	/* of the base extension */

	asm volatile("ecall" : : "r" (a6), "r" (a7) : "a0", "a1", "memory");
	guest_sync();
}

static __always_inline void guest_halt(void)
{
	asm volatile("wfi");
}

#elif defined(__s390x__)

/* Which statistics these exits move has not been tried on a machine yet. */
#define GUEST_CAN_RUN		false
#define GUEST_EXIT_REASON	KVM_EXIT_S390_SIEIC

static const struct guest_exit_stat stats[] = { { } };

static __always_inline void guest_exit(void)
{
	guest_sync();
}

static __always_inline void guest_halt(void)
{
}

#endif

#ifndef GUEST_STATS
#define GUEST_STATS stats
#endif

const struct guest_exit_stat *guest_exit_stats(void)
{
	return GUEST_CAN_RUN ? GUEST_STATS : NULL;
}

void __guest_code guest_exits(void)
{
	for (;;)
		guest_exit();
}

void __guest_code guest_spins(void)
{
#ifdef __x86_64__
	/* Bochs leaves a guest for an interrupt of the host only if its own are on. */
	asm volatile("sti");
#endif
	for (;;)
		asm volatile("" : : : "memory");
}

void __guest_code guest_halts(void)
{
	for (;;)
		guest_halt();
}

void guest_exit_check(uint32_t exit_reason)
{
	TEST_ASSERT(exit_reason == GUEST_EXIT_REASON, "Unexpected exit_reason: %u (%s)",
		    exit_reason, exit_reason_str(exit_reason));
}
