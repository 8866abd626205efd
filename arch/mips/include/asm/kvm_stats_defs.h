/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The MIPS statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 */

DEFINE_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
	       "Flushes of the TLBs of all the vCPUs that interrupted one of them")

DEFINE_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_NO_DEBUGFS,
		 "Time spent scheduled away in halts")
DEFINE_VCPU_STAT(wait_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("wait"),
		 "WAIT instructions that KVM emulated")
DEFINE_VCPU_STAT(cache_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("cache"),
		 "CACHE instructions that KVM emulated, not counted with VZ")
DEFINE_VCPU_STAT(signal_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("signal"),
		 "Returns to user space for a pending signal")
DEFINE_VCPU_STAT(int_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("interrupt"),
		 "Exits for an interrupt of the host")
DEFINE_VCPU_STAT(cop_unusable_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("cop_unusable"),
		 "Exits for a coprocessor-unusable exception")
DEFINE_VCPU_STAT(tlbmod_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("tlbmod"),
		 "Exits for a TLB-modified exception")
DEFINE_VCPU_STAT(tlbmiss_ld_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("tlbmiss_ld"),
		 "Exits for a TLB exception on a load or an instruction fetch")
DEFINE_VCPU_STAT(tlbmiss_st_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("tlbmiss_st"),
		 "Exits for a TLB exception on a store")
DEFINE_VCPU_STAT(addrerr_st_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("addrerr_st"),
		 "Exits for an address error on a store")
DEFINE_VCPU_STAT(addrerr_ld_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("addrerr_ld"),
		 "Exits for an address error on a load or an instruction fetch")
DEFINE_VCPU_STAT(syscall_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("syscall"),
		 "Exits for a SYSCALL instruction")
DEFINE_VCPU_STAT(resvd_inst_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("resvd_inst"),
		 "Exits for a reserved instruction")
DEFINE_VCPU_STAT(break_inst_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("break_inst"),
		 "Exits for a BREAK instruction")
DEFINE_VCPU_STAT(trap_inst_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("trap_inst"),
		 "Exits for a trap instruction")
DEFINE_VCPU_STAT(msa_fpe_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("msa_fpe"),
		 "Exits for an MSA floating point exception")
DEFINE_VCPU_STAT(fpe_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("fpe"),
		 "Exits for a floating point exception")
DEFINE_VCPU_STAT(msa_disabled_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("msa_disabled"),
		 "Exits because MSA was disabled")
DEFINE_VCPU_STAT(flush_dcache_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("flush_dcache"),
		 "Never counted by this kernel")
#ifdef CONFIG_KVM_MIPS_VZ
DEFINE_VCPU_STAT(vz_gpsi_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_gpsi"),
		 "Exits for a guest privileged sensitive instruction")
DEFINE_VCPU_STAT(vz_gsfc_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_gsfc"),
		 "Exits for a guest software field change")
DEFINE_VCPU_STAT(vz_hc_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_hc"),
		 "Hypercalls of the guest")
DEFINE_VCPU_STAT(vz_grr_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_grr"),
		 "Exits for a guest reserved instruction redirect")
DEFINE_VCPU_STAT(vz_gva_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_gva"),
		 "Exits for a guest virtual address exception")
DEFINE_VCPU_STAT(vz_ghfc_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_ghfc"),
		 "Exits for a guest hardware field change")
DEFINE_VCPU_STAT(vz_gpa_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_gpa"),
		 "Exits for a guest physical address exception")
DEFINE_VCPU_STAT(vz_resvd_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_resvd"),
		 "Exits with a guest exception code that KVM does not know")
#ifdef CONFIG_CPU_LOONGSON64
DEFINE_VCPU_STAT(vz_cpucfg_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("vz_cpucfg"),
		 "CPUCFG instructions that KVM emulated")
#endif
#endif
