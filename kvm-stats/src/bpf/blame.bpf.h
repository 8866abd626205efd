/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF program of threads counts for "blame" */
#ifndef KVMSTATS_BPF_BLAME_H
#define KVMSTATS_BPF_BLAME_H

#include <linux/types.h>

#include "shares.bpf.h"

/* Owners that a CPU counts at one time, and entries to find them; powers of 2 */
#define BLAME_SLOTS	64
#define BLAME_INDEX	256
/* vCPUs that a quota keeps from a CPU, and whose owners are exact */
#define BLAME_THROTTLED	8
/* Cgroups above a vCPU that have a quota, and whose shares of the throttled time are known */
#define BLAME_LEVELS	4
#define BLAME_CHARGES	8192
/*
 * Entries for owners with names of threads. A VMM, a cgroup or the kernel gets half of those that
 * others leave, and one entry without a name for the rest of its threads.
 */
#define BLAME_NAMED	(BLAME_CHARGES / 4 * 3)
/* Groups of owners whose names are counted; a power of 2. Those with the same hash count as one. */
#define BLAME_GROUPS	1024
#define BLAME_CGROUPS	1024
#define BLAME_EXITED	4096
/* VMs whose waits are counted between two samples */
#define BLAME_VMS	4096
/* Bucket 0 has the waits of less than 1024 ns, bucket i those from 2^(i+9) ns on. */
#define BLAME_BUCKETS	24
#define BLAME_SHIFT	9

enum blame_kind {
	BLAME_VCPU = 1,	/* id: struct kvm of the vCPU that ran */
	BLAME_VMM,	/* thread of a VMM that is not a vCPU, by comm */
	BLAME_PROCESS,	/* id: cgroup */
	BLAME_KERNEL,	/* kernel thread, by comm */
	BLAME_QUOTA,	/* id: cgroup whose quota was used up */
	BLAME_STEAL,	/* the host's own hypervisor */
	BLAME_IDLE,
	BLAME_OVERFLOW,	/* unknown: more owners than a CPU counts */
	BLAME_UNSEEN,	/* unknown: before the vCPU was entered */
	BLAME_UNKNOWN,
};

/* While a CPU counts threads, their kind also has the priority of real-time ones, times this */
#define BLAME_PRIORITY	0x100

/* Thread that ran while a vCPU waited */
struct blame_owner {
	__u64 id;
	char comm[16];
	__u32 tgid;		/* of VMM threads, else 0 */
	__u32 kind;
};

/* A VMM, a cgroup or the kernel: its threads choose their names. */
static inline __u32 hash_group(const struct blame_owner *owner, __u32 seed)
{
	const __u64 group = owner->id * 3 ^ owner->tgid * 5ULL ^ owner->kind ^ seed;

	return group * 0x9e3779b97f4a7c15ULL >> 40;
}

/*
 * A process of an owner, the last one that ran: its PID, or 0; and that of its nearest ancestor that had run
 * for some seconds, or 0, shifted by:
 */
#define BLAME_STARTER_SHIFT	32

/* How long an owner had a CPU: total of struct blame_cpu, less base */
struct blame_slot {
	struct blame_owner owner;
	__u64 base;		/* total when the owner got this slot */
	__u64 last;		/* when the owner last lost the CPU */
	__u64 process;
};

/* A vCPU that waits while its quota is used up */
struct blame_throttled {
	__u64 queue;		/* address of its struct cfs_rq */
	__u32 tid;
	__u32 reserved;
};

struct blame_cpu {
	__u64 at;		/* time up to which the CPU is counted */
	__u32 waiting;		/* open waits of vCPUs for this CPU */
	__u32 next;		/* PID of the last thread that got the CPU, plus 1; or 0 */
	__u64 rq;		/* address of struct rq; 0: not known */
	__u64 began;		/* when the first open wait started */
	__u32 used;		/* slots */
	__u32 nr_throttled;
	__u64 total[BLAME_SLOTS];	/* nanoseconds; never decrease */
	struct blame_slot slot[BLAME_SLOTS];
	__u8 index[BLAME_INDEX];	/* slot by the owner's hash, plus 1 */
	struct blame_throttled throttled[BLAME_THROTTLED];
};

/* A VM, as the kernel knows it */
struct blame_vm {
	__u64 kvm;		/* address of struct kvm */
	__u32 tgid;
	__u32 reserved;
};

/* The waits of a vCPU's thread */
struct blame_vcpu {
	__u64 since;		/* the open wait is charged up to here; 0 if none is open, 1: reserved */
	__u64 start;		/* start of the last wait */
	__u64 quota;		/* throttled clock at that time */
	__u64 steal;		/* steal clock at that time */
	__u64 run_delay;	/* at that time */
	__u64 moved;		/* length of the wait on the CPUs before this one */
	__u64 first_delay;	/* run_delay when the vCPU was first seen */
	__u64 charged;		/* since then */
	__u32 cpu;		/* that it waits for */
	__u32 seen;		/* 0 until the time before it was entered is charged */
	/* Quotas above the vCPU, the nearest one first */
	__u64 level[BLAME_LEVELS];	/* throttled clock at the start of the wait */
	__u64 level_ns[BLAME_LEVELS];	/* growth of that; it has the time of those above */
	__u64 level_id[BLAME_LEVELS];	/* cgroup */
	/* A real-time thread: the cgroup whose quota for these was used up at the start of the wait */
	__u64 rt_quota;
	/* The CPU at the start of the wait: owners have its time that is after this */
	__u64 before[BLAME_SLOTS];	/* total */
	struct blame_owner first;	/* owner that had the CPU */
	__u64 skip;		/* its time up to then, which is not in total */
	__u32 used;
	__u32 levels;
	__u32 rt_priority;	/* real-time thread with a quota: its priority; else 0 */
	__u32 found;		/* levels, while they are read */
	__u32 further;		/* more cgroups are above these levels */
	__u32 turn;		/* of the sampler, when the thread last had a vCPU */
};

/* Waits of a VM that have ended */
struct blame_waits {
	__u64 ns;		/* sum of their lengths */
	__u64 longest;
	__u64 bucket[BLAME_BUCKETS];
};

struct blame_pair {
	struct blame_vm vm;	/* that waited; all 0: of VMs that had no entry left */
	struct blame_owner owner;
};

struct blame_charge {
	__u64 ns;
	__u64 process;
};

struct blame_cgroup {
	char name[128];
	char parent[128];
};

/* Events that did not fit or were lost */
struct blame_counts {
	__u64 no_vcpu;		/* vCPUs without an entry */
	__u64 no_pair;		/* charges without an entry */
	__u64 no_vm;		/* waits that are not counted */
	__u64 healed;		/* waits that had no end */
	__u64 unreported;	/* nanoseconds of switches that did not reach the program */
};

#endif /* KVMSTATS_BPF_BLAME_H */
