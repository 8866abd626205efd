// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each cause of "why" appears from its threshold on, and not below. Each case has the facts of a VM
 * just above or just below; in all other respects, the VM has no trouble. Prints TAP.
 */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "thresholds.h"
#include "why.h"

#define MS		1000000ULL
#define ELAPSED		5000000000ULL	/* nanoseconds; 2 vCPUs */
#define OWNERS		4

struct scene {
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
	s->w.identity.pid = 4711;
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

static void set_self(struct scene *s, bool above)
{
	set_owners(s, "self", "vCPUs", "idle", above);
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
	{ "waits without owners", "waited", set_ready, "It is unknown who ran then" },
	{ "other CPUs are idle", "pinned", set_pinned, "Its 2 vCPUs may use only CPU 1, while the other CPUs "
	  "were idle for 20.0%. taskset -acp 0-1 4711" },
	{ "it may use fewer CPUs than there are", "pinned", set_all_cpus, "only CPU 1" },
	{ "share of the hypervisor below", "steal", set_steal, "hypervisor of this host (steal) 50.0%" },
	{ "VMs want more CPUs than there are", "overcommitted", set_overcommitted, "want 2.0 CPUs, of 2" },
	{ "CPUs are not idle", "overcommitted", set_idle_host, "move a VM" },
	{ "VMs and processes want more than the CPUs", "full", set_full, "these alone want 2.0 CPUs, of 2" },
	{ "many processes", "neighbour", set_many, "run fewer processes" },
	{ "share of a service", "neighbour", set_neighbour,
	  "Then ran: backup.service 50.0%, db (vm) 50.0%. These are not VMs, which together want 1.0 CPUs, of 2. "
	  "systemctl set-property backup.service CPUWeight=idle" },
	{ "share of other VMs", "others", set_others, "want 1.0 CPUs, of 2, which are idle for 50.0%" },
	{ "share of the threads of this VM", "self", set_self, "own vCPUs 50.0%" },
	{ "several owners", "mixed", set_mixed,
	  "waited for a CPU for 62.5 ms each time, 71.0 ms at most, which the guest sees as steal time. Then ran: web-2 (vm) 40.0%, cc (PID 12) 30.0%, CPU wakeup latency (idle) 30.0%" },
	{ "share of unknown owners", "waited", set_unknown_owner, "It is unknown who ran then" },
	{ "quota", "throttled", set_throttled,
	  "quota of its cgroup, or with a real-time policy of its threads, which" },
	{ "stopped", "stopped", set_stopped, "signal. kill -CONT 4711" },
	{ "traced", "stopped", set_traced, "stopped by a debugger" },
	{ "frozen", "frozen", set_frozen, "cgroup. thaw it" },
	{ "guest memory", "memory", set_memory, "it is unknown which" },
	{ "disk", "disk", set_disk, "block device" },
	{ "lock", "lock", set_lock, "process 4711" },
	{ "a moment on each vCPU", "lock", set_spread, "lock of its VMM" },
	{ "poll, sleep, pipe", "wait", set_wait, "/proc/4711/task/*/wchan" },
	{ "within KVM", "kvm", set_kvm, "it is unknown which" },
	{ "paused", "paused", set_paused, "process 4711, continue it" },
	{ "no reason", "unknown", set_unknown, "without a known reason" },
	{ "OTHER without reasons", "other", set_other, "It is unknown which" },
	{ "state T, without reasons", "stopped", set_state_stopped, "(state T or t). kill -CONT 4711" },
	{ "state D, without reasons", "blocked", set_blocked, "(state D)" },
	{ "cost of exits", "exits", set_exits, "15.0k exits per second. The most expensive: " },
	{ "number of exits", "exits", set_exit_storm, "Their cost is unknown" },
	{ "polling", "polling", set_polling, "halt_poll_ns" },
	{ "polling takes more time than the guest", "polling", set_polling_and_running, "ran for less" },
	{ "emulation", "failed", set_failed, "could not emulate 1 instructions" },
};

/* The sentence and the remedy of a cause; the caller frees it. */
static char *get_sentence(const struct scene *s, const struct why_rule *rule)
{
	char *text = format_why(rule->text, &s->vm, &s->host), *both;
	char *remedy = format_why(rule->remedy, &s->vm, &s->host);

	if (asprintf(&both, "%s %s", text, remedy) < 0)
		exit(1);
	free(text);
	free(remedy);
	return both;
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
}

static void check_remedy(const char *what, struct scene *s, const char *expected)
{
	char *remedy;

	find_causes(&s->vm, &s->host);
	remedy = s->vm.causes ? format_why(s->vm.cause[0]->remedy, &s->vm, &s->host) : strdup("");
	tap_result(!strcmp(remedy, expected), "%s: %s", what, remedy);
	free(remedy);
}

/* Users choose names: a remedy that is pasted into a shell runs nothing of them. */
static void check_remedies(void)
{
	struct scene s;

	begin_scene(&s);
	set_mode(&s, KVMSTATS_READY, 1000 * MS);
	add_owner(&s, "process", "$(reboot)'.service", 9, 1);
	check_remedy("name of a service", &s, "systemctl set-property '$(reboot)'\\''.service' CPUWeight=idle");

	begin_scene(&s);
	set_mode(&s, KVMSTATS_READY, 1000 * MS);
	add_owner(&s, "process", "cc1plus", 77, 1);
	check_remedy("process outside of services", &s, "renice -n 19 -p 77");

	begin_scene(&s);
	set_throttled(&s, true);
	s.vm.quotas = 1;
	s.vm.quota = (struct why_quota){ { "/a b/vm", true }, 20000, 100000 };
	check_remedy("quota of cgroup v2", &s, "echo 200000 100000 >/sys/fs/cgroup'/a b/vm'/cpu.max");
	s.vm.quota.cgroup.v2 = false;
	check_remedy("quota of cgroup v1", &s, "echo 200000 >/sys/fs/cgroup/cpu'/a b/vm'/cpu.cfs_quota_us");
	strcpy(s.vm.quota.cgroup.path, "/batch.slice");
	check_remedy("quota of a unit", &s, "systemctl set-property batch.slice CPUQuota=200%");

	begin_scene(&s);
	set_frozen(&s, true);
	s.vm.freezer = (struct vm_cgroup){ "/machine.slice/m;x.scope", true };
	check_remedy("frozen unit", &s, "systemctl thaw 'm;x.scope'");
	strcpy(s.vm.freezer.path, "/$x");
	check_remedy("frozen cgroup of v2", &s, "echo 0 >/sys/fs/cgroup'/$x'/cgroup.freeze");
	s.vm.freezer.v2 = false;
	check_remedy("frozen cgroup of v1", &s, "echo THAWED >/sys/fs/cgroup/freezer'/$x'/freezer.state");

	begin_scene(&s);
	set_paused(&s, true);
	strcpy(s.w.identity.domain, "$(reboot)");
	strcpy(s.w.identity.uuid, "b1c2");
	check_remedy("VM of libvirt", &s, "virsh resume b1c2");
}

int main(void)
{
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_case(i);
	for (i = 0; i < why_rules_count; i++)
		tap_result(said[i], "cause %u, \"%s\", has a case", i, why_rules[i].name);
	check_healthy();
	check_order();
	check_remedies();
	return tap_end();
}
