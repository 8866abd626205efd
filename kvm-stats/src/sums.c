// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rec_encode.h"
#include "sums.h"
#include "xalloc.h"

/* Costs lose their weight in this time. */
#define RECENT_NS	(300 * SECOND)

static void *grow(void *memory, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return memory;
	*room = 2 * *room + 16;
	return check_alloc(realloc(memory, *room * size));
}

static void release(const struct sums *sums, struct sum *sum)
{
	if (sums->type->release)
		sums->type->release(sum);
	free(sum->items);
}

int open_sums(struct sums *sums, const struct sums_type *type, struct threads *shared,
	      const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	sums->type = type;
	return type->open(sums, shared, first, p);
}

void read_recorded_sums(struct sums *sums, const struct sums_type *type, struct recording *rec)
{
	sums->type = type;
	sums->rec = rec;
	sums->continues = true;
}

void close_sums(struct sums *sums)
{
	size_t i;

	for (i = 0; i < sums->count; i++)
		release(sums, sum_at(sums, i));
	free(sums->sum);
	free(sums->known);
	if (!sums->rec)
		sums->type->close(sums);
	memset(sums, 0, sums->type->all_size);
}

static bool same_vm(const struct blame_vm *a, const struct blame_vm *b)
{
	return a->kvm == b->kvm && a->tgid == b->tgid;
}

static struct known_vm *find_known(const struct sums *sums, const struct blame_vm *vm)
{
	size_t i;

	for (i = 0; i < sums->known_count; i++)
		if (same_vm(&sums->known[i].vm, vm))
			return &sums->known[i];
	return NULL;
}

/* The VM, or one of its process if the VM has exited before its vCPUs were listed */
static struct known_vm *find_known_vm(const struct sums *sums, const struct blame_vm *vm)
{
	struct known_vm *known = vm->kvm ? find_known(sums, vm) : NULL;
	size_t i;

	if (known)
		return known;
	for (i = 0; i < sums->known_count; i++)
		if (sums->known[i].vm.tgid == vm->tgid && !(known && known->live))
			known = &sums->known[i];
	return known;
}

/* Number of a VM in its process: 1 if it is the only one */
static unsigned int nth_of(const struct kvmstats_vm *vm)
{
	return vm->nth ?: 1;
}

void *find_sum(const struct sums *sums, const struct kvmstats_vm *vm)
{
	struct sum *sum;
	size_t i;

	for (i = 0; i < sums->count; i++) {
		sum = sum_at(sums, i);
		if (sum->pid == vm->identity.pid && sum->nth == nth_of(vm))
			return sum;
	}
	for (i = 0; vm->ended && i < sums->count; i++) {
		sum = sum_at(sums, i);
		if (sum->ended_pid == vm->identity.pid && sum->ended_nth == nth_of(vm))
			return sum;
	}
	return NULL;
}

void *find_labelled_sum(const struct sums *sums, const char *label)
{
	size_t i;

	for (i = 0; i < sums->count; i++) {
		struct sum *sum = sum_at(sums, i);

		if (!strcmp(sum->label, label))
			return sum;
	}
	return NULL;
}

/* One that has exited, and whose name the VM has */
static struct sum *find_predecessor(const struct sums *sums, const struct kvmstats_vm *vm)
{
	struct sum *sum;
	size_t i;

	for (i = 0; sums->continues && i < sums->count; i++) {
		sum = sum_at(sums, i);
		if (!sum->live && !strcmp(sum->name, vm->identity.name))
			return sum;
	}
	return NULL;
}

static void report_successor(const struct sum *sum, const struct kvmstats_vm *vm)
{
	char shown[TEXT_SHOWN(LABEL_SIZE)];

	text_shown(sum->label, shown, sizeof(shown));
	warnx("%s: VM exited; continuing with process %d", shown, vm->identity.pid);
}

static struct sum *add_sum(struct sums *sums, const struct kvmstats_vm *vm)
{
	struct sum *sum;

	sums->sum = grow(sums->sum, sums->count, &sums->room, sums->type->size);
	sum = sum_at(sums, sums->count++);
	memset(sum, 0, sums->type->size);
	app_label(vm, sum->label);
	return sum;
}

