// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each cause of "why" appears from its threshold on, and not below. Each case has the facts of a VM
 * just above or just below; in all other respects, the VM has no trouble. Prints TAP.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"
#include "thresholds.h"
#include "why.h"

#define MS		1000000ULL
#define ELAPSED		5000000000ULL	/* nanoseconds; 2 vCPUs */
#define OWNERS		4

/* Hosts with made-up mounts: cgroup v2 and v1 */
static struct cgroups *cgroups, *cgroups_v1;

struct scene {
	struct why_facts facts;
	struct thread_policy threads[OWNERS];
	struct quota_level quota;
	struct cgroup frozen;
	struct vcpu_cpus vcpus[2];
	struct window_vm w;
	struct why_vm vm;
	struct why_host host;
	struct blame_victim waits;
	struct blame_share owner[OWNERS];
	struct stalls_vm stalls;
	struct stall_share stall;
	struct exits_vm exits;
	struct exits_total exit;
};

static bool said[64];	/* rules of the table that a case has seen */

/* A VM that runs for half of its time and is halted otherwise, on a host with 2 CPUs */
static void begin_scene(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->vm.vm = &s->w;
	strcpy(s->w.label, "web-1");
	s->w.pid = 4711;
	s->w.vcpus = 2;
	s->w.elapsed = ELAPSED;
	s->w.activity.times.elapsed = 2 * ELAPSED;
	s->w.activity.times.mode[KVMSTATS_RUN] = ELAPSED;
	s->w.activity.times.mode[KVMSTATS_HALT] = ELAPSED;
	s->host = (struct why_host){ .cpus = 2, .live = true, .idle = 500, .ran = 1000, .wanted = 1000 };
	s->vm.cpus = 2;
	strcpy(s->vm.cpu_list, "0-1");
	s->waits.sum.items = s->owner;
	s->vm.waits = &s->waits;
	s->stalls.sum.items = &s->stall;
	s->vm.stalls = &s->stalls;
	s->exits.sum.items = &s->exit;
	s->vm.exits = &s->exits;
}

/* One vCPU spends so much time in a mode. */
static void set_mode(struct scene *s, enum kvmstats_mode mode, uint64_t ns)
{
	s->w.activity.times.mode[mode] = s->w.most[mode] = ns;
}

static void add_owner(struct scene *s, const char *kind, const char *name, uint32_t pid, uint64_t ns)
{
	struct blame_share *share = &s->owner[s->waits.sum.count++];

	share->item.cost = ns;
	s->waits.sum.cost += ns;
	share->pid = pid;
	strcpy(share->key.kind, kind);
	strcpy(share->key.name, name);
}

/* Owners of two kinds, of which the first has just enough of the time, or not */
static void set_owners(struct scene *s, const char *kind, const char *name, const char *other, bool above)
{
	set_mode(s, KVMSTATS_READY, 1000 * MS);
	add_owner(s, kind, name, 0, MAIN_OWNER_PERMILLE - !above);
	add_owner(s, other, "db", 0, 1000 - MAIN_OWNER_PERMILLE + !above);
}

static void set_ready(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_READY, ELAPSED / 1000 * READY_NOTICED_PERMILLE - !above);
	s->vm.waits = NULL;
}

static void set_pinned(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_READY, 1000 * MS);
	s->vm.cpus = 1;
	strcpy(s->vm.cpu_list, "1");
	s->vm.idle_elsewhere = IDLE_PERMILLE - !above;
	s->vm.unpin_gain = 500;
}

static void set_pinned_without_owners(struct scene *s, bool above)
{
	set_pinned(s, above);
	s->vm.waits = NULL;
}

static void set_all_cpus(struct scene *s, bool above)
{
	set_pinned(s, true);
	s->vm.cpus = above ? 1 : 2;
}

static void set_steal(struct scene *s, bool above)
{
	set_owners(s, "steal", "hypervisor of this host", "vm", above);
}

static void set_overcommitted(struct scene *s, bool above)
{
	set_owners(s, "vm", "web-2", "process", true);
	s->host.idle = 0;
	s->host.wanted = 2000 + above;
}

static void set_idle_host(struct scene *s, bool above)
{
	set_overcommitted(s, true);
	s->host.idle = IDLE_PERMILLE - above;
}

static void set_full(struct scene *s, bool above)
{
	set_owners(s, "process", "backup.service", "vm", true);
	s->host.wanted = 2000 + above;
}

/* Several processes, none of which is worth a change */
static void set_many(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_READY, 1000 * MS);
	add_owner(s, "process", "cc1", 77, 4 * MAIN_PROCESS_PERMILLE - 4);
	add_owner(s, "process", "ld", 78, 1004 - 2 * !above);
	add_owner(s, "vm", "db", 0, 1998 + 2 * !above);
}

static void set_neighbour(struct scene *s, bool above)
{
	set_owners(s, "process", "backup.service", "vm", above);
}

static void set_others(struct scene *s, bool above)
{
	set_owners(s, "vm", "web-2", "idle", above);
}

static void set_others_and_quota(struct scene *s, bool above)
{
	set_others(s, above);
	add_owner(s, "quota", "vm.scope", 0, 9000);
}

/* Two cgroups compete: /vm.scope and /backup.scope. */
static void set_contest(struct scene *s)
{
	struct contest *c = &s->facts.contest;

	s->vm.facts = &s->facts;
	s->facts.cgroups = cgroups;
	s->facts.owner = &s->owner[0];
	c->known = c->vm.is_group = c->owner.is_group = true;
	c->vm.cgroup.v2 = c->owner.cgroup.v2 = true;
	strcpy(c->vm.cgroup.path, "/vm.scope");
	strcpy(c->owner.cgroup.path, "/backup.scope");
	c->vm.limits.weight = c->owner.limits.weight = 100;
	c->vm.vcpus = 2;
}

static void set_low_weight(struct scene *s, bool above)
{
	set_owners(s, "process", "backup", "vm", true);
	set_contest(s);
	s->facts.contest.vm.limits.weight = 100 - above;
}

/* The weight is low, but the VM waits for its own vCPUs. */
static void set_low_weight_and_self(struct scene *s, bool above)
{
	set_owners(s, "process", "backup", "self", above);
	set_contest(s);
	s->facts.contest.vm.limits.weight = 1;
}

static void set_helper(struct scene *s, bool above)
{
	set_owners(s, "process", "m.scope", "vm", true);
	set_contest(s);
	s->owner[0].pid = 12;
	strcpy(s->facts.contest.comm, "virtiofsd");
	s->facts.contest.own = above;
}

static void set_emulator(struct scene *s, bool above)
{
	set_owners(s, "self", "IO iothread1", "idle", above);
}

static void set_self(struct scene *s, bool above)
{
	set_owners(s, "self", "vCPUs", "idle", above);
	s->vm.cpus = 1;
}

/* Each vCPU could have a CPU. */
static void set_crowded(struct scene *s, bool above)
{
	set_owners(s, "self", "vCPUs", "idle", true);
	s->vm.cpus = 1 + above;
	s->vm.idle_within = IDLE_PERMILLE - 1;
}

static void set_stacked(struct scene *s, bool above)
{
	set_crowded(s, true);
	s->vm.idle_within = IDLE_PERMILLE - !above;
}

static void set_mixed(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_READY, ELAPSED / 1000 * READY_NOTICED_PERMILLE - !above);
	add_owner(s, "vm", "web-2", 0, 40);
	add_owner(s, "process", "cc", 12, 30);
	add_owner(s, "idle", "CPU wakeup latency", 0, 30);
	s->waits.ended = (struct blame_waits){ .ns = 250 * MS, .longest = 71 * MS, .bucket[BLAME_BUCKETS - 1] = 4 };
}

static void set_unknown_owner(struct scene *s, bool above)
{
	set_owners(s, "unknown", "not seen yet", "idle", above);
}

