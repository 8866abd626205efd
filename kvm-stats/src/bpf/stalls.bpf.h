/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF program of threads counts for "stalls" */
#ifndef KVMSTATS_BPF_STALLS_H
#define KVMSTATS_BPF_STALLS_H

#include <linux/types.h>

/* Why a vCPU's thread sleeps outside of a halt */
enum stall {
	STALL_NONE,		/* it is halted, or does not sleep */
	STALL_STOPPED,		/* by a signal or a debugger */
	STALL_FROZEN,		/* by its cgroup or a suspend of the host */
	STALL_MEMORY,		/* for memory: swap, userfaultfd, a limit of its cgroup */
	STALL_DISK,		/* in the VMM, for a file or a block device */
	STALL_LOCK,		/* in the VMM, for a lock or a condition */
	STALL_WAIT,		/* in the VMM: poll, sleep, pipe, socket, process */
	STALL_KVM,		/* in KVM, or in another driver that the VMM uses by ioctl */
	/* Recordings have these numbers: new reasons are last. The BPF program does not charge the next two. */
	STALL_PAUSED,		/* in the VMM, which has not run the vCPU since the previous sample */
	STALL_UNKNOWN,		/* OTHER without a reason */
	STALL_TIMED,		/* in the VMM, for a condition with a timeout, as when it throttles the vCPU */
	STALLS,
};

/* Classes of system calls, by which sleeps in the VMM differ */
enum stall_call {
	CALL_OTHER,
	CALL_FUTEX,		/* the fourth argument is a timeout, or NULL */
	CALL_IOCTL,
	CALL_MEMORY,		/* takes the lock of the address space */
	CALL_FILE,		/* never of a pipe or a socket */
	CALL_CHILD,		/* waits for a child */
};

#define STALLS_CALLS	512

/* The sleeps of a vCPU's thread */
struct stalls_vcpu {
	__u64 since;		/* the open stall is charged up to here; 0 if none is open */
	__u64 run_delay;	/* at its start */
	__u64 ran;		/* run time of the thread at its start */
	__u32 reason;		/* of it */
	__u32 reserved;
	__u64 ns[STALLS];
};

#endif /* KVMSTATS_BPF_STALLS_H */
