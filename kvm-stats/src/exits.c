// SPDX-License-Identifier: GPL-2.0-only
/* How much time the exits of a VM's vCPUs take, by reason */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "exits_sum.h"
#include "sampled.h"

/* Addresses of a VM, the most expensive first; the others are added up. */
#define MAX_ADDRESSES	10
#define BAR_WIDTH	40
#define MICROSECOND	1000	/* nanoseconds */

enum exits_column {
	TIME, VM, VCPU, REASON, SPACE, ADDRESS, DEVICE, EXITS, KERNEL, USER, SHARE, READY, HALT,
	MEAN, MAX, FROM, BUCKET, BAR, COLUMNS
};

static const struct out_column all_columns[COLUMNS] = {
	[TIME] = { NULL, "time", false },
	[VM] = { "VM", "vm", false },
	[VCPU] = { "VCPU", "vcpu", true },
	[REASON] = { "REASON", "reason", false },
	[SPACE] = { "SPACE", "space", false },
	[ADDRESS] = { "ADDRESS", "address", true },
	[DEVICE] = { "DEVICE", "device", false },
	[EXITS] = { "EXITS", "exits", true },
	[KERNEL] = { "KERNEL-s", "kernel_s", true },
	[USER] = { "USER-s", "user_s", true },
	[SHARE] = { "SHARE", "share", true },
	[READY] = { "READY-s", "ready_s", true },
	[HALT] = { "HALT-s", "halt_s", true },
	[MEAN] = { "MEAN-us", "mean_s", true },
	[MAX] = { "MAX-us", "max_s", true },
	[FROM] = { "FROM-us", "from_s", true },
	[BUCKET] = { "EXITS", "exits", true },
	[BAR] = { "", NULL, false },
};

struct exits_command {
	struct exits_sum sum;
	struct out *out;
	enum out_format format;
	bool histogram;
	const char *now;
	struct out_column columns[COLUMNS + 1];
	bool has[COLUMNS];
};

static bool has_column(const struct exits_command *w, enum exits_column column)
{
	switch (column) {
	case TIME:
	case VM:
		return true;
	case VCPU:
		return w->sum.by == EXITS_BY_VCPU;
	case REASON:
		return w->sum.by != EXITS_BY_ADDRESS;
	case SPACE:
	case ADDRESS:
	case DEVICE:
		return w->sum.by == EXITS_BY_ADDRESS;
	case FROM:
	case BUCKET:
	case BAR:
		return w->histogram;
	default:
		return !w->histogram;
	}
}

static void choose_exits_columns(struct exits_command *w)
{
	unsigned int i, n = 0;

	for (i = 0; i < COLUMNS; i++) {
		w->has[i] = has_column(w, i);
		if (w->has[i])
			w->columns[n++] = all_columns[i];
	}
	w->columns[n] = (struct out_column){ NULL, NULL, false };
}

static const char *space_name(const struct exits_key *key)
{
	return key->space == EXITS_PORT ? "port" : key->space == EXITS_MMIO ? "mmio" : "";
}

/* What the exits of a row have in common; others: number of addresses added up, or 0 */
static void put_subject(struct exits_command *w, struct exits_vm *vm,
			const struct exits_total *total, size_t others)
{
	char name[EXIT_NAME_SIZE], device[DEVICE_SIZE], address[TEXT_SIZE];

	out_text(w->out, w->now);
	out_text(w->out, vm->sum.label);
	if (w->has[VCPU])
		out_u64(w->out, total->key.serial);
	if (w->has[REASON])
		out_text(w->out, exit_name(total->cell.isa, total->key.reason, name));
	if (!w->has[ADDRESS])
		return;
	if (others) {
		snprintf(address, sizeof(address), "%zu others", others);
		out_text(w->out, "");
		out_text(w->out, address);
		out_text(w->out, "");
		return;
	}
	snprintf(address, sizeof(address), "%#llx", (unsigned long long)total->key.address);
	out_text(w->out, space_name(&total->key));
	out_text(w->out, address);
	out_text(w->out, exits_device(vm, &total->key, device));
}

