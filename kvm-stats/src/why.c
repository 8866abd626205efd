// SPDX-License-Identifier: GPL-2.0-only
/* What cost each VM time, to whom it went, and what would change it */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "json.h"
#include "observation.h"
#include "stop.h"
#include "why.h"
#include "xalloc.h"

/* Samples of this host if the user has not chosen another number */
#define SAMPLES		5
/* Part of a recording that is read if the user has not chosen its end */
#define RECORDED_NS	(60 * SECOND)
/* VMs in trouble that are shown to people */
#define MAX_SHOWN	20
/* Names of VMs that are only paused */
#define MAX_PAUSED_NAMES	5

struct why_command {
	const struct settings *settings;
	struct input in;
	struct observation o;		/* its programs have facts that the statistics do not have */
	struct kvmstats_probe probe[PROGRAMS];
	struct why_cpus *cpus;
	struct why_host host;
	struct why_vm *vm;		/* of the window; those that lost the most first */
};

static const char *const missing[PROGRAMS] = {
	[PROGRAM_BLAME] = "who ran while VMs waited", [PROGRAM_EXITS] = "what exits cost",
	[PROGRAM_STALLS] = "why vCPUs slept outside of halts",
};

/* Attach what works, or take what the recording has. */
static void open_facts(struct why_command *c)
{
	if (c->in.rec)
		open_recorded_programs(&c->o.programs, c->in.rec);
	else
		open_programs(&c->o.programs, (1 << PROGRAMS) - 1, EXITS_BY_REASON_AND_ADDRESS,
			      kvmstats_first(c->in.k), c->probe);
}

static void add_sample(struct why_command *c)
{
	observation_add(&c->o, c->in.k, c->settings->args, c->settings->nr_args);
}

/* Take a sample, after the sums of the programs. */
static void take_sample(struct why_command *c)
{
	if (!read_programs(&c->o.programs))
		errx(STATUS_NOTHING, "why: cannot read the sums of the BPF programs");
	app_sample(c->in.k);
}

static void observe_host(struct why_command *c)
{
	const unsigned long count = c->settings->count ? c->settings->count : SAMPLES;
	unsigned long round = 0;
	unsigned int i;
	uint64_t next;

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "observing for %.1f s, or until Ctrl-C ...\n", count * c->settings->interval / 1e9);
	/* Loading the programs takes some time, which does not count. */
	take_sample(c);
	add_programs(&c->o.programs, kvmstats_first(c->in.k), c->settings->args, c->settings->nr_args);
	for (i = 0; i < PROGRAMS; i++) {
		if (c->o.programs.open[i])
			clear_sums(c->o.programs.open[i]);
	}
	c->cpus = begin_examination(input_proc(&c->in), kvmstats_first(c->in.k));
	next = app_now();
	do {
		app_wait(c->in.k, &next, c->settings->interval);
		take_sample(c);
		add_sample(c);
	} while (++round < count && !stop_requested());
	examine_host(c->cpus, kvmstats_first(c->in.k), &c->host);
}

static void observe_recording(struct why_command *c)
{
	unsigned int i;

	if (!c->settings->at && recording_count(c->in.rec)) {
		input_seek_samples(&c->in, recording_count(c->in.rec));
		input_seek_time(&c->in, input_time(&c->in) - RECORDED_NS);
	}
	if (!c->in.until)
		c->in.until = input_time(&c->in) + RECORDED_NS + 1;
	if (input_time(&c->in) < c->in.until) {
		do {
			add_sample(c);
		} while (input_next(&c->in));
	}
	for (i = 0; i < PROGRAMS; i++) {
		if (recording_has(c->in.rec, program_kinds[i]))
			continue;
		close_sums(c->o.programs.open[i]);
		c->o.programs.open[i] = NULL;
		strcpy(c->probe[i].why, "it was not recorded");
	}
}

/* Many VMs are paused on purpose: nothing else points to a fault of this one. */
static bool is_only_paused(const struct why_vm *vm)
{
	return vm->causes == 1 && !strcmp(vm->cause[0]->name, "paused");
}

