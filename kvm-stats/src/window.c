// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "window.h"
#include "xalloc.h"

struct window_vm *window_find(const struct window *w, const char *label)
{
	size_t i;

	for (i = 0; i < w->vms; i++) {
		if (!strcmp(w->vm[i].label, label))
			return &w->vm[i];
	}
	return NULL;
}

static struct window_vm *add_window_vm(struct window *w, const char *label)
{
	struct window_vm *vm;

	w->vm = check_alloc(realloc(w->vm, (w->vms + 1) * sizeof(*vm)));
	vm = &w->vm[w->vms++];
	memset(vm, 0, sizeof(*vm));
	strcpy(vm->label, label);
	return vm;
}

static void add_most(struct window_vm *to, const struct kvmstats_vm *vm)
{
	unsigned int i, mode;

	for (mode = 0; mode < KVMSTATS_MODES; mode++) {
		uint64_t most = 0;

		for (i = 0; i < vm->vcpus; i++) {
			if (most < vm->vcpu[i]->last.times.mode[mode])
				most = vm->vcpu[i]->last.times.mode[mode];
		}
		to->most[mode] += most;
	}
}

uint64_t count_failures(const struct kvmstats *k, const struct kvmstats_vm *vm)
{
	const struct kvmstats_table *table = kvmstats_table(k, KVMSTATS_VCPU);
	const struct kvmstats_desc *desc = table ? kvmstats_find(table, "insn_emulation_fail") : NULL;

	return desc && vm->vcpu_growth ? kvmstats_value(desc, vm->vcpu_growth, 0) : 0;
}

void window_add(struct window *w, const struct kvmstats *k, char **args, int n)
{
	const struct kvmstats_vm *vm;
	char label[LABEL_SIZE];
	size_t next = 0;

	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		struct window_vm *to;

		if (!vm->elapsed || !app_selects(args, n, vm))
			continue;
		app_label(vm, label);
		/* VMs are mostly in the order of the last sample. */
		to = next < w->vms && !strcmp(w->vm[next].label, label) ? &w->vm[next] : window_find(w, label);
		if (!to)
			to = add_window_vm(w, label);
		next = to - w->vm + 1;
		to->pid = vm->identity.pid;
		to->vcpus = vm->vcpus;
		to->ended = vm->ended;
		to->elapsed += vm->elapsed;
		add_activity(&to->activity, &vm->sum);
		add_most(to, vm);
		to->failed += count_failures(k, vm);
	}
}

void window_free(struct window *w)
{
	free(w->vm);
	w->vm = NULL;
	w->vms = 0;
}
