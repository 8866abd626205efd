// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <time.h>

#include "app.h"
#include "text.h"

static const struct out_column columns[] = {
	{ NULL, "time", false },
	{ NULL, "vm", false },
	{ NULL, "pid", false },
	{ NULL, "uuid", false },
	{ NULL, "vcpus", false },
	{ NULL, "seconds", false },
	{ NULL, "run_percent", false },
	{ NULL, "ready_percent", false },
	{ NULL, "halt_percent", false },
	{ NULL, "poll_percent", false },
	{ NULL, "exits_per_second", false },
	{ NULL, "io_per_second", false },
	{ NULL, "interrupts_per_second", false },
	{ NULL, "tlb_flushes_per_second", false },
	{ NULL, "ended", false },
	{ NULL, "source", false },
	{ NULL, NULL, false }
};

static void percent(struct out *out, bool has, uint64_t part, uint64_t elapsed)
{
	char text[TEXT_SIZE];

	if (!has || !elapsed) {
		out_none(out);
		return;
	}
	text_permille(kvmstats_permille(part, elapsed), text);
	out_number(out, text);
}

static void rate(struct out *out, bool has, uint64_t growth, uint64_t elapsed)
{
	char text[TEXT_SIZE];

	if (!has || !elapsed) {
		out_none(out);
		return;
	}
	text_thousandths(kvmstats_rate(growth, elapsed), text);
	out_number(out, text);
}

static void put_vm(struct out *out, const char *now, const struct kvmstats *k,
		   const struct kvmstats_vm *vm)
{
	const struct kvmstats_activity *sum = &vm->sum;
	char text[LABEL_SIZE];

	out_text(out, now);
	out_text(out, app_label(vm, text));
	out_u64(out, vm->pid);
	if (*vm->who.uuid)
		out_text(out, vm->who.uuid);
	else
		out_none(out);
	out_u64(out, vm->vcpus);
	if (vm->elapsed) {
		snprintf(text, sizeof(text), "%llu.%03llu",
			 (unsigned long long)vm->elapsed / 1000000000,
			 (unsigned long long)vm->elapsed / 1000000 % 1000);
		out_number(out, text);
	} else {
		out_none(out);
	}
	percent(out, sum->has_run, sum->run, vm->elapsed);
	percent(out, sum->has_run, sum->ready, vm->elapsed);
	percent(out, sum->has_halt, sum->halt, vm->elapsed);
	percent(out, sum->has_halt, sum->poll, vm->elapsed);
	rate(out, sum->has_exits, sum->exits, vm->elapsed);
	rate(out, sum->has_io, sum->io, vm->elapsed);
	rate(out, sum->has_interrupts, sum->interrupts, vm->elapsed);
	rate(out, sum->has_tlb_flushes, sum->tlb_flushes, vm->elapsed);
	out_number(out, vm->ended ? "1" : "0");
	out_text(out, kvmstats_source(k));
}

int command_log(const struct settings *settings)
{
	unsigned int shown = 0, unread = 0;
	const struct kvmstats_vm *vm;
	unsigned long round = 0;
	struct kvmstats *k;
	struct out *out;
	uint64_t next;
	char now[32];
	time_t t;

	k = app_open();
	app_check_selectors(k, settings->words, settings->nr_words);
	out = out_open(settings->format, columns);
	app_flush();
	next = app_now();
	do {
		app_wait(k, &next, settings->interval);
		app_sample(k);
		unread |= kvmstats_unread(k, NULL);
		t = time(NULL);
		strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
		for (vm = kvmstats_first(k); vm; vm = vm->next) {
			if (!app_selects(settings->words, settings->nr_words, vm))
				continue;
			shown++;
			put_vm(out, now, k, vm);
		}
		app_flush();
	} while (++round != settings->count);
	out_close(out);
	if (!shown || unread) {
		const int status = app_status(k, shown, settings->nr_words);

		kvmstats_close(k);
		return shown ? STATUS_PART : status;
	}
	kvmstats_close(k);
	return STATUS_OK;
}
