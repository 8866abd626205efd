/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The PowerPC statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 *
 * kvm-hv and kvm-pr share the counters: a line says which of them counts if
 * not both do. What kvm-hv counts of halts it counts for one of the vCPUs of
 * the virtual core that halts.
 */

/* Statistics that both have, and only one has a file in debugfs for. */
#ifdef CONFIG_PPC_BOOK3S
#define KVM_DEBUGFS_BOOK3S	KVM_DEBUGFS
#define KVM_DEBUGFS_BOOKE	KVM_NO_DEBUGFS
#else
#define KVM_DEBUGFS_BOOK3S	KVM_NO_DEBUGFS
#define KVM_DEBUGFS_BOOKE	KVM_DEBUGFS
#endif

DEFINE_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOKE,
	       "Flushes of the TLBs of all the vCPUs that interrupted one of them")
#ifdef CONFIG_PPC_BOOK3S
DEFINE_VM_STAT(num_2M_pages, INSTANT, NONE, 0, KVM_DEBUGFS_RO_AS("largepages_2M"),
	       "Guest pages of 2 MiB that kvm-hv has mapped now, in a radix tree")
DEFINE_VM_STAT(num_1G_pages, INSTANT, NONE, 0, KVM_DEBUGFS_RO_AS("largepages_1G"),
	       "Guest pages of 1 GiB that kvm-hv has mapped now, in a radix tree")
#endif

DEFINE_VCPU_STAT(mmio_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("mmio"),
		 "Accesses to emulated memory, not counted by kvm-hv")
DEFINE_VCPU_STAT(signal_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("sig"),
		 "Returns to user space for a pending signal")
DEFINE_VCPU_STAT(syscall_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("sysc"),
		 "System calls, on e500v2 hypercalls too; not counted by kvm-hv and on e500mc")
DEFINE_VCPU_STAT(emulated_inst_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("inst_emu"),
		 "Exits for an instruction that KVM emulated, not counted by kvm-hv")
DEFINE_VCPU_STAT(dec_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("dec"),
		 "Exits for the decrementer of the host; kvm-pr: or a doorbell")
DEFINE_VCPU_STAT(ext_intr_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("ext_intr"),
		 "Exits for an external interrupt of the host; kvm-hv: or a doorbell")
DEFINE_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_DEBUGFS_BOOK3S,
		 "Time spent scheduled away in halts")
DEFINE_VCPU_STAT(ld, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
		 "Loads from guest memory to fetch or to emulate an instruction, only on Book3S")
DEFINE_VCPU_STAT(st, CUMULATIVE, NONE, 0, KVM_DEBUGFS_BOOK3S,
		 "Stores to guest memory to emulate an instruction, only by kvm-pr")
#ifdef CONFIG_PPC_BOOK3S
DEFINE_VCPU_STAT(sum_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("exits"),
		 "Exits from guest mode; kvm-hv: without those that real mode handled")
DEFINE_VCPU_STAT(halt_successful_wait, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Halts in which the host scheduled away until the wakeup, only kvm-hv")
DEFINE_VCPU_STAT(pf_storage, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits for a data storage interrupt, only kvm-pr")
DEFINE_VCPU_STAT(pf_instruc, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits for an instruction storage interrupt, only kvm-pr")
DEFINE_VCPU_STAT(sp_storage, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Data storage interrupts that mapping the page resolved, only kvm-pr")
DEFINE_VCPU_STAT(sp_instruc, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Instruction storage interrupts because nothing was mapped, only kvm-pr")
DEFINE_VCPU_STAT(queue_intr, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interrupts and exceptions queued for the guest")
DEFINE_VCPU_STAT(ld_slow, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Never counted by this kernel")
DEFINE_VCPU_STAT(st_slow, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Never counted by this kernel")
DEFINE_VCPU_STAT(pthru_all, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Passed-through interrupts that the guest ended in real mode, only kvm-hv")
DEFINE_VCPU_STAT(pthru_host, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Those of them that reached the guest by way of the host, only kvm-hv")
DEFINE_VCPU_STAT(pthru_bad_aff, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Those of these that the host took on another core than the guest, only kvm-hv")
#endif
#ifdef CONFIG_BOOKE
DEFINE_VCPU_STAT(itlb_real_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("itlb_r"),
		 "Instruction TLB misses that the guest has to resolve, its own TLB has no entry")
DEFINE_VCPU_STAT(itlb_virt_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("itlb_v"),
		 "Instruction TLB misses of KVM only, the guest's own TLB has an entry")
DEFINE_VCPU_STAT(dtlb_real_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("dtlb_r"),
		 "Data TLB misses that the guest has to resolve, its own TLB has no entry")
DEFINE_VCPU_STAT(dtlb_virt_miss_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("dtlb_v"),
		 "Data TLB misses that KVM resolved, the guest's own TLB has an entry")
DEFINE_VCPU_STAT(isi_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("isi"),
		 "Instruction storage interrupts that were injected into the guest")
DEFINE_VCPU_STAT(dsi_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("dsi"),
		 "Data storage interrupts that were injected into the guest")
DEFINE_VCPU_STAT(dbell_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("doorbell"),
		 "Exits for a doorbell of the host, only on e500mc")
DEFINE_VCPU_STAT(gdbell_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("guest doorbell"),
		 "Exits for a doorbell of the guest, only on e500mc")
#endif
