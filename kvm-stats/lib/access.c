// SPDX-License-Identifier: LGPL-2.1-or-later
/* Access to members for languages that cannot use the structures of a C header */
#include <string.h>

#include "kvmstats.h"

struct kvmstats_vm *kvmstats_next(const struct kvmstats_vm *vm)
{
	return vm->next;
}

const char *kvmstats_vm_text(const struct kvmstats_vm *vm, const char *member)
{
	const struct kvmstats_identity *identity = &vm->identity;
	const struct {
		const char *name, *text;
	} members[] = {
		{ "label", identity->label },
		{ "name", identity->name },
		{ "domain", identity->domain },
		{ "uuid", identity->uuid },
		{ "vmm", identity->vmm },
		{ "machine", identity->machine },
		{ "pod_uid", identity->pod_uid },
		{ "container_id", identity->container_id },
		{ "cgroup", identity->cgroup },
	};
	unsigned int i;

	for (i = 0; i < sizeof(members) / sizeof(*members); i++) {
		if (!strcmp(members[i].name, member))
			return members[i].text;
	}
	return NULL;
}

struct number {
	const char *name;
	uint64_t value;
};

static uint64_t find_number(const struct number *numbers, unsigned int n, const char *name)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (!strcmp(numbers[i].name, name))
			return numbers[i].value;
	}
	return 0;
}

uint64_t kvmstats_vm_number(const struct kvmstats_vm *vm, const char *member)
{
	const struct number numbers[] = {
		{ "pid", vm->identity.pid },
		{ "vm_id", vm->identity.vm_id },
		{ "started", vm->identity.started },
		{ "nth", vm->nth },
		{ "vcpus", vm->vcpus },
		{ "first_sample", vm->first_sample },
		{ "ended", vm->ended },
		{ "ended_at", vm->ended_at },
		{ "vcpus_ambiguous", vm->vcpus_ambiguous },
		{ "time", vm->time },
		{ "elapsed", vm->elapsed },
	};

	return find_number(numbers, sizeof(numbers) / sizeof(*numbers), member);
}

const struct kvmstats_times *kvmstats_vm_times(const struct kvmstats_vm *vm, bool last)
{
	return last ? &vm->sum.times : &vm->times;
}

const void *kvmstats_vm_values(const struct kvmstats_vm *vm, enum kvmstats_scope scope,
			       bool total)
{
	if (scope == KVMSTATS_VM)
		return total ? vm->total : vm->values;
	return total ? vm->vcpu_total : vm->vcpu_sum;
}

const struct kvmstats_vcpu *kvmstats_vm_vcpu(const struct kvmstats_vm *vm, unsigned int i)
{
	return i < vm->vcpus ? vm->vcpu[i] : NULL;
}

uint64_t kvmstats_vcpu_number(const struct kvmstats_vcpu *vcpu, const char *member)
{
	const struct number numbers[] = {
		{ "id", vcpu->id },
		{ "tid", vcpu->tid },
		{ "first_sample", vcpu->first_sample },
	};

	return find_number(numbers, sizeof(numbers) / sizeof(*numbers), member);
}

const struct kvmstats_times *kvmstats_vcpu_times(const struct kvmstats_vcpu *vcpu, bool last)
{
	return last ? &vcpu->last.times : &vcpu->times;
}

const void *kvmstats_vcpu_values(const struct kvmstats_vcpu *vcpu, bool total)
{
	return total ? vcpu->total : vcpu->values;
}

uint64_t kvmstats_times_mode(const struct kvmstats_times *times, enum kvmstats_mode mode)
{
	return (unsigned int)mode < KVMSTATS_MODES ? times->mode[mode] : 0;
}

uint64_t kvmstats_times_elapsed(const struct kvmstats_times *times)
{
	return times->elapsed;
}

bool kvmstats_times_known(const struct kvmstats_times *times, enum kvmstats_mode mode)
{
	return (unsigned int)mode < KVMSTATS_MODES && times->known >> mode & 1;
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

const struct kvmstats_desc *kvmstats_desc(const struct kvmstats_table *table, unsigned int i)
{
	return table && i < table->count ? &table->desc[i] : NULL;
}

const char *kvmstats_desc_name(const struct kvmstats_desc *desc)
{
	return desc->name;
}

int64_t kvmstats_desc_number(const struct kvmstats_desc *desc, const char *member)
{
	const struct number numbers[] = {
		{ "type", desc->type },
		{ "unit", desc->unit },
		{ "base", desc->base },
		{ "exponent", (int64_t)desc->exponent },
		{ "size", desc->size },
		{ "offset", desc->offset },
		{ "bucket_size", desc->bucket_size },
	};

	return find_number(numbers, sizeof(numbers) / sizeof(*numbers), member);
}

int kvmstats_open_source(struct kvmstats **k, const char *source, const char *proc, bool wait)
{
	const struct kvmstats_options options = { .source = source, .proc = proc, .wait = wait };

	return kvmstats_open(k, &options);
}
