// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "exits_sum.h"
#include "rec_encode.h"

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
	} else if (sum->by == EXITS_BY_REASON_AND_ADDRESS) {
		key = row->key;
		key.serial = 0;
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

static int open_exits_program(struct sums *sums, struct threads *shared, const struct kvmstats_vm *first,
			      struct kvmstats_probe *p)
{
	struct exits_sum *sum = container_of(sums, struct exits_sum, sums);

	return exits_open(&sum->exits, sum->by == EXITS_BY_ADDRESS ||
			  sum->by == EXITS_BY_REASON_AND_ADDRESS, p);
}

static int read_exits_program(struct sums *sums)
{
	return exits_sample(container_of(sums, struct exits_sum, sums)->exits);
}

static void put_exit_total(const void *item, struct bytes *b)
{
	const struct exits_total *total = item;
	size_t i;

	bytes_number(b, total->key.reason);
	bytes_number(b, total->cell.isa);
	for (i = 0; i < EXITS_SUMS; i++)
		bytes_number(b, total->cell.sum[i]);
	bytes_number(b, total->cell.max);
}

static void take_exit_total(struct sums *sums, struct sum *vm, struct rec_bytes *t)
{
	struct exits_key key = { .reason = take_most(t, UINT32_MAX) };
	struct exits_cell cell = { .isa = take_most(t, UINT32_MAX) };
	struct exits_total *total;
	size_t i;

	for (i = 0; i < EXITS_SUMS; i++)
		cell.sum[i] = take_number(t);
	cell.max = take_number(t);
	total = add_cost(sums, vm, &key, cell.kernel + cell.user);
	total->cell.isa = cell.isa;
	exits_add(&total->cell, &cell);
}

static void add_exits(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	const struct exits_sum *sum = container_of(sums, struct exits_sum, sums);
	const struct blame_thread *threads;
	const struct exits_row *rows;
	struct exits_vm *vm;
	size_t i, count;

	if (sums->rec) {
		take_recorded_sums(sums, RECORDED_EXITS, first, args, n);
		add_elapsed(sums, first);
		return;
	}
	threads = exits_threads(sum->exits, &count);
	begin_sums(sums, first, args, n, threads, count);
	add_elapsed(sums, first);
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
	exits_close(container_of(sums, struct exits_sum, sums)->exits);
}

static void release_vm(struct sum *vm)
{
	free(container_of(vm, struct exits_vm, sum)->cmdline.text);
}

const struct sums_type exits_sums = {
	.all_size = sizeof(struct exits_sum), .size = sizeof(struct exits_vm),
	.item_size = sizeof(struct exits_total), .key_size = sizeof(struct exits_key),
	.release = release_vm, .open = open_exits_program, .read = read_exits_program,
	.add = add_exits, .close = close_exits_program,
	.put = put_exit_total, .take = take_exit_total,
};
