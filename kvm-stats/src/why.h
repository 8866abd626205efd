/* SPDX-License-Identifier: GPL-2.0-only */
/* What cost a VM time, in sentences: each is a row of the table in why_rules.c. */
#ifndef WHY_H
#define WHY_H

#include "blame_sum.h"
#include "exits_sum.h"
#include "problem.h"
#include "proc_vm.h"
#include "stalls_sum.h"
#include "window.h"

#define CPU_LIST_SIZE	64

/* A quota for CPU time */
struct why_quota {
	struct vm_cgroup cgroup;
	uint64_t quota_us, period_us;
};

#define CAUSES_MAX	16

struct why_rule;

/* Facts about a VM; 0 and "" are unknown. */
struct why_vm {
	const struct window_vm *vm;
	struct judgement judgement;
	const struct blame_victim *waits;	/* NULL: unknown */
	const struct stalls_vm *stalls;
	struct exits_vm *exits;
	/* Of this host only, at the end of the observation: */
	unsigned int cpus;	/* on which its vCPUs may run */
	char cpu_list[CPU_LIST_SIZE];	/* these, as "0-3,7" */
	unsigned int idle_elsewhere;	/* permille of the other CPUs' time that was idle */
	char state;		/* that all its threads have: 'T' stopped, 't' traced, 'D' blocked */
	uint64_t swap;		/* bytes of the VMM that are swapped out */
	struct why_quota quota;	/* nearest one */
	unsigned int quotas;	/* that apply */
	struct vm_cgroup freezer;	/* that is frozen */
	/* What follows from all of this */
	const struct why_rule *cause[CAUSES_MAX];
	unsigned int causes;
};

/* Facts about the host */
struct why_host {
	unsigned int cpus;
	bool live;		/* not a recording */
	unsigned int idle, steal;	/* permille of all CPUs' time; live only */
	/* CPUs in thousandths that all VMs used, and would have used without waits */
	uint64_t ran, wanted;
};

/*
 * A cause: it applies if its time reaches a limit, and when() returns true. Of causes with the same
 * time, only the first that applies counts. The limit is least permille of the time of one vCPU,
 * and the mode of one vCPU must also reach it; or, if mode is KVMSTATS_MODES, of all vCPUs.
 */
struct why_rule {
	const char *name;	/* one word, in JSON */
	uint64_t (*time)(const struct why_vm *vm);	/* nanoseconds */
	enum kvmstats_mode mode;
	unsigned int least;	/* permille */
	bool (*when)(const struct why_vm *vm, const struct why_host *host);	/* NULL: always */
	bool lost;		/* the VM could not run in this time */
	const char *text;	/* after the time, with {WORDS} of why_rules.c */
	const char *remedy;	/* the same, "" if there is none */
	const char *change;	/* the remedy in a few words, for several VMs */
};

extern const struct why_rule why_rules[];
extern const unsigned int why_rules_count;

/* Fill in vm->cause: what could not run first, then by time. */
void find_causes(struct why_vm *vm, const struct why_host *host);

/* Write a text of a rule; the caller frees it. Exits without memory. */
char *format_why(const char *text, const struct why_vm *vm, const struct why_host *host);

/* The last component of a path */
const char *base_name(const char *path);

/* Return the time in which the VM could not run, of all its vCPUs. */
uint64_t get_lost_time(const struct why_vm *vm);

/* What /proc and cgroups of this host say; begin_ is called before the time that is observed, with input_proc(). */
struct why_cpus;
struct why_cpus *begin_examination(int proc);
void examine_host(struct why_cpus *cpus, struct why_host *host);
void examine_vm(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why);
void end_examination(struct why_cpus *cpus);

#endif /* WHY_H */
