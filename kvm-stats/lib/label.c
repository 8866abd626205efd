// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Labels of VMs: unique names that depend only on the VMs that exist now, so that programs that
 * were started at different times use the same ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "hash.h"
#include "utf8.h"

#define LABEL_SIZE	sizeof(((struct kvmstats_identity *)0)->label)

/* The labels given so far: a table by hash, the room is a power of 2 */
struct labels {
	const char **label;
	size_t room;
};

static size_t find_place(const struct labels *labels, const char *label)
{
	size_t at = hash_text(HASH_BASIS, label);

	for (at &= labels->room - 1; labels->label[at]; at = (at + 1) & (labels->room - 1)) {
		if (!strcmp(labels->label[at], label))
			break;
	}
	return at;
}

static bool is_taken(const struct labels *labels, const char *label)
{
	return labels->label[find_place(labels, label)];
}

/* Join text, of which as many whole characters are kept as fit, and suffix. */
static void join(char to[LABEL_SIZE], const char *text, const char *suffix)
{
	static const char mark[] = UTF8_ELLIPSIS;
	size_t len = strlen(text), end = strlen(suffix), cut_off = 0;

	if (len + end >= LABEL_SIZE) {
		cut_off = strlen(mark);
		len = LABEL_SIZE - 1 - cut_off - end;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	memmove(to, text, len);
	memcpy(to + len, mark, cut_off);
	memcpy(to + len + cut_off, suffix, end + 1);
}

/* The mark "?" shows that the VM is named after its process. */
static void label_process(const struct core_vm *vm, bool with_pid, char to[LABEL_SIZE])
{
	const char *name = vm->pub.identity.name;
	char suffix[32], pid[24] = "";

	if (with_pid)
		snprintf(pid, sizeof(pid), "@%d", vm->pub.identity.pid);
	snprintf(suffix, sizeof(suffix), "%s%s", *name && vm->hidden ? "?" : "", pid);
	join(to, name, suffix);
}

static bool exists_now(const struct core_vm *vm)
{
	return !vm->is_pending && !vm->pub.ended;
}

static bool same_process(const struct core_vm *a, const struct core_vm *b)
{
	return a->pub.identity.pid == b->pub.identity.pid && a->process_started == b->process_started;
}

/* The oldest process first: it has the plain name. If its start is unknown, it exits. */
static int compare_ages(const void *x, const void *y)
{
	const struct core_vm *a = *(const struct core_vm *const *)x;
	const struct core_vm *b = *(const struct core_vm *const *)y;
	const uint64_t started_a = a->process_started - 1, started_b = b->process_started - 1;

	if (started_a != started_b)
		return started_a < started_b ? -1 : 1;
	if (a->pub.identity.pid != b->pub.identity.pid)
		return a->pub.identity.pid < b->pub.identity.pid ? -1 : 1;
	return (a->pub.nth > b->pub.nth) - (a->pub.nth < b->pub.nth);
}

/* Add the number of the VM, and a suffix that makes the label unique if another VM has this name. */
static void set_label(struct labels *labels, struct core_vm *vm, const char *process)
{
	char suffix[40] = "", text[LABEL_SIZE];
	unsigned int i;

	if (vm->pub.vcpus_ambiguous)
		strcpy(suffix, "#?");
	else if (vm->pub.nth > 1)
		snprintf(suffix, sizeof(suffix), "#%u", vm->pub.nth);
	join(text, process, suffix);
	for (i = 2; is_taken(labels, text); i++) {
		snprintf(suffix, sizeof(suffix), "#%u~%u", vm->pub.nth ?: 1, i);
		join(text, process, suffix);
	}
	strcpy(vm->pub.identity.label, text);
	vm->labelled = true;
	labels->label[find_place(labels, text)] = vm->pub.identity.label;
}

static void choose_process_label(const struct labels *labels, const struct core_vm *vm, char to[LABEL_SIZE])
{
	label_process(vm, false, to);
	if (!*to || is_taken(labels, to))
		label_process(vm, true, to);
}

static void label_live(struct labels *labels, struct core_vm **vm, unsigned int vms)
{
	char process[LABEL_SIZE];
	unsigned int i;

	qsort(vm, vms, sizeof(*vm), compare_ages);
	for (i = 0; i < vms; i++) {
		if (!i || !same_process(vm[i], vm[i - 1]))
			choose_process_label(labels, vm[i], process);
		set_label(labels, vm[i], process);
	}
}

/* Return a VM of the same process as k->vm[i] that has a label; its first one if it is live. */
static const struct core_vm *find_sibling(const struct kvmstats *k, unsigned int i)
{
	const struct core_vm *vm = k->vm[i], *found = NULL;
	unsigned int at;

	for (at = i; at && k->vm[at - 1]->pub.identity.pid == vm->pub.identity.pid; at--)
		;
	for (; at < k->vms && k->vm[at]->pub.identity.pid == vm->pub.identity.pid; at++) {
		if (k->vm[at]->labelled && same_process(k->vm[at], vm) &&
		    (!found || (found->pub.ended && !k->vm[at]->pub.ended)))
			found = k->vm[at];
	}
	return found;
}

/* Label VMs that were created and destroyed since the previous sample. */
static void label_ended(struct labels *labels, struct kvmstats *k)
{
	const struct core_vm *same;
	char process[LABEL_SIZE];
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		if (vm->labelled || vm->is_pending)
			continue;
		/* The process created this VM before its present one. */
		same = find_sibling(k, i);
		if (same) {
			strcpy(vm->pub.identity.label, same->pub.identity.label);
			vm->labelled = true;
			continue;
		}
		choose_process_label(labels, vm, process);
		set_label(labels, vm, process);
	}
}

