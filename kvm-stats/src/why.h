/* SPDX-License-Identifier: GPL-2.0-only */
/* What cost a VM time, in sentences: each is a row of the table in why_rules.c. */
#ifndef WHY_H
#define WHY_H

#include "blame_sum.h"
#include "exits_sum.h"
#include "memory_file.h"
#include "problem.h"
#include "other_waits.h"
#include "proc_vm.h"
#include "remedy.h"
#include "scheduling.h"
#include "stalls_sum.h"
#include "window.h"

#define CPU_LIST_SIZE	64

/* The CPUs of a vCPU, as lists such as "0-3,7" */
struct vcpu_cpus {
	pid_t tid;
	unsigned int id;
	bool isolated;		/* it may use isolated CPUs */
	char *may;		/* on which it may run */
	char *could;		/* on which it could run, if its affinity allowed that; "" if not known */
	char idle[12];		/* the idle one that it may use and does not, because another vCPU keeps it waiting; or "" */
};

/* Facts of this host about a VM in trouble, at the end of the observation */
struct why_facts {
	struct cgroups *cgroups;
	const struct blame_share *owner;	/* that the contest is about, or NULL */
	uint64_t side_ns;	/* time of all owners on the side of this one, 0 if it is large enough alone */
	struct contest contest;
	struct thread_policy *threads, slowest;	/* of vCPUs; the one with the lowest weight */
	unsigned int nr_threads;
	struct quota_level *quotas;
	unsigned int nr_quotas;
	bool quotas_complete;
	struct quota_level *other_quota;	/* that stops threads of the VMM that are not vCPUs, or NULL */
	struct cgroup *frozen;
	unsigned int nr_frozen;
	struct vcpu_cpus *vcpus;
	unsigned int nr_vcpus;
	bool userfaultfd;	/* the VMM has one, which fills in guest memory */
	struct memory_file *memory_file;	/* from which guest memory comes, or NULL */
	char *memory_limit;	/* cgroup above the VM that is at memory.high, or NULL */
	char *domain;		/* cgroup in which libvirt has one for each vCPU, or NULL */
	char uuid[37];		/* of libvirt's domain, if libvirt says that this process is one; else "" */
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
	unsigned int cpus;	/* on which its vCPUs may run, those of the vCPU that has the fewest */
	char cpu_list[CPU_LIST_SIZE];	/* these, as "0-3,7" */
	bool cpus_differ;	/* other vCPUs may use others */
	unsigned int idle_elsewhere;	/* permille of the time of CPUs that a vCPU may not use that was idle */
	unsigned int unpin_gain;	/* thousandths of a CPU */
	unsigned int idle_within;	/* permille of the time of CPUs that vCPUs may use that was idle */
	unsigned int spread_gain;	/* thousandths of a CPU, if the kernel does not balance load between these CPUs */
	char state;		/* that all its threads have: 'T' stopped, 't' traced, 'D' blocked */
	uint64_t swap;		/* bytes of the VMM that are swapped out */
	struct other_use others;	/* its threads that are not vCPUs */
	struct why_facts *facts;	/* NULL if the VM was not examined */
	/* What follows from all of this */
	const struct why_rule *cause[CAUSES_MAX];
	unsigned int causes;
};

/* Facts about the host */
struct why_host {
	unsigned int cpus;
	bool live;		/* not a recording */
	unsigned int idle, steal;	/* permille of all CPUs' time; live only */
	unsigned int halt_poll_ns;	/* live only; 0: unknown, or KVM does not poll */
	bool halt_poll_writable;
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
	void (*act)(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);	/* adds to it, or NULL */
	const char *change;	/* the remedy in a few words, for several VMs */
};

extern const struct why_rule why_rules[];
extern const unsigned int why_rules_count;

/* Fill in vm->cause: what could not run first, then by time. */
void find_causes(struct why_vm *vm, const struct why_host *host);

/* Write a text of a rule; the caller frees it. Exits without memory. */
char *format_why(const char *text, const struct why_vm *vm, const struct why_host *host);

/* Return the remedy of a rule, for free_remedy(). Exits without memory. */
struct remedy find_remedy(const struct why_rule *rule, const struct why_vm *vm, const struct why_host *host);

/* Kinds of owners */
#define NOT_VMS	"process kernel"

/* The largest owner that is not a VM, and whether it is worth a change */
const struct blame_share *find_main_owner(const struct why_vm *vm);
bool has_main_process(const struct why_vm *vm);
bool is_main_process(const struct why_vm *vm, uint64_t took_ns);

/* Return the time in which the VM could not run, of all its vCPUs. */
uint64_t get_lost_time(const struct why_vm *vm);

/* Remedies with commands, in why_levers.c: act of struct why_rule */
void put_divide_cpus(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_spread(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_limit_owner(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_raise_weight(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_raise_quota(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_raise_other_quota(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_continue(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_thaw(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_poll_less(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_memory_source(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);
void put_unpin(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host);

/* Reduce what a remedy wins to the CPU time that quotas of the VM leave, and say so. */
void bound_by_quotas(struct remedy_draft *d, const struct why_vm *vm);

/* Return the quota that was used up, as "blame" has it, or else the nearest one. There must be a quota. */
const struct quota_level *find_used_quota(const struct why_vm *vm);

/* Return true if the VM has less weight than its owner's default; and write the reason. */
bool has_low_weight(const struct why_vm *vm);
void put_low_weight(FILE *f, const struct why_vm *vm);

/*
 * The facts that /proc and cgroups of this host have; begin_ is called before the time that is observed,
 * with input_proc(). examine_vm() is for VMs in trouble only; free_facts() frees its result.
 */
struct why_cpus;
struct why_cpus *begin_examination(int proc, const struct kvmstats_vm *first);
void examine_host(struct why_cpus *cpus, const struct kvmstats_vm *first, struct why_host *host);
void examine_other_threads(const struct why_cpus *cpus, const struct kvmstats_vm *vm, struct why_vm *why);
void examine_vm(struct why_cpus *cpus, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
		struct why_vm *why);
void free_facts(struct why_facts *facts);
void end_examination(struct why_cpus *cpus);

#endif /* WHY_H */
