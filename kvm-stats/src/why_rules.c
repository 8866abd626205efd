// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "thresholds.h"
#include "why.h"
#include "xalloc.h"

/* Owners that are named, and the share that each of them has at least */
#define OWNERS_SAID		3
#define OWNER_SAID_PERMILLE	10

static uint64_t mode_time(const struct why_vm *vm, enum kvmstats_mode mode)
{
	return vm->vm->activity.times.mode[mode];
}

uint64_t get_lost_time(const struct why_vm *vm)
{
	return mode_time(vm, KVMSTATS_READY) + mode_time(vm, KVMSTATS_THROTTLED) +
	       mode_time(vm, KVMSTATS_OTHER);
}

/* The times of causes. What only some vCPUs do counts in full. */

#define MODE_TIME(name, mode)						\
static uint64_t get_##name(const struct why_vm *vm)			\
{									\
	return mode_time(vm, mode);					\
}

MODE_TIME(ready, KVMSTATS_READY)
MODE_TIME(throttled, KVMSTATS_THROTTLED)
MODE_TIME(poll, KVMSTATS_POLL)

/* OTHER, if no reasons for it are known */
static uint64_t get_other(const struct why_vm *vm)
{
	return vm->stalls ? 0 : mode_time(vm, KVMSTATS_OTHER);
}

#define STALL_TIME(name, reason)					\
static uint64_t get_##name(const struct why_vm *vm)			\
{									\
	return find_stall_time(vm->stalls, reason);			\
}

STALL_TIME(stopped, STALL_STOPPED)
STALL_TIME(frozen, STALL_FROZEN)
STALL_TIME(memory, STALL_MEMORY)
STALL_TIME(disk, STALL_DISK)
STALL_TIME(lock, STALL_LOCK)
STALL_TIME(wait, STALL_WAIT)
STALL_TIME(timed, STALL_TIMED)
STALL_TIME(kvm, STALL_KVM)
STALL_TIME(paused, STALL_PAUSED)
STALL_TIME(unknown, STALL_UNKNOWN)

/* Exits, without halts */
static uint64_t get_exits(const struct why_vm *vm)
{
	uint64_t ns = 0;
	size_t i;

	for (i = 0; vm->exits && i < vm->exits->sum.count; i++) {
		const struct exits_total *total = exits_total_at(vm->exits, i);

		if (!exit_is_halt(total->cell.isa, total->key.reason))
			ns += total->item.cost;
	}
	return ns;
}

static uint64_t get_others_waited(const struct why_vm *vm)
{
	return vm->others.waited;
}

/* Causes without a separate time: the whole time */
static uint64_t get_all_failed(const struct why_vm *vm)
{
	return vm->vm->failed ? vm->vm->activity.times.elapsed : 0;
}

static uint64_t get_all_exits(const struct why_vm *vm)
{
	return vm->exits ? 0 : vm->vm->activity.times.elapsed;
}

/* The conditions */

/* Permille of the time in which vCPUs were ready that owners of a kind ran */
static unsigned int share_of(const struct why_vm *vm, const char *kinds)
{
	uint64_t all = 0, sum = 0;
	size_t i;

	for (i = 0; vm->waits && i < vm->waits->sum.count; i++) {
		const struct blame_share *share = blame_share_at(vm->waits, i);

		if (!strcmp(share->key.kind, "quota"))
			continue;
		all += share->item.cost;
		if (strstr(kinds, share->key.kind))
			sum += share->item.cost;
	}
	return kvmstats_permille(sum, all);
}

#define MAIN_OWNER(name, kinds)								\
static bool name(const struct why_vm *vm, const struct why_host *host)			\
{											\
	return share_of(vm, kinds) >= MAIN_OWNER_PERMILLE;				\
}

MAIN_OWNER(has_host_steal, "steal")
MAIN_OWNER(has_other_vms, "vm")
MAIN_OWNER(has_neighbour, NOT_VMS)
MAIN_OWNER(waits_for_itself, "self")

