/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The PowerPC statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 */

/* Book3S and BookE share the counters but not the files in debugfs. */
#ifdef CONFIG_PPC_BOOK3S
#define KVM_DEBUGFS_BOOK3S		KVM_DEBUGFS
#define KVM_DEBUGFS_BOOK3S_AS(name)	KVM_DEBUGFS_AS(name)
#define KVM_DEBUGFS_BOOK3S_RO_AS(name)	KVM_DEBUGFS_RO_AS(name)
#define KVM_DEBUGFS_BOOKE		KVM_NO_DEBUGFS
#define KVM_DEBUGFS_BOOKE_AS(name)	KVM_NO_DEBUGFS
#else
#define KVM_DEBUGFS_BOOK3S		KVM_NO_DEBUGFS
#define KVM_DEBUGFS_BOOK3S_AS(name)	KVM_NO_DEBUGFS
#define KVM_DEBUGFS_BOOK3S_RO_AS(name)	KVM_NO_DEBUGFS
#define KVM_DEBUGFS_BOOKE		KVM_DEBUGFS
#define KVM_DEBUGFS_BOOKE_AS(name)	KVM_DEBUGFS_AS(name)
#endif

KVM_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE,
	    "Flushes of the TLBs of all the vCPUs")
KVM_VM_STAT(num_2M_pages, INSTANT, NONE, 0, KVM_DEBUGFS_BOOK3S_RO_AS("largepages_2M"),
	    "Guest pages of 2 MiB that are mapped now")
KVM_VM_STAT(num_1G_pages, INSTANT, NONE, 0, KVM_DEBUGFS_BOOK3S_RO_AS("largepages_1G"),
	    "Guest pages of 1 GiB that are mapped now")

KVM_VCPU_STAT(sum_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S_AS("exits"),
	      "Exits from guest mode")
KVM_VCPU_STAT(mmio_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("mmio"),
	      "Accesses to emulated memory")
KVM_VCPU_STAT(signal_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("sig"),
	      "Returns to user space for a pending signal")
KVM_VCPU_STAT(light_exits, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
	      "Never counted by this kernel")
KVM_VCPU_STAT(itlb_real_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("itlb_r"),
	      "Instruction TLB misses that KVM resolved")
KVM_VCPU_STAT(itlb_virt_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("itlb_v"),
	      "Instruction TLB misses that were injected into the guest")
KVM_VCPU_STAT(dtlb_real_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("dtlb_r"),
	      "Data TLB misses that KVM resolved")
KVM_VCPU_STAT(dtlb_virt_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("dtlb_v"),
	      "Data TLB misses that were injected into the guest")
KVM_VCPU_STAT(syscall_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("sysc"),
	      "System calls of the guest")
KVM_VCPU_STAT(isi_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("isi"),
	      "Instruction storage interrupts that were injected into the guest")
KVM_VCPU_STAT(dsi_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("dsi"),
	      "Data storage interrupts that were injected into the guest")
KVM_VCPU_STAT(emulated_inst_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("inst_emu"),
	      "Exits for an instruction that KVM emulated")
KVM_VCPU_STAT(dec_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("dec"),
	      "Exits for the decrementer of the host")
KVM_VCPU_STAT(ext_intr_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("ext_intr"),
	      "Exits for an external interrupt of the host")
KVM_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_DEBUGFS_BOOK3S,
	      "Time spent scheduled away in halts")
KVM_VCPU_STAT(halt_successful_wait, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Halts in which the host scheduled away until the wakeup")
KVM_VCPU_STAT(dbell_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("doorbell"),
	      "Exits for a doorbell of the host")
KVM_VCPU_STAT(gdbell_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE_AS("guest doorbell"),
	      "Exits for a doorbell of the guest")
KVM_VCPU_STAT(ld, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Loads that KVM emulated")
KVM_VCPU_STAT(st, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Stores that KVM emulated")
#ifdef CONFIG_PPC_BOOK3S
KVM_VCPU_STAT(pf_storage, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Exits for a data storage interrupt")
KVM_VCPU_STAT(pf_instruc, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Exits for an instruction storage interrupt")
KVM_VCPU_STAT(sp_storage, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Data storage interrupts that KVM resolved by mapping the page")
KVM_VCPU_STAT(sp_instruc, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Instruction storage interrupts that KVM resolved by mapping the page")
KVM_VCPU_STAT(queue_intr, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Interrupts queued for the guest")
KVM_VCPU_STAT(ld_slow, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Never counted by this kernel")
KVM_VCPU_STAT(st_slow, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Never counted by this kernel")
#endif
KVM_VCPU_STAT(pthru_all, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Passed-through interrupts that the guest ended in real mode")
KVM_VCPU_STAT(pthru_host, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Passed-through interrupts that reached the guest by way of the host")
KVM_VCPU_STAT(pthru_bad_aff, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
	      "Passed-through interrupts that the host took on another CPU than the guest")
