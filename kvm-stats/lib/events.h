/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What happens in VMs, as numbers: an event is a row here, and what it is called in struct
 * kvmstats_activity (kvmstats.h). Recordings know events by their place: a new one is the
 * last.
 *
 * EVENT(member, statistics, title, letter, width, drop, what)
 *
 *	statistics	whose sum it is, as for statistic_words()
 *	title...	its column in "top", see columns.h; in "log" it is MEMBER_per_second
 */
#ifndef KVMSTATS_EVENTS_H
#define KVMSTATS_EVENTS_H

#define EXITS_STATISTICS							\
	"exits|"								\
	"sum_exits|"			/* powerpc */				\
	/* s390: the two that are left out count others a second time */	\
	"exit_* !exit_userspace !exit_instr_and_program|"			\
	/* mips: the same with these */						\
	"*_exits !signal_exits !flush_dcache_exits"

#define IO_STATISTICS								\
	"io_exits mmio_exits|"							\
	"mmio_exit_user mmio_exit_kernel|"	/* arm64 */			\
	"instruction_io_other diagnose_500"	/* s390 */

#define INTERRUPTS_STATISTICS							\
	"irq_injections nmi_injections|"					\
	"queue_intr|"				/* powerpc */			\
	"deliver_* !deliver_program"		/* s390 */

#define EVENTS(EVENT)								\
	EVENT(exits, EXITS_STATISTICS,						\
	      "EXITS/S", 'E', 7, 0, "exits from the guest")			\
	EVENT(io, IO_STATISTICS,						\
	      "IO/S", 'I', 6, 7, "exits for port and memory-mapped I/O")	\
	EVENT(interrupts, INTERRUPTS_STATISTICS,				\
	      "IRQ/S", 'Q', 6, 8, "interrupts injected")			\
	EVENT(tlb_flushes, "tlb_flush remote_tlb_flush",			\
	      "TLB/S", 'B', 6, 11, "flushes of the guest's TLBs")

enum event_number {
#define EVENT(member, ...)	EVENT_##member,
	EVENTS(EVENT)
#undef EVENT
	EVENT_COUNT
};

#endif /* KVMSTATS_EVENTS_H */
