/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libkvmstats: the statistics of all VMs and vCPUs of a host.
 *
 *	struct kvmstats *k;
 *	struct kvmstats_vm *vm;
 *
 *	if (kvmstats_open(&k, NULL))
 *		...				no source works: kvmstats_probe() has the reason
 *	for (;; sleep(1)) {
 *		kvmstats_sample(k);
 *		for (vm = kvmstats_first(k); vm; vm = vm->next)
 *			...	vm->identity.name, vm->sum.event[KVMSTATS_EXITS]
 *	}
 *
 * The library prints nothing, never exits, starts no thread, and installs no signal
 * handler. Two threads must not use the same struct kvmstats at the same time; each
 * may have its own. Functions that return an int return 0 or a negative errno. The
 * library never contacts a VMM, and reads the files of /proc that a VMM can block in child
 * processes (without SIGCHLD), so a hung VMM cannot block it. It pins no VM: on kernels whose statistics files pin their VM, the library closes them at the first
 * sample after the process has exited or closed the VM.
 *
 * ABI guarantee for libkvmstats.so.1: no member changes its offset or meaning, no
 * enumerator changes its value, no function is removed.
 *
 * - New members use up "reserved" members, or are added at the end of structures that
 *   only the library allocates (kvmstats_table, kvmstats_vm, kvmstats_vcpu). Access
 *   those by pointer; do not copy them or rely on their size.
 * - Structures that callers allocate or that are part of others (kvmstats_options,
 *   kvmstats_probe, kvmstats_activity, kvmstats_times, kvmstats_identity,
 *   kvmstats_desc) keep their size. Initialize those that you allocate with zeros.
 * - Enumerations may get more values. KVMSTATS_MODES, KVMSTATS_EVENTS,
 *   KVMSTATS_ROLES and KVMSTATS_REASONS are the numbers of those that this header declares; a newer
 *   library may fill in more, in the reserved members.
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

/* A statistic belongs to the VM or to each of its vCPUs. */
enum kvmstats_scope {
	KVMSTATS_VM,
	KVMSTATS_VCPU,
	KVMSTATS_SCOPES,
};

/*
 * Type, unit and base have the values of the kernel's ABI (KVM_GET_STATS_FD in
 * Documentation/virt/kvm/api.rst: flags of struct kvm_stats_desc, shifted to bit 0).
 * Later kernels can report values that are not listed here, up to 15.
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
	unsigned int unit;	/* unit * base^exponent is the unit of the value */
	unsigned int base;
	int exponent;
	unsigned int size;	/* number of u64 values, at least 1 */
	uint32_t offset;	/* bytes from the start of the values to the first one */
	uint32_t bucket_size;	/* linear histogram only */
	uint64_t reserved[3];
};

/* All statistics of one scope, in the kernel's order */
struct kvmstats_table {
	unsigned int count;
	const struct kvmstats_desc *desc;
	size_t data_size;	/* bytes */
};

/* Return the descriptor with this name, NULL if the table has none. */
const struct kvmstats_desc *kvmstats_find(const struct kvmstats_table *table,
					  const char *name);

/*
 * Return value i of a statistic, with i less than desc->size; values have the kernel's
 * layout.
 */
uint64_t kvmstats_value(const struct kvmstats_desc *desc, const void *values,
			unsigned int i);

/*
 * The identity of a VM: strings from /proc, never NULL; "" stands for an unknown value.
 * They are valid UTF-8 (U+FFFD replaces invalid bytes), but the user who starts a VMM
 * chooses them: they may contain blanks, quotes, newlines, and terminal escapes.
 */