/* Of its own threads, others than the vCPUs ran longest. */
static bool waits_for_emulator(const struct why_vm *vm, const struct why_host *host)
{
	const struct blame_share *own = find_owner(vm->waits, "self");

	return waits_for_itself(vm, host) && own && strcmp(own->key.name, "vCPUs");
}

/* The vCPUs wait for each other, and each could have a CPU. */
static bool waits_for_vcpus(const struct why_vm *vm, const struct why_host *host)
{
	return waits_for_itself(vm, host) && !waits_for_emulator(vm, host) && vm->cpus >= vm->vm->vcpus;
}

static bool is_stacked(const struct why_vm *vm, const struct why_host *host)
{
	return waits_for_vcpus(vm, host) && vm->idle_within >= IDLE_PERMILLE;
}

static bool is_pinned(const struct why_vm *vm, const struct why_host *host)
{
	return vm->cpus && vm->cpus < host->cpus && vm->idle_elsewhere >= IDLE_PERMILLE;
}

/* Others that it competes with took most of the time. */
static bool competes_with_low_weight(const struct why_vm *vm, const struct why_host *host)
{
	return has_low_weight(vm) && share_of(vm, "process vm") >= MAIN_OWNER_PERMILLE;
}

/* The largest owner is a process in the unit of the VM. */
static bool waits_for_helper(const struct why_vm *vm, const struct why_host *host)
{
	return vm->facts && vm->facts->contest.own && vm->facts->owner == find_main_owner(vm) &&
	       has_neighbour(vm, host);
}

static bool is_overcommitted(const struct why_vm *vm, const struct why_host *host)
{
	return host->cpus && host->wanted > host->cpus * 1000ULL && host->idle < IDLE_PERMILLE &&
	       share_of(vm, "vm self") >= MAIN_OWNER_PERMILLE;
}

/* Without the processes, the VMs would still want too much. */
static bool has_neighbours_and_is_full(const struct why_vm *vm, const struct why_host *host)
{
	return has_neighbour(vm, host) && host->cpus && host->wanted > host->cpus * 1000ULL;
}

static bool has_owners(const struct why_vm *vm, const struct why_host *host)
{
	return vm->waits && vm->waits->sum.count && share_of(vm, "unknown") < MAIN_OWNER_PERMILLE;
}

static bool is_stopped(const struct why_vm *vm, const struct why_host *host)
{
	return vm->state == 'T' || vm->state == 't';
}

static bool is_traced(const struct why_vm *vm, const struct why_host *host)
{
	return vm->state == 't';
}

static bool is_blocked(const struct why_vm *vm, const struct why_host *host)
{
	return vm->state == 'D';
}

static bool is_polling(const struct why_vm *vm, const struct why_host *host)
{
	return judge_polling(&vm->vm->activity);
}

static bool have_others_waited(const struct why_vm *vm, const struct why_host *host)
{
	return kvmstats_permille(vm->others.waited, vm->vm->elapsed) >= READY_NOTICED_PERMILLE;
}

static bool have_others_used_quota(const struct why_vm *vm, const struct why_host *host)
{
	return have_others_waited(vm, host) && vm->facts && vm->facts->other_quota;
}

static bool has_exit_storm(const struct why_vm *vm, const struct why_host *host)
{
	return vm->judgement.problem == PROBLEM_EXITS;
}

#define WAITED	"waited for a CPU{waits}, which the guest sees as steal time. "
#define STALLED(text, remedy, act, change)	true, text, remedy, act, change

