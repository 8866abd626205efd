/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interface between the BPF program of threads and its loader */
#ifndef KVMSTATS_BPF_THREADS_BPF_H
#define KVMSTATS_BPF_THREADS_BPF_H

#include "blame.bpf.h"
#include "stalls.bpf.h"

/* Entries for threads of vCPUs; more on a host that has many */
#define THREADS_VCPUS	4096
/* "task" of a thread that has exited, whose entry has its last stalls */
#define THREADS_EXITED	(~0ULL)

/*
 * A vCPU's thread, by TID. Entries have only what is counted: without stalls, they end before them;
 * without waits, the stalls are at the place of these.
 */
struct threads_vcpu {
	struct blame_vm vm;
	__u64 notifier;		/* address: another one is another vCPU */
	__u64 task;		/* address of the thread; 0: userspace has only announced it */
	__u32 uid;		/* of the thread when it was entered */
	__u32 reserved;
	struct blame_vcpu blame;
	struct stalls_vcpu stalls;
};

/* As threads_sample() lists it */
struct blame_thread {
	struct blame_vm vm;
	__u32 tid;
	__u32 reserved;
	/* If waits are counted: since the vCPU was entered, including the open wait */
	__u64 waited;
	__u64 charged;
	__u64 open;		/* length of the open wait */
	__u64 stalls[STALLS];	/* nanoseconds since the vCPU was entered, if stalls are counted */
};

#endif /* KVMSTATS_BPF_THREADS_BPF_H */
