/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Internals of struct kvmstats; sources use internal/source.h only. */
#ifndef KVMSTATS_CORE_H
#define KVMSTATS_CORE_H

#include "identity_reader.h"
#include "source.h"
#include "stat_group.h"

/* A thread that runs has its time booked at each tick of the kernel, 100 Hz at least. */
#define TICK_MAX_NS	10000000ULL

/* Times of a vCPU that were reported before the kernel booked them, and vice versa */
struct account {
	struct thread_times thread;	/* at the previous sample */
	/* run and ready times reported so far */
	uint64_t run, ready;
	uint64_t wait_max;		/* longest wait that the kernel has not booked yet */
	uint64_t guessed;		/* reported as run, may be booked as ready */
	uint64_t assumed;		/* time since the state was last known, with an assumed one */
	uint64_t throttled, poll, ended;	/* booked, and not told yet */
	uint64_t halt;			/* reported for the halt in progress */
};

/* CPU time of the threads of a VM's process that are not vCPUs, see others.c */
struct other_threads {
	uint64_t clock;			/* of the process at the previous sample; 0: none */
	int64_t pending;		/* vCPUs ran longer than the process: to be deducted */
	uint64_t total, role[KVMSTATS_ROLES];
	uint64_t growth;		/* of total, in a recording */
	/*
	 * Waits for a CPU are read at the same times as the roles. Until the next time, the threads are taken to
	 * wait as much as they did in the last interval.
	 */
	uint64_t waited, wait_growth;	/* nanoseconds: all, and those of this sample */
	double wait_rate;		/* in the last interval */
	uint64_t split;			/* when the roles were updated; 0: never */
	bool partial;			/* there are more threads than are read */
	bool has_waited;		/* the time that they waited is known */
	struct other_thread *thread;
	unsigned int count;
};

/* To which vCPU the time of a thread belongs, see vcpu_threads.c */
enum thread_time {
	THREAD_TIME_OWN,
	THREAD_TIME_OTHER,	/* to another vCPU: this one was not run */
	THREAD_TIME_UNKNOWN,
};

/* A thread that runs vCPUs, or did at the previous sample */
struct vcpu_thread {
	pid_t tid;		/* 0 if the slot is free */
	unsigned int vcpus;	/* vCPUs that it ran last */
	unsigned int active;	/* vCPUs that it may have run since the previous sample */
	bool counted;		/* in the time of its process, see others.c */
	bool has_before;
	uint64_t before;	/* run time at the previous sample */
};

#define NO_TID	(-1)		/* not even the thread of a vCPU that has not run */

struct core_vcpu {
	struct kvmstats_vcpu pub;
	bool seen;
	/* now and before are in the same place if nothing has changed, then other is free */
	uint64_t *now, *before, *other, *total;
	struct thread_times thread;	/* of this sample */
	bool thread_given, thread_exited;
	bool thread_had_exited;		/* at the previous sample */
	bool summed;			/* its values are in the sum of the VM */
	enum thread_time thread_time;
	pid_t thread_tid;		/* whose account.thread is */
	pid_t files_tid;		/* whose these files are */
	unsigned int rested;		/* samples in which it has not run */
	struct account account;
	pid_t other_tid;		/* whose other_run is */
	uint64_t other_run;		/* run time at the previous sample */
	int schedstat, stat;		/* -1 if closed */
	uint64_t room[];		/* for the values */
};

struct core_vm {
	struct kvmstats_vm pub;
	bool seen, had_values, labelled;
	bool hidden;			/* the name is only that of its process */
	bool has_identity;		/* /proc was read, whether it hides the process or not */
	bool is_reading;		/* by a child, see identity_reader.h */
	unsigned int blocked;		/* number of readers that the process blocked */
	unsigned int rereads;		/* after the identity was read */
	uint64_t read_due;		/* when the next one starts: CLOCK_MONOTONIC */
	uint64_t cgroups;		/* hash of /proc/PID/cgroup as it was read */
	bool is_pending;		/* not reported yet: it may be a probe, see sample.c */
	uint64_t first_seen;
	uint64_t process_started;	/* CLOCK_BOOTTIME, ns; 0 if unknown */
	uint64_t started;		/* the VM, as far as is known; the same clock */
	uint64_t reported;		/* when the source reported it last: a count of reports */
	uint64_t *now, *before, *total;
	uint64_t *sum, *growth, *vcpu_total;	/* over vCPUs */
	struct core_vcpu **vcpu;	/* the present ones first */
	struct kvmstats_vcpu **pub_vcpu;
	unsigned int vcpus;		/* pub.vcpus of them are present */
	unsigned int room, cursor;
	struct other_threads others;
};