const struct why_rule why_rules[] = {
	{ "failed", get_all_failed, KVMSTATS_MODES, 0, NULL, false,
	  "KVM could not emulate {failed} instructions of the guest.",
	  "look for \"emulation failure\" in the VMM's log", NULL, "the log of the VMM" },

	{ "stacked", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, is_stacked, true,
	  WAITED "{owners}Its vCPUs wait for each other, while the CPUs that they may use, {cpus}, were idle for {idle_within}.",
	  "", put_spread, "vCPUs that do not share a CPU" },
	{ "pinned", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, is_pinned, true,
	  WAITED "{owners}Its {vcpus} may use only {cpus}, while the other CPUs were idle for {idle}.",
	  "", put_unpin, "more CPUs for VMs that may use only some" },
	{ "steal", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, has_host_steal, true,
	  WAITED "{owners}This host is a VM, and its hypervisor took the CPU.",
	  "move VMs to a host that gets its CPUs", NULL, "a host that gets its CPUs" },
	{ "helper", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, waits_for_helper, true,
	  WAITED "{owners}It waits for a process that works for it.",
	  "", put_limit_owner, "more CPUs for helpers of VMs" },
	{ "weight", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, competes_with_low_weight, true,
	  WAITED "{owners}It gets little CPU time: {low_weight}.",
	  "", put_raise_weight, "more weight for VMs that have little" },
	{ "emulator", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, waits_for_emulator, true,
	  WAITED "{owners}It waits for threads of its VMM that are not vCPUs.",
	  "give these threads other CPUs than the vCPUs, or the VM more: it may use {cpus}", NULL,
	  "other CPUs for threads of VMMs" },
	{ "crowded", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, waits_for_vcpus, true,
	  WAITED "{owners}Its vCPUs wait for each other, although they may use {cpus}: other work uses these as well.",
	  "give this VM CPUs that other work does not use", NULL, "CPUs that other work does not use" },
	{ "self", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, waits_for_itself, true,
	  WAITED "{owners}It waits for its own threads.",
	  "fewer vCPUs, or more CPUs for the VM: it may use {cpus}", NULL, "fewer vCPUs" },
	{ "overcommitted", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, is_overcommitted, true,
	  WAITED "{owners}All VMs together want {wanted} CPUs, of {hostcpus}.",
	  "move a VM to another host", NULL, "fewer VMs on this host" },
	{ "full", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, has_neighbours_and_is_full, true,
	  WAITED "{owners}Most of this was not for VMs, but these alone want {wanted} CPUs, of {hostcpus}.",
	  "move VMs or other work to another host", NULL, "less work on this host" },
	{ "neighbour", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, has_neighbour, true,
	  WAITED "{owners}These are not VMs, which together want {wanted} CPUs, of {hostcpus}.",
	  "", put_limit_owner, "less CPU time for {owner}" },
	{ "others", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, has_other_vms, true,
	  WAITED "{owners}The VMs together want {wanted} CPUs, of {hostcpus}{hostidle}: they compete for some of them.",
	  "", put_divide_cpus, "other CPUs for VMs that compete" },
	{ "mixed", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, has_owners, true,
	  WAITED "{owners}No single owner took most of the time.",
	  "", NULL, "less load on this host" },
	{ "waited", get_ready, KVMSTATS_READY, READY_NOTICED_PERMILLE, NULL, true,
	  WAITED "It is unknown who ran then.", "", NULL, "less load on this host" },

	{ "throttled", get_throttled, KVMSTATS_THROTTLED, READY_NOTICED_PERMILLE, NULL, true,
	  "stopped by the CPU quota of {quota}, which the guest sees as steal time. Another host would not help.",
	  "", put_raise_quota, "higher CPU quotas" },

	{ "stopped", get_stopped, KVMSTATS_OTHER, STALL_PERMILLE, is_traced, STALLED(
	  "stopped by a debugger.", "let the debugger continue process {pid}", NULL,
	  "continuing what a debugger stopped") },
	{ "stopped", get_stopped, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "stopped by a signal.", "", put_continue, "continuing stopped VMMs") },
	{ "frozen", get_frozen, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "frozen by its cgroup.", "", put_thaw, "thawing frozen cgroups") },
	{ "memory", get_memory, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "guest memory was not there. {memory}",
	  "", put_memory_source, "guest memory that is present") },
	{ "disk", get_disk, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "its VMM waited for a file or a block device.",
	  "find out which disk of the VM is slow, and let I/O threads of the VMM use it", NULL, "faster disks") },
	{ "lock", get_lock, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "slept in a futex of its VMM, process {pid}: for a lock or a condition.",
	  "give each device of the VM an I/O thread", NULL, "VMMs that hold their lock for less time") },
	{ "converge", get_timed, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "slept in its VMM, process {pid}, for a condition with a timeout, although nothing holds a lock. QEMU does this "
	  "on purpose while a migration with auto-converge throttles the guest.",
	  "let the migration end, or give it more bandwidth; without one, find out what the VMM waits for", NULL,
	  "the end of migrations") },
	{ "wait", get_wait, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "its VMM slept in poll, a pipe, a socket or a timer instead of running the vCPU.",
	  "find out what the threads of process {pid} wait for", NULL, "the logs of VMMs") },
	{ "kvm", get_kvm, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "waited within KVM or another driver. Either the guest has not started these vCPUs, or the driver was slow: "
	  "it is unknown which.", "", NULL, "nothing known") },
	{ "paused", get_paused, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "paused: its VMM does not run it. If that was not on purpose, the VMM hangs.",
	  "find out why its VMM, process {pid}, paused it: after an I/O error or during a migration, it must not continue",
	  NULL, "finding out why VMs are paused") },
	{ "unknown", get_unknown, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "slept outside of halts without a known reason.", "", NULL, "nothing known") },
	{ "stopped", get_other, KVMSTATS_OTHER, STALL_PERMILLE, is_stopped, STALLED(
	  "its threads are stopped now by a signal or a debugger (state T or t).", "", put_continue,
	  "continuing stopped VMMs") },
	{ "blocked", get_other, KVMSTATS_OTHER, STALL_PERMILLE, is_blocked, STALLED(
	  "its threads are blocked now within the kernel (state D): by a disk, memory, or its cgroup's freezer.", "",
	  NULL, "the disks") },
	{ "other", get_other, KVMSTATS_OTHER, STALL_PERMILLE, NULL, STALLED(
	  "slept outside of halts: paused, or blocked in its VMM. It is unknown which.", "", NULL,
	  "nothing known") },

	{ "threads", get_others_waited, KVMSTATS_MODES, 0, have_others_used_quota, false,
	  "threads of its VMM that are not vCPUs were stopped by the CPU quota of {other_quota}{thread}: its I/O is slow by that.",
	  "", put_raise_other_quota, "higher CPU quotas" },
	{ "threads", get_others_waited, KVMSTATS_MODES, 0, have_others_waited, false,
	  "threads of its VMM that are not vCPUs waited for a CPU{thread}: its I/O is slow by that.",
	  "give these threads more CPUs, or others than the vCPUs and other work use", NULL, "more CPUs for threads of VMMs" },

	{ "exits", get_exits, KVMSTATS_MODES, EXITS_PERMILLE, NULL, false,
	  "spent on {rate} exits per second. {exit}", "", NULL, "fewer exits" },
	{ "exits", get_all_exits, KVMSTATS_MODES, 0, has_exit_storm, false,
	  "with {rate} exits per second. Their cost is unknown.", "", NULL, "fewer exits" },
	{ "polling", get_poll, KVMSTATS_MODES, 0, is_polling, false,
	  "polling by the host for the end of short halts; the guest ran for less than that.",
	  "", put_poll_less, "less halt polling" },
};

