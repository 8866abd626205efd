/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the threads of a VM and those of others compete for CPU time: their cgroups, weights, quotas,
 * policies and CPUs. This is read from /proc and the files of cgroups, after trouble was found.
 */
#ifndef SCHEDULING_H
#define SCHEDULING_H

#include <sched.h>

#include "cgroups.h"
#include "other_waits.h"
#include "structures.h"

#define NICE_MIN	(-20)
#define NICE_MAX	19
/* The headers of C have it since glibc 2.41. */
#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE	6
#endif
#define THREADS_MAX	512	/* of one owner; of more, none is known */

struct thread_policy {
	pid_t tid;
	int policy;		/* SCHED_OTHER and so on */
	int nice;
	int priority;		/* of SCHED_FIFO and SCHED_RR */
	uint64_t runtime, deadline, period;	/* of SCHED_DEADLINE */
};

/* Return false if the thread does not exist. */
bool read_thread_policy(pid_t tid, struct thread_policy *policy);

static inline bool is_realtime(const struct thread_policy *t)
{
	return t->policy == SCHED_FIFO || t->policy == SCHED_RR || t->policy == SCHED_DEADLINE;
}

/* One of the two sides that compete: a cgroup, or threads in the cgroup that both have in common */
struct competitor {
	bool is_group;
	struct cgroup cgroup;
	struct cgroup_limits limits;	/* only if is_group */
	enum manager manager;
	char unit[NAME_MAX + 1];
	bool is_shared;			/* others are in the group as well */
	unsigned int vcpus;		/* of VMs in the group of the VM */
	bool has_reader;		/* this process is in the group */
	/* Without a group: the threads are in the root, where each session is a group that has nice itself. */
	unsigned int autogroup;		/* its number, 0 without one */
	int autogroup_nice;
};

/* How a VM and the processes that ran instead of it compete */
struct contest {
	bool known;
	bool own;			/* the owner is in the cgroup or unit of the VM */
	struct competitor vm, owner;
	struct thread_policy *threads;	/* the owner's; may be empty */
	unsigned int nr_threads;
	bool ended;			/* the process that ran last, as others will */
	char comm[32];			/* a process's name */
	char starter[32];		/* that of the process from which the owner's come; "" if not known */
};

/* Who competes with a VM */
struct contest_owner {
	const char *name;		/* as "blame" has it, or NULL for any */
	pid_t pid;			/* the process that ran last, 0 if it is not known */
	pid_t starter;			/* from which it comes, 0 if it is not known */
	uint64_t cgroup;		/* id of their cgroup, 0 if it is not known */
	uint64_t took_ns;		/* on one CPU: a younger process is not the only one */
};

/* Compare a VM with an owner. first: all VMs of the host. The caller passes the contest to free_contest(). */
void find_contest(struct cgroups *cgroups, int proc, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
		  const struct contest_owner *owner, struct contest *contest);
void free_contest(struct contest *contest);

/*
 * Of n owners that compete with a VM, find those that together are the one side that took most: they are in the
 * same sibling of the VM's cgroup, or in the VM's own. Return the first one of them and write the time of all on all
 * CPUs, in nanoseconds; NULL if no cgroup is known. owners: took_ns is the time on all CPUs.
 */
const struct contest_owner *find_main_side(const struct cgroups *cgroups, const struct kvmstats_vm *vm,
					   const struct contest_owner *owners, unsigned int n, uint64_t *took_ns);

/* A cgroup above vCPUs that has a quota */
struct quota_level {
	struct cgroup cgroup;
	struct cgroup_limits limits;
	enum manager manager;
	char unit[NAME_MAX + 1];
	unsigned int cpus;		/* that the VMs in it can use: one for each vCPU, and those of their other threads */
};

/*
 * List the quotas above all vCPUs of a VM, the uppermost first. first: all VMs of the host; before, now: what their
 * other threads used. Return their number; the caller frees *levels. complete: set to false if a cgroup
 * could not be read.
 */
unsigned int find_quotas(struct cgroups *cgroups, const struct kvmstats_vm *vm, const struct kvmstats_vm *first,
			 const struct other_waits *before, const struct other_waits *now, struct quota_level **levels,
			 bool *complete);

/*
 * Return the quota that threads of the VMM have used up in a cgroup without vCPUs, where the thread is that waited
 * most, or NULL. The caller frees it.
 */
struct quota_level *find_other_quota(struct cgroups *cgroups, const struct kvmstats_vm *vm, const struct other_use *use);

/* List the frozen cgroups above all vCPUs, the uppermost first; as above. */
unsigned int find_frozen(struct cgroups *cgroups, const struct kvmstats_vm *vm, struct cgroup **frozen);

#endif /* SCHEDULING_H */
