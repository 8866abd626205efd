// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a VM did between two samples: sums, growth, and how it spent its time. */
#include <fnmatch.h>
#include <string.h>

#include "core.h"

/*
 * Names of each role, in words, of which the first line that has any is taken;
 * those after '!' are left out.
 */
static const char *const role_names[ROLES][4] = {
	[ROLE_EXITS] = {
		"exits",
		"sum_exits",				/* powerpc */
		/* s390: exit_userspace and exit_instr_and_program count
		 * exits a second time */
		"exit_* !exit_userspace !exit_instr_and_program",
		/* mips: the same with these */
		"*_exits !signal_exits !flush_dcache_exits",
	},
	[ROLE_IO] = {
		"io_exits mmio_exits",
		"mmio_exit_user mmio_exit_kernel",	/* arm64 */
		"instruction_io_other diagnose_500",	/* s390 */
	},
	[ROLE_INTERRUPTS] = {
		"irq_injections nmi_injections",
		"queue_intr",				/* powerpc */
		"deliver_* !deliver_program",		/* s390 */
	},
	[ROLE_TLB_FLUSHES] = { "tlb_flush remote_tlb_flush" },
	[ROLE_HALT] = { "halt_wait_ns" },
	[ROLE_POLL] = { "halt_poll_success_ns halt_poll_fail_ns" },
	[ROLE_BLOCKING] = { "blocking" },
};

static bool has_role(const char *name, const char *words)
{
	char copy[128], *word, *next = copy;
	bool has = false;

	strcpy(copy, words);
	while ((word = strsep(&next, " "))) {
		if (*word == '!')
			has = has && fnmatch(word + 1, name, 0);
		else
			has = has || !fnmatch(word, name, 0);
	}
	return has;
}

void activity_roles(const struct kvmstats_table *table, struct role *role)
{
	unsigned int i, j, line;

	memset(role, 0, ROLES * sizeof(*role));
	for (i = 0; i < ROLES; i++) {
		for (line = 0; line < 4 && !role[i].count; line++) {
			if (!role_names[i][line])
				break;
			for (j = 0; j < table->count; j++) {
				const struct kvmstats_desc *desc = &table->desc[j];

				if (desc->size == 1 && role[i].count < ROLE_PARTS &&
				    has_role(desc->name, role_names[i][line]))
					role[i].word[role[i].count++] =
						desc->offset / sizeof(uint64_t);
			}
		}
	}
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

static void vcpu_update(struct kvmstats *k, struct core_vcpu *vcpu)
{
	const struct role *role = k->role[KVMSTATS_VCPU];
	struct kvmstats_activity *last = &vcpu->pub.last;

	memset(last, 0, sizeof(*last));
	times_update(k, vcpu);
	if (vcpu->pub.fresh)
		return;
	last->has_exits = role[ROLE_EXITS].count;
	last->exits = role_growth(&role[ROLE_EXITS], vcpu->now, vcpu->before);
	last->has_io = role[ROLE_IO].count;
	last->io = role_growth(&role[ROLE_IO], vcpu->now, vcpu->before);
	last->has_interrupts = role[ROLE_INTERRUPTS].count;
	last->interrupts = role_growth(&role[ROLE_INTERRUPTS], vcpu->now, vcpu->before);
	last->has_tlb_flushes = role[ROLE_TLB_FLUSHES].count;
	last->tlb_flushes = role_growth(&role[ROLE_TLB_FLUSHES], vcpu->now, vcpu->before);
}

void kvmstats_add_activity(struct kvmstats_activity *sum,
			   const struct kvmstats_activity *a)
{
	times_add(&sum->times, &a->times);
	sum->has_exits |= a->has_exits;
	sum->has_io |= a->has_io;
	sum->has_interrupts |= a->has_interrupts;
	sum->has_tlb_flushes |= a->has_tlb_flushes;
	sum->exits += a->exits;
	sum->io += a->io;
	sum->interrupts += a->interrupts;
	sum->tlb_flushes += a->tlb_flushes;
}

/* Statistics whose totals are kept */
static bool counts(const struct kvmstats_desc *desc)
{
	return desc->type != KVMSTATS_INSTANT && desc->type != KVMSTATS_PEAK;
}

/*
 * All words in one go, as if all of them counted; then what does not. Of a vCPU that was
 * not there before it is since its beginning, or since it was last there.
 */
static void add_values(size_t words, struct core_vm *vm, struct core_vcpu *vcpu)
{
	uint64_t grew;
	size_t i;

	for (i = 0; i < words; i++)
		vm->sum[i] += vcpu->now[i];
	if (vcpu->now == vcpu->before)
		return;
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
		for (j = 0; j < vm->pub.vcpus; j++)
			memcpy(vm->vcpu[j]->total + word, vm->vcpu[j]->now + word, size);
	}
}

static void vcpus_update(struct kvmstats *k, struct core_vm *vm)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VCPU];
	const size_t words = table->data_size / sizeof(uint64_t);
	unsigned int i;

	memset(vm->sum, 0, table->data_size);
	memset(vm->growth, 0, table->data_size);
	for (i = 0; i < vm->pub.vcpus; i++) {
		struct core_vcpu *vcpu = vm->vcpu[i];

		vcpu_update(k, vcpu);
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
	const struct role *flushes = &k->role[KVMSTATS_VM][ROLE_TLB_FLUSHES];
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
	if (vm->had_values && flushes->count && !vm->pub.fresh) {
		sum->has_tlb_flushes = true;
		sum->tlb_flushes += role_growth(flushes, vm->now, vm->before);
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