const unsigned int why_rules_count = sizeof(why_rules) / sizeof(*why_rules);

static bool reaches(uint64_t ns, uint64_t all, unsigned int permille)
{
	return ns * 1000.0 >= (double)all * permille;
}

static bool applies(const struct why_rule *rule, const struct why_vm *vm, const struct why_host *host)
{
	const struct window_vm *w = vm->vm;
	const uint64_t ns = rule->time(vm);

	if (!ns || (rule->when && !rule->when(vm, host)))
		return false;
	if (rule->mode == KVMSTATS_MODES)
		return reaches(ns, w->activity.times.elapsed, rule->least);
	return reaches(ns, w->elapsed, rule->least) && reaches(w->most[rule->mode], w->elapsed, rule->least);
}

/* A cause with the same time has been found: it comes first in the table. */
static bool is_said(const struct why_vm *vm, const struct why_rule *rule)
{
	unsigned int i;

	for (i = 0; i < vm->causes; i++) {
		if (vm->cause[i]->time == rule->time)
			return true;
	}
	return false;
}

static int compare_causes(const void *a, const void *b, void *arg)
{
	const struct why_rule *x = *(const struct why_rule **)a, *y = *(const struct why_rule **)b;
	const uint64_t ns[2] = { x->time(arg), y->time(arg) };

	if (x->lost != y->lost)
		return x->lost ? -1 : 1;
	if (ns[0] != ns[1])
		return ns[0] < ns[1] ? 1 : -1;
	return (x > y) - (x < y);
}

