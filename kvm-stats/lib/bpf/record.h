/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF program and its loader say to each other. */
#ifndef KVMSTATS_BPF_RECORD_H
#define KVMSTATS_BPF_RECORD_H

#include <linux/types.h>

/* The largest struct kvm_vm_stat or kvm_vcpu_stat; 1584 is the largest seen. */
#define BPF_VALUES_MAX 8192

/* Last values that fit between two samples, bytes; and open files of a process to search */
#define BPF_FINALS_SIZE	(2 << 20)
#define BPF_MAX_FILES	1024
#define BPF_FINALS_PER_VCPU	64

/* VMs and vCPUs of which only one file is written, however many there are */
#define BPF_OBJECTS_MAX	16384

/*
 * Bounds of a sample: bytes of records, and slots in tables of open files, once for the processes
 * that have VMs and once for the others. One user gets half of what the other users have left.
 */
#define BPF_DATA_MAX	(64U << 20)
#define BPF_FILES_MAX	(1U << 20)
/* Users and tables that are known; the least recently used ones are forgotten */
#define BPF_USERS_MAX	1024
#define BPF_TABLES_MAX	16384
/* Threads whose vCPU is remembered; the least recently used ones are forgotten */
#define BPF_ENTERED_MAX	16384

/* Records that the reader takes at a time */
#define BPF_SLOTS	16

/* Which processes a walk visits */
enum bpf_mode {
	BPF_ALL,
	BPF_KNOWN,	/* that had VMs at the last visit */
	BPF_OWN,	/* the reader */
	BPF_NOTE,	/* none: only note which vCPUs threads run now */
};

/* The object was found by a thread that has entered it; the largest number, so that files come first */
#define BPF_NO_FILE	0x7fffffff

/* CPUs, and levels of cgroups, that the time of quotas covers */
#define BPF_MAX_CPUS	1024
#define BPF_MAX_LEVELS	512

/* State of a vCPU's thread */
enum {
	BPF_THREAD	= 1,	/* there is one */
	BPF_NEVER_RAN	= 2,	/* the vCPU has had none */
	BPF_ON_CPU	= 4,
	BPF_READY	= 8,	/* ready and queued are known */
	BPF_CLOCKS	= 16,	/* queued_for, away_for and lost are */
	BPF_QUOTA	= 32,	/* throttled is */
	BPF_LOADED	= 64,	/* it is in KVM_RUN of this vCPU */
	BPF_RT_THROTTLED = 128,	/* the quota of real-time threads is used up */
};

/* The scheduler's account of it at one instant; nanoseconds */
struct bpf_thread {
	__u64 time;		/* CLOCK_MONOTONIC */
	__u64 run;		/* on a CPU, as far as it is booked */
	__u64 ready;		/* waiting for one, as far as it is booked */
	__u64 queued;		/* not 0: waits now */
	__u64 queued_for;	/* how long */
	__u64 away_for;		/* since run was booked: it sleeps, or runs, that long */
	__u64 lost;		/* interrupts and steal time of its CPU */
	__u64 rq;		/* its CPU, as an address */
	/* Time for which quotas stopped its group's threads on its CPU */
	__u64 throttled;
	__u64 group;		/* an address; 0 if neither it nor one above it has a quota */
	__u64 group_throttled;	/* the sum over all CPUs */
	__u64 moves;		/* number of times it was moved to another CPU */
	__u64 rt_period;	/* 0 unless it is a real-time thread with a quota */
	__u64 rt_runtime;
	/* in this period: by all real-time threads on its CPU; with SCHED_DEADLINE, by itself */
	__u64 rt_used;
	__u64 rt_next;		/* start of the next period: CLOCK_MONOTONIC */
	__u64 sleeps;		/* how often it gave up its CPU to sleep */
	__u64 turns;		/* how often it got a CPU; 0 if ready is unknown */
	__u64 born;		/* when it was created: CLOCK_MONOTONIC */
	__u32 flags;
	__u32 reserved;
};

/*
 * One open file of a VM or vCPU. The values follow: struct kvm_vm_stat of a VM,
 * struct kvm_vcpu_stat of a vCPU, as long as layout says.
 */
struct bpf_record {
	__u64 vm;	/* address of struct kvm: the same for all of a VM */
	__u64 object;	/* address of struct kvm or kvm_vcpu */
	__u64 started;	/* the process, in ns of CLOCK_BOOTTIME */
	__s32 pid;	/* PID of the process, in the caller's PID namespace, like tid */
	__s32 fd;	/* in that process, or BPF_NO_FILE */
	__s32 vcpu_id;	/* -1: a VM */
	__s32 tid;	/* the thread that last ran the vCPU; 0 if none, or not visible */
	__s32 creator;	/* TID of the thread that created the VM, which may have exited */
	__u32 owner;	/* the process made the VM: others have it from there */
	__u32 size;	/* size of the values, bytes */
	__u32 reserved;
	char comm[16];	/* what the process calls itself */
	struct bpf_thread thread;	/* vCPUs only */
};

struct bpf_output {
	struct bpf_record record;
	char values[BPF_VALUES_MAX];
};

/*
 * Offsets in the running kernel, in bytes. If KVM is a module, the program cannot use its
 * types without more capabilities: the loader finds them and sets this before it loads the
 * program.
 */
struct bpf_layout {
	__u32 vm_mm;		/* of struct kvm */
	__u32 vm_creator;
	__u32 vm_users;		/* reference count */
	__u32 vm_vcpus;		/* struct xarray, or the array if is_array */
	__u32 is_array;
	__u32 vm_stat;
	__u32 vm_stat_size;
	__u32 vcpu_kvm;		/* of struct kvm_vcpu */
	__u32 vcpu_id;
	__u32 vcpu_index;	/* in the VM's vCPUs */
	__u32 vcpu_pid;
	__u32 vcpu_stat;
	__u32 vcpu_stat_size;
	__u32 vcpu_notifier;	/* list node in its preempt notifier */
};

#endif /* KVMSTATS_BPF_RECORD_H */