/* VMs that are only paused come last. */
static int compare_losses(const void *a, const void *b)
{
	const struct why_vm *x = a, *y = b;
	const uint64_t lost[2] = { get_lost_time(x), get_lost_time(y) };

	if (is_only_paused(x) != is_only_paused(y))
		return is_only_paused(x) ? 1 : -1;
	if (lost[0] != lost[1])
		return lost[0] < lost[1] ? 1 : -1;
	return strcmp(x->vm->label, y->vm->label);
}

/* Examine the other threads of all VMs, and more of those in trouble. */
static void examine_vms(struct why_command *c)
{
	const struct kvmstats_vm *first = kvmstats_first(c->in.k), *vm;
	char label[LABEL_SIZE];

	for (vm = first; vm; vm = vm->next) {
		struct window_vm *w = window_find(&c->o.window, app_label(vm, label));
		struct why_vm *why = w ? &c->vm[w - c->o.window.vm] : NULL;

		if (!why)
			continue;
		examine_other_threads(c->cpus, vm, why);
		find_causes(why, &c->host);
		if (!why->causes)
			continue;
		examine_vm(c->cpus, vm, first, why);
	}
}

/* Put together what is known of each VM. */
static void collect(struct why_command *c)
{
	size_t i;

	c->vm = check_alloc(calloc(c->o.window.vms + 1, sizeof(*c->vm)));
	for (i = 0; i < c->o.window.vms; i++)
		c->vm[i] = observed_vm(&c->o, i);
	set_observed_host(&c->o, &c->host);
	c->host.cpus = input_host(&c->in).cpus;
	c->host.live = !c->in.rec;
	if (c->cpus)
		examine_vms(c);
	for (i = 0; i < c->o.window.vms; i++)
		find_causes(&c->vm[i], &c->host);
	qsort(c->vm, c->o.window.vms, sizeof(*c->vm), compare_losses);
}

/* Print a text for people after an indentation. */
static void print_shown(const char *before, const char *text)
{
	const size_t size = TEXT_SHOWN(strlen(text) + 1);
	char *shown = check_alloc(malloc(size));

	text_shown(text, shown, size);
	printf("%s%s\n", before, shown);
	free(shown);
}

static void print_remedy(const struct remedy *remedy)
{
	char before[64] = "    to do: ";

	if (!*remedy->text)
		return;
	if (remedy->gain)
		snprintf(before, sizeof(before), "    to do, for up to %.1f CPUs: ", remedy->gain / 1e3);
	print_shown(before, remedy->text);
	if (!*remedy->command)
		return;
	print_shown("      ", remedy->command);
	print_shown("    to undo it:\n      ", remedy->undo);
}

static void print_cause(const struct why_command *c, const struct why_vm *vm,
			const struct why_rule *rule)
{
	char *text = format_why(rule->text, vm, &c->host), before[32];
	struct remedy remedy = find_remedy(rule, vm, &c->host);

	snprintf(before, sizeof(before), "  %.1f s: ", rule->time(vm) / 1e9);
	print_shown(before, text);
	print_remedy(&remedy);
	free(text);
	free_remedy(&remedy);
}

static void print_vm(const struct why_command *c, const struct why_vm *vm)
{
	const char *word = problem_name(vm->judgement.problem);
	char label[TEXT_SHOWN(LABEL_SIZE)];
	unsigned int i;

	text_shown(vm->vm->label, label, sizeof(label));
	printf("%s: %s%slost %.1f of %.1f vCPU-seconds\n", label, word, *word ? ", " : "",
	       get_lost_time(vm) / 1e9, vm->vm->activity.times.elapsed / 1e9);
	for (i = 0; i < vm->causes; i++)
		print_cause(c, vm, vm->cause[i]);
}

static void put_remedy(struct json *j, const struct remedy *remedy)
{
	json_open(j, "remedy", '{');
	json_text(j, "kind", remedy_name(remedy->kind));
	json_text(j, "text", remedy->text);
	json_text(j, "command", remedy->command);
	json_text(j, "undo", remedy->undo);
	json_fixed(j, "up_to_cpus", remedy->gain, 3);
	json_close(j, '}');
}

