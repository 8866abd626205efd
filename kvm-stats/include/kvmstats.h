/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libkvmstats: the statistics of all VMs and vCPUs of a host.
 *
 *	struct kvmstats *k;
 *	struct kvmstats_vm *vm;
 *
 *	if (kvmstats_open(&k, NULL, NULL, 0))
 *		...				no source works: kvmstats_probe() has the reason
 *	for (;; sleep(1)) {
 *		kvmstats_sample(k);
 *		for (vm = kvmstats_first(k); vm; vm = kvmstats_next(vm))
 *			...	kvmstats_vm_label(vm), kvmstats_vm_last_times(vm)
 *	}
 *
 * The library prints nothing, never exits, starts no thread, and installs no signal
 * handler. Two threads must not use the same struct kvmstats at the same time; each
 * may have its own. Functions that return an int return 0 or a negative errno. The
 * library never contacts a VMM, and reads the files of /proc that a VMM can block in child
 * processes (without SIGCHLD), so a hung VMM cannot block it. It pins no VM: on kernels whose
 * statistics files pin their VM, the library closes them at the first sample after the process
 * has exited or closed the VM.
 *
 * All objects are opaque. While the library is libkvmstats.so.1, no function is removed or
 * changes its meaning, and no enumerator changes its value; enumerations may get more values.
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

struct kvmstats;
struct kvmstats_vm;
struct kvmstats_vcpu;
struct kvmstats_times;
struct kvmstats_activity;
struct kvmstats_table;
struct kvmstats_desc;
struct kvmstats_probe;

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

/* Return the descriptor with this name, NULL if the table has none. */
const struct kvmstats_desc *kvmstats_find(const struct kvmstats_table *table,
					  const char *name);

/* Return the description of a statistic, one line; "" if unknown. */
const char *kvmstats_description(enum kvmstats_scope scope, const char *name);

/*
 * Return value i of a statistic, with i less than kvmstats_desc_size(); values have the kernel's
 * layout.
 */
uint64_t kvmstats_value(const struct kvmstats_desc *desc, const void *values,
			unsigned int i);

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

/* What the threads that are not vCPUs do, by their names */
enum kvmstats_role {
	KVMSTATS_EMULATOR,	/* everything else */
	KVMSTATS_IO_THREADS,	/* I/O threads and their workers */
	KVMSTATS_VHOST,		/* vhost workers that are threads of the process: Linux 6.4 */
	KVMSTATS_ROLES,
};

/* Return "emulator", "io"..., or NULL if the role is invalid. */
const char *kvmstats_role_name(enum kvmstats_role role);

/*
 * For kvmstats_open(): don't fail if no source works. The source is then "none", there are no
 * VMs, and each sample tries again. kvm.ko may be loaded later.
 */
#define KVMSTATS_WAIT	(1U << 0)

/*
 * Open the source with this name; or with NULL the first source that works, in the order of
 * kvmstats_probe(). proc: where the host's procfs is mounted; NULL: /proc. Raises the soft
 * limit of open files (RLIMIT_NOFILE) to the hard limit if the source needs many.
 *
 * -ENODEV: no source works; -EINVAL: no source has this name, or a flag is not supported;
 * -ENOMEM.
 */
int kvmstats_open(struct kvmstats **k, const char *source, const char *proc, unsigned int flags);
void kvmstats_close(struct kvmstats *k);

/*
 * Return the source in use: "next", "bpf" or "files"; "none" with the option wait.
 *
 * Unless kvmstats_open() names a source, a sample chooses again when the source in use fails or
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

/*
 * The VMs in order of PID, then VM id. A VM and all that it returns are valid until the next
 * kvmstats_sample(); a VM that still exists then keeps its address.
 */
struct kvmstats_vm *kvmstats_first(const struct kvmstats *k);
struct kvmstats_vm *kvmstats_next(const struct kvmstats_vm *vm);

/*
 * Return the table of a scope, NULL before the first VM or vCPU was seen. Valid until
 * kvmstats_close() or until the source changes.
 */
const struct kvmstats_table *kvmstats_table(const struct kvmstats *k,
					    enum kvmstats_scope scope);

/* Return thousandths per second: growth / elapsed nanoseconds; 0 if elapsed is 0. */
uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed);

/* Return part / elapsed in tenths of a per cent. */
unsigned int kvmstats_permille(uint64_t part, uint64_t elapsed);

/*
 * Try source i, starting with 0. Return whether it works on this host, the reason if not, and
 * the remedy; NULL after the last one or without memory. proc: as for kvmstats_open()
 */
