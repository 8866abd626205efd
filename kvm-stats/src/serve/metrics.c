// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "events.h"
#include "metrics.h"
#include "model.h"

uint64_t read_cpu_time(int who)
{
	struct rusage usage;

	if (getrusage(who, &usage))
		return 0;
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ULL +
	       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

/* Values of the program's own metrics */

/* Define getter() for a metric that has one series, if the condition is true. */
#define GET(getter, condition, value)							\
static bool getter(const struct model *m, const struct codes *codes, unsigned int index,	\
		   struct program_value *v)						\
{											\
	v->n = value;									\
	return !index && (condition);							\
}

GET(get_up, true, m->samples && strcmp(m->source, "none"))
GET(get_blame, m->options->programs.owners, m->blame != NULL)
GET(get_vms, true, m->vms)
GET(get_program_vcpus, true, m->vcpus)
GET(get_timestamp, m->samples, m->timestamp)
GET(get_duration, m->samples, m->duration)
GET(get_samples, true, m->samples)
GET(get_dropped, true, m->served->dropped)
/* Counters of events that happened while the program ran: export has none. */
GET(get_started, codes, m->vms_started)
GET(get_ended, codes, m->vms_ended)
GET(get_unobserved, codes && m->has_unobserved, m->unobserved)
GET(get_host_exits, codes && m->exits, m->usage.exits)
/* Metrics of the process; the textfile collector has its own. */
GET(get_process_cpu, codes, m->cpu + read_cpu_time(RUSAGE_SELF))
GET(get_process_start, codes, m->program_started)

static bool get_version(const struct model *m, const struct codes *codes, unsigned int index,
			struct program_value *value)
{
	value->n = 1;
	value->label = KVMSTATS_VERSION;
	return !index;
}

static bool get_source(const struct model *m, const struct codes *codes, unsigned int index,
		       struct program_value *value)
{
	value->n = 1;
	value->label = m->source;
	return !index;
}

static bool get_unreadable(const struct model *m, const struct codes *codes,
			   unsigned int index, struct program_value *value)
{
	if (index >= KVMSTATS_REASONS)
		return false;
	value->n = m->unread[index];
	value->label = kvmstats_reason_name(index);
	return true;
}

static bool get_code(const struct model *m, const struct codes *codes, unsigned int index,
		     struct program_value *value)
{
	if (!codes || index >= MAX_CODES || !codes[index].code)
		return false;
	snprintf(value->text, sizeof(value->text), "%u", codes[index].code);
	value->label = value->text;
	value->n = codes[index].count;
	return true;
}

static bool get_usage(const struct model *m, const struct codes *codes, unsigned int index,
		      struct program_value *value)
{
	unsigned int mode;

	/* the known modes */
	for (mode = 0; codes && mode < MODES; mode++) {
		if (!(m->modes_known & 1U << mode) || index--)
			continue;
		value->n = m->usage.mode[mode];
		value->label = kvmstats_mode_name(mode);
		return true;
	}
	return false;
}

static bool get_memory(const struct model *m, const struct codes *codes, unsigned int index,
		       struct program_value *value)
{
	unsigned long long pages;
	FILE *f;
	int n;

	if (index || !codes)
		return false;
	f = fopen("/proc/self/statm", "re");
	if (!f)
		return false;
	n = fscanf(f, "%*u %llu", &pages);
	fclose(f);
	value->n = pages * sysconf(_SC_PAGESIZE);
	return n == 1;
}

static bool get_fds(const struct model *m, const struct codes *codes, unsigned int index,
		    struct program_value *value)
{
	DIR *dir;

	if (index || !codes)
		return false;
	dir = opendir("/proc/self/fd");
	if (!dir)
		return false;
	/* without "." and "..", and the descriptor of the directory */
	for (value->n = 0; readdir(dir); value->n++)
		;
	closedir(dir);
	value->n -= 3;
	return true;
}

static bool get_max_fds(const struct model *m, const struct codes *codes, unsigned int index,
			struct program_value *value)
{
	struct rlimit limit;

	if (index || !codes || getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	value->n = limit.rlim_cur;
	return true;
}

const char *metric_suffix(const struct metric *metric)
{
	return metric->type == METRIC_COUNTER ? "_total" : metric->type == METRIC_INFO ? "_info" : "";
}

#define VM_COUNTER(id, statistic_names, where, text) \
	{ .name = "kvm_vm_" id, .type = METRIC_COUNTER, .unit = "", .labels = "vm", \
	  .help = text, .from = FROM_STATISTIC, .scope = where, .statistics = statistic_names }
#define RULES_COUNTER(id, statistic_names, where, text) \
	{ .name = "kvm_vm_" id, .type = METRIC_COUNTER, .unit = "", .labels = "vm", \
	  .help = text, .from = FROM_STATISTIC, .scope = where, .statistics = statistic_names, \
	  .in_rules = true }
#define VM_GAUGE(id, of, lists, source, text) \
	{ .name = "kvm_vm_" id, .type = METRIC_GAUGE, .unit = of, .labels = lists, \
	  .help = text, .from = source }
#define PROGRAM(id, kind, of, scale, lists, value, text) \
	{ .name = id, .type = kind, .unit = of, .digits = scale, .labels = lists, \
	  .help = text, .from = FROM_PROGRAM, .get = value }

#define LABEL_NAME(id, size)	", " #id

const struct metric metrics[] = {
	{ .name = "kvm_vm", .type = METRIC_INFO, .unit = "",
	  .labels = "vm, pid, vm_id" IDENTITY_FACTS(LABEL_NAME) ", cgroup",
	  .help = "Identity of the VM", .from = FROM_INFO },
	{ .name = "kvm_vm_start_time_seconds", .type = METRIC_GAUGE, .unit = "seconds", .labels = "vm",
	  .help = "Start time of the VM's process since 1970", .from = FROM_START, .digits = 3 },
	VM_GAUGE("vcpus", "", "vm", FROM_VCPUS, "Number of vCPUs"),
	{ .name = "kvm_vm_vcpus_blocking", .type = METRIC_GAUGE, .unit = "", .labels = "vm",
	  .help = "Number of vCPUs halted at the last sample",
	  .from = FROM_STATISTIC, .scope = KVMSTATS_VCPU, .statistics = "blocking",
	  .vcpu_name = "kvm_vcpu_blocking" },
	{ .name = "kvm_vm_vcpu_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, mode",
	  .help = "vCPU time by mode; all modes add up to elapsed time multiplied by kvm_vm_vcpus",
	  .from = FROM_MODES, .digits = 9, .vcpu_name = "kvm_vcpu_seconds" },
	{ .name = "kvm_vm_other_threads_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, role",
	  .help = "CPU time of the VMM's threads that are not vCPUs, by role: emulator, io, vhost",
	  .from = FROM_ROLES, .digits = 9 },
	{ .name = "kvm_vm_other_threads_ready_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm",
	  .help = "Time the VMM's threads that are not vCPUs waited for a CPU, read every five seconds",
	  .from = FROM_OTHER_WAITS, .digits = 9 },
	{ .name = "kvm_vm_wait_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, kind, owner",
	  .help = "Time vCPUs waited for a CPU, by the thread, VM or quota that kept it from them",
	  .from = FROM_WAITS, .digits = 9 },
	{ .name = "kvm_vm_ready_wait_seconds", .type = METRIC_HISTOGRAM, .unit = "seconds",
	  .labels = "vm, le",
	  .help = "Length of waits for a CPU, excluding waits in progress; needs --blame",
	  .from = FROM_LENGTHS, .digits = 9 },
	RULES_COUNTER("exits", EXITS_STATISTICS, KVMSTATS_VCPU, "VM exits"),
	VM_COUNTER("io_exits", "io_exits|instruction_io_other diagnose_500",
		   KVMSTATS_VCPU, "VM exits caused by port I/O"),
	VM_COUNTER("mmio_exits", "mmio_exits|mmio_exit_user mmio_exit_kernel",
		   KVMSTATS_VCPU, "VM exits caused by memory-mapped I/O"),
	VM_COUNTER("halt_exits", "halt_exits|wfi_exit_stat|exit_wait_state|wait_exits",
		   KVMSTATS_VCPU, "VM exits caused by halt instructions"),
	VM_COUNTER("signal_exits", "signal_exits", KVMSTATS_VCPU,
		   "VM exits caused by pending signals"),
	VM_COUNTER("irq_exits", "irq_exits|ext_intr_exits|exit_external_interrupt|int_exits",
		   KVMSTATS_VCPU, "VM exits caused by host interrupts"),
	VM_COUNTER("irq_injections", INTERRUPTS_STATISTICS, KVMSTATS_VCPU,
		   "Interrupts injected into the guest"),
	VM_COUNTER("tlb_flush", "tlb_flush", KVMSTATS_VCPU, "TLB flushes of single vCPUs"),
	VM_COUNTER("remote_tlb_flush", "remote_tlb_flush", KVMSTATS_VM,
		   "TLB flushes of all vCPUs of the VM"),
	VM_COUNTER("pf_taken", "pf_taken|pf_fixed pf_guest|pf_storage pf_instruc",
		   KVMSTATS_VCPU, "Guest page faults handled by KVM"),
	VM_COUNTER("insn_emulation", "insn_emulation|emulated_inst_exits|exit_instruction",
		   KVMSTATS_VCPU, "Guest instructions emulated by KVM"),
	RULES_COUNTER("insn_emulation_fail", "insn_emulation_fail", KVMSTATS_VCPU,
		      "Guest instructions that KVM failed to emulate"),
	VM_COUNTER("hypercalls", "hypercalls|hvc_exit_stat|hypervisor_call",
		   KVMSTATS_VCPU, "Hypercalls of the guest"),
	VM_COUNTER("preemption_reported", "preemption_reported", KVMSTATS_VCPU,
		   "vCPU preemptions reported to the guest"),
	VM_COUNTER("nested_run", "nested_run", KVMSTATS_VCPU,
		   "Entries into nested guests"),
	VM_COUNTER("halt_wakeup", "halt_wakeup", KVMSTATS_VCPU,
		   "Wakeups of halted vCPUs"),
	VM_COUNTER("halt_successful_poll", "halt_successful_poll", KVMSTATS_VCPU,
		   "Halts that ended during halt polling"),
	VM_COUNTER("halt_attempted_poll", "halt_attempted_poll", KVMSTATS_VCPU,
		   "Halts that started with halt polling"),
	VM_GAUGE("mapped_bytes", "bytes", "vm, page_size", FROM_PAGES,
		 "Guest memory mapped with pages of this size"),
	{ .name = "kvm_vm_halt_wait_duration_seconds", .type = METRIC_HISTOGRAM,
	  .unit = "seconds", .labels = "vm, le",
	  .help = "Time halted vCPUs slept before wakeup, excluding halt polling and halts in progress",
	  .from = FROM_STATISTIC, .scope = KVMSTATS_VCPU, .statistics = "halt_wait_hist",
	  .sum = "halt_wait_ns", .digits = 9 },

	{ .name = "kvm_vm_exits_by_reason", .type = METRIC_COUNTER, .unit = "",
	  .labels = "vm, reason",
	  .help = "VM exits by reason of the processor since kvm-stats started; needs --exits",
	  .from = FROM_EXITS },
	{ .name = "kvm_vm_exit_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, reason, phase",
	  .help = "Time of VM exits in the kernel and in userspace since kvm-stats started; needs --exits",
	  .from = FROM_EXITS, .digits = 9 },
	{ .name = "kvm_vm_stall_seconds", .type = METRIC_COUNTER, .unit = "seconds",
	  .labels = "vm, reason",
	  .help = "Time vCPUs slept outside of halts by reason since kvm-stats started; needs --stalls",
	  .from = FROM_STALLS, .digits = 9 },

	PROGRAM("kvm_vms_started", METRIC_COUNTER, "", 0, "", get_started,
		"VMs created since kvm-stats started"),
	PROGRAM("kvm_vms_ended", METRIC_COUNTER, "", 0, "", get_ended,
		"VMs destroyed since kvm-stats started"),
	PROGRAM("kvm_vms_unobserved", METRIC_COUNTER, "", 0, "", get_unobserved,
		"VMs that were destroyed before a sample had their values, including temporary VMs"),
	PROGRAM("kvm_vms_vcpu_seconds", METRIC_COUNTER, "seconds", 9, "mode", get_usage,
		"vCPU time of all VMs by mode since kvm-stats started, including destroyed VMs"),
	PROGRAM("kvm_vms_exits", METRIC_COUNTER, "", 0, "", get_host_exits,
		"VM exits of all VMs since kvm-stats started, including destroyed VMs"),
	PROGRAM("kvm_stats_build", METRIC_INFO, "", 0, "version", get_version,
		"Version of kvm-stats"),
	PROGRAM("kvm_stats_up", METRIC_GAUGE, "", 0, "", get_up,
		"1 if a source of statistics works, 0 otherwise"),
	PROGRAM("kvm_stats_blame_up", METRIC_GAUGE, "", 0, "", get_blame,
		"1 if kvm_vm_wait_seconds_total is measured, 0 otherwise"),
	PROGRAM("kvm_stats_source", METRIC_INFO, "", 0, "source", get_source,
		"Source of the statistics: next, bpf, files or none"),
	PROGRAM("kvm_stats_vms", METRIC_GAUGE, "", 0, "", get_vms,
		"Number of VMs at the last sample"),
	PROGRAM("kvm_stats_vcpus", METRIC_GAUGE, "", 0, "", get_program_vcpus,
		"Number of vCPUs at the last sample"),
	PROGRAM("kvm_stats_unreadable", METRIC_GAUGE, "", 0, "reason", get_unreadable,
		"Number of processes and VMs that could not be read at the last sample"),
	PROGRAM("kvm_stats_last_sample_timestamp_seconds", METRIC_GAUGE, "seconds", 9, "",
		get_timestamp, "Time of the last sample since 1970"),
	PROGRAM("kvm_stats_sample_duration_seconds", METRIC_GAUGE, "seconds", 9, "",
		get_duration, "Duration of the last sample"),
	PROGRAM("kvm_stats_samples", METRIC_COUNTER, "", 0, "", get_samples,
		"Samples since kvm-stats started"),
	PROGRAM("kvm_stats_series_dropped", METRIC_COUNTER, "", 0, "", get_dropped,
		"Series excluded by --max-series, added up over all scrapes"),
	PROGRAM("kvm_stats_scrapes", METRIC_COUNTER, "", 0, "code", get_code,
		"HTTP responses by status"),
	PROGRAM("process_cpu_seconds", METRIC_COUNTER, "seconds", 6, "", get_process_cpu,
		"User and system CPU time of kvm-stats"),
	PROGRAM("process_resident_memory_bytes", METRIC_GAUGE, "bytes", 0, "", get_memory,
		"Resident memory of the process that serves"),
	PROGRAM("process_open_fds", METRIC_GAUGE, "", 0, "", get_fds,
		"Number of open file descriptors of the process that serves"),
	PROGRAM("process_max_fds", METRIC_GAUGE, "", 0, "", get_max_fds,
		"Maximum number of open file descriptors of the process that serves"),
	PROGRAM("process_start_time_seconds", METRIC_GAUGE, "seconds", 9, "", get_process_start,
		"Start time of kvm-stats since 1970"),
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