/* VMs that ended before this sample give their labels to VMs that need them. */
static void release_labels(const struct labels *labels, struct kvmstats *k)
{
	unsigned int i;

	for (i = k->vms; i--;) {
		const struct kvmstats_vm *vm = &k->vm[i]->pub;

		if (vm->ended && vm->ended_at < k->sampled && is_taken(labels, vm->identity.label))
			core_forget(k, i);
	}
}

/* Order the VMs of each process by id, or as the source reports them: by descriptor. */
static void sort_in_processes(struct kvmstats *k)
{
	struct core_vm *vm;
	unsigned int i, at;

	/* The VMs are mostly sorted already. */
	for (i = 1; i < k->vms; i++) {
		vm = k->vm[i];
		for (at = i; at && core_vm_precedes(vm, k->vm[at - 1]); at--)
			k->vm[at] = k->vm[at - 1];
		k->vm[at] = vm;
	}
}

/* Number the VMs of each process that has several; 0 if it is the only one. */
static void number_in_processes(struct kvmstats *k)
{
	struct core_vm *first = NULL, *vm;
	unsigned int i, last = 0;

	for (i = 0; i < k->vms; i++) {
		vm = k->vm[i];
		if (!exists_now(vm))
			continue;
		vm->pub.nth = 0;
		if (!first || first->pub.identity.pid != vm->pub.identity.pid) {
			first = vm;
			last = 1;
			continue;
		}
		first->pub.nth = 1;
		vm->pub.nth = ++last;
	}
}

/* Return a hash of everything that labels depend on. */
static uint64_t hash_labels(const struct kvmstats *k)
{
	uint64_t hash = HASH_BASIS;
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		const struct core_vm *vm = k->vm[i];
		const uint64_t state[] = {
			(uintptr_t)vm, vm->pub.identity.pid, vm->process_started, vm->pub.nth,
			vm->labelled, vm->hidden, vm->pub.vcpus_ambiguous,
		};

		if (vm->is_pending || (vm->pub.ended && vm->labelled))
			continue;
		hash = hash_data(hash, state, sizeof(state));
		hash = hash_text(hash, vm->pub.identity.name);
	}
	return hash;
}

bool label_vms(struct kvmstats *k)
{
	struct labels labels = { .room = 4 };
	struct core_vm **vm;
	unsigned int i, n = 0;
	uint64_t hash;

	if (k->recorded)
		return true;
	sort_in_processes(k);
	number_in_processes(k);
	hash = hash_labels(k);
	if (hash == k->labels_hash)
		return true;
	while (labels.room < 2 * (size_t)k->vms)
		labels.room *= 2;
	labels.label = calloc(labels.room, sizeof(*labels.label));
	vm = malloc((k->vms + 1) * sizeof(*vm));
	if (labels.label && vm) {
		for (i = 0; i < k->vms; i++) {
			if (exists_now(k->vm[i]))
				vm[n++] = k->vm[i];
		}
		label_live(&labels, vm, n);
		label_ended(&labels, k);
		release_labels(&labels, k);
		k->labels_hash = hash_labels(k);
	}
	free(labels.label);
	free(vm);
	return labels.label && vm;
}
