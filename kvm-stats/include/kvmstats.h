/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libkvmstats: the statistics of all VMs and vCPUs of a host.
 *
 *	struct kvmstats *k;
 *	struct kvmstats_vm *vm;
 *
 *	if (kvmstats_open(&k, NULL))
 *		...				no source works: kvmstats_probe() says why
 *	for (;; sleep(1)) {
 *		kvmstats_sample(k);
 *		for (vm = kvmstats_first(k); vm; vm = vm->next)
 *			...			vm->who.name, vm->sum.exits
 *	}
 *
 * The library prints nothing, never ends the program, starts no thread, sets no
 * signal handler. A struct kvmstats must not be used by two threads at a time;
 * several of them may, each with one of its own. Functions that return an int return 0, or a negative
 * errno. It never talks to a VMM, so a VMM that hangs does not make it wait, and
 * no file that it keeps holds a VM: on kernels whose statistics files do hold
 * it, they are closed at the first sample after its process has ended or closed the
 * VM.
 *
 * What is declared here stays as it is for as long as the shared library is
 * libkvmstats.so.1. Structures whose memory is the library's (VMs, vCPUs, tables) may
 * get more members at their ends: use them by pointers, do not copy them. Those whose
 * memory is the caller's have room for what may come: begin with all zeros.
 */
#ifndef KVMSTATS_H
#define KVMSTATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Statistics of a VM, and those of each of its vCPUs */
enum kvmstats_scope {
	KVMSTATS_VM,
	KVMSTATS_VCPU,
	KVMSTATS_SCOPES,
};

/*
 * Type, unit and base of a statistic have the numbers of the kernel's ABI
 * (Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD; flags of struct
 * kvm_stats_desc, shifted to bit 0). Numbers that are not listed here, of later
 * kernels, can occur: 0 to 15.
 */
enum kvmstats_type {
	KVMSTATS_CUMULATIVE,	/* only grows, but can be set to 0 by debugfs */
	KVMSTATS_INSTANT,	/* rises and falls */
	KVMSTATS_PEAK,		/* the largest so far */
	KVMSTATS_LINEAR_HIST,	/* bucket i counts from i * bucket_size on */
	KVMSTATS_LOG_HIST,	/* bucket i counts [2^(i-1), 2^i), bucket 0 zeros */
};

enum kvmstats_unit {
	KVMSTATS_NONE,
	KVMSTATS_BYTES,
	KVMSTATS_SECONDS,
	KVMSTATS_CYCLES,
	KVMSTATS_BOOLEAN,
};

enum kvmstats_base {
	KVMSTATS_POW10,
	KVMSTATS_POW2,
};

struct kvmstats_desc {
	const char *name;	/* printable ASCII without blanks */
	unsigned int type;
	unsigned int unit;	/* of the value times base to the exponent */
	unsigned int base;
	int exponent;
	unsigned int size;	/* number of u64 values, at least 1 */
	uint32_t offset;	/* of the first, from the start of the values, bytes */
	uint32_t bucket_size;	/* of a linear histogram */
};

/* All statistics of one scope, in the order of the kernel */
struct kvmstats_table {
	unsigned int count;
	const struct kvmstats_desc *desc;
	size_t data_size;	/* of all values, bytes */
};

/* NULL: there is none of this name. */
const struct kvmstats_desc *kvmstats_find(const struct kvmstats_table *table,
					  const char *name);

/* Value number i, less than desc->size, out of values in the kernel's layout. */
uint64_t kvmstats_value(const struct kvmstats_desc *desc, const void *values,
			unsigned int i);

/*
 * Whose VM it is: strings from /proc, "" for what is not known, never NULL. They are
 * UTF-8 (U+FFFD stands for what was not), but whoever starts a VMM chooses them:
 * there may be blanks, quotes, newlines and what a terminal obeys in them.
 */
