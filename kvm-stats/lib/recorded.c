// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a recording has of a sample: see recorded.h. */
#include <stdio.h>
#include <string.h>

#include "container_of.h"
#include "core.h"
#include "recorded.h"

uint64_t core_sampled(const struct kvmstats *k)
{
	return k->sampled;
}

bool core_has_sampled(const struct kvmstats_vm *vm)
{
	return container_of(vm, struct core_vm, pub)->seen;
}

struct recorded_others core_recorded_others(const struct kvmstats_vm *vm)
{
	const struct other_threads *others = &container_of(vm, struct core_vm, pub)->others;
	struct recorded_others recorded = {
		.is_known = vm->sum.known & KVMSTATS_OTHER_THREADS_KNOWN || others->clock,
		.has_waited = others->has_waited, .total = others->total, .waited = others->waited,
	};

	memcpy(recorded.role, others->role, sizeof(recorded.role));
	return recorded;
}

const struct thread_times *core_recorded_thread(const struct kvmstats_vcpu *vcpu)
{
	return &container_of(vcpu, struct core_vcpu, pub)->thread;
}

bool core_recorded_exit(const struct kvmstats_vcpu *vcpu)
{
	return container_of(vcpu, struct core_vcpu, pub)->thread_exited;
}

void core_vm_identity(struct core_vm *vm, const struct kvmstats_identity *identity,
		      unsigned int nth)
{
	identity_copy(&vm->pub.identity, identity);
	vm->pub.nth = nth;
	vm->has_identity = true;
	vm->read_due = UINT64_MAX;
	vm->labelled = true;
}

void core_vm_others(struct core_vm *vm, uint64_t total, const uint64_t role[KVMSTATS_ROLES])
{
	struct other_threads *others = &vm->others;

	others->clock = vm->pub.time;
	others->growth = growth_of(total, others->total);
	others->total = total;
	memcpy(others->role, role, sizeof(others->role));
}

void core_vm_other_waits(struct core_vm *vm, uint64_t waited)
{
	struct other_threads *others = &vm->others;

	/* The first sample that has waits does not have the time before. */
	others->wait_growth = others->has_waited ? growth_of(waited, others->waited) : 0;
	others->waited = waited;
	others->has_waited = true;
}

void core_restart(struct kvmstats *k)
{
	core_forget_all(k);
	k->sampled_before = 0;
	k->changes++;
}

void core_set_recorded_source(struct kvmstats *k, const char *source)
{
	snprintf(k->recorded_source, sizeof(k->recorded_source), "%s", source);
}

void core_set_failed_reads(struct kvmstats *k, enum kvmstats_reason reason, unsigned int count, const char *why)
{
	core_unread(k, reason, "%s", why);
	k->reason[reason].count += count - 1;
	k->unread += count - 1;
}

void core_set_unobserved(struct kvmstats *k, bool known, uint64_t vms)
{
	k->has_destroyed = known;
	k->unobserved = vms;
}

bool core_is_recorded(const struct kvmstats *k)
{
	return k->recorded;
}

size_t core_size(enum kvmstats_scope scope)
{
	return scope == KVMSTATS_VM ? sizeof(struct core_vm) : sizeof(struct core_vcpu);
}