struct kvmstats_probe *kvmstats_probe(unsigned int i, const char *proc);
void kvmstats_probe_free(struct kvmstats_probe *probe);
const char *kvmstats_probe_name(const struct kvmstats_probe *probe);	/* "next", "bpf", "files" */
const char *kvmstats_probe_what(const struct kvmstats_probe *probe);	/* description, one line */
bool kvmstats_probe_works(const struct kvmstats_probe *probe);
/* Why it fails, or which VMs it cannot see; "" if all is well */
const char *kvmstats_probe_why(const struct kvmstats_probe *probe);
const char *kvmstats_probe_help(const struct kvmstats_probe *probe);	/* remedy, or "" */

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
 * The identity of a VM: strings from /proc, never NULL; "" stands for an unknown value.
 * They are valid UTF-8 (U+FFFD replaces invalid bytes), but the user who starts a VMM
 * chooses them: they may contain blanks, quotes, newlines, and terminal escapes.
 */

/*
 * A name that is unique on the host and does not change while the VM exists: the name of the
 * VM, NAME#2 for the second VM of a process, NAME@PID if an older process has a VM with that
 * name, or while the last values of a predecessor are shown. It ends with "?" while only the
 * name of the process is known, because /proc hides it or the process blocks its readers.
 */
const char *kvmstats_vm_label(const struct kvmstats_vm *vm);
const char *kvmstats_vm_name(const struct kvmstats_vm *vm);	/* its own or its process's */
const char *kvmstats_vm_domain(const struct kvmstats_vm *vm);	/* of libvirt */
const char *kvmstats_vm_uuid(const struct kvmstats_vm *vm);	/* lower case */
/* qemu, firecracker, cloud-hypervisor, crosvm, kvmtool, virtualbox, stratovirt, or the name of the process */
const char *kvmstats_vm_vmm(const struct kvmstats_vm *vm);
/* Name in systemd-machined, or number of Proxmox */
const char *kvmstats_vm_machine(const struct kvmstats_vm *vm);
const char *kvmstats_vm_pod_uid(const struct kvmstats_vm *vm);	/* of Kubernetes */
const char *kvmstats_vm_container_id(const struct kvmstats_vm *vm);
/* Path in the hierarchy of cgroup v2, or of the memory controller where v1 is used */
const char *kvmstats_vm_cgroup(const struct kvmstats_vm *vm);

pid_t kvmstats_vm_pid(const struct kvmstats_vm *vm);	/* process that created or holds the VM */
/* Assigned by the kernel, unique until reboot; 0 if unavailable */
uint64_t kvmstats_vm_id(const struct kvmstats_vm *vm);
/*
 * When the process started, or when the VM was first seen if its process existed before;
 * nanoseconds since 1970, 0 if unknown. Follows steps of the host's clock.
 */
uint64_t kvmstats_vm_started(const struct kvmstats_vm *vm);
/* 1, 2, ... among the VMs of its process, in the order of ids or file descriptors; 0 if it is the only one */
unsigned int kvmstats_vm_nth(const struct kvmstats_vm *vm);
/*
 * No rates: the VM was first seen at the last sample, and it is not known that it was created
 * since the sample before; or it has been destroyed and the values are from the sample before.
 */
bool kvmstats_vm_first_sample(const struct kvmstats_vm *vm);
/*
 * The VM has been destroyed; these are its last values. It is removed at the next sample, or
 * after the time set by kvmstats_set_keep(). The source bpf also reports a VM that was created
 * and destroyed between two samples once.
 */
bool kvmstats_vm_ended(const struct kvmstats_vm *vm);
uint64_t kvmstats_vm_ended_at(const struct kvmstats_vm *vm);	/* CLOCK_MONOTONIC, ns; or 0 */
uint64_t kvmstats_vm_time(const struct kvmstats_vm *vm);	/* when the values were read; the same clock */
/*
 * Nanoseconds since the previous sample. 0 at the first one, or if the clock has not advanced:
 * rates are unknown then.
 */
uint64_t kvmstats_vm_elapsed(const struct kvmstats_vm *vm);
/* The vCPUs belong to several VMs of the process, and the kernel does not report to which. */
bool kvmstats_vm_vcpus_ambiguous(const struct kvmstats_vm *vm);

