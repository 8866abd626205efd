/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The structures of the objects that are opaque in kvmstats.h, for the library and kvm-stats. That
 * header explains the members that its functions return; comments here are about the others.
 */
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
 * The texts of an identity that have a bounded length, with their sizes: code that needs all of them
 * expands one of these. A label is made of the others.
 */
#define IDENTITY_FACTS(TEXT)							\
	TEXT(name, 128) TEXT(domain, 128) TEXT(uuid, 37) TEXT(vmm, 32)		\
	TEXT(machine, 128) TEXT(pod_uid, 37) TEXT(container_id, 65)
#define IDENTITY_TEXTS(TEXT) TEXT(label, 128) IDENTITY_FACTS(TEXT)

struct kvmstats_identity {
#define IDENTITY_MEMBER(text, size) char text[size];
	IDENTITY_TEXTS(IDENTITY_MEMBER)
#undef IDENTITY_MEMBER
	pid_t pid;
	uint64_t vm_id;
	uint64_t started;
	struct shared_text *cgroup;	/* see identity_cgroup(); NULL: "" */
};

/* Return the path, which is valid while an identity has it. */
const char *identity_cgroup(const struct kvmstats_identity *identity);

/* Set the path, of len bytes. Return false, and change nothing, if out of memory. */
bool identity_set_cgroup(struct kvmstats_identity *identity, const char *path, size_t len);

/*
 * Replace an identity, which is all 0 at first. Each one that was copied to, or whose path was set,
 * needs an identity_clear(); a copy by "=" may be used while the other one exists.
 */
void identity_copy(struct kvmstats_identity *to, const struct kvmstats_identity *from);
void identity_clear(struct kvmstats_identity *identity);

/* Whether two identities are the same in all members */
bool identity_equals(const struct kvmstats_identity *a, const struct kvmstats_identity *b);

struct kvmstats_times {
	uint64_t elapsed;
	/* 1 << KVMSTATS_RUN and so on: modes known for all vCPUs; and KVMSTATS_TURNS_KNOWN */
	uint64_t known;
	uint64_t mode[KVMSTATS_MODES];
	uint64_t turns;
};

#define KVMSTATS_TURNS_KNOWN	(1ULL << 63)

/* All 0 if first_sample is set */
struct kvmstats_activity {
	struct kvmstats_times times;
	/* 1 << KVMSTATS_EXITS and so on, and KVMSTATS_OTHER_..._KNOWN */
	uint64_t known;
	uint64_t event[KVMSTATS_EVENTS];
	uint64_t other_threads;
	uint64_t other_waits;	/* for a CPU, of the same threads */
};

#define KVMSTATS_OTHER_THREADS_KNOWN	(1ULL << 63)
#define KVMSTATS_OTHER_WAITS_KNOWN	(1ULL << 62)

/* How long the threads of a VMM that are not vCPUs waited for a CPU since the VM was first seen */
uint64_t vm_other_waits(const struct kvmstats_vm *vm);

/* Add activity to a sum, which starts as all zeros. */
void add_activity(struct kvmstats_activity *sum, const struct kvmstats_activity *a);

struct kvmstats_vcpu {
	uint32_t id;
	pid_t tid;
	bool first_sample;
	const void *values;
	const void *before;		/* previous sample; undefined if first_sample */
	struct kvmstats_activity last;	/* since the previous sample */
	struct kvmstats_times times;	/* since the vCPU was first seen */
	const void *total;
};

struct kvmstats_vm {
	struct kvmstats_vm *next;
	uint64_t key;			/* by the source: no other present VM has it */
	/*
	 * VMs that appear at the same sample are ordered by VM id if the kernel provides it,
	 * otherwise by file descriptor, which is usually the same order.
	 */
	unsigned int nth;
	struct kvmstats_identity identity;
	bool first_sample;
	bool ended;
	uint64_t time;
	uint64_t elapsed;
	const void *values;		/* table KVMSTATS_VM; NULL if the source has none */
	const void *before;		/* previous sample; undefined if first_sample */
	bool vcpus_ambiguous;
	unsigned int vcpus;
	struct kvmstats_vcpu *const *vcpu;
	/*
	 * Over all vCPUs, in the layout of table KVMSTATS_VCPU: sums (of PEAK the
	 * maximum), and the growth of cumulative statistics and histograms.
	 */
	const void *vcpu_sum;
	const void *vcpu_growth;
	struct kvmstats_activity sum;	/* since the previous sample */
	struct kvmstats_times times;	/* since the VM was first seen */
	/* NULL if unavailable */
	const void *vcpu_total;		/* table KVMSTATS_VCPU */
	const void *total;		/* table KVMSTATS_VM */
	uint64_t ended_at;
};

struct kvmstats_probe {
	const char *name;
	const char *what;
	bool works;
	char why[256];
	char help[256];
};

/* Define kvmstats_KIND_name(), which returns NULL for an invalid enumerator. */
#define DEFINE_NAMES(kind, number, ...)						\
const char *kvmstats_##kind##_name(enum kvmstats_##kind kind)			\
{										\
	static const char *const names[number] = { __VA_ARGS__ };		\
										\
	return (unsigned int)kind < (number) ? names[kind] : NULL;		\
}

/* Try source i, starting with 0, with procfs mounted at proc, or NULL; -ENOENT after the last. */
int probe_source(unsigned int i, const char *proc, struct kvmstats_probe *probe);

#endif /* KVMSTATS_STRUCTURES_H */
