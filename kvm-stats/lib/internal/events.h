/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events of VMs. A new event is one row here and one enumerator in enum kvmstats_event
 * (kvmstats.h), both last: recordings and the ABI identify events by position.
 *
 * EVENT(ENUMERATOR, name, statistics, title, letter, width, drop, what)
 *
 *	name		kvmstats_event_name(); "log" shows NAME_per_second
 *	statistics	their sum is the event, see statistic_indexes()
 *	title...	the column in "top", see columns.h
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
	EVENT(EXITS, "exits", EXITS_STATISTICS,						\
	      "EXITS/S", 'E', 7, 0, "exits from the guest")			\
	EVENT(IO, "io", IO_STATISTICS,						\
	      "IO/S", 'I', 6, 7, "exits for port and memory-mapped I/O")	\
	EVENT(INTERRUPTS, "interrupts", INTERRUPTS_STATISTICS,				\
	      "IRQ/S", 'Q', 6, 8, "interrupts injected")			\
	EVENT(TLB_FLUSHES, "tlb_flushes", "tlb_flush remote_tlb_flush",			\
	      "TLB/S", 'B', 6, 11, "flushes of the guest's TLBs")

#endif /* KVMSTATS_EVENTS_H */