struct kvmstats_who {
	/*
	 * What the VM is called, for as long as it lives, and no other VM meanwhile:
	 * its name. NAME#2, NAME#3... are VMs that their process made later. Of
	 * several processes with VMs of one name the oldest one's is NAME, the others'
	 * are NAME@PID; also one that takes the place of another between two samples,
	 * as the last values of that one are still there.
	 */
	char label[128];
	char name[128];		/* of the VM; of the process if it has none */
	char domain[128];	/* of libvirt, if that runs it */
	char uuid[37];		/* lower case */
	char vmm[32];		/* qemu, firecracker, cloud-hypervisor, crosvm,
				 * kvmtool, or the name of the process */
	char machine[128];	/* of systemd-machined, or number of Proxmox */
	char pod[37];		/* uid of the Kubernetes pod */
	char container[65];	/* id of the container */
	char cgroup[256];	/* path in the hierarchy of cgroup v2, or of the
				 * memory controller where v1 is used */
	pid_t pid;		/* thread group that created or holds it */
	uint64_t number;	/* of the kernel, unique while it runs; 0: it has none */
	/*
	 * Nanoseconds since 1970: when its process began, or when it was first seen
	 * if the process was there without it; 0: not known.
	 */
	uint64_t started;
	char reserved[256];
};

/* What a vCPU's time is spent on; each nanosecond is in one of them. */
enum kvmstats_mode {
	KVMSTATS_RUN,		/* on a CPU, in the guest or for it, without polling */
	KVMSTATS_READY,		/* waits for a CPU: the guest's steal time */
	KVMSTATS_THROTTLED,	/* may not have one: the quota of its cgroup is spent */
	KVMSTATS_HALT,		/* sleeps in a halt of the guest */
	KVMSTATS_POLL,		/* on a CPU, polls for the end of a halt */
	KVMSTATS_OTHER,		/* blocked in the VMM, stopped, not started yet */
	KVMSTATS_UNKNOWN,	/* the kernel does not tell which of the others */
	KVMSTATS_MODES,
};

/* "run", "ready"...; NULL: there is no such mode. */
const char *kvmstats_mode_name(enum kvmstats_mode mode);

/*
 * How time was spent, in nanoseconds. Exactly: elapsed is the sum of all modes. A
 * mode that is not known (the kernel does not count it, no thread of the vCPU can
 * be found) is 0, and its time is in KVMSTATS_UNKNOWN. With the last values of a VM that has
 * ended elapsed is what is known of its vCPUs: not the time in which they were not there.
 */
struct kvmstats_times {
	uint64_t elapsed;
	uint64_t mode[KVMSTATS_MODES];
	unsigned int known;	/* 1 << KVMSTATS_RUN and so on, of all vCPUs */
	uint64_t reserved[4];
};

/*
 * What happened between the last two samples. For a VM, sums over its vCPUs
 * (tlb_flushes: and the VM's own). All 0 if the VM or vCPU is fresh. What is not
 * known is 0 and its has_* false: the kernel has no such statistic.
 */
struct kvmstats_activity {
	struct kvmstats_times times;
	/* Events, numbers */
	bool has_exits, has_io, has_interrupts, has_tlb_flushes;
	uint64_t exits;
	uint64_t io;		/* port and memory-mapped I/O */
	uint64_t interrupts;	/* injected */
	uint64_t tlb_flushes;
	uint64_t reserved[8];
};

struct kvmstats_vcpu {
	uint32_t id;
	pid_t tid;		/* thread that runs it, 0: not known, or has none */
	bool fresh;		/* first seen at the last sample: has no rates */
	const void *values;	/* table KVMSTATS_VCPU */
	const void *before;	/* of the sample before; undefined if fresh */
	struct kvmstats_activity last;
	/* Since it was first seen. Never falls, also when the vCPU is taken away and
	 * comes again, or goes to another thread. */
	struct kvmstats_times times;
	/* The values, but of what is cumulative and histograms: as if nobody had ever
	 * set them to 0 through debugfs */
	const void *total;
};

/*
 * A VM. Pointers are valid until the next kvmstats_sample(), those of a VM that
 * stays remain the same.
 */
