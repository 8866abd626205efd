// SPDX-License-Identifier: LGPL-2.1-or-later
/* Labels of VMs: unique names */
#include <stdio.h>
#include <string.h>

#include "core.h"

/* Store as many whole characters of text as fit before the suffix. */
static void join(char *to, size_t size, const char *text, const char *suffix)
{
	size_t len = strlen(text), end = strlen(suffix);

	if (len + end >= size) {
		len = size - 1 - end;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	memmove(to, text, len);
	memcpy(to + len, suffix, end + 1);
}

/*
 * Return the VM that has this label, NULL if the label is free. A VM that ended before this
 * sample is removed: it gives its label to the VM that needs it.
 */
static const struct core_vm *find_holder(struct kvmstats *k, const char *label)
{
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		if (strcmp(vm->pub.identity.label, label))
			continue;
		if (!vm->pub.ended || vm->pub.ended_at >= k->sampled)
			return vm;
		core_forget(k, i);
		break;
	}
	return NULL;
}

static bool same_process(const struct core_vm *a, const struct core_vm *b)
{
	return a->pub.identity.pid == b->pub.identity.pid && a->process_started == b->process_started;
}

/* Set the label to that of the process, with a suffix unless the VM is its first. */
static void set_process_label(struct kvmstats *k, struct core_vm *vm, unsigned int nth)
{
	char suffix[32] = "", text[sizeof(vm->process_label)];
	unsigned int i;

	if (vm->pub.vcpus_ambiguous)
		strcpy(suffix, "#?");
	else if (nth > 1)
		snprintf(suffix, sizeof(suffix), "#%u", nth);
	join(text, sizeof(text), vm->process_label, suffix);
	/* Another VM may have exactly this name. */
	for (i = 2; find_holder(k, text); i++) {
		snprintf(suffix, sizeof(suffix), "#%u~%u", nth, i);
		join(text, sizeof(text), vm->process_label, suffix);
	}
	strcpy(vm->pub.identity.label, text);
}

/* The mark "?" shows that the VM is named after its process. */
static void label_process(struct core_vm *vm, const char *suffix)
{
	const char *name = vm->pub.identity.name;
	char mark[40];

	snprintf(mark, sizeof(mark), "%s%s", *name && vm->hidden ? "?" : "", suffix);
	join(vm->process_label, sizeof(vm->process_label), name, mark);
}

static void label(struct kvmstats *k, struct core_vm *vm)
{
	struct kvmstats_identity *identity = &vm->pub.identity;
	char *process = vm->process_label, suffix[32];
	const struct core_vm *holder;
	unsigned int i, nth = vm->nth ?: 1;

	for (i = 0; i < k->vms; i++) {
		const struct core_vm *other = k->vm[i];

		if (!other->labelled || !same_process(other, vm))
			continue;
		strcpy(process, other->process_label);
		vm->is_successor = other->is_successor;
		if (!vm->nth && nth <= other->nth)
			nth = other->nth + 1;
	}
	if (!*process) {
		label_process(vm, "");
		holder = *process ? find_holder(k, process) : NULL;
		if (!*process || holder) {
			vm->is_successor = holder && holder->pub.ended;
			snprintf(suffix, sizeof(suffix), "@%d", identity->pid);
			label_process(vm, suffix);
		}
	}
	vm->labelled = true;
	if (!vm->pub.vcpus_ambiguous)
		vm->nth = nth;
	set_process_label(k, vm, nth);
}

/*
 * The VM was labelled NAME@PID because its predecessor had ended since the sample before.
 * Drop "@PID" now that the predecessor is no longer shown.
 */
static void take_over_label(struct kvmstats *k, struct core_vm *vm)
{
	char before[sizeof(vm->process_label)];
	const struct core_vm *holder;

	strcpy(before, vm->process_label);
	label_process(vm, "");
	holder = find_holder(k, vm->process_label);
	if (holder && !same_process(holder, vm)) {
		strcpy(vm->process_label, before);
		return;
	}
	vm->is_successor = false;
	set_process_label(k, vm, vm->nth);
}

/* The identity was read after the VM was labelled: its label is due again. */
static void remove_label(struct core_vm *vm)
{
	vm->renamed = false;
	vm->labelled = false;
	vm->is_successor = false;
	*vm->process_label = '\0';
	*vm->pub.identity.label = '\0';
}

/* Label VMs of the oldest process first. */
static bool older(const struct core_vm *a, const struct core_vm *b)
{
	return a->process_started < b->process_started;
}

void label_vms(struct kvmstats *k)
{
	struct core_vm *oldest;
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		if (k->vm[i]->renamed)
			remove_label(k->vm[i]);
	}
	for (i = 0; i < k->vms; i++) {
		if (k->vm[i]->is_successor && !k->vm[i]->pub.ended)
			take_over_label(k, k->vm[i]);
	}
	for (;;) {
		oldest = NULL;
		for (i = 0; i < k->vms; i++) {
			if (!k->vm[i]->labelled && !k->vm[i]->is_pending && (!oldest || older(k->vm[i], oldest)))
				oldest = k->vm[i];
		}
		if (!oldest)
			return;
		label(k, oldest);
	}
}
