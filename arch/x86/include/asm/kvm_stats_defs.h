/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The x86 statistics of KVM, one line per statistic.
 * <linux/kvm_stats_defs.h>, which includes this file, explains the lines.
 */

DEFINE_VM_STAT(mmu_shadow_zapped, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Shadow pages that were zapped")
DEFINE_VM_STAT(mmu_pte_write, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Guest writes that KVM emulated while it shadowed page tables of the guest")
DEFINE_VM_STAT(mmu_pde_zapped, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Shadow entries above the last level zapped because the guest wrote to theirs")
DEFINE_VM_STAT(mmu_flooded, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Shadow pages zapped because the guest kept writing to theirs, or misaligned")
DEFINE_VM_STAT(mmu_recycled, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Shadow pages zapped to make room for others or to give memory back")
DEFINE_VM_STAT(mmu_cache_miss, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Shadow pages that had to be allocated, none could be reused")
DEFINE_VM_STAT(mmu_unsync, INSTANT, NONE, 0, KVM_DEBUGFS_RO,
	       "Shadow pages that are out of sync with the guest page table")
DEFINE_VM_STAT(remote_tlb_flush, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
	       "Flushes of the TLBs of all vCPUs that interrupted one of them or that Hyper-V did")
DEFINE_VM_STAT(lpages, INSTANT, NONE, 0, KVM_DEBUGFS_RO_AS("largepages"),
	       "Mappings of huge pages that there are now")
DEFINE_VM_STAT(nx_lpage_splits, INSTANT, NONE, 0, KVM_DEBUGFS_RO_AS("nx_largepages_splitted"),
	       "Huge pages that are split now to keep them from being executable")
DEFINE_VM_STAT(pages_4k, INSTANT, NONE, 0, KVM_NO_DEBUGFS,
	       "Mappings of pages of 4 KiB that there are now")
DEFINE_VM_STAT(pages_2m, INSTANT, NONE, 0, KVM_NO_DEBUGFS,
	       "Mappings of pages of 2 MiB, or 4 MiB, that there are now")
DEFINE_VM_STAT(pages_1g, INSTANT, NONE, 0, KVM_NO_DEBUGFS,
	       "Mappings of pages of 1 GiB that there are now")
DEFINE_VM_STAT(max_mmu_rmap_size, PEAK, NONE, 0, KVM_NO_DEBUGFS,
	       "Most mappings that a page had before another one was added")
DEFINE_VM_STAT(max_mmu_page_hash_collisions, PEAK, NONE, 0, KVM_DEBUGFS,
	       "Most other pages met when a shadow page was looked up in their hash")

DEFINE_VCPU_STAT(halt_wait_ns, CUMULATIVE, SECONDS, -9, KVM_NO_DEBUGFS,
		 "Time spent scheduled away in halts")
DEFINE_VCPU_STAT(pf_taken, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Page faults that KVM handled, without those of known MMIO")
DEFINE_VCPU_STAT(pf_fixed, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Page faults for which KVM set an entry, also one that leads to emulation")
DEFINE_VCPU_STAT(pf_emulate, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Page faults of pf_taken that ask for emulation")
DEFINE_VCPU_STAT(pf_spurious, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Page faults of pf_taken that found the entry as it had to be")
DEFINE_VCPU_STAT(pf_fast, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Page faults that were resolved without mmu_lock")
DEFINE_VCPU_STAT(pf_mmio_spte_created, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Entries set that mark MMIO")
DEFINE_VCPU_STAT(pf_guest, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Page faults that were injected into the guest")
DEFINE_VCPU_STAT(tlb_flush, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Flushes of the vCPU's TLB other than of single addresses")
DEFINE_VCPU_STAT(invlpg, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Flushes of single addresses that KVM emulated: INVLPG, INVPCID")
DEFINE_VCPU_STAT(exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits from guest mode")
DEFINE_VCPU_STAT(io_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits for port I/O, also to devices in the kernel")
DEFINE_VCPU_STAT(mmio_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits to user space for memory-mapped I/O")
DEFINE_VCPU_STAT(signal_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Returns to user space for a pending signal")
DEFINE_VCPU_STAT(irq_window_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("irq_window"),
		 "Exits because the guest became ready for an interrupt")
DEFINE_VCPU_STAT(nmi_window_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("nmi_window"),
		 "Exits because the guest became ready for an NMI")
DEFINE_VCPU_STAT(l1d_flush, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Flushes of the L1 data cache before guest entry, only on Intel")
DEFINE_VCPU_STAT(halt_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Halts of the guest, whether KVM or user space waits for their end")
DEFINE_VCPU_STAT(request_irq_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS_AS("request_irq"),
		 "Returns to user space because it asked for the interrupt window")
DEFINE_VCPU_STAT(irq_exits, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Exits for an interrupt of the host")
DEFINE_VCPU_STAT(host_state_reload, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Reloads of the host state that guest entry had replaced")
DEFINE_VCPU_STAT(fpu_reload, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Loads of user space's FPU state, as when KVM_RUN ends")
DEFINE_VCPU_STAT(insn_emulation, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Instructions that KVM decoded for emulation")
DEFINE_VCPU_STAT(insn_emulation_fail, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Instructions that KVM failed to emulate")
DEFINE_VCPU_STAT(hypercalls, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Hypercalls of the guest")
DEFINE_VCPU_STAT(irq_injections, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Interrupts injected into the guest, without those that APICv delivers")
DEFINE_VCPU_STAT(nmi_injections, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "NMIs injected into the guest")
DEFINE_VCPU_STAT(req_event, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Guest entries that looked for events to inject")
DEFINE_VCPU_STAT(directed_yield_attempted, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Directed yields that hypercalls of the guest asked for")
DEFINE_VCPU_STAT(directed_yield_successful, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Directed yields that gave the CPU to another vCPU")
DEFINE_VCPU_STAT(guest_mode, INSTANT, BOOLEAN, 0, KVM_NO_DEBUGFS,
		 "Whether the vCPU runs a guest of the guest")
DEFINE_VCPU_STAT(nested_run, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
		 "Successful entries into a nested guest")
#ifdef CONFIG_KVM_PV_PERF
DEFINE_VCPU_STAT(pv_perf_events, INSTANT, NONE, 0, KVM_NO_DEBUGFS,
		 "Perf events of the host that the guest has open")
#endif
DEFINE_VCPU_STAT(preemption_reported, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Preemptions of the vCPU between instructions, which a guest with steal time sees")
DEFINE_VCPU_STAT(preemption_other, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Preemptions of the vCPU within an instruction, which the guest does not see")