static void set_throttled(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_THROTTLED, ELAPSED / 1000 * READY_NOTICED_PERMILLE - !above);
}

static void set_throttled_without_quota(struct scene *s, bool above)
{
	set_throttled(s, above);
	s->vm.facts = &s->facts;
}

static void set_stall(struct scene *s, uint64_t reason, bool above)
{
	set_mode(s, KVMSTATS_OTHER, ELAPSED);
	s->stalls.sum.count = 1;
	s->stall.reason = reason;
	s->stall.item.cost = ELAPSED / 1000 * STALL_PERMILLE - !above;
}

#define SET_STALL(name, reason)						\
static void set_##name(struct scene *s, bool above)			\
{									\
	set_stall(s, reason, above);					\
}

SET_STALL(stopped, STALL_STOPPED)
SET_STALL(frozen, STALL_FROZEN)
SET_STALL(memory, STALL_MEMORY)
SET_STALL(disk, STALL_DISK)
SET_STALL(lock, STALL_LOCK)
SET_STALL(wait, STALL_WAIT)
SET_STALL(timed, STALL_TIMED)
SET_STALL(kvm, STALL_KVM)
SET_STALL(paused, STALL_PAUSED)
SET_STALL(unknown, STALL_UNKNOWN)

static void set_traced(struct scene *s, bool above)
{
	set_stall(s, STALL_STOPPED, true);
	s->vm.state = above ? 't' : 'T';
}

/* Each of many vCPUs sleeps for a moment. */
static void set_spread(struct scene *s, bool above)
{
	set_stall(s, STALL_LOCK, true);
	s->w.most[KVMSTATS_OTHER] = ELAPSED / 1000 * STALL_PERMILLE - !above;
}

static void set_other(struct scene *s, bool above)
{
	s->vm.stalls = NULL;
	set_mode(s, KVMSTATS_OTHER, ELAPSED / 1000 * STALL_PERMILLE - !above);
}

static void set_state_stopped(struct scene *s, bool above)
{
	set_other(s, true);
	s->vm.state = above ? 'T' : '\0';
}

static void set_blocked(struct scene *s, bool above)
{
	set_other(s, true);
	s->vm.state = above ? 'D' : '\0';
}

static void add_quota(struct scene *s, const char *path, uint64_t quota, uint64_t period)
{
	s->vm.facts = &s->facts;
	s->facts.cgroups = cgroups;
	s->facts.quotas = &s->quota;
	s->facts.nr_quotas = 1;
	s->facts.quotas_complete = true;
	s->quota.limits = (struct cgroup_limits){ 100, false, quota, period };
	s->quota.cpus = 1;
	s->quota.cgroup.v2 = true;
	strcpy(s->quota.cgroup.path, path);
}

static void set_others_waited(struct scene *s, bool above)
{
	s->vm.others.waited = ELAPSED / 1000 * READY_NOTICED_PERMILLE - !above;
	strcpy(s->vm.others.comm, "IO iothread0");
}

static void set_others_throttled(struct scene *s, bool above)
{
	set_others_waited(s, above);
	add_quota(s, "/m.scope/libvirt/emulator", 20000, 100000);
	s->facts.nr_quotas = 0;
	s->facts.other_quota = &s->quota;
}

/* The limit of these is a share of the time of one vCPU. */
static void add_vcpus(struct scene *s)
{
	s->w.vcpus = 64;
	s->w.activity.times.elapsed = 64 * ELAPSED;
}

static void set_others_of_many_waited(struct scene *s, bool above)
{
	set_others_waited(s, above);
	add_vcpus(s);
}

static void set_others_of_many_throttled(struct scene *s, bool above)
{
	set_others_throttled(s, above);
	add_vcpus(s);
}

static void set_exits(struct scene *s, bool above)
{
	s->w.activity.event[KVMSTATS_EXITS] = 75000;
	s->exits.sum.count = 1;
	s->exit.item.cost = 2 * ELAPSED / 1000 * EXITS_PERMILLE - !above;
	s->exit.key.reason = 30;	/* I/O instruction, Intel SDM volume 3, appendix C */
}

static void set_exit_storm(struct scene *s, bool above)
{
	s->vm.exits = NULL;
	s->vm.judgement.problem = above ? PROBLEM_EXITS : PROBLEM_NONE;
}

static void set_polling(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_POLL, 2 * ELAPSED / 1000 * POLLING_PERMILLE - !above);
	set_mode(s, KVMSTATS_RUN, 100 * MS);
}

static void set_polling_and_running(struct scene *s, bool above)
{
	set_mode(s, KVMSTATS_POLL, 3000 * MS);
	set_mode(s, KVMSTATS_RUN, 3000 * MS - above);
}

static void set_failed(struct scene *s, bool above)
{
	s->w.failed = above;
}

static const struct {
	const char *what, *cause;
	void (*set)(struct scene *s, bool above);
	const char *text;	/* in the sentence and its remedy */
} cases[] = {
	{ "waits without owners", "waited", set_ready,
	  "waited for a CPU, which the guest sees as steal time. It is unknown who ran then" },
	{ "other CPUs are idle, owners unknown", "pinned", set_pinned_without_owners, "CPU, which the guest sees as steal time. Its 2" },
	{ "other CPUs are idle", "pinned", set_pinned, "steal time. Its 2 vCPUs may use only CPU 1, while the other CPUs "
	  "were idle for 20.0%. let its vCPUs use other CPUs" },
	{ "it may use fewer CPUs than there are", "pinned", set_all_cpus, "only CPU 1" },
	{ "share of the hypervisor below", "steal", set_steal, "hypervisor of this host (steal) 50.0%" },
	{ "VMs want more CPUs than there are", "overcommitted", set_overcommitted, "want 2.0 CPUs, of 2" },
	{ "CPUs are not idle", "overcommitted", set_idle_host, "move a VM" },
	{ "VMs and processes want more than the CPUs", "full", set_full, "these alone want 2.0 CPUs, of 2" },
	{ "many processes", "neighbour", set_many, "run fewer processes on this host, or give the VM a "
	  "larger CPU weight (less CPU time for processes)" },
	{ "share of a service", "neighbour", set_neighbour,
	  "Then ran: backup.service 50.0%, db (vm) 50.0%. These are not VMs, which together want 1.0 CPUs, of 2. "
	  "give backup.service less CPU time, or the VM more (less CPU time for backup.service)" },
	{ "share of other VMs", "others", set_others, "want 1.0 CPUs, of 2, which are idle for 50.0%" },
	{ "share of other VMs, without a quota", "others", set_others_and_quota, "Then ran: web-2 (vm) 50.0%, db (idle) 50.0%. The" },
	{ "weight of the VM", "weight", set_low_weight, "It gets little CPU time: vm.scope has the CPU weight 99, and the "
	  "default is 100. give it the default" },
	{ "share of others if the weight is low", "weight", set_low_weight_and_self, "It gets little CPU time" },
	{ "helper of the VM", "helper", set_helper, "its own helper virtiofsd (PID 12) 50.0%, db (vm) 50.0%" },
	{ "share of a thread that is not a vCPU", "emulator", set_emulator, "these threads other CPUs" },
	{ "share of the threads of this VM", "self", set_self, "own vCPUs 50.0%" },
	{ "it may use a CPU for each vCPU", "crowded", set_crowded, "although they may use CPUs 0-1" },
	{ "CPUs that it may use are idle", "stacked", set_stacked, "the CPUs that they may use, CPUs 0-1, were idle for 20.0%. "
	  "pin each vCPU to a CPU that is idle" },
	{ "several owners", "mixed", set_mixed,
	  "waited for a CPU for 62.5 ms each time, 71.0 ms at most, which the guest sees as steal time. Then ran: web-2 (vm) 40.0%, cc (PID 12) 30.0%, CPU wakeup latency (idle) 30.0%" },
	{ "share of unknown owners", "waited", set_unknown_owner, "It is unknown who ran then" },
	{ "quota", "throttled", set_throttled,
	  "quota of its cgroup, or with a real-time policy of its threads, which" },
	{ "quota that cannot be read", "throttled", set_throttled_without_quota, "quota of its cgroup, or with a real-time policy" },
	{ "stopped", "stopped", set_stopped, "signal. let the VMM continue" },
	{ "traced", "stopped", set_traced, "stopped by a debugger" },
	{ "frozen", "frozen", set_frozen, "cgroup. thaw it" },
	{ "guest memory", "memory", set_memory, "It is unknown whether it comes by userfaultfd" },
	{ "disk", "disk", set_disk, "block device" },
	{ "lock", "lock", set_lock, "process 4711" },
	{ "a moment on each vCPU", "lock", set_spread, "futex of its VMM" },
	{ "poll, sleep, pipe", "wait", set_wait, "process 4711 wait for" },
	{ "condition with a timeout", "converge", set_timed, "let the migration end" },
	{ "within KVM", "kvm", set_kvm, "it is unknown which" },
	{ "paused", "paused", set_paused, "process 4711, paused it" },
	{ "no reason", "unknown", set_unknown, "without a known reason" },
	{ "OTHER without reasons", "other", set_other, "It is unknown which" },
	{ "state T, without reasons", "stopped", set_state_stopped, "(state T or t). let the VMM continue" },
	{ "state D, without reasons", "blocked", set_blocked, "(state D)" },
	{ "quota of threads that are not vCPUs", "threads", set_others_throttled,
	  "stopped by the CPU quota of emulator, 0.20 CPUs, above all IO iothread0: its I/O is slow by that. raise the quota of "
	  "emulator from 0.20 to 1.00 CPUs" },
	{ "threads that are not vCPUs", "threads", set_others_waited, "waited for a CPU, above all IO iothread0" },
	{ "quota of threads of a large VM", "threads", set_others_of_many_throttled, "stopped by the CPU quota of emulator" },
	{ "threads of a large VM", "threads", set_others_of_many_waited, "waited for a CPU, above all IO iothread0" },
	{ "cost of exits", "exits", set_exits, "15.0k exits per second. The most expensive: " },
	{ "number of exits", "exits", set_exit_storm, "Their cost is unknown" },
	{ "polling", "polling", set_polling, "let the host poll for less time" },
	{ "polling takes more time than the guest", "polling", set_polling_and_running, "ran for less" },
	{ "emulation", "failed", set_failed, "could not emulate 1 instructions" },
};