void find_causes(struct why_vm *vm, const struct why_host *host)
{
	unsigned int i;

	vm->causes = 0;
	for (i = 0; i < why_rules_count && vm->causes < CAUSES_MAX; i++) {
		if (!is_said(vm, &why_rules[i]) && applies(&why_rules[i], vm, host))
			vm->cause[vm->causes++] = &why_rules[i];
	}
	qsort_r(vm->cause, vm->causes, sizeof(*vm->cause), compare_causes, vm);
}

/* The placeholders in braces */

static void put_percent(FILE *f, unsigned int permille)
{
	char text[TEXT_SIZE];

	text_permille(permille, text);
	fprintf(f, "%s%%", text);
}

static void put_owner(FILE *f, const struct why_vm *vm, const struct blame_share *share)
{
	if (vm->facts && vm->facts->owner == share && vm->facts->contest.own)
		fprintf(f, "its own helper %s (PID %u)", vm->facts->contest.comm, share->pid);
	else if (!strcmp(share->key.kind, "self"))
		fprintf(f, "its own %s", share->key.name);
	else if (!strcmp(share->key.kind, "process") && share->pid)
		fprintf(f, "%s (PID %u)", share->key.name, share->pid);
	else if (!strcmp(share->key.kind, "process"))
		fprintf(f, "%s", share->key.name);
	else
		fprintf(f, "%s (%s)", share->key.name, share->key.kind);
}

static void put_owners(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	const size_t count = vm->waits ? vm->waits->sum.count : 0;
	uint64_t all = 0;
	unsigned int said = 0;
	size_t i;

	for (i = 0; i < count; i++) {
		if (strcmp(blame_share_at(vm->waits, i)->key.kind, "quota"))
			all += blame_share_at(vm->waits, i)->item.cost;
	}
	for (i = 0; i < count && said < OWNERS_SAID; i++) {
		const struct blame_share *share = blame_share_at(vm->waits, i);

		if (!strcmp(share->key.kind, "quota") ||
		    kvmstats_permille(share->item.cost, all) < OWNER_SAID_PERMILLE)
			continue;
		fputs(said++ ? ", " : "Then ran: ", f);
		put_owner(f, vm, share);
		putc(' ', f);
		put_percent(f, kvmstats_permille(share->item.cost, all));
	}
	if (said)
		fputs(". ", f);
}

static void put_milliseconds(FILE *f, uint64_t ns)
{
	char text[TEXT_SIZE];

	text_decimal(ns / 100000, 1, text);
	fprintf(f, "%s ms", text);
}

static void put_waits(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	const struct blame_waits waits = vm->waits ? all_waits(vm->waits) : (struct blame_waits){ 0 };

	if (!count_waits(&waits))
		return;
	fputs(" for ", f);
	put_milliseconds(f, mean_wait(&waits));
	fputs(" each time, ", f);
	put_milliseconds(f, waits.longest);
	fputs(" at most", f);
}

static void put_main_owner(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	fputs(has_main_process(vm) ? find_main_owner(vm)->key.name : "processes", f);
}

static void put_vcpus(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	if (vm->cpus_differ)
		fputs("vCPU with the fewest CPUs", f);
	else if (vm->vm->vcpus == 1)
		fputs("vCPU", f);
	else
		fprintf(f, "%u vCPUs", vm->vm->vcpus);
}

