/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The structures of the objects that are opaque in kvmstats.h, for the library and kvm-stats */
#ifndef KVMSTATS_STRUCTURES_H
#define KVMSTATS_STRUCTURES_H

#include "kvmstats.h"

struct kvmstats_desc {
	const char *name;	/* printable ASCII without blanks */
	unsigned int type;
	unsigned int unit;	/* unit * base^exponent is the unit of the value */
	unsigned int base;
	int exponent;
	unsigned int size;	/* number of u64 values, at least 1 */
	uint32_t offset;	/* bytes from the start of the values to the first one */
	uint32_t bucket_size;	/* linear histogram only */
};

/* All statistics of one scope, in the kernel's order */
struct kvmstats_table {
	unsigned int count;
	const struct kvmstats_desc *desc;
	size_t data_size;	/* bytes */
};

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
};

/*
 * Nanoseconds by mode. elapsed is exactly the sum of all modes. A mode that is not
 * known (the kernel does not count it, or the vCPU's thread was not found) is 0, and
 * its time is in KVMSTATS_UNKNOWN. In the last values of a destroyed VM, elapsed covers
 * the time in which its vCPUs were observed.
 */
struct kvmstats_times {
	uint64_t elapsed;
	/* 1 << KVMSTATS_RUN and so on: modes known for all vCPUs; and KVMSTATS_TURNS_KNOWN */
	uint64_t known;
	uint64_t mode[KVMSTATS_MODES];
	uint64_t turns;		/* number of times the vCPUs got a CPU */
};

#define KVMSTATS_TURNS_KNOWN	(1ULL << 63)

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
	/*
	 * CPU time of the process's threads that are not vCPUs, nanoseconds; of a
	 * process with several VMs, only the first one has it. 0 for a vCPU.
	 */
	uint64_t other_threads;
};

#define KVMSTATS_OTHER_THREADS_KNOWN	(1ULL << 63)

/* Add activity to a sum, which starts as all zeros. */
void add_activity(struct kvmstats_activity *sum, const struct kvmstats_activity *a);

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
	uint64_t key;			/* by the source: no other present VM has it */
	/*
	 * 1, 2, ... in order of creation among the process's VMs; 0 if the process
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

/* Whether a source works on this host, the reason if not, and the remedy */
struct kvmstats_probe {
	const char *name;	/* "next", "bpf", "files" */
	const char *what;	/* description, one line */
	bool works;
	char why[256];		/* why it fails, or which VMs it cannot see; "" if all is well */
	char help[256];		/* remedy, "" if there is none */
};

/* Try source i, starting with 0, with procfs mounted at proc, or NULL; -ENOENT after the last. */
int probe_source(unsigned int i, const char *proc, struct kvmstats_probe *probe);

#endif /* KVMSTATS_STRUCTURES_H */
