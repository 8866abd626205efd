/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording has what a source reports and what the core reads itself from a live host, so that the
 * same is computed from it. First: what a recorder reads after a sample; then: how a source reports it
 * again.
 */
#ifndef KVMSTATS_RECORDED_H
#define KVMSTATS_RECORDED_H

#include "source.h"

/* When the last sample began: CLOCK_MONOTONIC */
uint64_t core_sampled(const struct kvmstats *k);

/* Whether the last sample has values of the VM: others are those that have ended, and are kept */
bool core_has_sampled(const struct kvmstats_vm *vm);

/* CPU time of the other threads of a VM's process since the VM was first seen; nanoseconds */
struct recorded_others {
	bool is_known, has_waited;
	uint64_t total, role[KVMSTATS_ROLES];
	uint64_t waited;	/* for a CPU, if has_waited */
};

/* The core has them for the first VM of a process only. */
struct recorded_others core_recorded_others(const struct kvmstats_vm *vm);

/* The times of the vCPU's thread, as the source or /proc has them */
const struct thread_times *core_recorded_thread(const struct kvmstats_vcpu *vcpu);

/* Whether the source has reported that the thread exited */
bool core_recorded_exit(const struct kvmstats_vcpu *vcpu);

/*
 * A recording is a source that also reports what the core reads itself from a live host. Open
 * it with source_open() instead of kvmstats_open(): the core reads no file of this host then.
 */
int source_open(struct kvmstats **k, const struct source_ops *source, void *state);

/*
 * In a child of the process that samples a live host: take the samples that follow from a
 * recording of that process. The VMs and their totals stay; the caller has core_proc().
 */
void source_replace(struct kvmstats *k, const struct source_ops *source, void *state);

/* The identity of a VM with its label, and its number in its process; copied */
void core_vm_identity(struct core_vm *vm, const struct kvmstats_identity *identity,
		      unsigned int nth);

/* CPU time of the other threads of the VM's process, and by role, since the VM was first seen */
void core_vm_others(struct core_vm *vm, uint64_t total, const uint64_t role[KVMSTATS_ROLES]);

/* How long these threads waited for a CPU; after core_vm_others() */
void core_vm_other_waits(struct core_vm *vm, uint64_t waited);

/* Another host, or the same one after a restart: forget all VMs and tables. */
void core_restart(struct kvmstats *k);

/* The source that the recorder read: kvmstats_source() */
void core_set_recorded_source(struct kvmstats *k, const char *source);

/* As kvmstats_failed_reads_by_reason() and kvmstats_unobserved() were when it was recorded */
void core_set_failed_reads(struct kvmstats *k, enum kvmstats_reason reason, unsigned int count, const char *why);
void core_set_unobserved(struct kvmstats *k, bool known, uint64_t vms);

/* Whether samples come from a recording */
bool core_is_recorded(const struct kvmstats *k);

/* Return how many bytes the core has for a VM or a vCPU, besides values. */
size_t core_size(enum kvmstats_scope scope);

#endif /* KVMSTATS_RECORDED_H */