struct kvmstats_vm {
	struct kvmstats_vm *next;	/* by process, then number */
	/*
	 * 1, 2, ... of the VMs of a process; 0: it had one only. Those that come
	 * later have larger ones. Of those that come together, in the order in which
	 * they were made if the kernel has numbers of VMs (source next, and files of
	 * such a kernel), else in that of their descriptors, which is mostly the same.
	 */
	unsigned int nth;
	struct kvmstats_who who;
	/* No rates: first seen at the last sample; or it has ended, and these are
	 * values of the sample before: a source without files cannot read later ones */
	bool fresh;
	/* These are its last values. It goes at the next sample, or when
	 * kvmstats_set_keep() says. */
	bool ended;
	uint64_t time;		/* of the values: CLOCK_MONOTONIC, nanoseconds */
	/* Since the sample before, nanoseconds. 0 if fresh, or if the clock has not
	 * moved (it may have the timer's resolution): rates are not known then. */
	uint64_t elapsed;
	const void *values;	/* table KVMSTATS_VM; NULL: the source has none */
	const void *before;	/* of the sample before; undefined if fresh */
	/* vCPUs of several VMs of the process, whose the kernel does not say */
	bool mixed;
	unsigned int vcpus;
	struct kvmstats_vcpu *const *vcpu;	/* in order of id */
	/* Over all vCPUs, in the layout of table KVMSTATS_VCPU: sums, of PEAK the
	 * largest; and how much cumulative ones and histograms grew. */
	const void *vcpu_sum;
	const void *vcpu_growth;
	struct kvmstats_activity sum;
	/* Since the VM was first seen, of all vCPUs that it has or had: times.elapsed
	 * is the number of its vCPUs times the time. Never falls. */
	struct kvmstats_times times;
	/*
	 * What is cumulative, and histograms: over all vCPUs that it has or had, and
	 * of the VM, as if nobody had ever set them to 0; never falls. All else as in
	 * vcpu_sum and values. NULL: there are none.
	 */
	const void *vcpu_total;	/* table KVMSTATS_VCPU */
	const void *total;	/* table KVMSTATS_VM */
	uint64_t ended_at;	/* CLOCK_MONOTONIC, nanoseconds; 0: it has not ended */
};

/* All zeros, or NULL instead of it, is the default. */
struct kvmstats_options {
	const char *source;	/* use this one only; NULL: the best that works */
	const char *proc;	/* where the host's procfs is; NULL: /proc */
	/*
	 * Do not fail if no source works: the name of the source is "none" then, there
	 * are no VMs, and each sample looks whether one works now. kvm.ko may be
	 * loaded later.
	 */
	bool wait;
	uint64_t reserved[8];
};

struct kvmstats;

/*
 * Open the first source that works, in the order of kvmstats_probe(). Raises the
 * soft limit of open files (RLIMIT_NOFILE) to the hard limit if the source needs
 * many. -ENODEV: no source works; -EINVAL: there is no source of this name;
 * -ENOMEM.
 */
int kvmstats_open(struct kvmstats **k, const struct kvmstats_options *options);
void kvmstats_close(struct kvmstats *k);

/*
 * The name of the source in use: "next", "bpf" or "files"; "none" with the option
 * wait. Without the option source it is chosen again at a sample, when the one in use
 * does not work any more, or a better one does (kvm.ko was loaded, or replaced).
 * kvmstats_source_changes() says how often that was. What was read before is forgotten
 * then: VMs are first seen again, and their totals begin anew.
 */
const char *kvmstats_source(const struct kvmstats *k);
unsigned int kvmstats_source_changes(const struct kvmstats *k);

/*
 * Why the sources that are better than the one in use are not: "next: this kernel
 * has no KVM_STATS_NEXT", separated by "; ". "" if there is no better one. Valid
 * until the next sample.
 */
const char *kvmstats_source_why(const struct kvmstats *k);

/*
 * Keep VMs that have ended, with their last values, for this long after the sample
 * that saw it; 0, as at the beginning: until the next sample. One that is kept goes
 * earlier if another VM comes that has its name.
 */
void kvmstats_set_keep(struct kvmstats *k, uint64_t nanoseconds);

/*
 * Find VMs that came, drop those that have ended, read all values. An error
 * leaves what was read before: -EIO, a file has other than what its header
 * promises; -EPERM, -ENOMEM...; kvmstats_problem() has the words. What cannot be
 * read of one VM does not keep the others from being read: see
 * kvmstats_unread().
 */
int kvmstats_sample(struct kvmstats *k);
const char *kvmstats_problem(const struct kvmstats *k);	/* "" after success */

/*
 * Before a long time without samples, as when the program is stopped: close files
 * that hold their VM, so that one that ends is not kept. The next sample opens them
 * again, and goes on as if nothing had been.
 */
void kvmstats_let_go(struct kvmstats *k);

/*
 * How many processes or VMs the last sample had to leave out, and why the first
 * of them: "" if none. Valid until the next sample.
 */
unsigned int kvmstats_unread(const struct kvmstats *k, const char **why);