/* The sentence of a cause, its remedy, and that of several VMs; the caller frees it. */
static char *get_sentence(const struct scene *s, const struct why_rule *rule)
{
	char *text = format_why(rule->text, &s->vm, &s->host), *change = format_why(rule->change, &s->vm, &s->host), *all;
	struct remedy remedy = find_remedy(rule, &s->vm, &s->host);

	if (asprintf(&all, "%s %s (%s)", text, remedy.text, change) < 0)
		exit(1);
	free(text);
	free(change);
	free_remedy(&remedy);
	return all;
}

static void check_case(unsigned int i)
{
	const struct why_rule *rule;
	struct scene s;
	char *sentence;
	bool found;

	begin_scene(&s);
	cases[i].set(&s, true);
	find_causes(&s.vm, &s.host);
	rule = s.vm.causes ? s.vm.cause[0] : NULL;
	sentence = rule ? get_sentence(&s, rule) : strdup("");
	found = s.vm.causes == 1 && !strcmp(rule->name, cases[i].cause) && strstr(sentence, cases[i].text);
	tap_result(found && !strpbrk(sentence, "{}"), "%s, at its threshold: %s", cases[i].what, sentence);
	free(sentence);
	if (!found)
		return;
	said[rule - why_rules] = true;

	begin_scene(&s);
	cases[i].set(&s, false);
	find_causes(&s.vm, &s.host);
	tap_result(!s.vm.causes || s.vm.cause[0] != rule, "%s, below it: %s", cases[i].what,
		   s.vm.causes ? s.vm.cause[0]->name : "nothing");
}

static void check_healthy(void)
{
	struct scene s;

	begin_scene(&s);
	find_causes(&s.vm, &s.host);
	tap_result(!s.vm.causes && !get_lost_time(&s.vm), "VM without trouble: no cause");
	s.w.elapsed = s.w.activity.times.elapsed = 0;
	find_causes(&s.vm, &s.host);
	tap_result(!s.vm.causes, "VM without time: no cause");
	begin_scene(&s);
	s.vm.judgement.problem = PROBLEM_EXITS;
	find_causes(&s.vm, &s.host);
	tap_result(!s.vm.causes, "many exits that are known to be cheap: no cause");
}

/* What cost most time comes first; what is no loss comes last. */
static void check_order(void)
{
	struct scene s;

	begin_scene(&s);
	set_mixed(&s, true);
	set_polling(&s, true);
	set_mode(&s, KVMSTATS_THROTTLED, 2000 * MS);
	find_causes(&s.vm, &s.host);
	tap_result(s.vm.causes == 3 && !strcmp(s.vm.cause[0]->name, "throttled") &&
		   !strcmp(s.vm.cause[1]->name, "mixed") && !strcmp(s.vm.cause[2]->name, "polling"),
		   "causes are in the order of lost time");
	tap_result(get_lost_time(&s.vm) == 2250 * MS, "READY and THROT are lost, POLL is not");

	begin_scene(&s);
	set_steal(&s, true);
	set_failed(&s, true);
	find_causes(&s.vm, &s.host);
	tap_result(s.vm.causes == 2 && !strcmp(s.vm.cause[0]->name, "steal") && !strcmp(s.vm.cause[1]->name, "failed"),
		   "a cause of lost time comes before one that lasts longer; READY has one cause");
	set_failed(&s, false);
	set_mode(&s, KVMSTATS_THROTTLED, 1000 * MS);
	find_causes(&s.vm, &s.host);
	tap_result(s.vm.causes == 2 && !strcmp(s.vm.cause[0]->name, "steal") && !strcmp(s.vm.cause[1]->name, "throttled"),
		   "causes of the same time are in the order of the table");
}

/* Compare the command of the first cause and its undoing. */
static void check_command(const char *what, struct scene *s, const char *command, const char *undo)
{
	struct remedy remedy;

	find_causes(&s->vm, &s->host);
	if (!s->vm.causes) {
		tap_result(false, "%s: no cause", what);
		return;
	}
	remedy = find_remedy(s->vm.cause[0], &s->vm, &s->host);
	tap_result(!strcmp(remedy.command, command) && !strcmp(remedy.undo, undo) && !*command == !remedy.kind,
		   "%s: %s, undone by: %s", what, remedy.command, remedy.undo);
	free_remedy(&remedy);
}

static void check_gain(const char *what, struct scene *s, unsigned int gain)
{
	struct remedy remedy;

	find_causes(&s->vm, &s->host);
	remedy = find_remedy(s->vm.cause[0], &s->vm, &s->host);
	tap_result(remedy.gain == gain, "%s: gain of %u", what, remedy.gain);
	free_remedy(&remedy);
}

/* Check that the sentence of the first cause, and its remedy, have these words. */
static void check_sentence(const char *what, struct scene *s, const char *text, const char *remedy)
{
	char *sentence;

	find_causes(&s->vm, &s->host);
	sentence = s->vm.causes ? get_sentence(s, s->vm.cause[0]) : strdup("");
	tap_result(strstr(sentence, text) && strstr(sentence, remedy), "%s: %s", what, sentence);
	free(sentence);
}