struct kvmstats_identity {
	/*
	 * A name that is unique on the host and does not change while the VM exists:
	 * the name of the VM. Further VMs of the same process are NAME#2, NAME#3...
	 * If several processes have VMs with the same name, the VM of the oldest
	 * process is NAME, the others are NAME@PID. A VM that replaces another one
	 * between two samples is NAME@PID while the last values of its predecessor are
	 * shown, and NAME afterwards. While only the name of the process is known, because
	 * /proc hides the process or the process blocks its readers, NAME ends with "?".
	 */
	char label[128];
	char name[128];		/* name of the VM, or of its process */
	char domain[128];	/* libvirt's name of the VM, if libvirt runs it */
	char uuid[37];		/* lower case */
	char vmm[32];		/* qemu, firecracker, cloud-hypervisor, crosvm,
				 * kvmtool, or the name of the process */
	char machine[128];	/* name in systemd-machined, or number of Proxmox */
	char pod_uid[37];	/* UID of the Kubernetes pod */
	char container_id[65];
	char cgroup[256];	/* path in the hierarchy of cgroup v2, or of the
				 * memory controller where v1 is used */
	pid_t pid;		/* thread group that created or holds the VM */
	uint64_t vm_id;		/* assigned by the kernel, unique until reboot;
				 * 0 if unavailable */
	/*
	 * When the process started, or when the VM was first seen if its process
	 * existed before; nanoseconds since 1970, 0 if unknown. Follows steps of the
	 * host's clock.
	 */
	uint64_t started;
	char reserved[256];
};

/* How a vCPU spends its time; each nanosecond belongs to exactly one mode. */
enum kvmstats_mode {
	KVMSTATS_RUN,		/* on a CPU, in the guest or on its behalf, not polling */
	KVMSTATS_READY,		/* in the run queue: the guest's steal time */
	KVMSTATS_THROTTLED,	/* throttled by the CPU quota of its cgroup */
	KVMSTATS_HALT,		/* asleep in a halt of the guest */
	KVMSTATS_POLL,		/* on a CPU, halt polling */
	KVMSTATS_OTHER,		/* blocked in the VMM, stopped, not started yet */
	KVMSTATS_UNKNOWN,	/* in one of the others; the kernel does not report which */
	KVMSTATS_MODES,
};

/* Return "run", "ready"..., or NULL if the mode is invalid. */
const char *kvmstats_mode_name(enum kvmstats_mode mode);

/*
 * Nanoseconds by mode. elapsed is exactly the sum of all modes. A mode that is not
 * known (the kernel does not count it, or the vCPU's thread was not found) is 0, and
 * its time is in KVMSTATS_UNKNOWN. In the last values of a destroyed VM, elapsed covers
 * the time in which its vCPUs were observed.
 */
struct kvmstats_times {
	uint64_t elapsed;
	uint64_t known;		/* 1 << KVMSTATS_RUN and so on: modes known for all vCPUs */
	uint64_t mode[KVMSTATS_MODES];
	uint64_t reserved[10 - KVMSTATS_MODES];
};

/* Events that are counted on all architectures under one name */
enum kvmstats_event {
	KVMSTATS_EXITS,		/* exits from the guest */
	KVMSTATS_IO,		/* exits for port and memory-mapped I/O */
	KVMSTATS_INTERRUPTS,	/* injected */
	KVMSTATS_TLB_FLUSHES,	/* flushes of guest TLBs */
	KVMSTATS_EVENTS,
};

/* Return "exits", "io"..., or NULL if the event is invalid. */
const char *kvmstats_event_name(enum kvmstats_event event);

/*
 * Times and events between the last two samples. For a VM, sums over its vCPUs (of
 * TLB flushes, those of the VM are added). All 0 if first_sample is set. An event that
 * the kernel does not count is 0, and its bit in known is 0.
 */
struct kvmstats_activity {
	struct kvmstats_times times;
	/* 1 << KVMSTATS_EXITS and so on, and KVMSTATS_OTHER_THREADS_KNOWN */
	uint64_t known;
	uint64_t event[KVMSTATS_EVENTS];
	uint64_t reserved[14 - KVMSTATS_EVENTS];
	/*
	 * CPU time of the threads of the VM's process that are not vCPUs, nanoseconds; of a
	 * process with several VMs, only the first one has it. 0 for a vCPU.
	 */
	uint64_t other_threads;
};

#define KVMSTATS_OTHER_THREADS_KNOWN	(1ULL << 63)

