// SPDX-License-Identifier: GPL-2.0-only
/* How VMs differ between two times of a recording */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"
#include "input.h"
#include "window.h"
#include "xalloc.h"

/* Smaller changes are left out: a per cent of a CPU, in thousandths; a tenth of the exits */
#define CHANGE_MIN	1000
#define EXITS_DIVISOR	10

static const struct out_column diff_columns[] = {
	{ "VM", "vm", false },
	{ "WHAT", "what", false },
	{ "BEFORE", "before", true },
	{ "AFTER", "after", true },
	{ "CHANGE", "change", true },
	{ NULL, NULL, false }
};

/* Quantities that are compared, besides owners */
enum quantity { RUN, READY, THROTTLED, OTHER, VMM, EXITS, QUANTITIES };

static const char *const names[QUANTITIES] = {
	[RUN] = "RUN%", [READY] = "READY%", [THROTTLED] = "THROT%", [OTHER] = "OTHER%",
	[VMM] = "VMM%", [EXITS] = "EXITS/S",
};

/* One of the two times */
struct side {
	struct window window;
	struct blame_sum blame;
};

/* A row of the output */
struct difference {
	const struct window_vm *vm;
	char what[OWNER_NAME_SIZE + 16];
	bool has[2];
	uint64_t value[2];	/* before and after: thousandths of a per cent, or of an exit per second */
	uint64_t size;		/* CPU time: of the change; exits: 1 if they have changed */
	uint64_t largest;	/* size of the largest change of the VM */
};

struct differences {
	struct difference *change;
	size_t count;
};

/* Read the samples from a time until another one. */
static void read_side(struct side *side, const struct settings *settings, struct input *in,
			uint64_t at, uint64_t until)
{
	char first[TIME_SIZE], last[TIME_SIZE];
	bool any = false;

	memset(side, 0, sizeof(*side));
	read_recorded_sums(&side->blame.sums, &blame_sums, in->rec);
	in->until = until;
	input_seek_time(in, at);
	if (input_time(in) >= at && input_time(in) < until) {
		do {
			add_sums(&side->blame.sums, kvmstats_first(in->k), settings->args, settings->nr_args);
			window_add(&side->window, in->k, settings->args, settings->nr_args);
			any |= side->window.vms;
		} while (input_next(in));
	}
	if (any)
		return;
	app_time_text(at, first);
	app_time_text(until, last);
	errx(STATUS_NOTHING, "%s: no VM %s a sample between %s and %s", settings->from,
	     settings->nr_args ? "of these has" : "has", first, last);
}

static bool get_quantity(const struct window_vm *vm, enum quantity quantity, uint64_t *value)
{
	static const enum kvmstats_mode modes[] = {
		[RUN] = KVMSTATS_RUN, [READY] = KVMSTATS_READY, [THROTTLED] = KVMSTATS_THROTTLED,
		[OTHER] = KVMSTATS_OTHER,
	};
	const struct kvmstats_activity *a = &vm->activity;

	switch (quantity) {
	case EXITS:
		*value = kvmstats_rate(a->event[KVMSTATS_EXITS], vm->elapsed);
		return a->known >> KVMSTATS_EXITS & 1;
	case VMM:
		*value = text_share(a->other_threads, vm->elapsed) / 10;
		return a->known & KVMSTATS_OTHER_THREADS_KNOWN;
	default:
		*value = text_share(a->times.mode[modes[quantity]], vm->elapsed) / 10;
		return a->times.known >> modes[quantity] & 1;
	}
}

static struct difference *add_change(struct differences *changes, const struct window_vm *vm)
{
	struct difference *change;

	changes->change = check_alloc(realloc(changes->change,
					      (changes->count + 1) * sizeof(*change)));
	change = &changes->change[changes->count++];
	memset(change, 0, sizeof(*change));
	change->vm = vm;
	return change;
}

static void compare_quantities(struct differences *changes, const struct window_vm *vm[2])
{
	unsigned int i, side;

	for (i = 0; i < QUANTITIES; i++) {
		struct difference *change = add_change(changes, vm[1] ? vm[1] : vm[0]);

		strcpy(change->what, names[i]);
		for (side = 0; side < 2; side++)
			change->has[side] = vm[side] &&
					    get_quantity(vm[side], i, &change->value[side]);
	}
}

/* A VM that waited for less than is recorded has no owners: their times are 0. */
static void compare_owners(struct differences *changes, const struct side sides[2],
			   const struct window_vm *vm[2])
{
	const size_t begin = changes->count;
	unsigned int side;
	size_t i, j;

	for (side = 0; side < 2; side++) {
		const struct blame_victim *victim = vm[side] ?
			find_labelled_sum(&sides[side].blame.sums, vm[side]->label) : NULL;

		for (i = 0; victim && i < victim->sum.count; i++) {
			const struct blame_share *share = blame_share_at(victim, i);
			char what[sizeof(((struct difference *)0)->what)];

			snprintf(what, sizeof(what), "%s %s", share->key.kind, share->key.name);
			for (j = begin; j < changes->count && strcmp(changes->change[j].what, what); j++)
				;
			if (j == changes->count) {
				strcpy(add_change(changes, vm[1] ? vm[1] : vm[0])->what, what);
				changes->change[j].has[0] = vm[0];
				changes->change[j].has[1] = vm[1];
			}
			changes->change[j].value[side] = text_share(share->item.cost, vm[side]->elapsed) / 10;
		}
	}
}