static struct contest *begin_contest(struct scene *s)
{
	begin_scene(s);
	set_mode(s, KVMSTATS_READY, 4000 * MS);
	set_mode(s, KVMSTATS_RUN, 1000 * MS);
	add_owner(s, "process", "backup", 9, 4000 * MS);
	set_contest(s);
	return &s->facts.contest;
}

#define UNIT(name)	"systemctl set-property --runtime -- " name

static void check_weights(void)
{
	struct contest *c;
	struct scene s;

	c = begin_contest(&s);
	c->owner.manager = c->vm.manager = MANAGER_SYSTEMD;
	strcpy(c->owner.unit, "backup.service");
	strcpy(c->vm.unit, "machine.slice");
	check_command("unit of an owner", &s, UNIT("backup.service CPUWeight=1"), UNIT("backup.service CPUWeight=100"));
	c->owner.is_shared = true;
	check_command("unit with others", &s, UNIT("machine.slice CPUWeight=2000"), UNIT("machine.slice CPUWeight=100"));
	c->owner.is_shared = false;
	c->owner.has_reader = true;
	check_command("unit of kvm-stats", &s, UNIT("machine.slice CPUWeight=2000"), UNIT("machine.slice CPUWeight=100"));
	c->vm.limits.weight = 3000;
	check_command("no weight is better than today's", &s, "", "");
	c->owner.is_shared = true;
	c->owner.has_reader = false;
	c->owner.limits.weight = 5000;
	c->vm.limits.weight = 10000;
	check_command("group of several owners with much weight", &s, UNIT("backup.service CPUWeight=100"),
		      UNIT("backup.service CPUWeight=5000"));
	c->owner.limits.weight = 100;
	add_owner(&s, "process", "cc", 0, 14000 * MS);
	add_owner(&s, "process", "ld", 0, 14000 * MS);
	s.facts.side_ns = 4000 * MS;
	c->vm.limits.weight = 100;
	check_command("small owners", &s, UNIT("machine.slice CPUWeight=2000"), UNIT("machine.slice CPUWeight=100"));
	s.facts.side_ns = 0;
	check_command("small owners of several groups", &s, "", "");
	s.waits.sum.count = 1;
	s.waits.sum.cost = 4000 * MS;
	c->owner.is_shared = false;
	c->owner.has_reader = true;
	s.facts.quotas = &s.quota;
	s.facts.nr_quotas = 1;
	strcpy(s.quota.cgroup.path, "/machine.slice/box");
	s.quota.limits = (struct cgroup_limits){ .quota_us = 50000, .period_us = 100000 };
	check_gain("half of a CPU is allowed, and a fifth used", &s, 300);
	check_sentence("a quota is the next limit", &s, "from 100 to 2000", "; for more, raise the quota of box, 0.50 CPUs");
	s.quota.limits.quota_us = 24000;
	check_command("a quota is nearly used up", &s, "", "");
	check_sentence("a quota is nearly used up", &s, "from 100 to 2000", "; but first, raise the quota of box, 0.24 CPUs");
	s.facts.nr_quotas = 0;
	c->vm.limits.weight = 3000;
	s.host.cpus = 64;
	c->vm.vcpus = 5;
	check_command("unit of several VMs", &s, UNIT("machine.slice CPUWeight=5000"), UNIT("machine.slice CPUWeight=3000"));

	c = begin_contest(&s);
	c->owner.is_shared = true;
	c->owner.cgroup.v2 = c->vm.cgroup.v2 = false;
	c->owner.limits.weight = c->vm.limits.weight = 10240;
	c->vm.manager = MANAGER_SYSTEMD;
	strcpy(c->vm.unit, "machine.slice");
	check_command("unit of v1 with the largest weight", &s, UNIT("machine.slice CPUWeight=10000"),
		      UNIT("machine.slice CPUWeight=1000"));

	c = begin_contest(&s);
	c->owner.is_group = false;
	c->threads = s.threads;
	c->nr_threads = 1;
	s.threads[0] = (struct thread_policy){ 77, SCHED_OTHER, 19, 0 };
	check_command("owner with nice 19", &s, "", "");
	c->owner.autogroup = 7;
	check_command("owner with nice 19 in another session", &s, "echo 2000 >/sys/fs/cgroup/vm.scope/cpu.weight",
		      "echo 100 >/sys/fs/cgroup/vm.scope/cpu.weight");
	c->owner.autogroup_nice = 19;
	check_command("owner in a session with nice 19", &s, "", "");

	c = begin_contest(&s);
	c->owner.manager = c->vm.manager = MANAGER_UNKNOWN;
	check_command("cgroups that only look like units", &s, "", "");
	c->owner.manager = c->vm.manager = MANAGER_KUBERNETES;
	check_command("cgroups of Kubernetes", &s, "", "");

	c = begin_contest(&s);
	strcpy(c->owner.cgroup.path, "/$(reboot) 'x");
	check_command("name of a cgroup", &s, "echo 1 >'/sys/fs/cgroup/$(reboot) '\\''x/cpu.weight'",
		      "echo 100 >'/sys/fs/cgroup/$(reboot) '\\''x/cpu.weight'");
	strcpy(c->owner.cgroup.path, "/-Hroot@example.org");
	check_command("name like an option", &s, "echo 1 >/sys/fs/cgroup/-Hroot@example.org/cpu.weight",
		      "echo 100 >/sys/fs/cgroup/-Hroot@example.org/cpu.weight");
	strcpy(c->owner.cgroup.path, "/a\nb");
	check_command("name that a terminal does not show", &s, "", "");

	c = begin_contest(&s);
	c->known = false;
	c->ended = true;
	check_sentence("owner that has ended", &s, "Then ran: backup", "find out why backup runs; its processes end");
	s.owner[0].starter = 12;
	strcpy(c->starter, "make");
	check_sentence("owner that has ended, and its parent", &s, "Then ran: backup", "; its processes end, and make (PID 12) starts them");
	*c->starter = '\0';
	check_sentence("owner that has ended, as its parent has", &s, "Then ran: backup",
		       "; its processes end, and process 12, which started them, has ended as well");

	c = begin_contest(&s);
	c->vm.limits = (struct cgroup_limits){ .idle = true };
	check_command("idle VM", &s, "echo 0 >/sys/fs/cgroup/vm.scope/cpu.idle", "echo 1 >/sys/fs/cgroup/vm.scope/cpu.idle");
	c->vm.manager = MANAGER_SYSTEMD;
	strcpy(c->vm.unit, "vm.scope");
	check_command("idle unit", &s, UNIT("vm.scope CPUWeight=100"), UNIT("vm.scope CPUWeight=idle"));
}