static void follow_vm(struct sum *sum, const struct kvmstats_vm *vm)
{
	if (sum->pid && sum->pid != vm->identity.pid && !vm->ended) {
		report_successor(sum, vm);
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

static void follow_vms(struct sums *sums, const struct kvmstats_vm *first, char **args, int n)
{
	const struct kvmstats_vm *vm;
	struct sum *sum;
	size_t i;

	for (i = 0; i < sums->count; i++)
		((struct sum *)sum_at(sums, i))->live = false;
	for (vm = first; vm; vm = vm->next) {
		sum = find_sum(sums, vm);
		if (sum)
			follow_vm(sum, vm);
	}
	for (vm = first; vm; vm = vm->next) {
		if (find_sum(sums, vm))
			continue;
		sum = vm->ended ? NULL : find_predecessor(sums, vm);
		if (!sum && app_selects(args, n, vm))
			sum = add_sum(sums, vm);
		if (sum)
			follow_vm(sum, vm);
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

static void learn_vm(struct sums *sums, const struct blame_vm *id, const struct kvmstats_vm *vm)
{
	const struct sum *sum = find_sum(sums, vm);
	struct known_vm *known = find_known(sums, id);

	if (!known) {
		sums->known = grow(sums->known, sums->known_count, &sums->known_room,
				       sizeof(*known));
		known = &sums->known[sums->known_count++];
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
static void forget_exited(struct sums *sums)
{
	size_t i, exited = 0, kept = 0;

	for (i = 0; i < sums->known_count; i++)
		exited += !sums->known[i].live;
	for (i = 0; i < sums->known_count; i++) {
		if (!sums->known[i].live && exited > MAX_EXITED)
			exited--;
		else
			sums->known[kept++] = sums->known[i];
	}
	sums->known_count = kept;
}

static void learn_vms(struct sums *sums, const struct kvmstats_vm *vm,
		      const struct blame_thread *threads, size_t count)
{
	const struct tid_of *found;
	struct tid_of *tids;
	size_t i;

	tids = check_alloc(calloc(count + 1, sizeof(*tids)));
	for (i = 0; i < count; i++)
		tids[i] = (struct tid_of){ threads[i].tid, &threads[i].vm };
	qsort(tids, count, sizeof(*tids), compare_tids);

	for (i = 0; i < sums->known_count; i++)
		sums->known[i].live = false;
	for (; vm; vm = vm->next) {
		/* as its vCPUs are entered, or named if they exited before that */
		learn_vm(sums, &(struct blame_vm){ nth_of(vm), vm->identity.pid, 0 }, vm);
		for (i = 0; i < vm->vcpus; i++) {
			const struct tid_of key = { .tid = vm->vcpu[i]->tid };

			found = bsearch(&key, tids, count, sizeof(*tids), compare_tids);
			if (found)
				learn_vm(sums, found->vm, vm);
		}
	}
	free(tids);
	forget_exited(sums);
}

void begin_sums(struct sums *sums, const struct kvmstats_vm *first, char **args, int n,
		const struct blame_thread *threads, size_t count)
{
	follow_vms(sums, first, args, n);
	learn_vms(sums, first, threads, count);
}

void add_elapsed(const struct sums *sums, const struct kvmstats_vm *first)
{
	const struct kvmstats_vm *vm;
	struct sum *sum;

	for (vm = first; vm; vm = vm->next) {
		sum = find_sum(sums, vm);
		if (sum)
			sum->elapsed += vm->sum.times.elapsed;
	}
}

void set_elapsed(const struct sums *sums, const struct kvmstats_vm *vm, uint64_t elapsed)
{
	struct sum *sum = find_sum(sums, vm);

	if (sum)
		sum->elapsed = elapsed;
}

/* Keep this number of the sums of VMs that have exited, and those that keep wants. */
static void remove_exited(struct sums *sums, size_t most,
			  bool (*keep)(void *arg, const struct sum *sum), void *arg)
{
	size_t i, exited = 0, kept = 0;

	for (i = 0; i < sums->count; i++) {
		struct sum *sum = sum_at(sums, i);

		if (!sum->live && !(keep && keep(arg, sum)) && ++exited > most) {
			release(sums, sum);
			continue;
		}
		if (kept < i)
			memcpy(sum_at(sums, kept), sum, sums->type->size);
		kept++;
	}
	sums->count = kept;
}

void forget_sums(struct sums *sums, bool (*keep)(void *arg, const struct sum *sum), void *arg)
{
	remove_exited(sums, 0, keep, arg);
}

static void *item_key(const void *item)
{
	return (struct sum_item *)item + 1;
}

static bool is_other(const struct sums *sums, const struct sum_item *item)
{
	return sums->type->other && !memcmp(item_key(item), sums->type->other, sums->type->key_size);
}

static struct sum_item *find_item(const struct sums *sums, const struct sum *sum, const void *key)
{
	size_t i;

	for (i = 0; i < sum->count; i++)
		if (!memcmp(item_key(item_at(sums, sum, i)), key, sums->type->key_size))
			return item_at(sums, sum, i);
	return NULL;
}

/* Add the cost of the least recent item to the others. */
static void drop_smallest(const struct sums *sums, struct sum *sum)
{
	struct sum_item *smallest = NULL, *item, *other = find_item(sums, sum, sums->type->other);
	size_t i;

	for (i = 0; i < sum->count; i++) {
		item = item_at(sums, sum, i);
		if (item != other && (!smallest || item->recent < smallest->recent ||
				      (item->recent == smallest->recent && item->cost < smallest->cost)))
			smallest = item;
	}
	sum->listed -= smallest->listed;
	smallest->listed = false;
	if (other) {
		other->cost += smallest->cost;
		other->growth += smallest->growth;
		memmove(smallest, item_at(sums, sum, --sum->count), sums->type->item_size);
	} else {
		memset(item_key(smallest), 0, sums->type->item_size - sizeof(*smallest));
		memcpy(item_key(smallest), sums->type->other, sums->type->key_size);
	}
}

void *add_cost(const struct sums *sums, struct sum *sum, const void *key, uint64_t cost)
{
	struct sum_item *item = find_item(sums, sum, key);

	if (!item) {
		if (sums->type->other && sum->count >= MAX_ITEMS)
			drop_smallest(sums, sum);
		sum->items = grow(sum->items, sum->count, &sum->room, sums->type->item_size);
		item = item_at(sums, sum, sum->count++);
		memset(item, 0, sums->type->item_size);
		memcpy(item_key(item), key, sums->type->key_size);
	}
	sum->cost += cost;
	item->cost += cost;
	item->growth += cost;
	return item;
}

static int compare_costs(const void *x, const void *y, void *type)
{
	const struct sum_item *a = x, *b = y;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->cost != b->cost)
		return a->cost < b->cost ? 1 : -1;
	return memcmp(item_key(a), item_key(b), ((const struct sums_type *)type)->key_size);
}

void sort_items(const struct sums *sums, struct sum *sum)
{
	if (sum->count)
		qsort_r(sum->items, sum->count, sums->type->item_size, compare_costs,
			(void *)sums->type);
}

static int compare_sums(const void *x, const void *y)
{
	const struct sum *a = x, *b = y;

	return a->cost < b->cost ? 1 : a->cost > b->cost ? -1 : strcmp(a->label, b->label);
}

void end_sums(struct sums *sums)
{
	size_t i;

	for (i = 0; i < sums->count; i++)
		sort_items(sums, sum_at(sums, i));
	if (i)
		qsort(sums->sum, sums->count, sums->type->size, compare_sums);
	remove_exited(sums, MAX_EXITED, NULL, NULL);
	sums->dropped += i - sums->count;
}

void *find_kernel_sum(const struct sums *sums, const struct blame_vm *vm)
{
	const struct known_vm *known = find_known_vm(sums, vm);
	size_t i;

	for (i = 0; known && known->selected && i < sums->count; i++)
		if (!strcmp(((struct sum *)sum_at(sums, i))->label, known->label))
			return sum_at(sums, i);
	return NULL;
}

const char *find_label(const struct sums *sums, uint64_t kvm, uint32_t tgid)
{
	const struct known_vm *known = find_known_vm(sums, &(struct blame_vm){ kvm, tgid, 0 });

	return known ? known->label : NULL;
}

/* The item with the largest recent cost that is not listed, or with the smallest that is */
static struct sum_item *find_extreme(const struct sums *sums, const struct sum *sum, bool listed)
{
	struct sum_item *found = NULL, *item;
	size_t i;

	for (i = 0; i < sum->count; i++) {
		item = item_at(sums, sum, i);
		if (item->listed == listed && !is_other(sums, item) &&
		    (!found || (listed ? item->recent < found->recent : item->recent > found->recent)))
			found = item;
	}
	return found;
}

uint64_t list_items(const struct sums *sums, struct sum *sum, unsigned int max, uint64_t elapsed)
{
	const double kept = elapsed < RECENT_NS ? 1 - (double)elapsed / RECENT_NS : 0;
	struct sum_item *item, *least;
	uint64_t growth = 0;
	size_t i;

	for (i = 0; i < sum->count; i++) {
		item = item_at(sums, sum, i);
		item->recent = item->recent * kept + item->growth;
	}
	while ((item = find_extreme(sums, sum, false))) {
		if (sum->listed < max) {
			sum->listed++;
		} else {
			least = find_extreme(sums, sum, true);
			if (!least || item->recent <= 2 * least->recent)
				break;
			least->listed = false;
		}
		item->listed = true;
	}
	for (i = 0; i < sum->count; i++) {
		item = item_at(sums, sum, i);
		growth += item->listed ? 0 : item->growth;
		item->growth = 0;
	}
	return growth;
}

void keep_growth(const struct sums *sums)
{
	size_t i, j;

	for (i = 0; i < sums->count; i++) {
		const struct sum *sum = sum_at(sums, i);

		for (j = 0; j < sum->count; j++) {
			struct sum_item *item = item_at(sums, sum, j);

			item->recent = item->growth;
			item->growth = 0;
		}
	}
}

void clear_sums(struct sums *sums)
{
	struct sum *sum;
	size_t i;

	for (i = 0; i < sums->count; i++) {
		sum = sum_at(sums, i);
		if (sums->type->clear)
			sums->type->clear(sum);
		sum->count = 0;
		sum->cost = 0;
		sum->elapsed = 0;
	}
}

void record_sums(struct sums *sums, struct recorder *r, char kind, size_t items, uint64_t least)
{
	struct bytes b = { .unit = recorder_unit(r) };
	size_t i, j;

	bytes_number(&b, b.unit);
	for (i = 0; i < sums->count; i++) {
		struct sum *sum = sum_at(sums, i);
		size_t count;

		if (sum->cost >= least) {
			/* The sum of the recorded items is the cost of the VM. */
			while (sums->type->other && sum->count > items + 1)
				drop_smallest(sums, sum);
			count = sum->count < items || sums->type->other ? sum->count : items;
			bytes_number(&b, sum->pid);
			bytes_number(&b, sum->nth);
			bytes_number(&b, count);
			for (j = 0; j < count; j++)
				sums->type->put(item_at(sums, sum, j), &b);
			if (sums->type->put_sum)
				sums->type->put_sum(sum, &b);
		}
	}
	clear_sums(sums);
	recorder_add(r, kind, &b);
	free(b.data);
}

/* Read the items of a VM; discard them if the VM is not selected. */
static void take_sum(struct sums *sums, struct rec_bytes *t)
{
	struct kvmstats_vm vm = { .ended = true };
	struct sum *unused = NULL, *sum;
	size_t i, count;

	vm.identity.pid = take_most(t, INT32_MAX);
	vm.nth = take_most(t, UINT32_MAX);
	count = take_most(t, MAX_ITEMS + 1);
	sum = find_sum(sums, &vm);
	if (!sum)
		sum = unused = check_alloc(calloc(1, sums->type->size));
	for (i = 0; i < count && !t->wrong; i++)
		sums->type->take(sums, sum, t);
	if (sums->type->take_sum && !t->wrong)
		sums->type->take_sum(sum, t);
	if (unused)
		release(sums, unused);
	free(unused);
}

void take_recorded_sums(struct sums *sums, char kind, const struct kvmstats_vm *first,
			char **args, int n)
{
	struct rec_bytes t;
	size_t i;

	begin_sums(sums, first, args, n, NULL, 0);
	for (i = 0; recording_added(sums->rec, i, kind, &t); i++) {
		t.unit = take_number(&t);
		while (t.at < t.end && !t.wrong)
			take_sum(sums, &t);
	}
	end_sums(sums);
}
