// SPDX-License-Identifier: GPL-2.0-only
/* Who had the CPU while the vCPUs of a VM waited for one */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "blame_sum.h"
#include "sampled.h"

/* Owners of a VM in the table; the others are added up. */
#define TABLE_OWNERS	10

struct blame_command {
	struct blame_sum sum;
	enum out_format format;
};

#define MILLISECOND	1000000	/* nanoseconds */
#define WAIT_COLUMNS	3	/* after WAITED */
#define OWNER_COLUMNS	5	/* the last ones */

static const struct out_column blame_columns[] = {
	{ NULL, "time", false },
	{ "VM", "vm", false },
	{ "WAITED-s", "wait_s", true },
	{ "WAITS", "waits", true },
	{ "MEAN-ms", "mean_s", true },
	{ "MAX-ms", "max_s", true },
	{ "OWNER", "kind", false },
	{ "NAME", "name", false },
	{ "PID", "pid", true },
	{ "TIME-s", "s", true },
	{ "SHARE", "share", true },
	{ NULL, NULL, false }
};

static void put_lengths(struct out *out, const struct blame_waits *waits)
{
	unsigned int i;

	if (!count_waits(waits)) {
		for (i = 0; i < WAIT_COLUMNS; i++)
			out_none(out);
		return;
	}
	out_u64(out, count_waits(waits));
	out_short(out, mean_wait(waits), MILLISECOND);
	out_short(out, waits->longest, MILLISECOND);
}

static void put_victim(struct out *out, enum out_format format, const char *now,
		       const struct blame_victim *victim)
{
	const struct blame_waits waits = all_waits(victim);

	out_text(out, now);
	if (*victim->sum.label)
		out_text(out, victim->sum.label);
	else if (format == OUT_TABLE)
		out_text(out, "(all VMs)");
	else
		out_none(out);
	out_seconds(out, victim->sum.cost);
	put_lengths(out, &waits);
}

static void put_owner_cells(struct out *out, const struct blame_victim *victim, const char *kind,
		      const char *name, uint32_t pid, uint64_t ns)
{
	out_text(out, kind);
	out_text(out, name);
	if (pid)
		out_u64(out, pid);
	else
		out_none(out);
	out_seconds(out, ns);
	out_share(out, text_share(ns, victim->sum.cost));
}

static void write_blame_rows(void *arg, struct out *out, const char *now, struct sum *sum)
{
	const struct blame_victim *victim = container_of(sum, struct blame_victim, sum);
	const enum out_format format = ((struct blame_command *)arg)->format;
	const size_t shown = format == OUT_TABLE && sum->count > TABLE_OWNERS ?
		TABLE_OWNERS : sum->count;
	uint64_t rest = sum->cost;
	char text[32];
	size_t i;

	if (!sum->count) {
		put_victim(out, format, now, victim);
		for (i = 0; i < OWNER_COLUMNS; i++)
			out_none(out);
	}
	for (i = 0; i < shown; i++) {
		const struct blame_share *share = blame_share_at(victim, i);

		put_victim(out, format, now, victim);
		put_owner_cells(out, victim, share->key.kind, share->key.name, share->pid,
			  share->item.cost);
		rest -= share->item.cost;
	}
	if (shown == sum->count)
		return;
	snprintf(text, sizeof(text), "%zu others", sum->count - shown);
	put_victim(out, format, now, victim);
	put_owner_cells(out, victim, "-", text, 0, rest);
}

static void write_blame_json(void *arg, struct json *j, struct sum *sum)
{
	const struct blame_victim *victim = container_of(sum, struct blame_victim, sum);
	const struct blame_waits waits = all_waits(victim);
	size_t i;

	/* null: all VMs */
	if (*sum->label)
		json_text(j, "vm", sum->label);
	else
		json_literal(j, "vm", "null");
	json_fixed(j, "wait_s", sum->cost, 9);
	json_fixed(j, "waits", count_waits(&waits), 0);
	json_fixed(j, "mean_s", mean_wait(&waits), 9);
	json_fixed(j, "max_s", waits.longest, 9);
	json_open(j, "histogram", '[');
	for (i = 0; i < BLAME_BUCKETS; i++)
		json_fixed(j, NULL, waits.bucket[i], 0);
	json_close(j, ']');
	json_open(j, "owners", '[');
	for (i = 0; i < sum->count; i++) {
		const struct blame_share *share = blame_share_at(victim, i);

		json_open(j, NULL, '{');
		json_text(j, "kind", share->key.kind);
		json_text(j, "name", share->key.name);
		json_fixed(j, "pid", share->pid, 0);
		json_fixed(j, "s", share->item.cost, 9);
		json_fixed(j, "share", text_share(share->item.cost, sum->cost), 6);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Unreported time that is worth a message: more than a VM's charges may be wrong by */
#define UNREPORTED_NS	10000000

/* Time that is in no row, or not named */
static void report_lost_charges(void *arg)
{
	const struct blame_counts counts = blame_counts(((struct blame_command *)arg)->sum.blame);

	if (counts.no_vcpu)
		warnx("blame: vCPUs missed at %llu switches: a user has too many of them",
		      (unsigned long long)counts.no_vcpu);
	if (counts.no_pair)
		warnx("blame: %llu charges without a name: more than %d pairs of a VM and an owner",
		      (unsigned long long)counts.no_pair, BLAME_CHARGES);
	if (counts.no_vm)
		warnx("blame: %llu waits without a length: a user has too many VMs",
		      (unsigned long long)counts.no_vm);
	if (counts.unreported > UNREPORTED_NS)
		warnx("blame: the kernel did not report all switches: %.3f s are unknown",
		      counts.unreported / 1e9);
}

static enum blame_by parse_blame_by(const char *text)
{
	if (!text || !strcmp(text, "unit"))
		return BLAME_BY_UNIT;
	if (!strcmp(text, "vm"))
		return BLAME_BY_VM;
	if (strcmp(text, "thread"))
		errx(STATUS_USAGE, "--by '%s': must be unit, vm or thread", text);
	return BLAME_BY_THREAD;
}

int command_blame(const struct settings *settings)
{
	struct blame_command command = {
		.format = settings->format,
		.sum.by = parse_blame_by(settings->by),
	};
	const struct sampled blame = {
		.sums = &command.sum.sums,
		.type = &blame_sums,
		.arg = &command,
		.columns = blame_columns,
		.kind = RECORDED_BLAME,
		.write_rows = write_blame_rows,
		.write_json = write_blame_json,
		.total = blame_sum_total,
		.report_lost = report_lost_charges,
	};

	if (settings->from && command.sum.by != BLAME_BY_UNIT)
		errx(STATUS_USAGE, "--by: a recording has owners by unit only");
	return sampled_run(settings, &blame);
}