static void put_cpus(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	if (vm->cpus)
		fprintf(f, "CPU%s %s", vm->cpus == 1 ? "" : "s", vm->cpu_list);
	else
		fputs("CPUs that are not known", f);
}

static void put_idle(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	put_percent(f, vm->idle_elsewhere);
}

static void put_idle_within(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	put_percent(f, vm->idle_within);
}

static void put_host_idle(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	if (!host->live)
		return;
	fputs(", which are idle for ", f);
	put_percent(f, host->idle);
}

static void put_wanted(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	fprintf(f, "%.1f", host->wanted / 1e3);
}

static void put_host_cpus(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	fprintf(f, "%u", host->cpus);
}

static void put_level(FILE *f, const struct quota_level *level)
{
	const uint64_t period = level->limits.period_us;

	fprintf(f, "%s, %llu.%02llu CPUs", base_name(level->cgroup.path),
		(unsigned long long)(level->limits.quota_us / period),
		(unsigned long long)(level->limits.quota_us * 100 / period % 100));
}

static void put_other_quota(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	put_level(f, vm->facts->other_quota);
}

static void put_quota(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	if (!vm->facts || !vm->facts->nr_quotas) {
		fputs("its cgroup, or with a real-time policy of its threads", f);
		return;
	}
	put_level(f, find_used_quota(vm));
	if (vm->facts->nr_quotas > 1)
		fprintf(f, " (%u quotas apply)", vm->facts->nr_quotas);
}

static void put_weight_reason(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	put_low_weight(f, vm);
}

static void put_pid(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	fprintf(f, "%d", vm->vm->pid);
}

static void put_failed(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	fprintf(f, "%llu", (unsigned long long)vm->vm->failed);
}

/* Each source of memory that the facts allow */
static void put_memory(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	const struct why_facts *facts = vm->facts;

	if (!facts) {
		fputs("It is unknown whether it comes by userfaultfd, from swap, after memory.high, or from a file.", f);
		return;
	}
	if (facts->userfaultfd)
		fputs("The VMM has a userfaultfd (migration, snapshot). ", f);
	if (vm->swap)
		fprintf(f, "%llu MB of the VMM are swapped out. ", (unsigned long long)(vm->swap >> 20));
	if (facts->memory_limit)
		fprintf(f, "Cgroup %s is at its limit memory.high. ", facts->memory_limit);
	if (facts->memory_file) {
		fprintf(f, "Memory of the VMM is the file %s", facts->memory_file->path);
		fprintf(f, *facts->memory_file->device ? " (on %s). " : "%s. ", facts->memory_file->device);
	}
	if (!facts->userfaultfd && !vm->swap && !facts->memory_limit && !facts->memory_file)
		fputs("It is not in swap, and neither a file, a userfaultfd nor memory.high is the reason: perhaps it moves "
		      "to another NUMA node. ", f);
}

static void put_thread(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	if (*vm->others.comm)
		fprintf(f, ", above all %s", vm->others.comm);
}

static void put_rate(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	char text[TEXT_SIZE];

	text_short(kvmstats_rate(vm->vm->activity.event[KVMSTATS_EXITS], vm->vm->elapsed), text);
	fputs(text, f);
}

/* The most expensive exit, except for halts */
static void put_exit(FILE *f, const struct why_vm *vm, const struct why_host *host)
{
	char name[EXIT_NAME_SIZE], device[DEVICE_SIZE];
	size_t i;

	for (i = 0; vm->exits && i < vm->exits->sum.count; i++) {
		const struct exits_total *total = exits_total_at(vm->exits, i);

		if (exit_is_halt(total->cell.isa, total->key.reason))
			continue;
		fprintf(f, "The most expensive: %s", exit_name(total->cell.isa, total->key.reason, name));
		if (total->key.space) {
			fprintf(f, ", %s %#llx", total->key.space == EXITS_PORT ? "port" : "address",
				(unsigned long long)total->key.address);
			exits_device(vm->exits, &total->key, device);
			fprintf(f, *device ? " (%s)" : "%s", device);
		}
		fputs(", ", f);
		put_percent(f, kvmstats_permille(total->item.cost, get_exits(vm)));
		putc('.', f);
		return;
	}
}

