// SPDX-License-Identifier: GPL-2.0-only
/* Why the vCPUs of a VM slept outside of halts */
#include <err.h>

#include "sampled.h"
#include "stalls_sum.h"

#define REASON_COLUMNS	4	/* the last ones */

static const struct out_column stalls_columns[] = {
	{ NULL, "time", false },
	{ "VM", "vm", false },
	{ "STALLED-s", "stall_s", true },
	{ "REASON", "reason", false },
	{ "TIME-s", "s", true },
	{ "SHARE", "share", true },
	{ "MEANING", NULL, false },
	{ NULL, NULL, false }
};

static void write_stalls_rows(void *arg, struct out *out, const char *now, struct sum *sum)
{
	const struct stalls_vm *vm = container_of(sum, struct stalls_vm, sum);
	size_t i;

	for (i = 0; i < sum->count || !i; i++) {
		const struct stall_share *share = stall_share_at(sum, i);
		unsigned int j;

		out_text(out, now);
		out_text(out, sum->label);
		out_seconds(out, sum->cost);
		for (j = 0; j < REASON_COLUMNS && !sum->count; j++)
			out_none(out);
		if (!sum->count)
			break;
		out_text(out, stall_name(share->reason));
		out_seconds(out, share->item.cost);
		out_share(out, text_share(share->item.cost, vm->sum.elapsed));
		out_text(out, stall_meaning(share->reason));
	}
}

static void write_stalls_json(void *arg, struct json *j, struct sum *sum)
{
	const struct stalls_vm *vm = container_of(sum, struct stalls_vm, sum);
	size_t i;

	json_text(j, "vm", sum->label);
	json_fixed(j, "vcpus_s", vm->sum.elapsed, 9);
	json_fixed(j, "stall_s", sum->cost, 9);
	json_open(j, "reasons", '[');
	for (i = 0; i < sum->count; i++) {
		const struct stall_share *share = stall_share_at(sum, i);

		json_open(j, NULL, '{');
		json_text(j, "reason", stall_name(share->reason));
		json_fixed(j, "s", share->item.cost, 9);
		json_fixed(j, "share", text_share(share->item.cost, vm->sum.elapsed), 6);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Stalls that are in no row, except as unknown */
static void report_lost_stalls(void *arg)
{
	const uint64_t lost = stalls_lost(((struct stalls_sum *)arg)->stalls);

	if (lost)
		warnx("stalls: vCPUs missed at %llu switches: more than %d vCPUs",
		      (unsigned long long)lost, THREADS_VCPUS);
}

int command_stalls(const struct settings *settings)
{
	struct stalls_sum sum = { 0 };
	const struct sampled stalls = {
		.sums = &sum.sums,
		.type = &stalls_sums,
		.arg = &sum,
		.columns = stalls_columns,
		.kind = RECORDED_STALLS,
		.write_rows = write_stalls_rows,
		.write_json = write_stalls_json,
		.report_lost = report_lost_stalls,
	};

	return sampled_run(settings, &stalls);
}