unsigned int kvmstats_vm_vcpus(const struct kvmstats_vm *vm);
/* In order of id, i from 0; NULL after the last */
const struct kvmstats_vcpu *kvmstats_vm_vcpu(const struct kvmstats_vm *vm, unsigned int i);
uint32_t kvmstats_vcpu_id(const struct kvmstats_vcpu *vcpu);
pid_t kvmstats_vcpu_tid(const struct kvmstats_vcpu *vcpu);	/* thread; 0 if unknown or none */
bool kvmstats_vcpu_first_sample(const struct kvmstats_vcpu *vcpu);

/*
 * Since the VM or vCPU was first seen. Those of a VM are sums over all its present and former vCPUs,
 * and never decrease.
 */
const struct kvmstats_times *kvmstats_vm_times(const struct kvmstats_vm *vm);
const struct kvmstats_times *kvmstats_vcpu_times(const struct kvmstats_vcpu *vcpu);
/* Since the previous sample */
const struct kvmstats_times *kvmstats_vm_last_times(const struct kvmstats_vm *vm);
const struct kvmstats_times *kvmstats_vcpu_last_times(const struct kvmstats_vcpu *vcpu);
/*
 * Nanoseconds by mode; elapsed is exactly the sum of all modes: for a VM, the number of its vCPUs
 * multiplied by the time. A mode that is not known for all vCPUs is 0, and its time is in
 * KVMSTATS_UNKNOWN. In the last values of a destroyed VM, elapsed covers the time in which its
 * vCPUs were observed.
 */
uint64_t kvmstats_times_mode(const struct kvmstats_times *times, enum kvmstats_mode mode);
uint64_t kvmstats_times_elapsed(const struct kvmstats_times *times);
bool kvmstats_times_known(const struct kvmstats_times *times, enum kvmstats_mode mode);
/*
 * Set the number of times the vCPUs got a CPU, each after a wait, which takes almost no time if
 * the CPU is idle: ready and throttled time divided by it is the mean wait. Return false if the
 * number is unknown.
 */
bool kvmstats_times_turns(const struct kvmstats_times *times, uint64_t *turns);

/* Events since the previous sample; of TLB flushes, those of the VM are added. */
const struct kvmstats_activity *kvmstats_vm_activity(const struct kvmstats_vm *vm);
const struct kvmstats_activity *kvmstats_vcpu_activity(const struct kvmstats_vcpu *vcpu);
/* 0 if the kernel does not count it */
uint64_t kvmstats_activity_event(const struct kvmstats_activity *a, enum kvmstats_event event);
bool kvmstats_activity_known(const struct kvmstats_activity *a, enum kvmstats_event event);

/*
 * Set the CPU time, since the previous sample, of the process's threads that are not
 * vCPUs; of a process with several VMs, only the first one has it. Return false if it is unknown.
 */
bool kvmstats_activity_other_threads(const struct kvmstats_activity *a, uint64_t *nanoseconds);
/*
 * CPU time of the VM's other threads with a role since the VM was first seen, nanoseconds;
 * updated every five seconds, and when the VM ends
 */
uint64_t kvmstats_vm_other_threads(const struct kvmstats_vm *vm, enum kvmstats_role role);

/*
 * For kvmstats_value(): values as the kernel has them; NULL if unavailable. Scope KVMSTATS_VCPU: over
 * all vCPUs, sums and of PEAK the maximum.
 */
const void *kvmstats_vm_values(const struct kvmstats_vm *vm, enum kvmstats_scope scope);
const void *kvmstats_vcpu_values(const struct kvmstats_vcpu *vcpu);
/*
 * The same, since the VM or vCPU was first seen. Cumulative statistics and histograms never decrease,
 * even if debugfs sets them to 0.
 */
const void *kvmstats_vm_totals(const struct kvmstats_vm *vm, enum kvmstats_scope scope);
const void *kvmstats_vcpu_totals(const struct kvmstats_vcpu *vcpu);

/* Return statistic i of a table, NULL after the last. */
const struct kvmstats_desc *kvmstats_desc(const struct kvmstats_table *table, unsigned int i);
const char *kvmstats_desc_name(const struct kvmstats_desc *desc);	/* printable ASCII */
/* unit * base^exponent is the unit of the value. */
unsigned int kvmstats_desc_type(const struct kvmstats_desc *desc);
unsigned int kvmstats_desc_unit(const struct kvmstats_desc *desc);
unsigned int kvmstats_desc_base(const struct kvmstats_desc *desc);
int kvmstats_desc_exponent(const struct kvmstats_desc *desc);
unsigned int kvmstats_desc_size(const struct kvmstats_desc *desc);	/* number of values */
uint32_t kvmstats_desc_bucket_size(const struct kvmstats_desc *desc);	/* linear histogram */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* KVMSTATS_H */
