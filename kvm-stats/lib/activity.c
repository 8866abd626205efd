// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a VM did between two samples: sums, growth, and how it spent its time. */
#include <string.h>

#include "core.h"
#include "statistic.h"

/* Statistics of each role, as for statistic_words() */
static const char *const role_statistics[ROLES] = {
#define EVENT(member, statistics, ...)	[EVENT_##member] = statistics,
	EVENTS(EVENT)
#undef EVENT
	[ROLE_HALT] = "halt_wait_ns",
	[ROLE_POLL] = "halt_poll_success_ns halt_poll_fail_ns",
	[ROLE_BLOCKING] = "blocking",
};

void activity_roles(const struct kvmstats_table *table, struct role *role)
{
	unsigned int i;

	for (i = 0; i < ROLES; i++)
		role[i].count = statistic_words(table, role_statistics[i], role[i].word,
						ROLE_PARTS);
}

uint64_t role_sum(const struct role *role, const uint64_t *values)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < role->count; i++)
		sum += values[role->word[i]];
	return sum;
}

uint64_t role_growth(const struct role *role, const uint64_t *now, const uint64_t *before)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < role->count; i++)
		sum += grown(now[role->word[i]], before[role->word[i]]);
	return sum;
}

static void vcpu_update(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu)
{
	const struct role *role = k->role[KVMSTATS_VCPU];
	struct kvmstats_activity *last = &vcpu->pub.last;

	memset(last, 0, sizeof(*last));
	times_update(k, vcpu, vm->pub.ended);
	if (vcpu->pub.fresh)
		return;
#define EVENT(member, ...)							\
	last->has_##member = role[EVENT_##member].count;			\
	last->member = unchanged(vcpu) ? 0 :					\
		       role_growth(&role[EVENT_##member], vcpu->now, vcpu->before);
	EVENTS(EVENT)
#undef EVENT
}

void kvmstats_add_activity(struct kvmstats_activity *sum,
			   const struct kvmstats_activity *a)
{
	times_add(&sum->times, &a->times);
#define EVENT(member, ...)							\
	sum->has_##member |= a->has_##member;					\
	sum->member += a->member;
	EVENTS(EVENT)
#undef EVENT
}

/* Statistics whose totals are kept */
static bool counts(const struct kvmstats_desc *desc)
{
	return desc->type != KVMSTATS_INSTANT && desc->type != KVMSTATS_PEAK;
}

/*
 * All words in one go, as if all of them counted; then what does not. Sums are those of
 * the sample before but for what has changed: most memory of a vCPU that is idle is not
 * touched. Of one that was not there before it is since its beginning, or since it was
 * last there.
 */
static void add_values(size_t words, struct core_vm *vm, struct core_vcpu *vcpu)
{
	uint64_t grew;
	size_t i;

	for (i = 0; vcpu->pub.fresh && i < words; i++)
		vm->sum[i] += vcpu->now[i];
	if (unchanged(vcpu))
		return;
	for (i = 0; !vcpu->pub.fresh && i < words; i++)
		vm->sum[i] += vcpu->now[i] - vcpu->before[i];
	for (i = 0; i < words; i++) {
		grew = grown(vcpu->now[i], vcpu->before[i]);
		/* Most have not, and the memory of totals is not touched then. */
		if (!grew)
			continue;
		vcpu->total[i] += grew;
		vm->vcpu_total[i] += grew;
		vm->growth[i] += vcpu->pub.fresh ? 0 : grew;
	}
}

void activity_drop(const struct kvmstats *k, struct core_vm *vm, const struct core_vcpu *vcpu)
{
	const size_t words = k->table[KVMSTATS_VCPU]->data_size / sizeof(uint64_t);
	size_t i;

	for (i = 0; i < words; i++)
		vm->sum[i] -= vcpu->now[i];
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

/* What does not count has no total: it is what it is now. */
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
		kvmstats_add_activity(&vm->pub.sum, &vcpu->pub.last);
		add_values(words, vm, vcpu);
	}
	set_uncounted(table, vm);
	times_add(&vm->pub.times, &vm->pub.sum.times);
	if (vm->pub.sum.times.elapsed)
		vm->pub.times.known = vm->pub.sum.times.known;
}

/* The VM's own: what is there at first is the beginning of its totals. */
static void vm_update(struct kvmstats *k, struct core_vm *vm)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VM];
	const struct role *role = k->role[KVMSTATS_VM];
	struct kvmstats_activity *sum = &vm->pub.sum;
	unsigned int i, n;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		size_t word = desc->offset / sizeof(uint64_t);

		for (n = word; n < word + desc->size; n++) {
			if (counts(desc))
				vm->total[n] += grown(vm->now[n], vm->before[n]);
			else
				vm->total[n] = vm->now[n];
		}
	}
	if (!vm->had_values || vm->pub.fresh)
		return;
#define EVENT(member, ...)							\
	sum->has_##member |= role[EVENT_##member].count;			\
	sum->member += role_growth(&role[EVENT_##member], vm->now, vm->before);
	EVENTS(EVENT)
#undef EVENT
}

void activity_update(struct kvmstats *k, struct core_vm *vm)
{
	memset(&vm->pub.sum, 0, sizeof(vm->pub.sum));
	if (vm->sum)
		vcpus_update(k, vm);
	if (vm->pub.values)
		vm_update(k, vm);
}