static const struct {
	const char *word;
	void (*put)(FILE *f, const struct why_vm *vm, const struct why_host *host);
} placeholders[] = {
	{ "waits", put_waits }, { "owners", put_owners }, { "owner", put_main_owner },
	{ "vcpus", put_vcpus }, { "cpus", put_cpus }, { "idle", put_idle }, { "idle_within", put_idle_within },
	{ "hostidle", put_host_idle }, { "wanted", put_wanted }, { "hostcpus", put_host_cpus },
	{ "quota", put_quota }, { "other_quota", put_other_quota }, { "low_weight", put_weight_reason },
	{ "pid", put_pid }, { "memory", put_memory }, { "thread", put_thread },
	{ "failed", put_failed }, { "rate", put_rate }, { "exit", put_exit },
};

static void put_word(FILE *f, const char *word, size_t len, const struct why_vm *vm,
		     const struct why_host *host)
{
	size_t i;

	for (i = 0; i < sizeof(placeholders) / sizeof(*placeholders); i++) {
		if (strlen(placeholders[i].word) == len && !strncmp(placeholders[i].word, word, len)) {
			placeholders[i].put(f, vm, host);
			return;
		}
	}
	fprintf(f, "{%.*s}", (int)len, word);
}

char *format_why(const char *text, const struct why_vm *vm, const struct why_host *host)
{
	char *to = NULL;
	size_t size;
	FILE *f = check_alloc(open_memstream(&to, &size));

	while (true) {
		const size_t plain = strcspn(text, "{"), word = strcspn(text + plain, "}");

		fwrite(text, 1, plain, f);
		text += plain;
		if (!*text)
			break;
		put_word(f, text + 1, word - 1, vm, host);
		text += word + 1;
	}
	if (fclose(f) || !to)
		check_alloc(NULL);
	while (size && to[size - 1] == ' ')
		to[--size] = '\0';
	return to;
}

/* Return the thousandths of a CPU that a VM does not use, of all CPUs. */
static unsigned int find_unused(const struct why_vm *vm, const struct why_host *host)
{
	const unsigned int used = kvmstats_permille(mode_time(vm, KVMSTATS_RUN), vm->vm->elapsed);

	return host->cpus * 1000 > used ? host->cpus * 1000 - used : 0;
}

/* Others go on competing with the VM: of what it wins, it gets its share. */
static unsigned int find_share(const struct why_vm *vm, unsigned int gain)
{
	const uint64_t run = mode_time(vm, KVMSTATS_RUN), ready = mode_time(vm, KVMSTATS_READY);

	return run ? (double)gain * run / (run + ready) : gain;
}

struct remedy find_remedy(const struct why_rule *rule, const struct why_vm *vm, const struct why_host *host)
{
	char *text = format_why(rule->remedy, vm, host);
	const unsigned int unused = find_unused(vm, host);
	struct remedy_draft draft;

	begin_remedy(&draft);
	fputs(text, draft.text);
	free(text);
	if (rule->act)
		rule->act(&draft, vm, host);
	/* A command that ends the cause can win all of its time. */
	if (draft.remedy.kind && draft.ends_cause)
		draft.remedy.gain = kvmstats_permille(rule->time(vm), vm->vm->elapsed);
	if (draft.ends_cause && rule->lost)
		draft.remedy.gain = find_share(vm, draft.remedy.gain);
	if (draft.remedy.kind && rule->mode == KVMSTATS_READY)
		bound_by_quotas(&draft, vm);
	if (draft.most && draft.remedy.gain > draft.most)
		draft.remedy.gain = draft.most;
	/* Several vCPUs can lose more than the host has. */
	if (host->cpus && draft.remedy.gain > unused)
		draft.remedy.gain = unused;
	return end_remedy(&draft);
}