static uint64_t mean(const struct exits_cell *cell)
{
	return cell->count ? (cell->kernel + cell->user) / cell->count : 0;
}

static void put_total(struct exits_command *w, struct exits_vm *vm,
		      const struct exits_total *total, size_t others)
{
	const struct exits_cell *cell = &total->cell;

	put_subject(w, vm, total, others);
	out_u64(w->out, cell->count);
	out_seconds(w->out, cell->kernel);
	out_seconds(w->out, cell->user);
	out_share(w->out, text_share(cell->kernel + cell->user, vm->sum.elapsed));
	out_seconds(w->out, cell->ready);
	out_seconds(w->out, cell->halt);
	out_short(w->out, mean(cell), MICROSECOND);
	out_short(w->out, cell->max, MICROSECOND);
}

static void put_exits_histogram(struct exits_command *w, struct exits_vm *vm,
				const struct exits_total *total, size_t others)
{
	const uint64_t *bucket = total->bucket;
	unsigned int i, first = EXITS_BUCKETS, last = 0;
	uint64_t most = 0;
	char bar[BAR_WIDTH + 1];

	for (i = 0; i < EXITS_BUCKETS; i++) {
		if (bucket[i] > most)
			most = bucket[i];
		if (bucket[i] && first == EXITS_BUCKETS)
			first = i;
		if (bucket[i])
			last = i;
	}
	for (i = first; i <= last; i++) {
		const int width = most ? BAR_WIDTH * bucket[i] / most : 0;

		put_subject(w, vm, total, others);
		out_short(w->out, i ? 1ULL << (i + EXITS_SHIFT) : 0, MICROSECOND);
		out_u64(w->out, bucket[i]);
		memset(bar, '#', width);
		bar[width] = '\0';
		out_text(w->out, bar);
	}
}

/* Number of a VM's totals with a row */
static size_t count_rows(const struct exits_command *w, struct exits_vm *vm)
{
	return w->sum.by == EXITS_BY_ADDRESS && vm->sum.count > MAX_ADDRESSES ?
	       MAX_ADDRESSES : vm->sum.count;
}

/* Add up the totals without a row. */
static void add_rest(struct exits_vm *vm, size_t shown, struct exits_total *rest)
{
	size_t i, j;

	memset(rest, 0, sizeof(*rest));
	for (i = shown; i < vm->sum.count; i++) {
		exits_add(&rest->cell, &exits_total_at(vm, i)->cell);
		for (j = 0; j < EXITS_BUCKETS; j++)
			rest->bucket[j] += exits_total_at(vm, i)->bucket[j];
	}
}

static void put_exits_row(struct exits_command *w, struct exits_vm *vm,
			  const struct exits_total *total, size_t others)
{
	if (w->histogram)
		put_exits_histogram(w, vm, total, others);
	else
		put_total(w, vm, total, others);
}

static void write_exits_rows(void *arg, struct out *out, const char *now, struct sum *sum)
{
	struct exits_command *w = arg;
	struct exits_vm *vm = container_of(sum, struct exits_vm, sum);
	const size_t shown = count_rows(w, vm);
	struct exits_total rest;
	size_t i;

	w->out = out;
	w->now = now;
	for (i = 0; i < shown; i++)
		put_exits_row(w, vm, exits_total_at(vm, i), 0);
	if (shown == sum->count)
		return;
	add_rest(vm, shown, &rest);
	put_exits_row(w, vm, &rest, sum->count - shown);
}

static void json_subject(struct json *j, const struct exits_command *w, struct exits_vm *vm,
			 const struct exits_total *total)
{
	char name[EXIT_NAME_SIZE], device[DEVICE_SIZE];

	if (w->sum.by == EXITS_BY_ADDRESS) {
		json_text(j, "space", space_name(&total->key));
		json_fixed(j, "address", total->key.address, 0);
		json_text(j, "device", exits_device(vm, &total->key, device));
		return;
	}
	json_text(j, "reason", exit_name(total->cell.isa, total->key.reason, name));
	if (w->sum.by == EXITS_BY_VCPU)
		json_fixed(j, "vcpu", total->key.serial, 0);
}

