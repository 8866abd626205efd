/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a source of statistics is, and what the core of the library gives it.
 * Nothing here is public.
 */
#ifndef KVMSTATS_SOURCE_H
#define KVMSTATS_SOURCE_H

#include <time.h>

#include "kvmstats.h"

struct core_vm;
struct core_vcpu;

struct source_ops {
	const char *name;	/* as in kvmstats_options.source */
	const char *what;	/* one line for people */

	/*
	 * Get ready; *state is the source's own. 0, or a negative errno with
	 * p->why and p->help filled in (both of p->why's size); they may be
	 * filled on success too, p->works is set by the caller.
	 */
	int (*open)(struct kvmstats *k, void **state, struct kvmstats_probe *p);

	/*
	 * Report everything there is now: core_vm() for each VM, core_vcpu() for
	 * each vCPU, with its values. What is not reported has gone. A negative
	 * errno, with core_problem(), means that nothing can be said at all; what
	 * fails for one VM is core_unread().
	 */
	int (*sample)(struct kvmstats *k, void *state);

	/* Close files that hold a VM, sample() opens them again; NULL: it has none. */
	void (*let_go)(void *state);

	/* state can be partly made: after an open() that failed it is not called. */
	void (*close)(struct kvmstats *k, void *state);
};

/* All sources in the order in which they are tried; ends with NULL. */
extern const struct source_ops *const source_list[];

/*
 * The statistics of a scope, from now on and for good; the core takes the table
 * over and frees it. Before the first core_vm() resp. core_vcpu() of that scope;
 * the second call for a scope is -EEXIST (and frees the table).
 */
int core_set_table(struct kvmstats *k, enum kvmstats_scope scope,
		   struct kvmstats_table *table);

/*
 * This VM is there. key: what tells it from all others, the same each time (its
 * number, the address of its struct kvm...). pid: in the PID namespace of
 * kvmstats_options.proc. NULL: no memory. VMs of one process that have no number of
 * the kernel are in the order in which they were reported first.
 */
struct core_vm *core_vm(struct kvmstats *k, uint64_t key, pid_t pid);

/*
 * This vCPU of it is there. tid: the thread that runs it, 0: unknown. NULL: no
 * memory.
 */
struct core_vcpu *core_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id,
			    pid_t tid);

/*
 * Where its values of this sample go: table->data_size bytes, to be filled in
 * full, so read what can fail before core_vm() and core_vcpu(). NULL for a VM if
 * there is no table KVMSTATS_VM. A VM for which it is not called has no values.
 */
void *core_vm_values(struct core_vm *vm);
void *core_vcpu_values(struct core_vcpu *vcpu);

/* The same for who has the values already; cheaper if they have not changed */
void core_vcpu_set(struct core_vcpu *vcpu, const void *values, size_t size);

/* The kernel's number of it, if the source knows it */
void core_vm_number(struct kvmstats *k, struct core_vm *vm, uint64_t number);

/* These are vCPUs of several VMs, and nobody knows whose. */
void core_vm_mixed(struct core_vm *vm, bool mixed);

/* The VM has ended; the values of this sample are its last. */
void core_vm_ended(struct core_vm *vm);

enum thread_state {
	THREAD_UNKNOWN,
	THREAD_SLEEPS,
	THREAD_RUNNABLE,	/* runs, or waits for a CPU */
	THREAD_RUNS,
	THREAD_WAITS,
};

/* What the scheduler knows of a vCPU's thread at one instant; nanoseconds */
struct thread_times {
	uint64_t time;		/* CLOCK_MONOTONIC */
	bool has_run, has_ready, has_throttled;
	uint64_t run;		/* on a CPU, since the thread began */
	uint64_t ready;		/* waiting for one, also because of a quota */
	uint64_t turns;		/* how often it was given a CPU; 0: not known */
	/* the quota of its cgroup was spent, summed up over so many CPUs */
	uint64_t throttled;
	unsigned int throttled_cpus;
	/* which CPU it is on, and what of that one's time is nobody's: interrupts, and
	 * what a hypervisor below takes; 0: not known */
	uint64_t cpu, lost;
	/* how often it has gone to sleep */
	bool has_sleeps;
	uint64_t sleeps;
	/* run and ready have in them what lasts at this instant */
	bool up_to_date;
	enum thread_state state;
	bool assumed;		/* the state is that of the sample before, unless it was woken */
	uint64_t asleep;	/* up_to_date and it sleeps: for so long */
};

/*
 * The times of the vCPU's thread, if the source has them. Otherwise the core reads
 * files of /proc for every vCPU with a tid.
 */
void core_vcpu_times(struct core_vcpu *vcpu, const struct thread_times *times);

/* There is no thread, as is known: the vCPU has never run. */
void core_vcpu_idle(struct core_vcpu *vcpu, uint64_t time);

/*
 * The process of the VM, if the source knows more of it than /proc shows: when it
 * began (nanoseconds of CLOCK_BOOTTIME), what it calls itself. Before the end of the
 * sample in which the VM was reported first; later it is ignored.
 */
void core_vm_process(struct core_vm *vm, uint64_t started, const char *comm);

pid_t core_vm_pid(const struct core_vm *vm);

/* Nanoseconds */
uint64_t core_clock(clockid_t clock);

/* The time of this sample: CLOCK_MONOTONIC, or what the source says */
uint64_t core_now(const struct kvmstats *k);

/* The clock of this sample; only for recordings. */
void core_set_time(struct kvmstats *k, uint64_t nanoseconds);

/* Words for kvmstats_problem(), and for kvmstats_unread(). Return error. */
int core_problem(struct kvmstats *k, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void core_unread(struct kvmstats *k, enum kvmstats_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The reason that fits to a positive errno */
enum kvmstats_reason core_reason(int error);

/* The host's procfs, an O_PATH descriptor for openat() */
int core_proc(const struct kvmstats *k);

/* RLIMIT_NOFILE: the soft limit becomes the hard one, once. */
void core_raise_files(void);

/*
 * A table made by hand: count descriptors with copies of the names; computes
 * data_size. NULL: no memory.
 */
struct kvmstats_table *table_make(const struct kvmstats_desc *desc,
				  unsigned int count);

#endif /* KVMSTATS_SOURCE_H */
