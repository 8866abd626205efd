// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program built with the header of release 1.0, kvmstats-1.0.h. It compares every member
 * that it finds at its offset of 1.0 with the accessor functions of the library it runs
 * with, which use that library's own offsets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvmstats-1.0.h"

static unsigned int compared, differ;

static void same(const char *what, uint64_t member, uint64_t accessor)
{
	compared++;
	if (member == accessor)
		return;
	differ++;
	printf("%s: %llu at its offset, the library has %llu\n", what,
	       (unsigned long long)member, (unsigned long long)accessor);
}

static void same_text(const char *what, const char *member, const char *accessor)
{
	compared++;
	if (member && accessor && !strcmp(member, accessor))
		return;
	differ++;
	printf("%s: '%.40s' at its offset, the library has '%.40s'\n", what, member, accessor);
}

static void compare_enumerators(void)
{
	same_text("RUN", "run", kvmstats_mode_name(KVMSTATS_RUN));
	same_text("READY", "ready", kvmstats_mode_name(KVMSTATS_READY));
	same_text("THROTTLED", "throttled", kvmstats_mode_name(KVMSTATS_THROTTLED));
	same_text("HALT", "halt", kvmstats_mode_name(KVMSTATS_HALT));
	same_text("POLL", "poll", kvmstats_mode_name(KVMSTATS_POLL));
	same_text("OTHER", "other", kvmstats_mode_name(KVMSTATS_OTHER));
	same_text("UNKNOWN", "unknown", kvmstats_mode_name(KVMSTATS_UNKNOWN));
	same_text("EXITS", "exits", kvmstats_event_name(KVMSTATS_EXITS));
	same_text("IO", "io", kvmstats_event_name(KVMSTATS_IO));
	same_text("INTERRUPTS", "interrupts", kvmstats_event_name(KVMSTATS_INTERRUPTS));
	same_text("TLB_FLUSHES", "tlb_flushes", kvmstats_event_name(KVMSTATS_TLB_FLUSHES));
	same_text("PERMISSION", "permission", kvmstats_reason_name(KVMSTATS_PERMISSION));
	same_text("VMM_ONLY", "vmm-only", kvmstats_reason_name(KVMSTATS_VMM_ONLY));
	same_text("TOO_MANY", "too-many", kvmstats_reason_name(KVMSTATS_TOO_MANY));
	same_text("FORMAT", "format", kvmstats_reason_name(KVMSTATS_FORMAT));
	same_text("HIDDEN", "hidden", kvmstats_reason_name(KVMSTATS_HIDDEN));
	same_text("FAILED", "failed", kvmstats_reason_name(KVMSTATS_FAILED));
}

static void compare_times(const struct kvmstats_times *t, const struct kvmstats_times *a)
{
	unsigned int m;

	same("times", (uintptr_t)t, (uintptr_t)a);
	same("times.elapsed", t->elapsed, kvmstats_times_elapsed(a));
	for (m = 0; m < KVMSTATS_MODES; m++) {
		same("times.mode", t->mode[m], kvmstats_times_mode(a, m));
		same("times.known", t->known >> m & 1, kvmstats_times_known(a, m));
	}
}

static void compare_activity(const struct kvmstats_activity *m,
			     const struct kvmstats_activity *a)
{
	unsigned int e;

	same("activity", (uintptr_t)m, (uintptr_t)a);
	for (e = 0; e < KVMSTATS_EVENTS; e++) {
		same("activity.event", m->event[e], kvmstats_activity_event(a, e));
		same("activity.known", m->known >> e & 1, kvmstats_activity_known(a, e));
	}
}

#define TEXT(member)	same_text(#member, vm->identity.member, kvmstats_vm_text(vm, #member))
#define NUMBER(member)	same(#member, vm->member, kvmstats_vm_number(vm, #member))

