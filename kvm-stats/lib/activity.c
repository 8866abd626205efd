// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a VM did between two samples: sums, growth, and how it spent its time. */
#include <string.h>

#include "core.h"

#define EVENT(...)	+ 1
_Static_assert(0 EVENTS(EVENT) == KVMSTATS_EVENTS, "events.h has a row for each event");
#undef EVENT

#define EVENT(event, name, ...)	[KVMSTATS_##event] = name,
DEFINE_NAMES(event, KVMSTATS_EVENTS, EVENTS(EVENT))
#undef EVENT

static void vcpu_update(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu)
{
	const struct stat_group *group = k->group[KVMSTATS_VCPU];
	struct kvmstats_activity *last = &vcpu->pub.last;
	unsigned int i;

	memset(last, 0, sizeof(*last));
	times_update(k, vcpu, vm->pub.ended);
	if (vcpu->pub.first_sample)
		return;
	for (i = 0; i < KVMSTATS_EVENTS; i++) {
		if (!group[i].count)
			continue;
		last->known |= 1U << i;
		if (!unchanged(vcpu))
			last->event[i] = stat_group_growth(&group[i], vcpu->now, vcpu->before);
	}
}

void add_activity(struct kvmstats_activity *sum, const struct kvmstats_activity *a)
{
	unsigned int i;

	times_add(&sum->times, &a->times);
	sum->known |= a->known;
	for (i = 0; i < KVMSTATS_EVENTS; i++)
		sum->event[i] += a->event[i];
	sum->other_threads += a->other_threads;
	sum->other_waits += a->other_waits;
}

/* Statistics whose totals are kept */
static bool counts(const struct kvmstats_desc *desc)
{
	return desc->type != KVMSTATS_INSTANT && desc->type != KVMSTATS_PEAK;
}

/*
 * Add all values as if all were cumulative; set_uncounted() corrects the others. The sums
 * are updated incrementally, so that the memory of idle vCPUs is not touched. For a vCPU
 * that is new, growth counts from its creation, or from when it was last present.
 */
static void add_values(size_t words, struct core_vm *vm, struct core_vcpu *vcpu)
{
	uint64_t grew;
	size_t i;

	for (i = 0; vcpu->pub.first_sample && i < words; i++)
		vm->sum[i] += vcpu->now[i];
	vcpu->summed = true;
	if (unchanged(vcpu))
		return;
	for (i = 0; !vcpu->pub.first_sample && i < words; i++)
		vm->sum[i] += vcpu->now[i] - vcpu->before[i];
	for (i = 0; i < words; i++) {
		grew = growth_of(vcpu->now[i], vcpu->before[i]);
		/* Most values have not changed: leave the memory of the totals untouched. */
		if (!grew)
			continue;
		vcpu->total[i] += grew;
		vm->vcpu_total[i] += grew;
		vm->growth[i] += vcpu->pub.first_sample ? 0 : grew;
	}
}

void activity_drop(const struct kvmstats *k, struct core_vm *vm, struct core_vcpu *vcpu)
{
	const size_t words = k->table[KVMSTATS_VCPU]->data_size / sizeof(uint64_t);
	size_t i;

	for (i = 0; i < words; i++)
		vm->sum[i] -= vcpu->now[i];
	vcpu->summed = false;
}

static void find_peaks(const struct kvmstats_desc *desc, struct core_vm *vm)
{
	size_t word = desc->offset / sizeof(uint64_t);
	unsigned int i, n;

	for (n = word; n < word + desc->size; n++) {
		vm->sum[n] = 0;
		for (i = 0; i < vm->pub.vcpus; i++) {
			if (vm->sum[n] < vm->vcpu[i]->now[n])
				vm->sum[n] = vm->vcpu[i]->now[n];
		}
	}
}

/* A statistic that is not cumulative has no total: copy its value. */
static void set_uncounted(const struct kvmstats_table *table, struct core_vm *vm)
{
	unsigned int i, j;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		size_t word = desc->offset / sizeof(uint64_t);
		size_t size = desc->size * sizeof(uint64_t);

		if (counts(desc))
			continue;
		if (desc->type == KVMSTATS_PEAK)
			find_peaks(desc, vm);
		memcpy(vm->vcpu_total + word, vm->sum + word, size);
		for (j = 0; j < vm->pub.vcpus; j++) {
			if (!unchanged(vm->vcpu[j]))
				memcpy(vm->vcpu[j]->total + word, vm->vcpu[j]->now + word, size);
		}
	}
}

static void vcpus_update(struct kvmstats *k, struct core_vm *vm)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VCPU];
	const size_t words = table->data_size / sizeof(uint64_t);
	unsigned int i;

	memset(vm->growth, 0, table->data_size);
	for (i = 0; i < vm->pub.vcpus; i++) {
		struct core_vcpu *vcpu = vm->vcpu[i];

		vcpu_update(k, vm, vcpu);
		add_activity(&vm->pub.sum, &vcpu->pub.last);
		add_values(words, vm, vcpu);
	}
	set_uncounted(table, vm);
	times_add(&vm->pub.times, &vm->pub.sum.times);
	if (vm->pub.sum.times.elapsed)
		vm->pub.times.known = vm->pub.sum.times.known;
}

/* Statistics of the VM itself: totals start with the first values. */
static void vm_update(struct kvmstats *k, struct core_vm *vm)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VM];
	const struct stat_group *group = k->group[KVMSTATS_VM];
	struct kvmstats_activity *sum = &vm->pub.sum;
	unsigned int i, n;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		size_t word = desc->offset / sizeof(uint64_t);

		for (n = word; n < word + desc->size; n++) {
			if (counts(desc))
				vm->total[n] += growth_of(vm->now[n], vm->before[n]);
			else
				vm->total[n] = vm->now[n];
		}
	}
	if (!vm->had_values || vm->pub.first_sample)
		return;
	for (i = 0; i < KVMSTATS_EVENTS; i++) {
		sum->known |= (uint64_t)!!group[i].count << i;
		sum->event[i] += stat_group_growth(&group[i], vm->now, vm->before);
	}
}

void activity_update(struct kvmstats *k, struct core_vm *vm)
{
	memset(&vm->pub.sum, 0, sizeof(vm->pub.sum));
	if (vm->sum)
		vcpus_update(k, vm);
	if (vm->pub.values)
		vm_update(k, vm);
}
