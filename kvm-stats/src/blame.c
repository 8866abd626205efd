// SPDX-License-Identifier: GPL-2.0-only
/* Who had the CPU while the vCPUs of a VM waited for one */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"
#include "json.h"
#include "sampled.h"

/* Owners of a VM in the table; the others are added up. */
#define TABLE_OWNERS	10

static const struct out_column columns[] = {
	{ NULL, "time", false },
	{ "VM", "vm", false },
	{ "WAITED", "wait_s", true },
	{ "OWNER", "kind", false },
	{ "NAME", "name", false },
	{ "PID", "pid", true },
	{ "TIME", "s", true },
	{ "SHARE", "share", true },
	{ NULL, NULL, false }
};

static void put_owner(struct out *out, enum out_format format, const char *now,
		      const struct blame_victim *victim, const char *kind, const char *name,
		      uint32_t pid, uint64_t ns)
{
	out_text(out, now);
	if (*victim->vm.label)
		out_text(out, victim->vm.label);
	else if (format == OUT_TABLE)
		out_text(out, "(all VMs)");
	else
		out_none(out);
	out_seconds(out, victim->ns);
	if (!kind) {
		out_none(out);
		out_none(out);
		out_none(out);
		out_none(out);
		out_none(out);
		return;
	}
	out_text(out, kind);
	out_text(out, name);
	if (pid)
		out_u64(out, pid);
	else
		out_none(out);
	out_seconds(out, ns);
	out_share(out, text_share(ns, victim->ns));
}

static void put_victim(struct out *out, enum out_format format, const char *now,
		       const struct blame_victim *victim)
{
	const size_t shown = format == OUT_TABLE && victim->count > TABLE_OWNERS ?
		TABLE_OWNERS : victim->count;
	char text[32];
	uint64_t rest = 0;
	size_t i;

	if (!victim->count)
		put_owner(out, format, now, victim, NULL, NULL, 0, 0);
	for (i = 0; i < shown; i++)
		put_owner(out, format, now, victim, victim->shares[i].kind,
			  victim->shares[i].name, victim->shares[i].pid,
			  victim->shares[i].ns);
	if (shown == victim->count)
		return;
	for (; i < victim->count; i++)
		rest += victim->shares[i].ns;
	snprintf(text, sizeof(text), "%zu others", victim->count - shown);
	put_owner(out, format, now, victim, "-", text, 0, rest);
}

static void write_json(const struct blame_victim *victim)
{
	struct buf b = { 0 };
	struct json j = { .buf = &b };
	size_t i;

	json_open(&j, NULL, '{');
	/* null: all VMs */
	if (*victim->vm.label)
		json_text(&j, "vm", victim->vm.label);
	else
		json_literal(&j, "vm", "null");
	json_fixed(&j, "wait_s", victim->ns, 9);
	json_open(&j, "owners", '[');
	for (i = 0; i < victim->count; i++) {
		const struct blame_share *share = &victim->shares[i];

		json_open(&j, NULL, '{');
		json_text(&j, "kind", share->kind);
		json_text(&j, "name", share->name);
		json_fixed(&j, "pid", share->pid, 0);
		json_fixed(&j, "s", share->ns, 9);
		json_fixed(&j, "share", text_share(share->ns, victim->ns), 6);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	json_print_line(&j);
	buf_free(&b);
}

struct command {
	struct blame_sum sum;
	enum blame_by by;
	enum out_format format;
};

static void write_sample(void *arg, bool first, uint64_t elapsed)
{
	const struct command *command = arg;
	const struct blame_sum *sum = &command->sum;
	const enum out_format format = command->format;
	struct blame_victim total = { 0 };
	struct out *out;
	char now[TIME_SIZE];
	size_t i;

	if (sum->count > 1)
		blame_sum_total(sum, &total);
	if (format == OUT_JSON_LINES) {
		for (i = 0; i < sum->count; i++)
			write_json(&sum->victims[i]);
		if (sum->count > 1)
			write_json(&total);
		free(total.shares);
		return;
	}
	if (format == OUT_TABLE)
		printf("%safter %.1f s\n", first ? "" : "\n", elapsed / 1e9);
	app_time_text(app_wall(app_now()), now);
	out = out_open(format == OUT_CSV && !first ? OUT_CSV_MORE : format, columns);
	for (i = 0; i < sum->count; i++)
		put_victim(out, format, now, &sum->victims[i]);
	if (sum->count > 1)
		put_victim(out, format, now, &total);
	free(total.shares);
	out_close(out);
}

static int open_command(void *arg, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	struct command *command = arg;

	const int error = blame_sum_open(&command->sum, true, first, p);

	command->sum.by = command->by;
	return error;
}

static int read_command(void *arg)
{
	struct command *command = arg;

	return blame_sum_read(&command->sum);
}

static void add_command(void *arg, const struct kvmstats_vm *first, char **words, int n)
{
	struct command *command = arg;

	blame_sum_add(&command->sum, first, words, n);
}

/* Unreported time that is worth a message: more than a VM's charges may be wrong by */
#define UNREPORTED_NS	10000000

/* Time that is in no row, or not named */
static void report_lost(const struct blame_sum *sum)
{
	const struct blame_counts counts = blame_counts(sum->blame);

	if (counts.no_vcpu)
		warnx("blame: vCPUs missed at %llu switches: more than %d vCPUs",
		      (unsigned long long)counts.no_vcpu, BLAME_VCPUS);
	if (counts.no_pair)
		warnx("blame: %llu charges without a name: more than %d pairs of a VM and an owner",
		      (unsigned long long)counts.no_pair, BLAME_CHARGES);
	if (counts.unreported > UNREPORTED_NS)
		warnx("blame: the kernel did not report all switches: %.3f s are unknown",
		      counts.unreported / 1e9);
}

static void close_command(void *arg)
{
	struct command *command = arg;

	report_lost(&command->sum);
	blame_sum_close(&command->sum);
}

static enum blame_by parse_by(const char *text)
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
	static const struct sampled blame = {
		open_command, read_command, add_command, write_sample, close_command,
	};
	struct command command = {
		.format = settings->format,
		.by = parse_by(settings->by),
	};

	return sampled_run(settings, &blame, &command.sum.follow, &command);
}
