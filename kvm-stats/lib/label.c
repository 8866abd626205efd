// SPDX-License-Identifier: LGPL-2.1-or-later
/* What VMs are called: each otherwise, and for as long as they live. */
#include <stdio.h>
#include <string.h>

#include "core.h"

/* The first bytes of text that have room before the suffix, in whole characters */
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

/* One that ended before this sample gives its label to whoever needs it. */
static bool taken(struct kvmstats *k, const char *label)
{
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		if (strcmp(vm->pub.who.label, label))
			continue;
		if (!vm->pub.ended || vm->pub.ended_at >= k->sampled)
			return true;
		core_forget(k, i);
		return false;
	}
	return false;
}

static bool same_process(const struct core_vm *a, const struct core_vm *b)
{
	return a->pub.who.pid == b->pub.who.pid && a->process_started == b->process_started;
}

static void label(struct kvmstats *k, struct core_vm *vm)
{
	char *process = vm->process_label, suffix[32] = "", text[sizeof(vm->process_label)];
	struct kvmstats_who *who = &vm->pub.who;
	unsigned int i, nth = 1;

	for (i = 0; i < k->vms; i++) {
		const struct core_vm *other = k->vm[i];

		if (!other->labelled || !same_process(other, vm))
			continue;
		strcpy(process, other->process_label);
		if (nth <= other->nth)
			nth = other->nth + 1;
	}
	if (!*process) {
		join(process, sizeof(vm->process_label), who->name, "");
		if (!*process || taken(k, process)) {
			snprintf(suffix, sizeof(suffix), "@%d", vm->pub.who.pid);
			join(process, sizeof(vm->process_label), who->name, suffix);
		}
	}
	vm->labelled = true;
	suffix[0] = '\0';
	if (vm->pub.mixed)
		strcpy(suffix, "#?");
	else if (nth > 1)
		snprintf(suffix, sizeof(suffix), "#%u", nth);
	if (!vm->pub.mixed)
		vm->nth = nth;
	join(text, sizeof(text), process, suffix);
	/* Somebody may have been given just this as a name. */
	for (i = 2; taken(k, text); i++) {
		snprintf(suffix, sizeof(suffix), "#%u~%u", nth, i);
		join(text, sizeof(text), process, suffix);
	}
	strcpy(who->label, text);
}

/* The oldest process first, then the order of the list */
static bool older(const struct core_vm *a, const struct core_vm *b)
{
	return a->process_started < b->process_started;
}

void label_vms(struct kvmstats *k)
{
	struct core_vm *oldest;
	unsigned int i;

	for (;;) {
		oldest = NULL;
		for (i = 0; i < k->vms; i++) {
			if (!k->vm[i]->labelled && (!oldest || older(k->vm[i], oldest)))
				oldest = k->vm[i];
		}
		if (!oldest)
			return;
		label(k, oldest);
	}
}
