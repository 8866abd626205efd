// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "feed.h"

static const struct out_column columns[] = {
	{ "NAME", "name", false },
	{ "PID", "pid", true },
	{ NULL, "number", true },
	{ "VMM", "vmm", false },
	{ "VCPUS", "vcpus", true },
	{ "UUID", "uuid", false },
	{ "MACHINE", "machine", false },
	{ "POD", "pod", false },
	{ NULL, "container", false },
	{ NULL, "cgroup", false },
	{ "SOURCE", "source", false },
	{ NULL, NULL, false }
};

static void text_or_none(struct out *out, const char *text)
{
	if (*text)
		out_text(out, text);
	else
		out_none(out);
}

/* For the completion of command lines, and scripts */
static int list_selectors(const struct settings *settings, struct feed *f)
{
	const struct kvmstats_vm *vm;
	char selector[SELECTOR_SIZE];
	unsigned int shown = 0;
	int status;

	for (vm = feed_first(f); vm; vm = vm->next) {
		if (!app_selects(settings->words, settings->nr_words, vm))
			continue;
		shown++;
		app_selector(vm, selector);
		puts(selector);
	}
	status = feed_status(f, shown, settings->nr_words);
	feed_close(f);
	return status;
}

int command_list(const struct settings *settings)
{
	struct feed f;
	const struct kvmstats_vm *vm;
	unsigned int shown = 0;
	char label[LABEL_SIZE];
	struct out *out;
	int status;

	feed_open(&f, settings, FEED_LAST, false, settings->nr_words);
	if (settings->format == OUT_SELECTORS)
		return list_selectors(settings, &f);
	out = out_open(settings->format, columns);
	for (vm = feed_first(&f); vm; vm = vm->next) {
		if (!app_selects(settings->words, settings->nr_words, vm))
			continue;
		shown++;
		out_text(out, app_label(vm, label));
		out_u64(out, vm->who.pid);
		if (vm->who.number)
			out_u64(out, vm->who.number);
		else
			out_none(out);
		text_or_none(out, vm->who.vmm);
		out_u64(out, vm->vcpus);
		text_or_none(out, vm->who.uuid);
		text_or_none(out, vm->who.machine);
		text_or_none(out, vm->who.pod);
		text_or_none(out, vm->who.container);
		text_or_none(out, vm->who.cgroup);
		out_text(out, feed_source(&f));
	}
	if (shown || settings->format != OUT_TABLE)
		out_close(out);
	status = feed_status(&f, shown, settings->nr_words);
	feed_close(&f);
	return status;
}