/* What the threads that are not vCPUs do, by their names */
enum kvmstats_role {
	KVMSTATS_EMULATOR,	/* everything else */
	KVMSTATS_IO_THREADS,	/* I/O threads and their workers */
	KVMSTATS_VHOST,		/* vhost workers that are threads of the process: Linux 6.4 */
	KVMSTATS_ROLES,
};

/* Return "emulator", "io"..., or NULL if the role is invalid. */
const char *kvmstats_role_name(enum kvmstats_role role);

struct kvmstats_vcpu {
	uint32_t id;
	pid_t tid;		/* thread that runs it; 0 if unknown or none */
	bool first_sample;	/* first seen at the last sample: no rates */
	const void *values;	/* layout of table KVMSTATS_VCPU */
	const void *before;	/* previous sample; undefined if first_sample */
	struct kvmstats_activity last;	/* since the previous sample */
	/*
	 * Since the vCPU was first seen. Never decreases, even if the vCPU is
	 * unplugged and added again, or moves to another thread.
	 */
	struct kvmstats_times times;
	/*
	 * Same layout as values: cumulative statistics and histograms never decrease,
	 * even if debugfs sets them to 0; the others equal those in values.
	 */
	const void *total;
};

/*
 * A VM. Pointers are valid until the next kvmstats_sample(); a VM that still exists
 * then keeps its address.
 */
struct kvmstats_vm {
	struct kvmstats_vm *next;	/* in order of PID, then VM id */
	/*
	 * 1, 2, ... in order of creation among the VMs of one process; 0 if the process
	 * has had only one. VMs that appear at the same sample are ordered by VM id if
	 * the kernel provides it, otherwise by file descriptor, which is usually the
	 * same order.
	 */
	unsigned int nth;
	struct kvmstats_identity identity;
	/*
	 * No rates: the VM was first seen at the last sample, and it is not known that it
	 * was created since the sample before; or it has been destroyed and the values
	 * are from the sample before. A VM that was created since the sample before has
	 * rates from its creation; the source bpf also reports it once, with ended set,
	 * if it has been destroyed in the meantime.
	 */
	bool first_sample;
	/*
	 * The VM has been destroyed; these are its last values. It is removed at the
	 * next sample, or after the time set by kvmstats_set_keep().
	 */
	bool ended;
	uint64_t time;		/* when the values were read: CLOCK_MONOTONIC, ns */
	/*
	 * Nanoseconds since the previous sample. 0 if first_sample is set, or if the
	 * clock has not advanced between two samples: rates are unknown then.
	 */
	uint64_t elapsed;
	const void *values;	/* table KVMSTATS_VM; NULL if the source has none */
	const void *before;	/* previous sample; undefined if first_sample */
	/*
	 * The vCPUs belong to several VMs of the process, and the kernel does not
	 * report to which.
	 */
	bool vcpus_ambiguous;
	unsigned int vcpus;
	struct kvmstats_vcpu *const *vcpu;	/* in order of id */
	/*
	 * Over all vCPUs, in the layout of table KVMSTATS_VCPU: sums (of PEAK the
	 * maximum), and the growth of cumulative statistics and histograms.
	 */
	const void *vcpu_sum;
	const void *vcpu_growth;
	struct kvmstats_activity sum;	/* since the previous sample */
	/*
	 * Since the VM was first seen, of all its present and former vCPUs:
	 * times.elapsed is the number of vCPUs multiplied by the time. Never decreases.
	 */
	struct kvmstats_times times;
	/*
	 * Cumulative statistics and histograms of all present and former vCPUs, and of
	 * the VM. Never decrease, even if debugfs sets the statistics to 0. Other
	 * statistics equal those in vcpu_sum and values. NULL if unavailable.
	 */
	const void *vcpu_total;	/* table KVMSTATS_VCPU */
	const void *total;	/* table KVMSTATS_VM */
	uint64_t ended_at;	/* CLOCK_MONOTONIC, ns; 0 if the VM exists */
};

/* Initialize with zeros; that, or NULL instead of a pointer, selects all defaults. */
struct kvmstats_options {
	const char *source;	/* NULL: the best source that works */
	const char *proc;	/* where the host's procfs is mounted; NULL: /proc */
	/*
	 * Don't fail if no source works: the source is "none", there are no VMs, and
	 * each sample tries again. kvm.ko may be loaded later.
	 */
	bool wait;
	uint64_t reserved[8];
};