static void put_cause(struct json *j, const struct why_command *c, const struct why_vm *vm,
		      const struct why_rule *rule)
{
	char *text = format_why(rule->text, vm, &c->host);
	struct remedy remedy = find_remedy(rule, vm, &c->host);

	json_open(j, NULL, '{');
	json_text(j, "cause", rule->name);
	json_fixed(j, "s", rule->time(vm), 9);
	json_literal(j, "lost", rule->lost ? "true" : "false");
	json_text(j, "text", text);
	put_remedy(j, &remedy);
	json_close(j, '}');
	free(text);
	free_remedy(&remedy);
}

static void put_vm(const struct why_command *c, const struct why_vm *vm)
{
	struct buf b = { 0 };
	struct json j = { .buf = &b };
	unsigned int i;

	json_open(&j, NULL, '{');
	json_text(&j, "vm", vm->vm->label);
	json_text(&j, "problem", problem_name(vm->judgement.problem));
	json_fixed(&j, "vcpus_s", vm->vm->activity.times.elapsed, 9);
	json_fixed(&j, "lost_s", get_lost_time(vm), 9);
	json_open(&j, "causes", '[');
	for (i = 0; i < vm->causes; i++)
		put_cause(&j, c, vm, vm->cause[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	json_print_line(&j);
	buf_free(&b);
}

struct change {
	char *text;
	unsigned int vms;
};

/* The change that would help most VMs; of equal ones, that of the VM that lost the most */
static struct change find_best_change(const struct why_command *c)
{
	struct change *changes = check_alloc(calloc(c->o.window.vms + 1, sizeof(*changes)));
	struct change best = { 0 };
	size_t i, j, n = 0;
	bool paused = false;

	for (i = 0; i < c->o.window.vms; i++) {
		const struct why_vm *vm = &c->vm[i];
		char *text;

		/* Paused VMs come last. */
		if (!vm->causes || (n && !paused && is_only_paused(vm)))
			continue;
		paused = is_only_paused(vm);
		text = format_why(vm->cause[0]->change, vm, &c->host);
		for (j = 0; j < n && strcmp(changes[j].text, text); j++)
			;
		if (j == n)
			changes[n++].text = text;
		else
			free(text);
		changes[j].vms++;
	}
	for (j = 0; j < n; j++) {
		if (changes[j].vms > best.vms) {
			free(best.text);
			best = changes[j];
		} else {
			free(changes[j].text);
		}
	}
	free(changes);
	return best;
}

static void print_host(const struct why_command *c, size_t troubled)
{
	const struct change best = find_best_change(c);
	const size_t fine = c->o.window.vms - troubled;

	printf("%zu VM%s without trouble. Host: %u CPU%s, VMs used %.1f and wanted %.1f", fine,
	       fine == 1 ? "" : "s", c->host.cpus, c->host.cpus == 1 ? "" : "s", c->host.ran / 1e3,
	       c->host.wanted / 1e3);
	if (c->host.live)
		printf(", %.1f%% idle", c->host.idle / 10.0);
	if (c->host.steal)
		printf(", %.1f%% taken by its hypervisor", c->host.steal / 10.0);
	printf(".%s", c->host.live ? "" : " PIDs are from the recording.");
	if (best.vms) {
		char *shown = check_alloc(malloc(TEXT_SHOWN(strlen(best.text) + 1)));

		text_shown(best.text, shown, TEXT_SHOWN(strlen(best.text) + 1));
		printf(" This would help most VMs (%u of %zu): %s.", best.vms, troubled, shown);
		free(shown);
	}
	putchar('\n');
	free(best.text);
}

static void put_host(const struct why_command *c, size_t troubled)
{
	const struct change best = find_best_change(c);
	struct buf b = { 0 };
	struct json j = { .buf = &b };
	unsigned int i;

	json_open(&j, NULL, '{');
	json_open(&j, "host", '{');
	json_fixed(&j, "cpus", c->host.cpus, 0);
	json_fixed(&j, "used_cpus", c->host.ran, 3);
	json_fixed(&j, "wanted_cpus", c->host.wanted, 3);
	if (c->host.live) {
		json_fixed(&j, "idle_percent", c->host.idle, 1);
		json_fixed(&j, "steal_percent", c->host.steal, 1);
	}
	json_fixed(&j, "vms", c->o.window.vms, 0);
	json_fixed(&j, "vms_in_trouble", troubled, 0);
	json_text(&j, "best_change", best.vms ? best.text : "");
	json_fixed(&j, "best_change_vms", best.vms, 0);
	json_open(&j, "missing", '[');
	for (i = 0; i < PROGRAMS; i++) {
		if (!c->o.programs.open[i])
			json_text(&j, NULL, missing[i]);
	}
	json_close(&j, ']');
	json_close(&j, '}');
	json_close(&j, '}');
	json_print_line(&j);
	buf_free(&b);
	free(best.text);
}

/* Print several VMs that are only paused in one line, with some of their names. */
static void print_paused(const struct why_command *c, const struct why_vm *const *paused, size_t count)
{
	char label[TEXT_SHOWN(LABEL_SIZE)];
	size_t i;

	if (count == 1)
		print_vm(c, paused[0]);
	if (count < 2)
		return;
	printf("%zu VMs are paused: their VMMs do not run them, which is a fault only if it was not on purpose:", count);
	for (i = 0; i < count && i < MAX_PAUSED_NAMES; i++) {
		text_shown(paused[i]->vm->label, label, sizeof(label));
		printf("%s %s", i ? "," : "", label);
	}
	if (count > MAX_PAUSED_NAMES)
		printf(" and %zu more", count - MAX_PAUSED_NAMES);
	putchar('\n');
}

/* Write the VMs in trouble, and return their number. */
static size_t write_vms(const struct why_command *c)
{
	const struct why_vm **paused = check_alloc(calloc(c->o.window.vms + 1, sizeof(*paused)));
	size_t i, troubled = 0, nr_paused = 0;

	for (i = 0; i < c->o.window.vms; i++) {
		if (!c->vm[i].causes)
			continue;
		troubled++;
		if (c->settings->format != OUT_TABLE)
			put_vm(c, &c->vm[i]);
		else if (is_only_paused(&c->vm[i]))
			paused[nr_paused++] = &c->vm[i];
		else if (troubled <= MAX_SHOWN)
			print_vm(c, &c->vm[i]);
	}
	if (c->settings->format == OUT_TABLE && troubled - nr_paused > MAX_SHOWN)
		printf("%zu more VMs lost less time than these.\n", troubled - nr_paused - MAX_SHOWN);
	print_paused(c, paused, nr_paused);
	free(paused);
	return troubled;
}

static void write_why(const struct why_command *c)
{
	const size_t troubled = write_vms(c);
	unsigned int i;

	if (c->settings->format == OUT_TABLE)
		print_host(c, troubled);
	else
		put_host(c, troubled);
	app_flush();
	for (i = 0; i < PROGRAMS; i++) {
		if (!c->o.programs.open[i])
			warnx("not known: %s: %s%s%s", missing[i], c->probe[i].why,
			      *c->probe[i].help ? "; " : "", c->probe[i].help);
	}
}

int command_why(const struct settings *settings)
{
	struct why_command c = { .settings = settings };
	int status;
	size_t i;

	input_open(&c.in, settings, INPUT_FIRST, false, settings->nr_args);
	/* VMs may start, but not those that the user has named. */
	if (!c.in.rec && settings->nr_args && !app_selects_any(settings->args, settings->nr_args, kvmstats_first(c.in.k))) {
		status = input_status(&c.in, 0, settings->args, settings->nr_args);
		goto close;
	}
	stop_catch(STATUS_PARTIAL, NULL);
	open_facts(&c);
	if (c.in.rec)
		observe_recording(&c);
	else
		observe_host(&c);
	collect(&c);
	if (c.o.window.vms)
		write_why(&c);
	status = input_status(&c.in, c.o.window.vms, settings->args, settings->nr_args);
	for (i = 0; i < c.o.window.vms; i++)
		free_facts(c.vm[i].facts);
	end_examination(c.cpus);
	observation_close(&c.o);
	free(c.vm);
close:
	input_close(&c.in);
	return status;
}