static void check_threads(void)
{
	struct contest *c;
	struct scene s;

	c = begin_contest(&s);
	c->vm.is_group = c->owner.is_group = false;
	c->threads = s.threads;
	c->nr_threads = 2;
	s.threads[0] = (struct thread_policy){ 77, SCHED_OTHER, 5, 0 };
	s.threads[1] = (struct thread_policy){ 78, SCHED_OTHER, 0, 0 };
	check_command("threads in the cgroup of the VM", &s, "renice -n 19 -p 78 && renice -n 19 -p 77",
		      "renice -n 5 -p 77 && renice -n 0 -p 78");
	c->owner.autogroup = 5;
	check_command("threads in other sessions", &s, "", "");
	c->owner.autogroup = 0;
	add_owner(&s, "process", "cc", 0, 14000 * MS);
	s.facts.side_ns = 4000 * MS;
	s.facts.threads = &s.threads[2];
	s.facts.nr_threads = 1;
	s.threads[2] = (struct thread_policy){ 50, SCHED_OTHER, 5, 0 };
	check_command("many processes in the cgroup of the VM", &s, "renice -n -17 -p 50", "renice -n 5 -p 50");
	s.threads[2].policy = SCHED_RR;
	check_command("many processes in the cgroup of a real-time VM", &s, "", "");
	s.waits.sum.count = 1;
	s.waits.sum.cost = 4000 * MS;
	s.facts.side_ns = s.facts.nr_threads = 0;
	c->owner.has_reader = true;
	check_command("threads of kvm-stats", &s, "", "");

	c->owner.has_reader = false;
	s.threads[1] = (struct thread_policy){ 78, SCHED_FIFO, 0, 7 };
	check_command("real-time thread", &s, "for t in 78; do chrt --other --pid 0 \"$t\"; done",
		      "for t in 78; do chrt --fifo --pid 7 \"$t\"; done");
	s.threads[0] = (struct thread_policy){ 77, SCHED_DEADLINE, 0, 0, 6000, 8000, 9000 };
	s.threads[1] = (struct thread_policy){ 78, SCHED_IDLE, 0, 0 };
	check_command("thread with a deadline", &s, "for t in 77; do chrt --other --pid 0 \"$t\"; done",
		      "for t in 77; do chrt --deadline --sched-runtime 6000 --sched-deadline 8000 --sched-period 9000 --pid 0 \"$t\"; done");

	strcpy(s.owner[0].key.kind, "vm");
	s.facts.contest.vm.limits.weight = 1;
	check_command("another VM with a deadline", &s, "for t in 77; do chrt --other --pid 0 \"$t\"; done",
		      "for t in 77; do chrt --deadline --sched-runtime 6000 --sched-deadline 8000 --sched-period 9000 --pid 0 \"$t\"; done");
	s.threads[0].policy = s.threads[1].policy = SCHED_OTHER;
	check_command("another VM without a real-time policy", &s, "", "");
	strcpy(s.owner[0].key.kind, "process");

	c->nr_threads = 0;
	s.facts.threads = s.threads;
	s.facts.nr_threads = 1;
	s.threads[0] = s.facts.slowest = (struct thread_policy){ 50, SCHED_OTHER, 10, 0 };
	check_command("VM with nice 10", &s, "renice -n 0 -p 50", "renice -n 10 -p 50");
	s.threads[0] = s.facts.slowest = (struct thread_policy){ 50, SCHED_IDLE, 0, 0 };
	check_command("VM with SCHED_IDLE", &s, "for t in 50; do chrt --other --pid 0 \"$t\"; done",
		      "for t in 50; do chrt --idle --pid 0 \"$t\"; done");
}

/* The VM has two vCPUs, and the host two CPUs. */
static void set_quota(struct scene *s, const char *path, uint64_t quota, uint64_t period)
{
	begin_scene(s);
	set_throttled(s, true);
	add_quota(s, path, quota, period);
}

/* Check how much the remedy of a rule wins, and that its text does not end in quotas. */
static void check_gains(void)
{
	static const struct {
		uint64_t ran;
		unsigned int gain;
	} unused[] = { { 1998, 2 }, { 1999, 1 }, { 2000, 0 }, { 2001, 0 } };
	struct remedy remedy;
	struct scene s;
	unsigned int i;

	for (i = 0; i < sizeof(unused) / sizeof(*unused); i++) {
		set_quota(&s, "/vm", 15000, 10000);
		set_mode(&s, KVMSTATS_THROTTLED, ELAPSED);
		set_mode(&s, KVMSTATS_RUN, ELAPSED / 1000 * unused[i].ran);
		check_gain("a VM that uses two CPUs nearly or in full", &s, unused[i].gain);
	}
	s.host.cpus = 0;
	check_gain("unknown number of CPUs", &s, 1000);

	begin_scene(&s);
	set_frozen(&s, true);
	check_gain("no command ends the cause", &s, 0);
	begin_contest(&s);
	check_gain("a command that does not end the cause", &s, 780);

	begin_scene(&s);
	set_polling(&s, true);
	set_mode(&s, KVMSTATS_POLL, ELAPSED / 2);
	set_mode(&s, KVMSTATS_READY, 100 * MS);
	s.host.halt_poll_ns = 200000;
	s.host.halt_poll_writable = true;
	check_gain("time that is not lost has no share", &s, 500);

	set_quota(&s, "/vm", 15000, 10000);
	set_mode(&s, KVMSTATS_THROTTLED, 0);
	set_stacked(&s, true);
	s.vm.spread_gain = 900;
	find_causes(&s.vm, &s.host);
	remedy = find_remedy(s.vm.cause[0], &s.vm, &s.host);
	tap_result(!remedy.kind && !strstr(remedy.text, "quota"), "quotas do not bound a remedy without a command: %s", remedy.text);
	free_remedy(&remedy);
}

static void check_quotas(void)
{
	struct scene s;

	set_quota(&s, "/a b/vm", 15000, 10000);
	check_command("quota with another period", &s, "echo 20000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'",
		      "echo 15000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'");
	set_mode(&s, KVMSTATS_THROTTLED, 2 * ELAPSED);
	check_gain("two throttled vCPUs on two CPUs, of which one is used", &s, 1000);
	set_mode(&s, KVMSTATS_READY, ELAPSED);
	check_gain("a throttled VM that gets half of what it wants", &s, 1000);
	set_mode(&s, KVMSTATS_THROTTLED, ELAPSED * 3 / 2);
	check_gain("a VM that gets half of what it wants", &s, 750);
	set_mode(&s, KVMSTATS_READY, 0);
	s.quota.limits.quota_us = 20000;
	check_command("quota of all CPUs", &s, "echo max >'/sys/fs/cgroup/a b/vm/cpu.max'",
		      "echo 20000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'");
	s.quota.limits.quota_us = 15000;
	s.host.cpus = 4;
	check_command("quota above the needs of the VM", &s,
		      "echo 25000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'", "echo 15000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'");
	s.quota.cpus = 8;
	check_command("quota of more CPUs than the host has", &s,
		      "echo 40000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'", "echo 15000 10000 >'/sys/fs/cgroup/a b/vm/cpu.max'");
	s.quota.cpus = 3;
	s.quota.cgroup.v2 = false;
	s.facts.cgroups = cgroups_v1;
	check_command("quota of v1", &s, "echo 30000 >'/sys/fs/cgroup/cpu,cpuacct/a b/vm/cpu.cfs_quota_us'",
		      "echo 15000 >'/sys/fs/cgroup/cpu,cpuacct/a b/vm/cpu.cfs_quota_us'");
	s.quota.manager = MANAGER_SYSTEMD;
	strcpy(s.quota.unit, "customer.slice");
	check_command("quota of a unit", &s, UNIT("customer.slice CPUQuota=300%"), UNIT("customer.slice CPUQuota=150%"));
	s.quota.limits.quota_us = 825;
	check_command("quota with a fraction of a percent", &s, UNIT("customer.slice CPUQuota=300%"), UNIT("customer.slice CPUQuota=8.25%"));
	s.quota.manager = MANAGER_UNKNOWN;
	check_command("quota of what only looks like a unit", &s, "", "");
	s.facts.quotas_complete = false;
	s.quota.manager = MANAGER_NONE;
	check_command("quotas that cannot be read", &s, "", "");

	set_quota(&s, "/m.scope/libvirt/vcpu0", 20000, 100000);
	s.w.vcpus = 1;
	strcpy(s.facts.uuid, "b1c2");
	s.facts.domain = (char *)"/m.scope/libvirt";
	check_command("quota of libvirt", &s, "virsh schedinfo --live --domain b1c2 --set vcpu_quota=100000",
		      "virsh schedinfo --live --domain b1c2 --set vcpu_quota=20000");
	strcpy(s.quota.cgroup.path, "/m.scope/libvirt");
	check_command("quota of a domain of libvirt", &s, "virsh schedinfo --live --domain b1c2 --set global_quota=100000",
		      "virsh schedinfo --live --domain b1c2 --set global_quota=20000");
	s.quota.limits.quota_us = 200000;
	check_command("quota of all CPUs for a domain of libvirt", &s,
		      "virsh schedinfo --live --domain b1c2 --set global_quota=-1",
		      "virsh schedinfo --live --domain b1c2 --set global_quota=200000");
	strcpy(s.quota.cgroup.path, "/m.scope/libvirt/vcpu0");
	s.quota.limits.quota_us = 20000;
	s.w.vcpus = 2;
	check_command("quota of one vCPU, which is not libvirt's", &s,
		      "echo 100000 100000 >/sys/fs/cgroup/m.scope/libvirt/vcpu0/cpu.max",
		      "echo 20000 100000 >/sys/fs/cgroup/m.scope/libvirt/vcpu0/cpu.max");
}