struct kvmstats;

/*
 * Open the first source that works, in the order of kvmstats_probe(). Raises the soft
 * limit of open files (RLIMIT_NOFILE) to the hard limit if the source needs many.
 *
 * -ENODEV: no source works; -EINVAL: no source has this name, or a reserved member of
 * options is not 0; -ENOMEM.
 */
int kvmstats_open(struct kvmstats **k, const struct kvmstats_options *options);
void kvmstats_close(struct kvmstats *k);

/*
 * Return the source in use: "next", "bpf" or "files"; "none" with the option wait.
 *
 * Unless options name a source, a sample chooses again when the source in use fails or
 * a better one works (kvm.ko was loaded or replaced). All VMs are then reported as new
 * and their totals restart at 0; kvmstats_source_changes() counts these changes.
 */
const char *kvmstats_source(const struct kvmstats *k);
unsigned int kvmstats_source_changes(const struct kvmstats *k);

/*
 * Return why the better sources are not used: "next: this kernel has no
 * KVM_STATS_NEXT", separated by "; ". "" if no source is better. Valid until the next
 * sample.
 */
const char *kvmstats_source_why(const struct kvmstats *k);

/*
 * Keep destroyed VMs, with their last values, for this long after the sample that
 * noticed the end. The default, 0, keeps them until the next sample. A VM is removed
 * earlier if a new VM has the same name.
 */
void kvmstats_set_keep(struct kvmstats *k, uint64_t nanoseconds);

/*
 * Find new VMs, remove destroyed ones, read all values. On error, the previous values
 * remain and kvmstats_problem() has the message. -EIO: a file contradicts its header;
 * -EPERM, -ENOMEM... A failure to read one VM is not an error of the sample: see
 * kvmstats_failed_reads().
 */
int kvmstats_sample(struct kvmstats *k);
const char *kvmstats_problem(const struct kvmstats *k);	/* "" after success */

/*
 * Close the files that pin a VM. Call this before a long time without samples, such as
 * before the program is stopped, so that VMs can be destroyed. The next sample reopens
 * the files; no value is lost.
 */
void kvmstats_release_files(struct kvmstats *k);

/*
 * Return the number of processes or VMs that the last sample could not read; why is
 * set to the message for the first of them, "" if none. Valid until the next sample.
 */
unsigned int kvmstats_failed_reads(const struct kvmstats *k, const char **why);

enum kvmstats_reason {
	KVMSTATS_PERMISSION,	/* process may not be inspected */
	KVMSTATS_VMM_ONLY,	/* kernel restricts the statistics to the VMM */
	KVMSTATS_TOO_MANY,	/* open file limit or limit of a sample reached, or out of memory */
	KVMSTATS_FORMAT,	/* file contradicts its header */
	KVMSTATS_HIDDEN,	/* values are read, but not the VM's identity */
	KVMSTATS_FAILED,	/* anything else */
	KVMSTATS_REASONS,
};

/* Like kvmstats_failed_reads(), which is the sum over all reasons */
unsigned int kvmstats_failed_reads_by_reason(const struct kvmstats *k,
					     enum kvmstats_reason reason, const char **why);

/* Return "permission", "vmm-only"..., or NULL if the reason is invalid. */
const char *kvmstats_reason_name(enum kvmstats_reason reason);

/*
 * Set the number of VMs of other processes that were destroyed since kvmstats_open() and of
 * which no sample had a value, by KVM's uevents. Temporary VMs of other programs count. Return
 * false if it is unknown: this process does not receive uevents, or has not received one yet.
 */
bool kvmstats_unobserved(const struct kvmstats *k, uint64_t *vms);

struct kvmstats_vm *kvmstats_first(const struct kvmstats *k);

/*
 * Return the table of a scope, NULL before the first VM or vCPU was seen. Valid until
 * kvmstats_close() or until the source changes.
 */
const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope);

