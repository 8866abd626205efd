// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "follow.h"

void *follow_grow(void *memory, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return memory;
	*room = 2 * *room + 16;
	memory = realloc(memory, *room * size);
	if (!memory)
		err(STATUS_NOTHING, NULL);
	return memory;
}

void follow_sort(void *array, size_t count, size_t size,
		 int (*compare)(const void *, const void *))
{
	if (count)
		qsort(array, count, size, compare);
}

void follow_free(struct follow *f)
{
	free(f->sums);
	free(f->known);
}

static struct followed *sum_at(const struct follow *f, size_t i)
{
	return (void *)((char *)f->sums + i * f->size);
}

static bool same_vm(const struct blame_vm *a, const struct blame_vm *b)
{
	return a->kvm == b->kvm && a->tgid == b->tgid;
}

static struct known_vm *find_known(const struct follow *f, const struct blame_vm *vm)
{
	size_t i;

	for (i = 0; i < f->known_count; i++)
		if (same_vm(&f->known[i].vm, vm))
			return &f->known[i];
	return NULL;
}

/* The VM, or one of its process if the VM has exited before its vCPUs were listed */
static struct known_vm *find_vm(const struct follow *f, const struct blame_vm *vm)
{
	struct known_vm *known = vm->kvm ? find_known(f, vm) : NULL;
	size_t i;

	if (known)
		return known;
	for (i = 0; i < f->known_count; i++)
		if (f->known[i].vm.tgid == vm->tgid && !(known && known->live))
			known = &f->known[i];
	return known;
}

/* Number of a VM in its process: 1 if it is the only one */
static unsigned int nth_of(const struct kvmstats_vm *vm)
{
	return vm->nth ?: 1;
}

void *follow_find(const struct follow *f, const struct kvmstats_vm *vm)
{
	size_t i;

	for (i = 0; i < f->count; i++)
		if (sum_at(f, i)->pid == vm->identity.pid && sum_at(f, i)->nth == nth_of(vm))
			return sum_at(f, i);
	for (i = 0; vm->ended && i < f->count; i++)
		if (sum_at(f, i)->ended_pid == vm->identity.pid &&
		    sum_at(f, i)->ended_nth == nth_of(vm))
			return sum_at(f, i);
	return NULL;
}

/* One that has exited, and whose name the VM has */
static struct followed *find_predecessor(const struct follow *f, const struct kvmstats_vm *vm)
{
	size_t i;

	for (i = 0; f->continues && i < f->count; i++)
		if (!sum_at(f, i)->live && !strcmp(sum_at(f, i)->name, vm->identity.name))
			return sum_at(f, i);
	return NULL;
}

static void say_continues(const struct followed *sum, const struct kvmstats_vm *vm)
{
	char shown[TEXT_SHOWN(LABEL_SIZE)];

	text_shown(sum->label, shown, sizeof(shown));
	warnx("%s: VM exited; continuing with process %d", shown, vm->identity.pid);
}

static struct followed *add_sum(struct follow *f, const struct kvmstats_vm *vm)
{
	struct followed *sum;

	f->sums = follow_grow(f->sums, f->count, &f->room, f->size);
	sum = sum_at(f, f->count++);
	memset(sum, 0, f->size);
	app_label(vm, sum->label);
	return sum;
}

static void follow(struct followed *sum, const struct kvmstats_vm *vm)
{
	if (sum->pid && sum->pid != vm->identity.pid && !vm->ended) {
		say_continues(sum, vm);
		sum->ended_pid = sum->pid;
		sum->ended_nth = sum->nth;
	} else if (sum->pid && strcmp(sum->name, vm->identity.name)) {
		/* Its name could not be read before. */
		app_label(vm, sum->label);
	}
	snprintf(sum->name, sizeof(sum->name), "%s", vm->identity.name);
	sum->pid = vm->identity.pid;
	sum->nth = nth_of(vm);
	sum->live = !vm->ended;
}

