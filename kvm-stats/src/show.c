// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "input.h"
#include "text.h"

static const struct out_column show_columns[] = {
	{ "VM", "vm", false },
	{ "SCOPE", "scope", false },
	{ "NAME", "name", false },
	{ "TYPE", "type", false },
	{ "UNIT", "unit", false },
	{ "FROM", "from", true },
	{ "BELOW", "below", true },
	{ "VALUE", "value", true },
	{ NULL, NULL, false }
};

struct show_output {
	const struct settings *settings;
	struct out *out;
	char label[LABEL_SIZE];
	char scope[24];
	unsigned int rows;
	bool matched;
};

static void put_row(struct show_output *view, const struct kvmstats_desc *desc,
		    unsigned int i, uint64_t value)
{
	struct out *out = view->out;
	char text[TEXT_SIZE];

	view->rows++;
	out_text(out, view->label);
	out_text(out, view->scope);
	out_text(out, desc->name);
	out_text(out, text_type(desc->type));
	/* unit of the bounds of a histogram, whose values are counts */
	text_value_unit(desc, text);
	out_text_or_none(out, strcmp(text, "-") ? text : "");
	if (text_is_histogram(desc)) {
		text_bucket(desc, i, text);
		out_number(out, text);
		/* The last bucket includes all larger values. */
		if (i + 1 < desc->size) {
			text_bucket(desc, i + 1, text);
			out_number(out, text);
		} else {
			out_none(out);
		}
	} else {
		out_none(out);
		out_none(out);
	}
	text_value(desc, value, text);
	out_number(out, text);
}

static void show_values(struct show_output *view, const struct kvmstats_table *table,
			const void *values)
{
	unsigned int i, j;

	if (!table || !values)
		return;
	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];

		if (!app_matches(view->settings, 1, desc->name))
			continue;
		view->matched = true;
		for (j = 0; j < desc->size; j++) {
			uint64_t value = kvmstats_value(desc, values, j);

			if (value || view->settings->zeros)
				put_row(view, desc, j, value);
		}
	}
}

static void show_vm(struct show_output *view, const struct input *in,
		    const struct kvmstats_vm *vm)
{
	const struct kvmstats_table *vcpu = kvmstats_table(in->k, KVMSTATS_VCPU);
	unsigned int i;

	app_label(vm, view->label);
	snprintf(view->scope, sizeof(view->scope), "vm");
	show_values(view, kvmstats_table(in->k, KVMSTATS_VM), vm->values);
	snprintf(view->scope, sizeof(view->scope), "vcpus");
	show_values(view, vcpu, vm->vcpu_sum);
	for (i = 0; view->settings->vcpus && i < vm->vcpus; i++) {
		snprintf(view->scope, sizeof(view->scope), "vcpu%u", vm->vcpu[i]->id);
		show_values(view, vcpu, vm->vcpu[i]->values);
	}
}

int command_show(const struct settings *settings)
{
	struct show_output view = { .settings = settings };
	const struct kvmstats_vm *vm;
	unsigned int shown = 0;
	struct input in;
	int status;

	if (!settings->nr_args)
		errx(STATUS_USAGE, "show needs a SELECTOR ('kvm-stats list' has the names, '*' is all VMs)");
	app_check_patterns(settings, 1);
	input_open(&in, settings, INPUT_LAST, false, 1);
	view.out = out_open(settings->format, show_columns);
	for (vm = kvmstats_first(in.k); vm; vm = vm->next) {
		if (!app_selects(settings->args, 1, vm))
			continue;
		shown++;
		show_vm(&view, &in, vm);
	}
	if (view.rows || settings->format != OUT_TABLE)
		out_close(view.out);
	if (shown && !view.matched) {
		app_warn_unmatched("statistic", settings->args + 1, settings->nr_args - 1);
		shown = 0;
		status = STATUS_NOTHING;
	} else {
		if (shown && !view.rows)
			warnx("all values are 0 (-z shows them)");
		status = input_status(&in, shown, settings->args, 1);
	}
	input_close(&in);
	return status;
}
