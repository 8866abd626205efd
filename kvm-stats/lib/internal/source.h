/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a source of statistics is, and what the core of the library gives it.
 * Nothing here is public.
 */
#ifndef KVMSTATS_SOURCE_H
#define KVMSTATS_SOURCE_H

#include "clock.h"
#include "structures.h"

struct core_vm;
struct core_vcpu;

struct source_ops {
	const char *name;	/* as in kvmstats_open() */
	const char *what;	/* one line for people */

	/*
	 * Get ready; *state is the source's own. 0, or a negative errno with
	 * p->why and p->help filled in (both of p->why's size); they may be
	 * filled on success too, p->works is set by the caller.
	 */
	int (*open)(struct kvmstats *k, void **state, struct kvmstats_probe *p);

	/*
	 * Report everything that exists now: core_vm() for each VM, core_vcpu() for each
	 * vCPU, with its values. VMs and vCPUs that are not reported count as destroyed.
	 * Return a negative errno, after core_problem(), if the source failed as a whole;
	 * call core_unread() if it failed for one VM.
	 */
	int (*sample)(struct kvmstats *k, void *state);

	/*
	 * Between samples, at times that a VMM cannot know: note which vCPUs run, so that the next
	 * sample finds them wherever their files are. NULL if files are not needed.
	 */
	void (*note)(void *state);

	/* Close files that pin a VM; sample() reopens them. NULL if there are none. */
	void (*release_files)(void *state);

	/* state can be partly made: after an open() that failed it is not called. */
	void (*close)(struct kvmstats *k, void *state);
};

/* All sources in the order in which they are tried; ends with NULL. */
extern const struct source_ops *const source_list[];

/* Only in programs built without "bpf": explain that, and return -EOPNOTSUPP. */
int bpf_none_explain(struct kvmstats_probe *p);

/*
 * Set the permanent table of a scope; the core owns and frees it. Call this before the
 * first core_vm() or core_vcpu() of that scope; a second call for a scope frees the table
 * and returns -EEXIST.
 */
int core_set_table(struct kvmstats *k, enum kvmstats_scope scope,
		   struct kvmstats_table *table);

/*
 * Report a VM. key identifies it permanently (its VM id, the address of its struct kvm...).
 * pid is in the PID namespace of the procfs of kvmstats_open(). Returns NULL if out of memory. VMs
 * of one process without VM ids are sorted by first report.
 */
struct core_vm *core_vm(struct kvmstats *k, uint64_t key, pid_t pid);

/*
 * Report a vCPU of a VM. tid is the thread that runs it, 0 if unknown. Returns NULL if out
 * of memory.
 */
struct core_vcpu *core_vcpu(struct kvmstats *k, struct core_vm *vm, uint32_t id,
			    pid_t tid);

/*
 * Return the buffer for the values of this sample: table->data_size bytes, all of which the
 * caller must fill, so read whatever can fail before core_vm() and core_vcpu(). NULL for a VM if
 * the source has no table KVMSTATS_VM. A VM for which this is not called has no values.
 */
void *core_vm_values(struct core_vm *vm);
void *core_vcpu_values(struct core_vcpu *vcpu);

/* Copy values that the caller has already; cheaper if they have not changed. */
void core_vcpu_set(struct core_vcpu *vcpu, const void *values, size_t size);

/* The kernel's number of it, if the source knows it */
void core_vm_number(struct kvmstats *k, struct core_vm *vm, uint64_t number);

/* The vCPUs belong to several VMs; the kernel does not report to which. */
void core_vm_set_ambiguous(struct core_vm *vm, bool mixed);

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
	uint64_t born;		/* when the thread was created: CLOCK_MONOTONIC; 0 if unknown */
	uint64_t run;		/* on a CPU, since the thread began */
	uint64_t ready;		/* waiting for one, also because of a quota */
	uint64_t turns;		/* number of times it got a CPU; 0 if unknown */
	uint64_t throttled;		/* because of a quota, in ready as well */
	/* Its CPU, and the time that interrupts and a lower hypervisor took from this CPU;
	 * 0 if unknown */
	uint64_t cpu, lost;
	/* number of times it went to sleep */
	bool has_sleeps;
	uint64_t sleeps;
	/* run and ready include the period that has not ended yet */
	bool up_to_date;
	enum thread_state state;
	bool loaded;		/* the thread is in KVM_RUN of this vCPU, as far as is known */
	bool assumed;		/* same state as at the previous sample, unless it was woken */
	uint64_t asleep;	/* if up_to_date and asleep: for how long */
};

/*
 * The times of the vCPU's thread, if the source has them. Otherwise the core reads
 * files of /proc for every vCPU with a tid.
 */
void core_vcpu_times(struct core_vcpu *vcpu, const struct thread_times *times);

/* There is no thread, as is known: the vCPU has never run. */
void core_vcpu_idle(struct core_vcpu *vcpu, uint64_t time);

/*
 * The thread that ran the vCPU has exited. Unless another one has run the vCPU since the
 * previous sample, it was unplugged, and the VMM keeps its file to plug it in again.
 */
void core_vcpu_thread_exited(struct core_vcpu *vcpu, uint64_t time);

/*
 * Return true if the thread with the reported tid had exited at the previous sample, and another
 * one has run the vCPU since.
 */
bool core_vcpu_lacks_thread(const struct core_vcpu *vcpu);

/*
 * The process of the VM, if the source knows more of it than /proc shows: when it
 * began (nanoseconds of CLOCK_BOOTTIME), what it calls itself. Before the end of the
 * sample in which the VM was reported first; later it is ignored.
 */
void core_vm_process(struct core_vm *vm, uint64_t started, const char *comm);

pid_t core_vm_pid(const struct core_vm *vm);

/* Return the time of this sample: CLOCK_MONOTONIC, or the source's clock. */
uint64_t core_now(const struct kvmstats *k);

/* Call the source's note(). */
void source_note(struct kvmstats *k);

/* Set the time of the VM that is reported next; when all are reported, that of the sample. */
void core_set_time(struct kvmstats *k, uint64_t nanoseconds);

/* Words for kvmstats_problem(), and for kvmstats_failed_reads(). Return error. */
int core_problem(struct kvmstats *k, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void core_unread(struct kvmstats *k, enum kvmstats_reason reason, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * This sample left out VMs of some processes. A VM that is not reported keeps its last values, unless
 * its process has exited.
 */
void core_set_partial(struct kvmstats *k);

/* The reason that fits to a positive errno */
enum kvmstats_reason core_reason(int error);

/* The host's procfs, an O_PATH descriptor for openat() */
int core_proc(const struct kvmstats *k);

/* RLIMIT_NOFILE: the soft limit becomes the hard one, once. */
void core_raise_files(void);

/*
 * Build a table from count descriptors, with copies of their names, and compute data_size.
 * Returns NULL if out of memory.
 */
struct kvmstats_table *table_make(const struct kvmstats_desc *desc,
				  unsigned int count);

#endif /* KVMSTATS_SOURCE_H */
