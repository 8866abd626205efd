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

/* As find_state(), F if a cgroup of the VM is frozen. */
char find_stuck_state(int proc, const struct kvmstats_vm *vm);

#endif /* PROC_VM_H */
