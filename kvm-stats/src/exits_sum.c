// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "exits_sum.h"

static void add_exits_row(const struct exits_sum *sum, struct exits_vm *vm, const struct exits_row *row)
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
	total = add_cost(&sum->sums, &vm->sum, &key, growth->kernel + growth->user);
	total->item.group = key.serial;
	total->cell.isa = growth->isa;
	exits_add(&total->cell, growth);
	for (i = 0; i < EXITS_BUCKETS; i++)
		total->bucket[i] += growth->bucket[i];
}

static int read_exits_program(struct sums *sums)
{
	return exits_sample(((struct exits_sum *)sums)->exits);
}

static void add_exits(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	const struct exits_sum *sum = (struct exits_sum *)sums;
	const struct blame_thread *threads;
	const struct exits_row *rows;
	const struct kvmstats_vm *v;
	struct exits_vm *vm;
	size_t i, count;

	threads = exits_threads(sum->exits, &count);
	begin_sums(sums, first, args, n, threads, count);
	for (v = first; v; v = v->next) {
		vm = find_sum(sums, v);
		if (vm)
			vm->elapsed += v->sum.times.elapsed;
	}
	rows = exits_rows(sum->exits, &count);
	for (i = 0; i < count; i++) {
		const struct blame_vm id = { rows[i].cell.kvm, rows[i].cell.tgid, 0 };
		const struct exits_cell *growth = &rows[i].growth;

		vm = growth->count || growth->kernel || growth->user || growth->halt ?
			find_kernel_sum(sums, &id) : NULL;
		if (vm)
			add_exits_row(sum, vm, &rows[i]);
	}
	end_sums(sums);
}

static void close_exits_program(struct sums *sums)
{
	exits_close(((struct exits_sum *)sums)->exits);
}

static void release_vm(struct sum *vm)
{
	free(((struct exits_vm *)vm)->cmdline.text);
}

int exits_sum_open(struct exits_sum *sum, enum exits_by by, bool continues,
		   struct kvmstats_probe *p)
{
	static const struct sums_type type = {
		.size = sizeof(struct exits_vm), .item_size = sizeof(struct exits_total),
		.key_size = sizeof(struct exits_key), .release = release_vm,
		.read = read_exits_program, .add = add_exits, .close = close_exits_program,
	};

	memset(sum, 0, sizeof(*sum));
	sum->sums.type = &type;
	sum->sums.continues = continues;
	sum->by = by;
	return exits_open(&sum->exits, by == EXITS_BY_ADDRESS, p);
}