static void json_total(struct json *j, const struct exits_command *w, struct exits_vm *vm,
		       const struct exits_total *total)
{
	const struct exits_cell *cell = &total->cell;
	unsigned int i;

	json_fixed(j, "exits", cell->count, 0);
	json_fixed(j, "kernel_s", cell->kernel, 9);
	json_fixed(j, "user_s", cell->user, 9);
	json_fixed(j, "share", text_share(cell->kernel + cell->user, vm->sum.elapsed), 6);
	json_fixed(j, "ready_s", cell->ready, 9);
	json_fixed(j, "halt_s", cell->halt, 9);
	json_fixed(j, "mean_s", mean(cell), 9);
	json_fixed(j, "max_s", cell->max, 9);
	if (!w->histogram)
		return;
	json_open(j, "histogram", '[');
	for (i = 0; i < EXITS_BUCKETS; i++)
		json_fixed(j, NULL, total->bucket[i], 0);
	json_close(j, ']');
}

static void write_exits_json(void *arg, struct json *j, struct sum *sum)
{
	const struct exits_command *w = arg;
	struct exits_vm *vm = container_of(sum, struct exits_vm, sum);
	const size_t shown = count_rows(w, vm);
	struct exits_total rest;
	size_t i;

	json_text(j, "vm", sum->label);
	json_fixed(j, "vcpus_s", vm->sum.elapsed, 9);
	json_open(j, "reasons", '[');
	for (i = 0; i < shown; i++) {
		json_open(j, NULL, '{');
		json_subject(j, w, vm, exits_total_at(vm, i));
		json_total(j, w, vm, exits_total_at(vm, i));
		json_close(j, '}');
	}
	json_close(j, ']');
	if (shown < sum->count) {
		add_rest(vm, shown, &rest);
		json_open(j, "others", '{');
		json_fixed(j, "addresses", sum->count - shown, 0);
		json_total(j, w, vm, &rest);
		json_close(j, '}');
	}
}

/* Exits that are in no row */
static void report_lost_exits(void *arg)
{
	const struct exits_counts counts = exits_counts(((struct exits_command *)arg)->sum.exits);

	if (counts.no_vcpu)
		warnx("exits: %llu exits not counted: a user has too many vCPUs",
		      (unsigned long long)counts.no_vcpu);
	if (counts.no_cell)
		warnx("exits: %llu exits not counted: vCPUs of a user have too many reasons and addresses",
		      (unsigned long long)counts.no_cell);
}

static enum exits_by parse_exits_by(const char *text)
{
	if (!text)
		return EXITS_BY_REASON;
	if (!strcmp(text, "vcpu"))
		return EXITS_BY_VCPU;
	if (strcmp(text, "address"))
		errx(STATUS_USAGE, "--by '%s': must be vcpu or address", text);
	return EXITS_BY_ADDRESS;
}

int command_exits(const struct settings *settings)
{
	struct exits_command w = {
		.format = settings->format,
		.sum.by = parse_exits_by(settings->by),
		.histogram = settings->histogram,
	};
	const struct sampled exits = {
		.sums = &w.sum.sums,
		.type = &exits_sums,
		.arg = &w,
		.columns = w.columns,
		.kind = RECORDED_EXITS,
		.write_rows = write_exits_rows,
		.write_json = write_exits_json,
		.report_lost = report_lost_exits,
	};

	if (settings->from && (w.sum.by != EXITS_BY_REASON || w.histogram))
		errx(STATUS_USAGE, "--%s: a recording has exits by reason only",
		     w.histogram ? "histogram" : "by");
	choose_exits_columns(&w);
	return sampled_run(settings, &exits);
}