/* The same by reason; kvmstats_unread() is the sum. */
enum kvmstats_reason {
	KVMSTATS_PERMISSION,	/* processes that may not be looked into */
	KVMSTATS_VMM_ONLY,	/* the kernel shows the statistics to the VMM alone */
	KVMSTATS_TOO_MANY,	/* no more files may be open, or no memory */
	KVMSTATS_FORMAT,	/* other than what a header promises */
	KVMSTATS_HIDDEN,	/* VMs that are read, but /proc hides whose they are */
	KVMSTATS_FAILED,	/* anything else */
	KVMSTATS_REASONS,
};

unsigned int kvmstats_unreadable(const struct kvmstats *k, enum kvmstats_reason reason,
				 const char **why);

/* "permission", "vmm-only"...; NULL: there is no such reason. */
const char *kvmstats_reason_name(enum kvmstats_reason reason);

struct kvmstats_vm *kvmstats_first(const struct kvmstats *k);

/*
 * NULL before the first VM or vCPU was seen. Valid until kvmstats_close(), or a sample at
 * which the source is chosen again.
 */
const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope);

/* Sum up what several VMs or vCPUs did; begin with all zeros. */
void kvmstats_add_activity(struct kvmstats_activity *sum,
			   const struct kvmstats_activity *a);

/* Per second, in thousandths; growth over elapsed nanoseconds, 0 if elapsed is. */
uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed);

/* part of elapsed in tenths of a per cent */
unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed);

/* A source on this host: does it work, if not why, and what would help. */
struct kvmstats_probe {
	const char *name;	/* "next", "bpf", "files" */
	const char *what;	/* one line */
	bool works;
	char why[256];		/* why not; or what it can see, "" if all */
	char help[256];		/* what to do about it; "" if nothing */
};

/* Try source number i, 0 is the first; -ENOENT: there are no more. */
int kvmstats_probe(unsigned int i, const struct kvmstats_options *options,
		   struct kvmstats_probe *probe);

/*
 * The tables of this kernel, without any VM: from one with a vCPU that is made
 * for it and closed again. Free each with kvmstats_free_table(). -ENOSYS: the
 * kernel has no statistics files; else what open() and ioctl() of /dev/kvm gave.
 * why, of size bytes, gets the words.
 */
int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size);
void kvmstats_free_table(struct kvmstats_table *table);

/*
 * The same without the structures, for languages that cannot use a header of C.
 * Members of these are named as above; of what there is no member of, the answer is
 * NULL or 0. Pointers are valid as long as the VM's is.
 */
int kvmstats_open_source(struct kvmstats **k, const char *source, const char *proc, bool wait);
struct kvmstats_vm *kvmstats_next(const struct kvmstats_vm *vm);

/* label, name, domain, uuid, vmm, machine, pod, container, cgroup */
const char *kvmstats_vm_text(const struct kvmstats_vm *vm, const char *member);
/* pid, number, started, vcpus, fresh, ended, ended_at, mixed, time, elapsed */
uint64_t kvmstats_vm_number(const struct kvmstats_vm *vm, const char *member);
const struct kvmstats_vcpu *kvmstats_vm_vcpu(const struct kvmstats_vm *vm, unsigned int i);
/* id, tid, fresh */
uint64_t kvmstats_vcpu_number(const struct kvmstats_vcpu *vcpu, const char *member);

/* Since the sample before (last), or since it was first seen */
const struct kvmstats_times *kvmstats_vm_times(const struct kvmstats_vm *vm, bool last);
const struct kvmstats_times *kvmstats_vcpu_times(const struct kvmstats_vcpu *vcpu, bool last);
uint64_t kvmstats_times_mode(const struct kvmstats_times *times, enum kvmstats_mode mode);
uint64_t kvmstats_times_elapsed(const struct kvmstats_times *times);
bool kvmstats_times_known(const struct kvmstats_times *times, enum kvmstats_mode mode);

/* For kvmstats_value(): as they are, or totals. Of scope KVMSTATS_VCPU: of all vCPUs */
const void *kvmstats_vm_values(const struct kvmstats_vm *vm, enum kvmstats_scope scope,
			       bool total);
const void *kvmstats_vcpu_values(const struct kvmstats_vcpu *vcpu, bool total);

/* Statistic number i, NULL after the last */
const struct kvmstats_desc *kvmstats_desc(const struct kvmstats_table *table, unsigned int i);
const char *kvmstats_desc_name(const struct kvmstats_desc *desc);
/* type, unit, base, exponent, size, offset, bucket_size */
int64_t kvmstats_desc_number(const struct kvmstats_desc *desc, const char *member);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* KVMSTATS_H */