static void check_other_quotas(void)
{
	struct scene s;

	begin_scene(&s);
	set_others_throttled(&s, true);
	check_command("quota of an emulator", &s, "echo 100000 100000 >/sys/fs/cgroup/m.scope/libvirt/emulator/cpu.max",
		      "echo 20000 100000 >/sys/fs/cgroup/m.scope/libvirt/emulator/cpu.max");
	strcpy(s.facts.uuid, "b1c2");
	s.facts.domain = (char *)"/m.scope/libvirt";
	check_command("quota of an emulator of libvirt", &s, "virsh schedinfo --live --domain b1c2 --set emulator_quota=100000",
		      "virsh schedinfo --live --domain b1c2 --set emulator_quota=20000");
	strcpy(s.quota.cgroup.path, "/m.scope/libvirt/iothread2");
	check_command("quota of I/O threads of libvirt", &s, "virsh schedinfo --live --domain b1c2 --set iothread_quota=100000",
		      "virsh schedinfo --live --domain b1c2 --set iothread_quota=20000");
	s.quota.manager = MANAGER_KUBERNETES;
	check_command("quota of an emulator in a pod", &s, "", "");
	check_sentence("quota of an emulator in a pod", &s, "the CPU quota of iothread2", "raise the CPU limit of iothread2, which Kubernetes");
}

/* The quota of a machine, and of a pod in it */
static void check_quota_levels(void)
{
	struct quota_level levels[2];
	struct scene s;

	set_quota(&s, "/box", 5000, 10000);
	s.host.cpus = 4;
	levels[0] = levels[1] = s.quota;
	levels[0].cpus = levels[1].cpus = 2;
	strcpy(levels[1].cgroup.path, "/box/kubepods/pod1");
	levels[1].limits.quota_us = 30000;
	s.facts.quotas = levels;
	s.facts.nr_quotas = 2;
	add_owner(&s, "quota", "box", 0, 1000 * MS);
	check_command("quota that is large enough", &s, "echo 20000 10000 >/sys/fs/cgroup/box/cpu.max",
		      "echo 5000 10000 >/sys/fs/cgroup/box/cpu.max");
	levels[1].limits.quota_us = 19000;
	check_command("quota that would be the next", &s,
		      "echo 20000 10000 >/sys/fs/cgroup/box/cpu.max && echo 20000 10000 >/sys/fs/cgroup/box/kubepods/pod1/cpu.max",
		      "echo 19000 10000 >/sys/fs/cgroup/box/kubepods/pod1/cpu.max && echo 5000 10000 >/sys/fs/cgroup/box/cpu.max");
	levels[1].manager = MANAGER_KUBERNETES;
	check_command("quota above a pod", &s, "echo 20000 10000 >/sys/fs/cgroup/box/cpu.max",
		      "echo 5000 10000 >/sys/fs/cgroup/box/cpu.max");
	/* The VM runs on one CPU, and the pod may use 1.9. */
	set_mode(&s, KVMSTATS_THROTTLED, ELAPSED);
	check_gain("quota above a pod", &s, 900);
	check_sentence("quota above a pod", &s, "the CPU quota of box",
		       "raise the quota of box from 0.50 to 2.00 CPUs; for more, raise the CPU limit of pod1, which Kubernetes sets");
	levels[1].limits.quota_us = 10499;
	check_command("quota above a pod whose limit is as low", &s, "", "");
	levels[1].limits.quota_us = 19000;
	strcpy(s.owner[0].key.name, "pod1");
	check_command("quota of a pod", &s, "", "");
	check_sentence("quota of a pod", &s, "the CPU quota of pod1", "raise the CPU limit of pod1, which Kubernetes sets");
	levels[1].manager = MANAGER_NONE;
	strcpy(levels[1].cgroup.path, "/box/vm.service/vcpu0");
	strcpy(s.owner[0].key.name, "vm.service");
	levels[0].limits.quota_us = 30000;
	check_command("quota in a unit", &s, "echo 20000 10000 >/sys/fs/cgroup/box/vm.service/vcpu0/cpu.max",
		      "echo 19000 10000 >/sys/fs/cgroup/box/vm.service/vcpu0/cpu.max");
	strcpy(levels[1].cgroup.path, "/box/xvm.service/vcpu0");
	check_command("quota of an unknown level", &s,
		      "echo 40000 10000 >/sys/fs/cgroup/box/cpu.max && echo 20000 10000 >/sys/fs/cgroup/box/xvm.service/vcpu0/cpu.max",
		      "echo 19000 10000 >/sys/fs/cgroup/box/xvm.service/vcpu0/cpu.max && echo 30000 10000 >/sys/fs/cgroup/box/cpu.max");
}

static void check_other_remedies(void)
{
	struct memory_file file = { "/srv/snapshot", "/dev/sdb1, ext4" };
	struct scene s;

	begin_scene(&s);
	set_frozen(&s, true);
	s.vm.facts = &s.facts;
	s.facts.cgroups = cgroups;
	s.facts.frozen = &s.frozen;
	s.facts.nr_frozen = 1;
	s.frozen = (struct cgroup){ HIERARCHY_CPUSET, true, "/$x" };
	check_command("frozen cgroup of v2", &s, "echo 0 >'/sys/fs/cgroup/$x/cgroup.freeze'",
		      "echo 1 >'/sys/fs/cgroup/$x/cgroup.freeze'");
	s.facts.cgroups = cgroups_v1;
	s.frozen = (struct cgroup){ HIERARCHY_FREEZER, false, "/machine.slice/m;x.scope" };
	check_command("frozen cgroup of v1", &s, "echo THAWED >'/sys/fs/cgroup/freezer/machine.slice/m;x.scope/freezer.state'",
		      "echo FROZEN >'/sys/fs/cgroup/freezer/machine.slice/m;x.scope/freezer.state'");

	begin_scene(&s);
	set_memory(&s, true);
	s.vm.facts = &s.facts;
	check_sentence("memory of an unknown source", &s, "perhaps it moves to another NUMA node", "on which NUMA node");
	s.facts.memory_file = &file;
	check_sentence("memory in a file", &s, "is the file /srv/snapshot (on /dev/sdb1, ext4). put", "faster disk");
	s.facts.memory_file = NULL;
	s.facts.userfaultfd = true;
	check_sentence("memory by userfaultfd", &s, "has a userfaultfd (migration, snapshot). let", "let the migration");
	s.vm.swap = 5 << 20;
	check_sentence("memory by userfaultfd, and in swap", &s, "snapshot). 5 MB of the VMM are swapped out. let", "the migration");
	s.facts.userfaultfd = false;
	check_sentence("memory in swap", &s, "there. 5 MB of the VMM are swapped out. give", "give the host more memory");
	s.vm.swap = 0;
	s.facts.memory_limit = (char *)"vm.scope";
	check_sentence("memory.high", &s, "there. Cgroup vm.scope is at its limit memory.high. raise", "raise memory.high of vm.scope");

	begin_scene(&s);
	set_stopped(&s, true);
	s.vm.facts = &s.facts;
	s.vm.state = 'T';
	check_command("stopped VMM", &s, "kill -CONT 4711", "kill -STOP 4711");

	begin_scene(&s);
	set_polling(&s, true);
	check_command("polling, host unknown", &s, "", "");
	s.host.halt_poll_ns = 200000;
	check_command("polling for a time that is fixed", &s, "", "");
	s.host.halt_poll_writable = true;
	check_command("polling for the default time", &s, "echo 50000 >/sys/module/kvm/parameters/halt_poll_ns",
		      "echo 200000 >/sys/module/kvm/parameters/halt_poll_ns");
	s.host.halt_poll_ns = 10000;
	check_command("polling for a short time", &s, "echo 0 >/sys/module/kvm/parameters/halt_poll_ns",
		      "echo 10000 >/sys/module/kvm/parameters/halt_poll_ns");
}

