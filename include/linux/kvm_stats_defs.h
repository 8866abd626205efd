/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The statistics of KVM, one line per statistic: this file has those of every
 * architecture, <asm/kvm_stats_defs.h> those of one. From a line come the
 * member of struct kvm_vm_stat or struct kvm_vcpu_stat, the descriptor that
 * user space reads, the file in debugfs and the row in the documentation
 * (Documentation/virt/kvm/stats.rst).
 *
 *   DEFINE_VM_STAT(member, type, unit, exponent, debugfs, desc)
 *   DEFINE_VCPU_STAT(member, type, unit, exponent, debugfs, desc)
 *
 * member:   the member of the structure, a u64 or an array of them, and the
 *           name in the ABI; fewer than KVM_STATS_NAME_SIZE characters
 * type:     CUMULATIVE, INSTANT or PEAK, as in KVM_STATS_TYPE_*, or
 *           LOG_HIST(n), a histogram with n buckets that double; to be updated
 *           with kvm_stats_hist_add()
 * unit:     NONE, BYTES, SECONDS, CYCLES or BOOLEAN, as in KVM_STATS_UNIT_*
 * exponent: the unit is multiplied by 10 to the power of this
 * debugfs:  KVM_DEBUGFS, a file named after the member;
 *           KVM_DEBUGFS_AS(name), of another name;
 *           KVM_DEBUGFS_RO, KVM_DEBUGFS_RO_AS(name), the same, and it cannot
 *           be cleared: for every INSTANT, which would go below zero then;
 *           KVM_NO_DEBUGFS, none, as for every statistic from now on:
 *           the existing files are kept for the programs that read them
 * desc:     description of the statistic, for the documentation
 *
 * Define one or both of the macros and include this file, which undefines
 * them. The order of the lines is the order of the members, and so of the
 * values. Statistics may be added, moved and removed, names keep their meaning.
 */
#ifndef DEFINE_VM_STAT
#define DEFINE_VM_STAT(...)
#endif
#ifndef DEFINE_VCPU_STAT
#define DEFINE_VCPU_STAT(...)
#endif

DEFINE_VM_STAT(remote_tlb_flush_requests, CUMULATIVE, NONE, 0, KVM_NO_DEBUGFS,
	       "Requests to flush the TLBs of all the vCPUs; none on s390")

DEFINE_VCPU_STAT(halt_successful_poll, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Halts that ended while the host polled for a wakeup")
DEFINE_VCPU_STAT(halt_attempted_poll, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Halts for which the host polled before it scheduled away")
DEFINE_VCPU_STAT(halt_poll_invalid, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Polls that a wakeup ended which was for another vCPU; only on s390")
DEFINE_VCPU_STAT(halt_wakeup, CUMULATIVE, NONE, 0, KVM_DEBUGFS,
		 "Wakeups of the vCPU while it waits in a halt, after any polling")
DEFINE_VCPU_STAT(halt_poll_success_ns, CUMULATIVE, SECONDS, -9, KVM_DEBUGFS,
		 "Time spent polling in halts that ended before the vCPU was scheduled away")
DEFINE_VCPU_STAT(halt_poll_fail_ns, CUMULATIVE, SECONDS, -9, KVM_DEBUGFS,
		 "Time spent polling in halts in which the vCPU was then scheduled away")
DEFINE_VCPU_STAT(blocking, INSTANT, BOOLEAN, 0, KVM_NO_DEBUGFS,
		 "Whether the vCPU is scheduled away in a halt")

/* 32 buckets: the last one begins at 2^30 ns, about a second. */
DEFINE_VCPU_STAT(halt_poll_success_hist, LOG_HIST(32), SECONDS, -9, KVM_NO_DEBUGFS,
		 "Times spent polling in halts that ended before the vCPU was scheduled away")
DEFINE_VCPU_STAT(halt_poll_fail_hist, LOG_HIST(32), SECONDS, -9, KVM_NO_DEBUGFS,
		 "Times spent polling in halts in which the vCPU was then scheduled away")
DEFINE_VCPU_STAT(halt_wait_hist, LOG_HIST(32), SECONDS, -9, KVM_NO_DEBUGFS,
		 "Times spent scheduled away in halts")

#include <asm/kvm_stats_defs.h>

#undef DEFINE_VM_STAT
#undef DEFINE_VCPU_STAT