static void follow_vms(struct follow *f, const struct kvmstats_vm *first, char **words, int n)
{
	const struct kvmstats_vm *vm;
	struct followed *sum;
	size_t i;

	for (i = 0; i < f->count; i++)
		sum_at(f, i)->live = false;
	for (vm = first; vm; vm = vm->next) {
		sum = follow_find(f, vm);
		if (sum)
			follow(sum, vm);
	}
	for (vm = first; vm; vm = vm->next) {
		if (follow_find(f, vm))
			continue;
		sum = vm->ended ? NULL : find_predecessor(f, vm);
		if (!sum && app_selects(words, n, vm))
			sum = add_sum(f, vm);
		if (sum)
			follow(sum, vm);
	}
}

struct tid_of {
	pid_t tid;
	const struct blame_vm *vm;
};

static int compare_tids(const void *x, const void *y)
{
	const struct tid_of *a = x, *b = y;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static void learn_vm(struct follow *f, const struct blame_vm *id, const struct kvmstats_vm *vm)
{
	const struct followed *sum = follow_find(f, vm);
	struct known_vm *known = find_known(f, id);

	if (!known) {
		f->known = follow_grow(f->known, f->known_count, &f->known_room,
				       sizeof(*known));
		known = &f->known[f->known_count++];
		known->vm = *id;
	}
	known->selected = sum;
	known->live = true;
	if (sum)
		strcpy(known->label, sum->label);
	else
		app_label(vm, known->label);
}

/* Forget the labels of VMs that have exited, the oldest first. */
static void forget_exited(struct follow *f)
{
	size_t i, exited = 0, kept = 0;

	for (i = 0; i < f->known_count; i++)
		exited += !f->known[i].live;
	for (i = 0; i < f->known_count; i++) {
		if (!f->known[i].live && exited > MAX_EXITED)
			exited--;
		else
			f->known[kept++] = f->known[i];
	}
	f->known_count = kept;
}

static void learn_vms(struct follow *f, const struct kvmstats_vm *vm,
		      const struct blame_thread *threads, size_t count)
{
	const struct tid_of *found;
	struct tid_of *tids;
	size_t i;

	tids = calloc(count + 1, sizeof(*tids));
	if (!tids)
		err(STATUS_NOTHING, NULL);
	for (i = 0; i < count; i++)
		tids[i] = (struct tid_of){ threads[i].tid, &threads[i].vm };
	qsort(tids, count, sizeof(*tids), compare_tids);

	for (i = 0; i < f->known_count; i++)
		f->known[i].live = false;
	for (; vm; vm = vm->next) {
		/* as its vCPUs are entered, or named if they exited before that */
		learn_vm(f, &(struct blame_vm){ nth_of(vm), vm->identity.pid, 0 }, vm);
		for (i = 0; i < vm->vcpus; i++) {
			const struct tid_of key = { .tid = vm->vcpu[i]->tid };

			found = bsearch(&key, tids, count, sizeof(*tids), compare_tids);
			if (found)
				learn_vm(f, found->vm, vm);
		}
	}
	free(tids);
	forget_exited(f);
}

void follow_sample(struct follow *f, const struct kvmstats_vm *first, char **words, int n,
		   const struct blame_thread *threads, size_t count)
{
	follow_vms(f, first, words, n);
	learn_vms(f, first, threads, count);
}

void follow_limit(struct follow *f, void (*release)(void *sum))
{
	size_t i, exited = 0, kept = 0;

	for (i = 0; i < f->count; i++) {
		exited += !sum_at(f, i)->live;
		if (!sum_at(f, i)->live && exited > MAX_EXITED) {
			release(sum_at(f, i));
			f->dropped++;
			continue;
		}
		if (kept < i)
			memcpy(sum_at(f, kept), sum_at(f, i), f->size);
		kept++;
	}
	f->count = kept;
}

void *follow_sum(const struct follow *f, const struct blame_vm *vm)
{
	const struct known_vm *known = find_vm(f, vm);
	size_t i;

	for (i = 0; known && known->selected && i < f->count; i++)
		if (!strcmp(sum_at(f, i)->label, known->label))
			return sum_at(f, i);
	return NULL;
}

const char *follow_label(const struct follow *f, uint64_t kvm, uint32_t tgid)
{
	const struct known_vm *known = find_vm(f, &(struct blame_vm){ kvm, tgid, 0 });

	return known ? known->label : NULL;
}
