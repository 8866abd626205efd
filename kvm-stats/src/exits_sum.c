// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "exits_sum.h"

int exits_sum_open(struct exits_sum *sum, enum exits_by by, bool continues,
		   struct kvmstats_probe *p)
{
	memset(sum, 0, sizeof(*sum));
	sum->by = by;
	sum->follow.size = sizeof(*sum->vms);
	sum->follow.continues = continues;
	return exits_open(&sum->exits, by == EXITS_BY_ADDRESS, p);
}

static void release_vm(void *vm)
{
	free(((struct exits_vm *)vm)->totals);
	free(((struct exits_vm *)vm)->cmdline.text);
}

void exits_sum_close(struct exits_sum *sum)
{
	size_t i;

	for (i = 0; i < sum->count; i++)
		release_vm(&sum->vms[i]);
	follow_free(&sum->follow);
	exits_close(sum->exits);
}

int exits_sum_read(struct exits_sum *sum)
{
	return exits_sample(sum->exits);
}

static struct exits_total *find_total(struct exits_vm *vm, const struct exits_key *key)
{
	struct exits_total *total;
	size_t i;

	for (i = 0; i < vm->count; i++)
		if (!memcmp(&vm->totals[i].key, key, sizeof(*key)))
			return &vm->totals[i];
	vm->totals = follow_grow(vm->totals, vm->count, &vm->room, sizeof(*total));
	total = &vm->totals[vm->count++];
	memset(total, 0, sizeof(*total));
	total->key = *key;
	return total;
}

static void add_row(const struct exits_sum *sum, struct exits_vm *vm, const struct exits_row *row)
{
	const struct exits_cell *growth = &row->growth;
	struct exits_key key = { .reason = row->key.reason };
	struct exits_total *total;
	size_t i;

	if (sum->by == EXITS_BY_ADDRESS) {
		if (!row->key.space)
			return;
		key = row->key;
		key.serial = key.reason = 0;
	} else if (sum->by == EXITS_BY_VCPU) {
		key.serial = row->cell.vcpu;
	}
	total = find_total(vm, &key);
	total->cell.isa = growth->isa;
	exits_add(&total->cell, growth);
	total->growth += exits_cost(growth);
	for (i = 0; i < EXITS_BUCKETS; i++)
		total->bucket[i] += growth->bucket[i];
}

static int compare_totals(const void *x, const void *y)
{
	const struct exits_total *a = x, *b = y;
	const uint64_t m = exits_cost(&a->cell), n = exits_cost(&b->cell);

	if (a->key.serial != b->key.serial)
		return a->key.serial < b->key.serial ? -1 : 1;
	if (m != n)
		return m < n ? 1 : -1;
	return memcmp(&a->key, &b->key, sizeof(a->key));
}

static uint64_t vm_cost(const struct exits_vm *vm)
{
	uint64_t cost = 0;
	size_t i;

	for (i = 0; i < vm->count; i++)
		cost += exits_cost(&vm->totals[i].cell);
	return cost;
}

static int compare_vms(const void *x, const void *y)
{
	const struct exits_vm *a = x, *b = y;
	const uint64_t m = vm_cost(a), n = vm_cost(b);

	return m < n ? 1 : m > n ? -1 : strcmp(a->vm.label, b->vm.label);
}

void exits_sum_add(struct exits_sum *sum, const struct kvmstats_vm *first, char **words, int n)
{
	const struct blame_thread *threads;
	const struct exits_row *rows;
	const struct kvmstats_vm *v;
	struct exits_vm *vm;
	size_t i, count;

	threads = exits_threads(sum->exits, &count);
	follow_sample(&sum->follow, first, words, n, threads, count);
	sum->vms = sum->follow.sums;
	sum->count = sum->follow.count;
	for (v = first; v; v = v->next) {
		vm = follow_find(&sum->follow, v);
		if (vm)
			vm->elapsed += v->sum.times.elapsed;
	}
	rows = exits_rows(sum->exits, &count);
	for (i = 0; i < count; i++) {
		const struct blame_vm id = { rows[i].cell.kvm, rows[i].cell.tgid, 0 };

		vm = rows[i].growth.count || exits_cost(&rows[i].growth) || rows[i].growth.halt ?
			follow_sum(&sum->follow, &id) : NULL;
		if (vm)
			add_row(sum, vm, &rows[i]);
	}
	for (i = 0; i < sum->count; i++)
		follow_sort(sum->vms[i].totals, sum->vms[i].count, sizeof(struct exits_total),
			    compare_totals);
	follow_sort(sum->vms, sum->count, sizeof(*sum->vms), compare_vms);
	follow_limit(&sum->follow, release_vm);
	sum->count = sum->follow.count;
}

void exits_sum_remove(struct exits_sum *sum, size_t i)
{
	release_vm(&sum->vms[i]);
	sum->vms[i] = sum->vms[--sum->count];
	sum->follow.count = sum->count;
}
