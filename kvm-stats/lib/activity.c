// SPDX-License-Identifier: GPL-2.0-only
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

static uint64_t add_up(const struct role *role, const uint64_t *values)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < role->count; i++)
		sum += values[role->word[i]];
	return sum;
}

/* A counter that was set to 0 through debugfs has not grown. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static uint64_t growth(const struct role *role, const uint64_t *now,
		       const uint64_t *before)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < role->count; i++)
		sum += grown(now[role->word[i]], before[role->word[i]]);
	return sum;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * How a vCPU spent the time that has elapsed. The kernel adds a halt to its time
 * when it ends; while one lasts, "blocking" is 1, and the time in which the
 * thread neither ran nor wanted to belongs to it. That time is remembered, and
 * taken off when the halt ends and appears as a whole.
 */
static void spend(const struct role *role, struct core_vcpu *vcpu, uint64_t elapsed)
{
	struct kvmstats_activity *last = &vcpu->pub.last;
	bool blocking = add_up(&role[ROLE_BLOCKING], vcpu->now);
	uint64_t left = elapsed, ended, credit;

	last->has_run = vcpu->has_times && vcpu->had_times;
	last->has_halt = role[ROLE_HALT].count;
	if (role[ROLE_POLL].count)
		last->poll = at_most(elapsed, growth(&role[ROLE_POLL], vcpu->now,
						     vcpu->before));
	if (last->has_run) {
		last->run = at_most(left, grown(vcpu->run, vcpu->run_before));
		left -= last->run;
		last->ready = at_most(left, grown(vcpu->ready, vcpu->ready_before));
		left -= last->ready;
		/* polling is running, for the scheduler */
		last->poll = at_most(last->poll, last->run);
		last->run -= last->poll;
	} else {
		left -= last->poll;
	}
	if (!last->has_halt)
		return;

	ended = growth(&role[ROLE_HALT], vcpu->now, vcpu->before);
	credit = at_most(vcpu->credit, ended);
	if (ended || !blocking)
		vcpu->credit = 0;
	last->halt = at_most(left, ended - credit);
	left -= last->halt;
	/*
	 * Without the thread's times it is only known of a halt that began
	 * before that it took all of the time.
	 */
	if (blocking && (last->has_run ||
			 (!ended && !last->poll &&
			  add_up(&role[ROLE_BLOCKING], vcpu->before)))) {
		last->halt += left;
		vcpu->credit += left;
	}
}

static void vcpu_update(struct kvmstats *k, struct core_vm *vm,
			struct core_vcpu *vcpu)
{
	const struct role *role = k->role[KVMSTATS_VCPU];
	struct kvmstats_activity *last = &vcpu->pub.last;

	memset(last, 0, sizeof(*last));
	if (vcpu->pub.fresh)
		return;
	spend(role, vcpu, vm->pub.elapsed);
	last->has_exits = role[ROLE_EXITS].count;
	last->exits = growth(&role[ROLE_EXITS], vcpu->now, vcpu->before);
	last->has_io = role[ROLE_IO].count;
	last->io = growth(&role[ROLE_IO], vcpu->now, vcpu->before);
	last->has_interrupts = role[ROLE_INTERRUPTS].count;
	last->interrupts = growth(&role[ROLE_INTERRUPTS], vcpu->now, vcpu->before);
	last->has_tlb_flushes = role[ROLE_TLB_FLUSHES].count;
	last->tlb_flushes = growth(&role[ROLE_TLB_FLUSHES], vcpu->now, vcpu->before);
}

void kvmstats_add_activity(struct kvmstats_activity *sum,
			   const struct kvmstats_activity *a)
{
	sum->has_run |= a->has_run;
	sum->has_halt |= a->has_halt;
	sum->run += a->run;
	sum->ready += a->ready;
	sum->halt += a->halt;
	sum->poll += a->poll;
	sum->has_exits |= a->has_exits;
	sum->has_io |= a->has_io;
	sum->has_interrupts |= a->has_interrupts;
	sum->has_tlb_flushes |= a->has_tlb_flushes;
	sum->exits += a->exits;
	sum->io += a->io;
	sum->interrupts += a->interrupts;
	sum->tlb_flushes += a->tlb_flushes;
}

/* All words in one go; then what has no sum. */
static void add_values(const struct kvmstats_table *table, struct core_vm *vm,
		       const struct core_vcpu *vcpu)
{
	size_t i, words = table->data_size / sizeof(uint64_t);

	for (i = 0; i < words; i++) {
		vm->sum[i] += vcpu->now[i];
		if (!vcpu->pub.fresh)
			vm->growth[i] += grown(vcpu->now[i], vcpu->before[i]);
	}
}

static void find_peaks(const struct kvmstats_table *table, struct core_vm *vm)
{
	unsigned int i, j, n;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		size_t word = desc->offset / sizeof(uint64_t);

		if (desc->type != KVMSTATS_PEAK)
			continue;
		for (n = 0; n < desc->size; n++) {
			vm->sum[word + n] = 0;
			for (j = 0; j < vm->pub.vcpus; j++) {
				uint64_t value = vm->vcpu[j]->now[word + n];

				if (vm->sum[word + n] < value)
					vm->sum[word + n] = value;
			}
		}
	}
}

void activity_update(struct kvmstats *k, struct core_vm *vm)
{
	const struct kvmstats_table *table = k->table[KVMSTATS_VCPU];
	const struct role *flushes = &k->role[KVMSTATS_VM][ROLE_TLB_FLUSHES];
	struct kvmstats_activity *sum = &vm->pub.sum;
	unsigned int i;

	memset(sum, 0, sizeof(*sum));
	if (vm->sum) {
		memset(vm->sum, 0, table->data_size);
		memset(vm->growth, 0, table->data_size);
		for (i = 0; i < vm->pub.vcpus; i++) {
			vcpu_update(k, vm, vm->vcpu[i]);
			kvmstats_add_activity(sum, &vm->vcpu[i]->pub.last);
			add_values(table, vm, vm->vcpu[i]);
		}
		find_peaks(table, vm);
	}
	if (vm->pub.values && vm->had_values && flushes->count && !vm->pub.fresh) {
		sum->has_tlb_flushes = true;
		sum->tlb_flushes += growth(flushes, vm->now, vm->before);
	}
}
