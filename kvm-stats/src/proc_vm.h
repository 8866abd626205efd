/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What /proc and cgroups of this host say about the vCPUs' threads of a VM; proc is input_proc().
 * No function waits for the VMM.
 */
#ifndef PROC_VM_H
#define PROC_VM_H

#include "structures.h"

/* More CPUs than Linux supports on any architecture */
#define MAX_CPUS	8192

/* A cgroup of the VM or one above it */
struct vm_cgroup {
	char path[512];		/* in its hierarchy, "" if unknown */
	bool v2;
};

/* Where the thread of a vCPU runs */
#define AFFINITY_SIZE	256
struct vcpu_place {
	char state;		/* as in /proc/TID/stat; 0 if it does not exist */
	int cpu;		/* the last one */
	int node;		/* of it; -1 if all CPUs are in one */
	char affinity[AFFINITY_SIZE];	/* CPUs, as "0-3,7"; "" if it may use all */
};

void read_place(int proc, pid_t tid, struct vcpu_place *place);

/* The state of all vCPUs' threads: T stopped, t traced, D blocked; 0 if they differ or have another one */
char find_state(int proc, const struct kvmstats_vm *vm);

/* Find the uppermost frozen cgroup of a thread. Return false if there is none. */
bool find_freezer(int proc, pid_t tid, struct vm_cgroup *freezer);

/* As find_state(), F if a cgroup of the VM is frozen. */
char find_stuck_state(int proc, const struct kvmstats_vm *vm);

/* Find the cgroup of a thread that has a controller of v1, or else that of v2. */
bool find_cgroup(int proc, pid_t tid, const char *controller, struct vm_cgroup *cgroup);

/* Go to the cgroup above. Return false at the root. */
bool leave_cgroup(struct vm_cgroup *cgroup);

/* Read one or two numbers from a file of a cgroup; v1 has a hierarchy per controller. */
bool read_cgroup_numbers(const struct vm_cgroup *cgroup, const char *controller, const char *file,
			 uint64_t *first, uint64_t *second);

#endif /* PROC_VM_H */