#define TASKSET(cpus, threads)	"for t in" threads "; do taskset --pid --cpu-list " cpus " \"$t\"; done"

static void check_affinity(void)
{
	struct scene s;

	begin_scene(&s);
	set_pinned(&s, true);
	s.vm.facts = &s.facts;
	s.facts.vcpus = s.vcpus;
	s.facts.nr_vcpus = 2;
	s.vcpus[0] = (struct vcpu_cpus){ 11, 0, false, (char *)"1", (char *)"0-1,4-5" };
	s.vcpus[1] = (struct vcpu_cpus){ 12, 1, false, (char *)"1", (char *)"0-1,4-5" };
	check_command("vCPUs with the same CPUs", &s, TASKSET("0-1,4-5", " 11 12"), TASKSET("1", " 11 12"));
	s.vcpus[1].may = s.vcpus[1].could = (char *)"0";
	check_command("a vCPU that already has all CPUs of its cpuset", &s, TASKSET("0-1,4-5", " 11"), TASKSET("1", " 11"));
	strcpy(s.facts.uuid, "b1c2");
	check_command("vCPU of libvirt", &s, "virsh vcpupin --live --domain b1c2 --vcpu 0 --cpulist 0-1,4-5",
		      "virsh vcpupin --live --domain b1c2 --vcpu 0 --cpulist 1");
	s.vcpus[0].isolated = true;
	check_command("isolated CPUs", &s, "", "");

	begin_scene(&s);
	set_stacked(&s, true);
	s.vm.facts = &s.facts;
	s.facts.vcpus = s.vcpus;
	s.facts.nr_vcpus = 2;
	s.vcpus[0] = (struct vcpu_cpus){ 11, 0, true, (char *)"2-3", (char *)"2-3" };
	s.vcpus[1] = (struct vcpu_cpus){ 12, 1, true, (char *)"2-3", (char *)"2-3", "3" };
	check_command("vCPUs that share an isolated CPU, too little idle time", &s, "", "");
	s.vm.spread_gain = 500;
	check_command("vCPUs that share an isolated CPU", &s, TASKSET("3", " 12"), TASKSET("2-3", " 12"));
	strcpy(s.facts.uuid, "b1c2");
	check_command("vCPUs of libvirt that share an isolated CPU", &s, "virsh vcpupin --live --domain b1c2 --vcpu 1 --cpulist 3",
		      "virsh vcpupin --live --domain b1c2 --vcpu 1 --cpulist 2-3");
}

/* Words of sentences, as the facts change */
static void check_texts(void)
{
	static char arguments[] = "qemu\0isa-serial,iobase=0x2f8";
	struct memory_file file = { "/srv/snapshot", "" };
	struct exits_total exits[2] = { { .cell.isa = EXITS_VMX } };
	struct quota_level quotas[2];
	struct why_facts facts = { 0 };
	struct scene s;
	char *text;

	begin_scene(&s);
	set_exits(&s, true);
	s.exits.sum.items = exits;
	s.exits.sum.count = 2;
	s.exits.cmdline.text = arguments;
	s.exits.cmdline.size = sizeof(arguments) - 1;
	exits[0].item.cost = 2 * ELAPSED;
	exits[0].key.reason = 12;
	s.exit.cell.isa = EXITS_VMX;
	exits[1] = s.exit;
	check_sentence("a halt is not an exit that costs time", &s, "The most expensive: IO_INSTRUCTION, 100.0%.", "");
	exits[0].item.cost = 3 * exits[1].item.cost;
	exits[0].key.reason = 48;
	exits[0].key.space = EXITS_PORT + 1;
	exits[0].key.address = 0xfee00000;
	check_sentence("address of an exit", &s, "The most expensive: EPT_VIOLATION, address 0xfee00000, 75.0%.", "");
	exits[0].key.space = EXITS_PORT;
	exits[0].key.address = 0x2f8 + 7;
	check_sentence("last port of a device", &s, ", port 0x2ff (isa-serial), 75.0%.", "");
	exits[0].key.address++;
	check_sentence("port after a device", &s, ", port 0x300, 75.0%.", "");

	begin_scene(&s);
	set_mode(&s, KVMSTATS_READY, 1000 * MS);
	add_owner(&s, "quota", "vm.scope", 0, 9000);
	add_owner(&s, "self", "IO iothread1", 0, 400);
	add_owner(&s, "process", "backup", 0, 300);
	add_owner(&s, "vm", "db", 0, 300);
	check_sentence("a quota is not an owner", &s, "Then ran: its own IO iothread1 40.0%, backup 30.0%, db (vm) 30.0%. No", "");
	strcpy(s.owner[0].key.kind, "vm");
	s.owner[0].item.cost = 490;
	s.owner[1].item.cost = 490;
	s.owner[2].item.cost = 10;
	s.owner[3].item.cost = 10;
	check_sentence("three owners are named", &s, "Then ran: vm.scope (vm) 49.0%, its own IO iothread1 49.0%, backup 1.0%. The", "");
	s.owner[2].item.cost = 9;
	s.owner[3].item.cost = 11;
	check_sentence("owners from 1% on are named", &s, "IO iothread1 49.0%, db (vm) 1.1%. The", "");

	s.waits.sum.count = 2;
	s.owner[2].item.cost = 980;
	check_sentence("removed owners do not count", &s, "Then ran: vm.scope (vm) 50.0%, its own IO iothread1 50.0%. It", "");

	begin_scene(&s);
	set_pinned(&s, true);
	s.w.vcpus = 1;
	check_sentence("one vCPU", &s, "Its vCPU may use only CPU 1,", "");
	s.vm.cpus_differ = true;
	check_sentence("vCPUs with different CPUs", &s, "Its vCPU with the fewest CPUs may", "");
	s.host.cpus = 4;
	s.vm.cpus = 2;
	strcpy(s.vm.cpu_list, "2-3");
	check_sentence("two CPUs", &s, "may use only CPUs 2-3,", "");

	begin_scene(&s);
	set_self(&s, true);
	s.vm.cpus = 0;
	check_sentence("unknown CPUs", &s, "its own threads.", "it may use CPUs that are not known");

	begin_scene(&s);
	set_others(&s, true);
	s.host.live = false;
	check_sentence("a recording does not have the idle time", &s, "want 1.0 CPUs, of 2: they compete", "");

	set_quota(&s, "/a/outer", 15500, 10000);
	quotas[0] = s.quota;
	quotas[1] = s.quota;
	strcpy(quotas[1].cgroup.path, "/a/outer/inner");
	quotas[1].limits.quota_us = 50000;
	s.facts.quotas = quotas;
	check_sentence("one quota", &s, "the CPU quota of outer, 1.55 CPUs, which", "");
	s.facts.nr_quotas = 2;
	check_sentence("the nearest of two quotas", &s, "the CPU quota of inner, 5.00 CPUs (2 quotas apply), which", "");
	add_owner(&s, "quota", "outer", 0, 10);
	check_sentence("the quota that was used up", &s, "the CPU quota of outer, 1.55 CPUs (2 quotas apply), which", "");
	strcpy(s.owner[0].key.name, "gone");
	check_sentence("a quota that no longer exists", &s, "the CPU quota of inner, 5.00", "");

	begin_scene(&s);
	set_memory(&s, true);
	s.vm.facts = &facts;
	facts.memory_file = &file;
	check_sentence("memory in a file without a device", &s, "Memory of the VMM is the file /srv/snapshot.", "");
	begin_scene(&s);
	set_mixed(&s, true);
	s.waits.ended.longest = 12000 * MS;
	check_sentence("a wait of 12 s", &s, "each time, 12000.0 ms at most", "");
	text = format_why("{ow} {owner} {owners!}", &s.vm, &s.host);
	tap_result(!strcmp(text, "{ow} cc {owners!}"), "words that are not placeholders: %s", text);
	free(text);
	begin_scene(&s);
	set_others_waited(&s, true);
	*s.vm.others.comm = '\0';
	check_sentence("threads without the name of one", &s, "waited for a CPU: its I/O", "");
}