struct unread {
	unsigned int count;
	char why[256];
};

struct kvmstats {
	const struct source_ops *source;	/* NULL if none works */
	void *state;
	char only[32];			/* the name of the one to use; "": the best */
	bool wait;
	bool partial;			/* this sample left out VMs */
	bool recorded;			/* the source also has what the core reads itself */
	char recorded_source[32];	/* what the recorder read */
	unsigned int changes;
	char source_why[600];
	char proc_path[256];
	uint64_t kvm, permissions;	/* identity of KVM; permissions of its device */
	uint64_t looked;		/* when the source was chosen */
	int proc;
	struct kvmstats_table *table[KVMSTATS_SCOPES];
	struct stat_group group[KVMSTATS_SCOPES][GROUPS];
	struct core_vm **vm;		/* by process, then number */
	struct vcpu_thread *threads;	/* table by hash; the room is a power of 2 */
	size_t thread_room;
	struct kvmstats_vm *first;	/* the first VM that is reported */
	unsigned int vms, room, cursor;
	pid_t self;			/* of this process, at the last sample */
	uint64_t reports;		/* of VMs by the source */
	uint64_t labels_hash;		/* of everything that the labels depend on */
	uint64_t time;			/* not 0: given by the source */
	uint64_t sampled, sampled_before;	/* when the last samples began */
	int64_t booted;			/* CLOCK_REALTIME at CLOCK_BOOTTIME 0 */
	uint64_t keep;
	/* VMs that were destroyed by KVM's account, and of which the end was reported */
	struct uevent_count *events;
	bool has_destroyed;
	uint64_t destroyed, ended;
	uint64_t unobserved;
	char problem[256];
	unsigned int unread;
	const char *why;		/* message of the first failure */
	struct unread reason[KVMSTATS_REASONS];
	struct identity_readers readers;
};

/* Fill in sum, growth, totals and activity of a VM that was just read. */
void activity_update(struct kvmstats *k, struct core_vm *vm);

/* Call before activity_update(): the vCPU was not reported. */
void activity_drop(const struct kvmstats *k, struct core_vm *vm, struct core_vcpu *vcpu);

/* Return true if no value has changed, as is usual for an idle vCPU. */
static inline bool unchanged(const struct core_vcpu *vcpu)
{
	return vcpu->now == vcpu->before;
}

/* Read what /proc knows of the vCPU's thread, into vcpu->thread. */
void thread_read(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu);

/*
 * Compute how the vCPU spent the time since the previous sample: set pub.last.times, and add
 * it to pub.times. ended: the VM ended in this time.
 */
void times_update(struct kvmstats *k, struct core_vcpu *vcpu, bool ended);

/* The vCPU has not run before its thread was created: its first sample has times. */
void times_begin_at_birth(struct core_vcpu *vcpu);

void times_add(struct kvmstats_times *sum, const struct kvmstats_times *times);

/*
 * Decide to which vCPU the time of each thread belongs. Call this when all VMs were read,
 * before activity_update(). Returns false if out of memory.
 */
bool vcpu_threads_attribute(struct kvmstats *k);

/* Return the thread, NULL if it runs no vCPU. */
struct vcpu_thread *vcpu_thread_find(const struct kvmstats *k, pid_t tid);

/* Measure the other threads of all processes that have VMs, after activity_update(). */
void others_update(struct kvmstats *k);

/* Close the files of a vCPU's thread. */
void core_vcpu_close(struct core_vcpu *vcpu);

/* Return the index of the first VM of a process in k->vm; *end: that after its last one. */
unsigned int core_find_process(const struct kvmstats *k, pid_t pid, unsigned int *end);

/* Remove the VM k->vm[i]. */
void core_forget(struct kvmstats *k, unsigned int i);

/* Forget all VMs and tables. */
void core_forget_all(struct kvmstats *k);

/* Open the best source that works. -EINVAL: there is none of this name; -ENODEV */
int source_choose(struct kvmstats *k);

/*
 * At a sample: choose again if the one in use failed, if KVM is another one (its module
 * was replaced, or came), and every minute if it is not the best.
 */
void source_look(struct kvmstats *k, bool failed);

/*
 * Read the identities of VMs that have none yet, in child processes. Waits for a process that
 * blocks its readers a tenth of a second at most.
 */
void identities_update(struct kvmstats *k);

/* Order by process, then VM id, then as the source reported them. */
bool core_vm_precedes(const struct core_vm *a, const struct core_vm *b);

/*
 * Number the VMs of each process, and label all VMs: a label depends only on the VMs that exist now.
 * Return false if out of memory.
 */
bool label_vms(struct kvmstats *k);

#endif /* KVMSTATS_CORE_H */
