/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arm64 statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 */

DEFINE_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
	       "Flushes of the TLBs of all the vCPUs")

DEFINE_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_NO_DEBUGFS,
		 "Time spent scheduled away in halts")
DEFINE_VCPU_STAT(hvc_exit_stat, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits because the guest executed HVC")
DEFINE_VCPU_STAT(wfe_exit_stat, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits because the guest executed WFE")
DEFINE_VCPU_STAT(wfi_exit_stat, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits because the guest executed WFI")
DEFINE_VCPU_STAT(mmio_exit_user, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Accesses to emulated memory that user space handled")
DEFINE_VCPU_STAT(mmio_exit_kernel, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Accesses to emulated memory that the kernel handled")
DEFINE_VCPU_STAT(exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits from guest mode")