#define SHARE(mode)	.share[KVMSTATS_##mode]

/* Each word of PROBLEM at its threshold, and just below; and which one of two words a VM has */
static const struct {
	struct problem_facts facts;
	struct judgement is;
} judgements[] = {
	{ { SHARE(RUN) = 1000 }, { PROBLEM_NONE, 0 } },
	{ { .failed = 7, .ended = true }, { PROBLEM_ENDED, 0 } },
	{ { .failed = 7, SHARE(READY) = 1000 }, { PROBLEM_FAILED, 7 } },
	{ { SHARE(READY) = 100, SHARE(THROTTLED) = 100 }, { PROBLEM_STARVED, 200 } },
	{ { SHARE(READY) = 99, SHARE(THROTTLED) = 99 }, { PROBLEM_NONE, 198 } },
	{ { SHARE(READY) = 100, SHARE(THROTTLED) = 101 }, { PROBLEM_THROTTLED, 201 } },
	{ { SHARE(READY) = 98, SHARE(THROTTLED) = 100 }, { PROBLEM_THROTTLED, 198 } },
	{ { SHARE(THROTTLED) = 99 }, { PROBLEM_NONE, 99 } },
	{ { SHARE(OTHER) = 995 }, { PROBLEM_STUCK, 995 } },
	{ { SHARE(OTHER) = 994 }, { PROBLEM_STALLED, 994 } },
	{ { SHARE(OTHER) = 200, .exits = 50000 }, { PROBLEM_STALLED, 200 } },
	{ { SHARE(OTHER) = 199 }, { PROBLEM_NONE, 0 } },
	{ { .exits = 50000, SHARE(POLL) = 500 }, { PROBLEM_EXITS, 50000 } },
	{ { .exits = 49999 }, { PROBLEM_NONE, 0 } },
	{ { SHARE(POLL) = 200, SHARE(RUN) = 199 }, { PROBLEM_POLLING, 200 } },
	{ { SHARE(POLL) = 200, SHARE(RUN) = 200 }, { PROBLEM_NONE, 0 } },
	{ { SHARE(POLL) = 199 }, { PROBLEM_NONE, 0 } },
	{ { SHARE(READY) = 30, SHARE(THROTTLED) = 20 }, { PROBLEM_NONE, 50 } },
	{ { SHARE(READY) = 30, SHARE(THROTTLED) = 19 }, { PROBLEM_NONE, 0 } },
};

static const char *const problem_words[PROBLEMS] = {
	"", "ended", "polling", "exits", "stalled", "stuck", "throttled", "starved", "failed"
};

/* Judgements from the worst on; each is worse than the next one, except for the last two. */
static const struct judgement by_rank[] = {
	{ PROBLEM_FAILED, 1 }, { PROBLEM_STARVED, 300 }, { PROBLEM_THROTTLED, 200 }, { PROBLEM_STARVED, 100 },
	{ PROBLEM_STUCK, 1000 }, { PROBLEM_STALLED, 900 }, { PROBLEM_EXITS, 60000 }, { PROBLEM_POLLING, 500 },
	{ PROBLEM_NONE, 0 }, { PROBLEM_ENDED, 0 }, { PROBLEM_ENDED, 0 },
};

static void check_judgements(void)
{
	const unsigned int last = sizeof(by_rank) / sizeof(*by_rank) - 1;
	struct kvmstats_activity activity = {
		.event[KVMSTATS_EXITS] = 200000, .times = { .elapsed = 4 * ELAPSED, .mode[KVMSTATS_POLL] = ELAPSED },
	};
	struct judgement is;
	unsigned int i;

	for (i = 0; i < sizeof(judgements) / sizeof(*judgements); i++) {
		is = judge_problem(&judgements[i].facts);
		tap_result(is.problem == judgements[i].is.problem && is.weight == judgements[i].is.weight,
			   "facts %u: '%s', weight %llu", i, problem_name(is.problem), (unsigned long long)is.weight);
	}
	for (i = 0; i < PROBLEMS; i++)
		tap_result(!strcmp(problem_name(i), problem_words[i]) && !*problem_meaning(i) == !i,
			   "problem %u is '%s': %s", i, problem_name(i), problem_meaning(i));
	for (i = 0; i < last; i++)
		tap_result(compare_judgements(&by_rank[i], &by_rank[i + 1]) == (i + 1 < last ? -1 : 0) &&
			   compare_judgements(&by_rank[i + 1], &by_rank[i]) == (i + 1 < last), "'%s' is before '%s'",
			   problem_name(by_rank[i].problem), problem_name(by_rank[i + 1].problem));

	is = judge_activity(&activity, 2000 * MS, 2, 0, false);
	tap_result(is.problem == PROBLEM_EXITS && is.weight == 50000, "200000 exits of 2 vCPUs in 2 s");
	is = judge_activity(&activity, 2000 * MS, 3, 0, false);
	tap_result(is.problem == PROBLEM_POLLING && is.weight == 250, "the same of 3 vCPUs, which polled");
	activity.times.mode[KVMSTATS_RUN] = ELAPSED;
	is = judge_activity(&activity, 2000 * MS, 0, 0, false);
	tap_result(is.problem == PROBLEM_NONE, "a VM without vCPUs, which ran as long as it polled");
}

/* Read mounts from a made-up procfs. */
static struct cgroups *open_cgroups(const char *mountinfo)
{
	struct cgroups *opened;
	char directory[] = "/tmp/why_test.XXXXXX", path[64];
	int proc;
	FILE *f;

	if (!mkdtemp(directory))
		exit(1);
	snprintf(path, sizeof(path), "%s/self", directory);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/self/mountinfo", directory);
	f = fopen(path, "we");
	if (!f || fputs(mountinfo, f) < 0 || fclose(f))
		exit(1);
	proc = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	opened = find_cgroups(proc);
	close(proc);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(directory);
	return opened;
}

int main(void)
{
	unsigned int i;

	cgroups = open_cgroups("30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
	cgroups_v1 = open_cgroups("31 23 0:27 / /sys/fs/cgroup/freezer rw,nosuid - cgroup cgroup rw,freezer\n"
				  "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_case(i);
	for (i = 0; i < why_rules_count; i++)
		tap_result(said[i] && why_rules[i].lost == (why_rules[i].mode != KVMSTATS_MODES),
			   "cause %u, \"%s\", has a case, and is a loss if it is a mode of vCPUs", i, why_rules[i].name);
	check_healthy();
	check_judgements();
	check_texts();
	check_order();
	check_gains();
	check_weights();
	check_threads();
	check_quotas();
	check_quota_levels();
	check_other_quotas();
	check_affinity();
	check_other_remedies();
	free_cgroups(cgroups);
	free_cgroups(cgroups_v1);
	return tap_end();
}
