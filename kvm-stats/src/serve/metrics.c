// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "events.h"
#include "metrics.h"

#define VM_COUNTER(id, words, where, text) \
	{ .name = "kvm_vm_" id, .type = METRIC_COUNTER, .unit = "", .labels = "vm", \
	  .help = text, .from = FROM_STATISTIC, .scope = where, .statistics = words }
#define VM_GAUGE(id, of, lists, source, text) \
	{ .name = "kvm_vm_" id, .type = METRIC_GAUGE, .unit = of, .labels = lists, \
	  .help = text, .from = source }
#define SELF(id, kind, of, lists, text) \
	{ .name = "kvm_stats_" id, .type = kind, .unit = of, .labels = lists, \
	  .help = text, .from = FROM_SELF }

const struct metric metrics[] = {
	{ .name = "kvm_vm", .type = METRIC_INFO, .unit = "",
	  .labels = "vm, name, domain, uuid, vmm, pid, machine, pod, container, cgroup, number",
	  .help = "Whose VM it is. The label vm is unique on a host and stays the same",
	  .from = FROM_INFO },
	VM_GAUGE("start_time_seconds", "seconds", "vm", FROM_START,
		 "When the VM's process began, seconds since 1970"),
	VM_GAUGE("vcpus", "", "vm", FROM_VCPUS, "Virtual CPUs of the VM"),
	{ .name = "kvm_vm_vcpus_blocking", .type = METRIC_GAUGE, .unit = "", .labels = "vm",
	  .help = "Virtual CPUs that were halted when they were looked at",
	  .from = FROM_STATISTIC, .scope = KVMSTATS_VCPU, .statistics = "blocking" },
	{ .name = "kvm_vm_vcpu_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, mode",
	  .help = "Time of all virtual CPUs; the modes run, ready (waits for a CPU), throttled, halt, poll, other (in the VMM) and unknown add up to kvm_vm_vcpus times the time",
	  .from = FROM_MODES, .digits = 9 },
	VM_COUNTER("exits", EXITS_STATISTICS, KVMSTATS_VCPU, "Exits from guest mode"),
	VM_COUNTER("io_exits", "io_exits|instruction_io_other diagnose_500",
		   KVMSTATS_VCPU, "Exits for port I/O"),
	VM_COUNTER("mmio_exits", "mmio_exits|mmio_exit_user mmio_exit_kernel",
		   KVMSTATS_VCPU, "Exits for memory-mapped I/O"),
	VM_COUNTER("halt_exits", "halt_exits|wfi_exit_stat|exit_wait_state|wait_exits",
		   KVMSTATS_VCPU, "Exits because the guest halted a virtual CPU"),
	VM_COUNTER("signal_exits", "signal_exits", KVMSTATS_VCPU,
		   "Exits because a signal was pending"),
	VM_COUNTER("irq_exits", "irq_exits|ext_intr_exits|exit_external_interrupt|int_exits",
		   KVMSTATS_VCPU, "Exits for interrupts of the host"),
	VM_COUNTER("irq_injections", INTERRUPTS_STATISTICS, KVMSTATS_VCPU,
		   "Interrupts that were given to the guest"),
	VM_COUNTER("tlb_flush", "tlb_flush", KVMSTATS_VCPU, "TLB flushes of virtual CPUs"),
	VM_COUNTER("remote_tlb_flush", "remote_tlb_flush", KVMSTATS_VM,
		   "TLB flushes of all virtual CPUs of the VM at once"),
	VM_COUNTER("pf_taken", "pf_taken|pf_fixed pf_guest|pf_storage pf_instruc",
		   KVMSTATS_VCPU, "Page faults that KVM handled"),
	VM_COUNTER("insn_emulation", "insn_emulation|emulated_inst_exits|exit_instruction",
		   KVMSTATS_VCPU, "Instructions that KVM emulated"),
	VM_COUNTER("insn_emulation_fail", "insn_emulation_fail", KVMSTATS_VCPU,
		   "Instructions that KVM could not emulate"),
	VM_COUNTER("hypercalls", "hypercalls|hvc_exit_stat|hypervisor_call",
		   KVMSTATS_VCPU, "Hypercalls of the guest"),
	VM_COUNTER("preemption_reported", "preemption_reported", KVMSTATS_VCPU,
		   "Times that the guest was told of a preempted virtual CPU"),
	VM_COUNTER("nested_run", "nested_run", KVMSTATS_VCPU,
		   "Runs of guests that the guest itself has"),
	VM_COUNTER("halt_wakeup", "halt_wakeup", KVMSTATS_VCPU,
		   "Times that a halted virtual CPU was woken"),
	VM_COUNTER("halt_successful_poll", "halt_successful_poll", KVMSTATS_VCPU,
		   "Halts that ended while the host polled for it"),
	VM_COUNTER("halt_attempted_poll", "halt_attempted_poll", KVMSTATS_VCPU,
		   "Halts at whose start the host polled"),
	VM_GAUGE("mapped_bytes", "bytes", "vm, page_size", FROM_PAGES,
		 "Memory of the guest that is mapped with pages of this size"),
	{ .name = "kvm_vm_halt_wait_duration_seconds", .type = METRIC_HISTOGRAM,
	  .unit = "seconds", .labels = "vm, le",
	  .help = "How long halts slept, without polling; halts that have ended",
	  .from = FROM_STATISTIC, .scope = KVMSTATS_VCPU, .statistics = "halt_wait_hist",
	  .sum = "halt_wait_ns", .digits = 9 },

	SELF("build", METRIC_INFO, "", "version, source",
	     "The program, and where its statistics are from: next, bpf, files, or none"),
	SELF("vms", METRIC_GAUGE, "", "", "VMs at the last sample"),
	SELF("vcpus", METRIC_GAUGE, "", "", "Virtual CPUs at the last sample"),
	SELF("unreadable", METRIC_GAUGE, "", "reason",
	     "Processes or VMs that could not be read at the last sample, by reason"),
	SELF("sample_age_seconds", METRIC_GAUGE, "seconds", "",
	     "How long ago the values were read"),
	SELF("sample_duration_seconds", METRIC_GAUGE, "seconds", "",
	     "How long the last sample took"),
	SELF("samples", METRIC_COUNTER, "", "", "Samples since the program began"),
	SELF("series_dropped", METRIC_COUNTER, "", "",
	     "Series that --max-series left out, of all scrapes"),
	SELF("scrapes", METRIC_COUNTER, "", "code", "Answers to requests, by HTTP status"),
};

const unsigned int nr_metrics = sizeof(metrics) / sizeof(metrics[0]);

const struct page_size page_sizes[PAGE_SIZES] = {
	{ "4k", 12, "pages_4k" },
	{ "2m", 21, "pages_2m|num_2M_pages" },
	{ "1g", 30, "pages_1g|num_1G_pages" },
};

/* (2^BOUND_BUCKET - 1) ns */
const char *const bound_names[BOUNDS] = {
	"1.023e-06", "4.095e-06", "1.6383e-05", "6.5535e-05", "0.000262143",
	"0.001048575", "0.004194303", "0.016777215", "0.067108863", "0.268435455",
	"1.073741823",
};

const struct metric *metric_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_metrics; i++) {
		if (!strcmp(metrics[i].name, name))
			return &metrics[i];
	}
	return NULL;
}