static void compare_vm(const struct kvmstats_vm *vm)
{
	unsigned int i;

	TEXT(label);
	TEXT(name);
	TEXT(domain);
	TEXT(uuid);
	TEXT(vmm);
	TEXT(machine);
	TEXT(pod_uid);
	TEXT(container_id);
	TEXT(cgroup);
	same("pid", vm->identity.pid, kvmstats_vm_number(vm, "pid"));
	same("vm_id", vm->identity.vm_id, kvmstats_vm_number(vm, "vm_id"));
	same("started", vm->identity.started, kvmstats_vm_number(vm, "started"));
	NUMBER(nth);
	NUMBER(vcpus);
	NUMBER(first_sample);
	NUMBER(ended);
	NUMBER(ended_at);
	NUMBER(vcpus_ambiguous);
	NUMBER(time);
	NUMBER(elapsed);
	same("next", (uintptr_t)vm->next, (uintptr_t)kvmstats_next(vm));
	same("values", (uintptr_t)vm->values,
	     (uintptr_t)kvmstats_vm_values(vm, KVMSTATS_VM, false));
	same("total", (uintptr_t)vm->total,
	     (uintptr_t)kvmstats_vm_values(vm, KVMSTATS_VM, true));
	same("vcpu_sum", (uintptr_t)vm->vcpu_sum,
	     (uintptr_t)kvmstats_vm_values(vm, KVMSTATS_VCPU, false));
	same("vcpu_total", (uintptr_t)vm->vcpu_total,
	     (uintptr_t)kvmstats_vm_values(vm, KVMSTATS_VCPU, true));
	compare_times(&vm->times, kvmstats_vm_times(vm, false));
	compare_times(&vm->sum.times, kvmstats_vm_times(vm, true));
	compare_activity(&vm->sum, kvmstats_vm_activity(vm));
	for (i = 0; i < vm->vcpus; i++) {
		const struct kvmstats_vcpu *vcpu = vm->vcpu[i];

		same("vcpu", (uintptr_t)vcpu, (uintptr_t)kvmstats_vm_vcpu(vm, i));
		same("vcpu.id", vcpu->id, kvmstats_vcpu_number(vcpu, "id"));
		same("vcpu.tid", vcpu->tid, kvmstats_vcpu_number(vcpu, "tid"));
		same("vcpu.first_sample", vcpu->first_sample,
		     kvmstats_vcpu_number(vcpu, "first_sample"));
		same("vcpu.values", (uintptr_t)vcpu->values,
		     (uintptr_t)kvmstats_vcpu_values(vcpu, false));
		same("vcpu.total", (uintptr_t)vcpu->total,
		     (uintptr_t)kvmstats_vcpu_values(vcpu, true));
		compare_times(&vcpu->times, kvmstats_vcpu_times(vcpu, false));
		compare_times(&vcpu->last.times, kvmstats_vcpu_times(vcpu, true));
		compare_activity(&vcpu->last, kvmstats_vcpu_activity(vcpu));
	}
}

static void compare_table(const struct kvmstats_table *table)
{
	unsigned int i;

	for (i = 0; table && i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];

		same("desc", (uintptr_t)desc, (uintptr_t)kvmstats_desc(table, i));
		same_text("desc.name", desc->name, kvmstats_desc_name(desc));
		same("desc.type", desc->type, kvmstats_desc_number(desc, "type"));
		same("desc.unit", desc->unit, kvmstats_desc_number(desc, "unit"));
		same("desc.base", desc->base, kvmstats_desc_number(desc, "base"));
		same("desc.exponent", desc->exponent, kvmstats_desc_number(desc, "exponent"));
		same("desc.size", desc->size, kvmstats_desc_number(desc, "size"));
		same("desc.offset", desc->offset, kvmstats_desc_number(desc, "offset"));
		same("desc.bucket_size", desc->bucket_size,
		     kvmstats_desc_number(desc, "bucket_size"));
	}
	same("last desc", 0, (uintptr_t)kvmstats_desc(table, table ? table->count : 0));
}

/* The library writes no byte after structures of 1.0 that the caller allocates. */
static void check_ends(const struct kvmstats_vm *vm)
{
	struct {
		struct kvmstats_activity sum;
		unsigned char after[64];
	} activity = { 0 };
	struct {
		struct kvmstats_probe probe;
		unsigned char after[64];
	} probed = { 0 };
	static const unsigned char zeros[64];

	kvmstats_add_activity(&activity.sum, &vm->sum);
	same("sum of one", activity.sum.times.elapsed, vm->sum.times.elapsed);
	same("bytes after an activity", memcmp(activity.after, zeros, sizeof(zeros)), 0);
	kvmstats_probe(0, NULL, &probed.probe);
	same("probe.works", probed.probe.works, true);
	same("bytes after a probe", memcmp(probed.after, zeros, sizeof(zeros)), 0);
}

int main(void)
{
	struct kvmstats_options options = { 0 };
	const struct kvmstats_vm *vm;
	struct kvmstats *k;
	unsigned int sample;

	options.reserved[7] = 1;
	same("open with a reserved member set", kvmstats_open(&k, &options), -22);
	options.reserved[7] = 0;
	if (kvmstats_open(&k, &options))
		return 1;
	compare_enumerators();
	for (sample = 0; sample < 2; sample++) {
		if (kvmstats_sample(k) || !kvmstats_first(k))
			return 1;
		for (vm = kvmstats_first(k); vm; vm = vm->next)
			compare_vm(vm);
	}
	compare_table(kvmstats_table(k, KVMSTATS_VM));
	compare_table(kvmstats_table(k, KVMSTATS_VCPU));
	check_ends(kvmstats_first(k));
	kvmstats_close(k);
	printf("%u members compared, %u differ\n", compared, differ);
	return differ || compared < 1000;
}