/* Add activity to a sum, which starts as all zeros. */
void kvmstats_add_activity(struct kvmstats_activity *sum,
			   const struct kvmstats_activity *a);

/* Return thousandths per second: growth / elapsed nanoseconds; 0 if elapsed is 0. */
uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed);

/* Return part / elapsed in tenths of a per cent. */
unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed);

/* Whether a source works on this host, the reason if not, and the remedy */
struct kvmstats_probe {
	const char *name;	/* "next", "bpf", "files" */
	const char *what;	/* description, one line */
	bool works;
	char why[256];		/* why it fails, or which VMs it cannot see; "" if all is well */
	char help[256];		/* remedy, "" if there is none */
	uint64_t reserved[8];
};

/* Try source i, starting with 0; -ENOENT after the last. */
int kvmstats_probe(unsigned int i, const struct kvmstats_options *options,
		   struct kvmstats_probe *probe);

/*
 * Get the tables of this kernel from a temporary VM with one vCPU, which is destroyed
 * before the function returns. Free each table with kvmstats_free_table().
 *
 * -ENOSYS: the kernel has no statistics files; otherwise the errno of open() or ioctl()
 * of /dev/kvm. The message is stored in why, of size bytes.
 */
int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size);
void kvmstats_free_table(struct kvmstats_table *table);

/*
 * Access without structures, for languages that cannot use a C header. Member names
 * are those above; an unknown name returns NULL or 0. Pointers are valid as long as
 * the VM they come from.
 */
int kvmstats_open_source(struct kvmstats **k, const char *source, const char *proc, bool wait);
struct kvmstats_vm *kvmstats_next(const struct kvmstats_vm *vm);

/* label, name, domain, uuid, vmm, machine, pod_uid, container_id, cgroup */
const char *kvmstats_vm_text(const struct kvmstats_vm *vm, const char *member);
/*
 * pid, vm_id, started, nth, vcpus, first_sample, ended, ended_at, vcpus_ambiguous, time,
 * elapsed
 */
uint64_t kvmstats_vm_number(const struct kvmstats_vm *vm, const char *member);
const struct kvmstats_vcpu *kvmstats_vm_vcpu(const struct kvmstats_vm *vm, unsigned int i);
/* id, tid, first_sample */
uint64_t kvmstats_vcpu_number(const struct kvmstats_vcpu *vcpu, const char *member);

/* Since the previous sample (last), or since the VM or vCPU was first seen */
const struct kvmstats_times *kvmstats_vm_times(const struct kvmstats_vm *vm, bool last);
const struct kvmstats_times *kvmstats_vcpu_times(const struct kvmstats_vcpu *vcpu, bool last);
uint64_t kvmstats_times_mode(const struct kvmstats_times *times, enum kvmstats_mode mode);
uint64_t kvmstats_times_elapsed(const struct kvmstats_times *times);
bool kvmstats_times_known(const struct kvmstats_times *times, enum kvmstats_mode mode);

/* Since the previous sample */
const struct kvmstats_activity *kvmstats_vm_activity(const struct kvmstats_vm *vm);
const struct kvmstats_activity *kvmstats_vcpu_activity(const struct kvmstats_vcpu *vcpu);
uint64_t kvmstats_activity_event(const struct kvmstats_activity *a, enum kvmstats_event event);
bool kvmstats_activity_known(const struct kvmstats_activity *a, enum kvmstats_event event);

/* other_threads of the activity */
uint64_t kvmstats_activity_other_threads(const struct kvmstats_activity *a);
/*
 * CPU time of the VM's other threads with a role since the VM was first seen, nanoseconds;
 * updated every five seconds, and when the VM ends
 */
uint64_t kvmstats_vm_other_threads(const struct kvmstats_vm *vm, enum kvmstats_role role);

/* For kvmstats_value(): values or totals. Scope KVMSTATS_VCPU: over all vCPUs */
const void *kvmstats_vm_values(const struct kvmstats_vm *vm, enum kvmstats_scope scope,
			       bool total);
const void *kvmstats_vcpu_values(const struct kvmstats_vcpu *vcpu, bool total);

/* Return statistic i of a table, NULL after the last. */
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
