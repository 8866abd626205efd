// SPDX-License-Identifier: LGPL-2.1-or-later
/* Accessors of the objects that are opaque in kvmstats.h */
#include <stdlib.h>

#include "core.h"

#define GET(type, object, name, value) \
	type kvmstats_##object##_##name(const struct kvmstats_##object *object) \
	{ \
		return object->value; \
	}

#define GET_TEXT(text, size) GET(const char *, vm, text, identity.text)
IDENTITY_TEXTS(GET_TEXT)
GET(pid_t, vm, pid, identity.pid)
GET(uint64_t, vm, id, identity.vm_id)
GET(uint64_t, vm, started, identity.started)
GET(unsigned int, vm, nth, nth)
GET(bool, vm, first_sample, first_sample)
GET(bool, vm, ended, ended)
GET(uint64_t, vm, ended_at, ended_at)
GET(uint64_t, vm, time, time)
GET(uint64_t, vm, elapsed, elapsed)
GET(bool, vm, vcpus_ambiguous, vcpus_ambiguous)
GET(unsigned int, vm, vcpus, vcpus)
GET(uint32_t, vcpu, id, id)
GET(pid_t, vcpu, tid, tid)
GET(bool, vcpu, first_sample, first_sample)
GET(const char *, desc, name, name)
GET(unsigned int, desc, type, type)
GET(unsigned int, desc, unit, unit)
GET(unsigned int, desc, base, base)
GET(int, desc, exponent, exponent)
GET(unsigned int, desc, size, size)
GET(uint32_t, desc, bucket_size, bucket_size)
GET(const char *, probe, name, name)
GET(const char *, probe, what, what)
GET(bool, probe, works, works)
GET(const char *, probe, why, why)
GET(const char *, probe, help, help)
GET(uint64_t, times, elapsed, elapsed)

#define GET_OF_HOST(type, name, value) \
	type kvmstats_##name(const struct kvmstats *k) \
	{ \
		return k->value; \
	}

GET_OF_HOST(const char *, problem, problem)
GET_OF_HOST(struct kvmstats_vm *, first, first)
GET_OF_HOST(unsigned int, source_changes, changes)
GET_OF_HOST(const char *, source_why, source_why)

const char *kvmstats_vm_cgroup(const struct kvmstats_vm *vm)
{
	return identity_cgroup(&vm->identity);
}

struct kvmstats_vm *kvmstats_next(const struct kvmstats_vm *vm)
{
	return vm->next;
}

struct kvmstats_probe *kvmstats_probe(unsigned int i, const char *proc)
{
	struct kvmstats_probe *probe = malloc(sizeof(*probe));

	if (probe && probe_source(i, proc, probe)) {
		free(probe);
		probe = NULL;
	}
	return probe;
}

void kvmstats_probe_free(struct kvmstats_probe *probe)
{
	free(probe);
}

const struct kvmstats_times *kvmstats_vm_times(const struct kvmstats_vm *vm)
{
	return &vm->times;
}

const struct kvmstats_times *kvmstats_vm_last_times(const struct kvmstats_vm *vm)
{
	return &vm->sum.times;
}

const void *kvmstats_vm_values(const struct kvmstats_vm *vm, enum kvmstats_scope scope)
{
	return scope == KVMSTATS_VM ? vm->values : vm->vcpu_sum;
}

const void *kvmstats_vm_totals(const struct kvmstats_vm *vm, enum kvmstats_scope scope)
{
	return scope == KVMSTATS_VM ? vm->total : vm->vcpu_total;
}

const struct kvmstats_vcpu *kvmstats_vm_vcpu(const struct kvmstats_vm *vm, unsigned int i)
{
	return i < vm->vcpus ? vm->vcpu[i] : NULL;
}

const struct kvmstats_times *kvmstats_vcpu_times(const struct kvmstats_vcpu *vcpu)
{
	return &vcpu->times;
}

const struct kvmstats_times *kvmstats_vcpu_last_times(const struct kvmstats_vcpu *vcpu)
{
	return &vcpu->last.times;
}

const void *kvmstats_vcpu_values(const struct kvmstats_vcpu *vcpu)
{
	return vcpu->values;
}

const void *kvmstats_vcpu_totals(const struct kvmstats_vcpu *vcpu)
{
	return vcpu->total;
}

uint64_t kvmstats_times_mode(const struct kvmstats_times *times, enum kvmstats_mode mode)
{
	return (unsigned int)mode < KVMSTATS_MODES ? times->mode[mode] : 0;
}

bool kvmstats_times_known(const struct kvmstats_times *times, enum kvmstats_mode mode)
{
	return (unsigned int)mode < KVMSTATS_MODES && times->known >> mode & 1;
}

bool kvmstats_times_turns(const struct kvmstats_times *times, uint64_t *turns)
{
	*turns = times->turns;
	return times->known & KVMSTATS_TURNS_KNOWN;
}

const struct kvmstats_activity *kvmstats_vm_activity(const struct kvmstats_vm *vm)
{
	return &vm->sum;
}

const struct kvmstats_activity *kvmstats_vcpu_activity(const struct kvmstats_vcpu *vcpu)
{
	return &vcpu->last;
}

uint64_t kvmstats_activity_event(const struct kvmstats_activity *a, enum kvmstats_event event)
{
	return (unsigned int)event < KVMSTATS_EVENTS ? a->event[event] : 0;
}

bool kvmstats_activity_known(const struct kvmstats_activity *a, enum kvmstats_event event)
{
	return (unsigned int)event < KVMSTATS_EVENTS && a->known >> event & 1;
}

bool kvmstats_activity_other_threads(const struct kvmstats_activity *a, uint64_t *nanoseconds)
{
	*nanoseconds = a->other_threads;
	return a->known & KVMSTATS_OTHER_THREADS_KNOWN;
}

const struct kvmstats_desc *kvmstats_desc(const struct kvmstats_table *table, unsigned int i)
{
	return table && i < table->count ? &table->desc[i] : NULL;
}
