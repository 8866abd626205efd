// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "input.h"

static const struct out_column list_columns[] = {
	{ "NAME", "name", false },
	{ "PID", "pid", true },
	{ NULL, "vm_id", true },
	{ "VMM", "vmm", false },
	{ "VCPUS", "vcpus", true },
	{ "UUID", "uuid", false },
	{ "MACHINE", "machine", false },
	{ "POD", "pod_uid", false },
	{ NULL, "container_id", false },
	{ NULL, "cgroup", false },
	{ "SOURCE", "source", false },
	{ NULL, NULL, false }
};

/* For the completion of command lines, and scripts */
static int list_selectors(const struct settings *settings, struct input *in)
{
	const struct kvmstats_vm *vm;
	char selector[SELECTOR_SIZE];
	unsigned int shown = 0;
	int status;

	for (vm = kvmstats_first(in->k); vm; vm = vm->next) {
		if (!app_selects(settings->args, settings->nr_args, vm))
			continue;
		shown++;
		app_selector(kvmstats_first(in->k), vm, selector);
		puts(selector);
	}
	status = input_status(in, shown, settings->args, settings->nr_args);
	input_close(in);
	return status;
}

int command_list(const struct settings *settings)
{
	struct input in;
	const struct kvmstats_vm *vm;
	unsigned int shown = 0;
	char label[LABEL_SIZE];
	struct out *out;
	int status;

	input_open(&in, settings, INPUT_LAST, false, settings->nr_args);
	if (settings->format == OUT_SELECTORS)
		return list_selectors(settings, &in);
	out = out_open(settings->format, list_columns);
	for (vm = kvmstats_first(in.k); vm; vm = vm->next) {
		if (!app_selects(settings->args, settings->nr_args, vm))
			continue;
		shown++;
		out_text(out, app_label(vm, label));
		out_u64(out, vm->identity.pid);
		if (vm->identity.vm_id)
			out_u64(out, vm->identity.vm_id);
		else
			out_none(out);
		out_text_or_none(out, vm->identity.vmm);
		out_u64(out, vm->vcpus);
		out_text_or_none(out, vm->identity.uuid);
		out_text_or_none(out, vm->identity.machine);
		out_text_or_none(out, vm->identity.pod_uid);
		out_text_or_none(out, vm->identity.container_id);
		out_text_or_none(out, identity_cgroup(&vm->identity));
		out_text(out, app_source(in.k));
	}
	if (shown || settings->format != OUT_TABLE)
		out_close(out);
	status = input_status(&in, shown, settings->args, settings->nr_args);
	input_close(&in);
	return status;
}