/* A VM is as important as its largest change of CPU time. */
static void weigh_changes(struct differences *changes, size_t begin)
{
	uint64_t largest = 0;
	size_t i;

	for (i = begin; i < changes->count; i++) {
		struct difference *c = &changes->change[i];

		c->size = c->value[0] > c->value[1] ? c->value[0] - c->value[1] : c->value[1] - c->value[0];
		if (!strcmp(c->what, names[EXITS]))
			c->size = c->size * EXITS_DIVISOR > c->value[0] + c->value[1];
		else if (largest < c->size)
			largest = c->size;
	}
	for (i = begin; i < changes->count; i++)
		changes->change[i].largest = largest;
}

static void compare_vm(struct differences *changes, const struct side sides[2], const char *label)
{
	const struct window_vm *vm[2] = {
		window_find(&sides[0].window, label), window_find(&sides[1].window, label)
	};
	const size_t begin = changes->count;

	compare_quantities(changes, vm);
	compare_owners(changes, sides, vm);
	weigh_changes(changes, begin);
}

static int compare_changes(const void *x, const void *y)
{
	const struct difference *a = x, *b = y;

	if (a->largest != b->largest)
		return a->largest < b->largest ? 1 : -1;
	if (a->vm != b->vm)
		return strcmp(a->vm->label, b->vm->label) ?: (a->vm > b->vm) - (a->vm < b->vm);
	if (a->size != b->size)
		return a->size < b->size ? 1 : -1;
	return strcmp(a->what, b->what);
}

static void put_value(struct out *out, bool known, uint64_t value, const char *sign)
{
	char text[TEXT_SIZE + 1];

	if (!known) {
		out_none(out);
		return;
	}
	strcpy(text, sign);
	text_decimal(value / 100, 1, text + strlen(sign));
	out_number(out, text);
}

static void write_changes(const struct differences *changes, enum out_format format)
{
	struct out *out = out_open(format, diff_columns);
	bool any = false;
	size_t i;

	for (i = 0; i < changes->count; i++) {
		const struct difference *c = &changes->change[i];
		const uint64_t least = strcmp(c->what, names[EXITS]) ? CHANGE_MIN : 1;

		if (c->size < least || !(c->has[0] || c->has[1]))
			continue;
		any = true;
		out_text(out, c->vm->label);
		out_text(out, c->what);
		put_value(out, c->has[0], c->value[0], "");
		put_value(out, c->has[1], c->value[1], "");
		put_value(out, c->has[0] && c->has[1], c->value[0] > c->value[1] ?
			  c->value[0] - c->value[1] : c->value[1] - c->value[0],
			  c->value[0] > c->value[1] ? "-" : format == OUT_TABLE ? "+" : "");
	}
	if (any || format != OUT_TABLE)
		out_close(out);
	if (!any)
		warnx("no VM has changed by 1 %% of a CPU or a tenth of its exits");
}

int command_diff(const struct settings *settings)
{
	struct settings whole = *settings;
	struct differences changes = { 0 };
	struct side sides[2];
	struct input in;
	size_t i;

	if (!settings->from || !settings->at || !settings->until || !settings->against[1])
		errx(STATUS_USAGE, "diff needs --from, --at, --until and --against");
	whole.at = whole.until = 0;
	input_open(&in, &whole, INPUT_FIRST, false, settings->nr_args);
	if (!recording_count(in.rec))
		errx(STATUS_USAGE, "diff cannot read standard input: it goes back in time");
	read_side(&sides[0], settings, &in, settings->against[0], settings->against[1]);
	read_side(&sides[1], settings, &in, settings->at, settings->until);
	for (i = 0; i < sides[1].window.vms; i++)
		compare_vm(&changes, sides, sides[1].window.vm[i].label);
	for (i = 0; i < sides[0].window.vms; i++) {
		if (!window_find(&sides[1].window, sides[0].window.vm[i].label))
			compare_vm(&changes, sides, sides[0].window.vm[i].label);
	}
	qsort(changes.change, changes.count, sizeof(*changes.change), compare_changes);
	write_changes(&changes, settings->format);
	app_flush();
	for (i = 0; i < 2; i++) {
		close_sums(&sides[i].blame.sums);
		window_free(&sides[i].window);
	}
	free(changes.change);
	input_close(&in);
	return STATUS_OK;
}
