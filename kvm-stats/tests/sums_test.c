// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums of "blame", "exits" and "stalls": which items have series, VMs that have exited, and reasons
 * that the BPF program does not find. Shares of times in "top" and "log". Prints TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "rec_encode.h"
#include "recorder.h"
#include "stalls_sum.h"
#include "tap.h"

struct test_item {
	struct sum_item item;
	uint64_t key;
};

static unsigned int released;

static void release(struct sum *sum)
{
	released++;
}

static const uint64_t other_key = 1000;
static const struct sums_type type = {
	.size = sizeof(struct sum), .item_size = sizeof(struct test_item),
	.key_size = sizeof(uint64_t), .other = &other_key, .release = release,
};
static struct sums sums = { .type = &type };

/* Keys of listed items as digits */
static const char *listed(const struct sum *sum)
{
	static char text[16];
	const struct test_item *item;
	uint64_t key;
	size_t i, n = 0;

	for (key = 0; key < 3; key++) {
		for (i = 0; i < sum->count; i++) {
			item = item_at(&sums, sum, i);
			if (item->item.listed && item->key == key)
				text[n++] = '0' + key;
		}
	}
	text[n] = '\0';
	return text;
}

/* A sample in which item i costs cost[i] seconds; return the growth without series. */
static uint64_t add_sample(struct sum *sum, const unsigned int cost[3], uint64_t elapsed)
{
	uint64_t i;

	for (i = 0; i < 3; i++)
		add_cost(&sums, sum, &i, cost[i] * SECOND);
	return list_items(&sums, sum, 2, elapsed);
}

static void test_series(void)
{
	struct sum sum = { 0 };
	uint64_t rest, key;

	rest = add_sample(&sum, (unsigned int[]){ 5, 3, 1 }, SECOND);
	tap_result(!strcmp(listed(&sum), "01"), "the most expensive items have series: %s", listed(&sum));
	tap_result(rest == SECOND, "the costs of the other item are returned: %llu", (unsigned long long)rest);
	add_sample(&sum, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&sum), "01"), "an item that costs a little more gets none: %s",
		   listed(&sum));
	rest = add_sample(&sum, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&sum), "02"), "an item that costs twice as much replaces another one: %s",
		   listed(&sum));
	tap_result(!rest, "the replaced item has no cost in this sample: %llu", (unsigned long long)rest);
	add_sample(&sum, (unsigned int[]){ 0, 1, 0 }, 400 * SECOND);
	tap_result(!strcmp(listed(&sum), "12") || !strcmp(listed(&sum), "01"),
		   "costs of more than five minutes ago do not count: %s", listed(&sum));
	tap_result(sum.listed == 2, "two items have series");
	/* A sanitizer detects accesses after the last item. */
	for (key = 3; key < sum.room; key++)
		add_cost(&sums, &sum, &key, SECOND);
	rest = list_items(&sums, &sum, 2, SECOND);
	tap_result(sum.count == sum.room && rest == (sum.room - 4) * SECOND,
		   "items fill their memory: %zu", sum.count);
	free(sum.items);
}

/* Later keys cost more. */
static void test_others(void)
{
	const struct test_item *first, *other = NULL, *item;
	struct sum sum = { 0 };
	uint64_t key, all = 0;
	size_t i;

	for (key = 0; key < MAX_ITEMS + 100; key++)
		add_cost(&sums, &sum, &key, key + 1);
	for (i = 0; i < sum.count; i++) {
		item = item_at(&sums, &sum, i);
		all += item->item.cost;
		if (item->key == other_key)
			other = item;
	}
	tap_result(sum.count == MAX_ITEMS + 1 && sum.cost == all,
		   "%zu items have all costs", sum.count);
	tap_result(other && other->item.cost == 100 * 101 / 2,
		   "the 100 cheapest items are one: %llu", other ? (unsigned long long)other->item.cost : 0);
	sort_items(&sums, &sum);
	first = item_at(&sums, &sum, 0);
	tap_result(first->key == other_key && ((const struct test_item *)item_at(&sums, &sum, 1))->key ==
		   MAX_ITEMS + 99, "the most expensive items are first");
	free(sum.items);
}

/* Items with series one sample after the other: equal ones, few ones, and old ones */
static void test_listed(void)
{
	static const unsigned int equal[2][3] = { { 3, 3, 3 }, { 0, 0, 5 } }, few[3] = { 9, 1, 0 };
	struct sum sum = { 0 };
	struct test_item *item;
	uint64_t key;

	add_sample(&sum, equal[0], SECOND);
	tap_result(!strcmp(listed(&sum), "01"), "of equal items, the first ones have series: %s", listed(&sum));
	add_sample(&sum, equal[1], SECOND);
	tap_result(!strcmp(listed(&sum), "12"), "of equal ones, the first one is replaced: %s", listed(&sum));
	free(sum.items);

	sum = (struct sum){ 0 };
	for (key = 0; key < 2; key++)
		add_cost(&sums, &sum, &key, few[key] * SECOND);
	list_items(&sums, &sum, 2, SECOND);
	list_items(&sums, &sum, 2, SECOND);
	tap_result(!strcmp(listed(&sum), "01") && sum.listed == 2, "as many items as have series keep them: %s", listed(&sum));
	item = item_at(&sums, &sum, 0);
	item->item.recent = 1000;
	list_items(&sums, &sum, 2, 150 * SECOND);
	tap_result(item->item.recent == 500, "costs lose half of their weight in half of the time: %u",
		   (unsigned int)item->item.recent);
	free(sum.items);
}

/* The least recent item has series, but its costs are those of more than five minutes ago. */
static void test_listed_others(void)
{
	const struct test_item *item = NULL;
	struct sum sum = { 0 };
	uint64_t key = 0, rest;
	size_t i;

	add_cost(&sums, &sum, &key, 1);
	list_items(&sums, &sum, 2, SECOND);
	list_items(&sums, &sum, 2, 400 * SECOND);
	for (key = 1; key < MAX_ITEMS + 2; key++)
		add_cost(&sums, &sum, &key, key + 1);
	for (i = 0; i < sum.count && (!item || item->key != other_key); i++)
		item = item_at(&sums, &sum, i);
	tap_result(!sum.listed && item->key == other_key && !item->item.listed && item->item.cost == 1 + 2,
		   "an item with series becomes one of the others: %u", sum.listed);
	rest = list_items(&sums, &sum, 0, SECOND);
	tap_result(rest == sum.cost - 1, "the others have the growth of theirs: %llu", (unsigned long long)rest);
	key = other_key;
	add_cost(&sums, &sum, &key, SECOND);
	list_items(&sums, &sum, 2, SECOND);
	tap_result(sum.listed == 2 && !item->item.listed, "the others have no series");
	free(sum.items);
}

/* By group, then the largest cost, then the smallest key */
static void test_sort(void)
{
	static const struct test_item unsorted[] = {
		{ { .group = 1, .cost = 9 }, 0 }, { { .cost = 1 }, 3 }, { { .group = 1, .cost = 9 }, 1 },
		{ { .cost = 1 }, 2 }, { { .cost = 2 }, 4 }, { { .group = 2, .cost = 5 }, 5 },
	};
	static const uint64_t keys[] = { 4, 2, 3, 0, 1, 5 };
	struct test_item items[6];
	struct sum sum = { .items = items, .count = 6 };
	unsigned int i, right = 0;

	memcpy(items, unsorted, sizeof(items));
	sort_items(&sums, &sum);
	for (i = 0; i < 6; i++)
		right += items[i].key == keys[i];
	tap_result(right == 6, "items are in the order of groups, costs and keys");
}

#define VMS	(MAX_EXITED + 100)

static bool is_first(void *arg, const struct sum *sum)
{
	return !strcmp(sum->label, "vm-0");
}

static void test_exited(void)
{
	static struct sum all[VMS];
	unsigned int i, live = 0;

	for (i = 0; i < VMS; i++) {
		snprintf(all[i].label, sizeof(all[i].label), "vm-%u", i);
		all[i].cost = VMS - i;
		all[i].live = i % 20 == 19;
		live += all[i].live;
	}
	sums.sum = all;
	sums.count = VMS;
	end_sums(&sums);
	tap_result(sums.count == MAX_EXITED + live && sums.dropped == VMS - sums.count &&
		   released == sums.dropped, "%zu sums remain, %u are released", sums.count, released);
	for (i = 0; i < sums.count && live; i++)
		live -= all[i].live;
	tap_result(!live, "all VMs that exist remain");
	tap_result(!strcmp(all[0].label, "vm-0"), "the first sums remain");
	forget_sums(&sums, is_first, NULL);
	tap_result(!strcmp(all[0].label, "vm-0") && all[1].live && all[sums.count - 1].live,
		   "VMs that exited are forgotten, except for one with series");
}

/* A VM of a sample: nth is its number in its process, 0 if it is the only one. */
struct sample_vm {
	const char *name;
	pid_t pid;
	unsigned int nth;
	bool ended;
	const char *label;	/* by default, the name */
};

#define TID_OF(pid, nth)	(10 * (pid) + (nth))
#define KVM_OF(pid, nth)	(1000 + TID_OF(pid, nth))

/* Samples one after the other, and the sums after each */
static const struct {
	const char *what;
	bool continues;
	const char *selector;
	struct sample_vm vms[3];
	const char *sums;
} follow_cases[] = {
	{ "two VMs", false, "*", { { "web", 4 }, { "db", 5 } }, "web@4 db@5" },
	{ "a VM that has ended", false, "*", { { "web", 4, 0, true }, { "db", 5 } }, "(web@4) db@5" },
	{ "a VM that is not in the sample", false, "*", { { "db", 5 } }, "(web@4) db@5" },
	{ "a new VM of that name", false, "*", { { "web", 6 }, { "db", 5 } }, "(web@4) db@5 web@6" },
	{ "no sum continues for a VM that has ended", true, "*", { { "web", 2, 0, true }, { "db", 5 }, { "web", 6 } },
	  "(web@4) db@5 web@6 (web@2)" },
	{ "a sum of an exited VM continues", true, "*", { { "db", 5 }, { "web", 7 } },
	  "web@7 db@5 (web@6) (web@2)" },
	{ "other VMs have other names", true, "*", { { "db", 5 }, { "web", 7 }, { "cache", 8 } },
	  "web@7 db@5 (web@6) (web@2) cache@8" },
	{ "a VM that is not selected", true, "d*", { { "db", 5 }, { "web", 7 }, { "mail", 9 } },
	  "web@7 db@5 (web@6) (web@2) (cache@8)" },
	{ "the second VM of a process", true, "*", { { "dc", 5, 2 }, { "web", 7 }, { "db", 5, 1 } },
	  "web@7 db@5 (web@6) (web@2) (cache@8) dc@5#2" },
	{ "a VM without a name", true, "*", { { "", 11 } },
	  "(web@7) (db@5) (web@6) (web@2) (cache@8) (dc@5#2) @11" },
	{ "its name is read later", true, "*", { { "late", 11 } },
	  "(web@7) (db@5) (web@6) (web@2) (cache@8) (dc@5#2) late@11" },
	{ "its label changes", true, "*", { { "late", 11, .label = "late#1" } },
	  "(web@7) (db@5) (web@6) (web@2) (cache@8) (dc@5#2) late@11" },
	{ "a sum that is not the first continues", true, "*", { { "late", 11, .label = "late#1" }, { "db", 12 } },
	  "(web@7) db@12 (web@6) (web@2) (cache@8) (dc@5#2) late@11" },
	{ "no sum continues for a second VM of that name", true, "*",
	  { { "late", 11, .label = "late#1" }, { "db", 12 }, { "db", 13, .label = "db@13" } },
	  "(web@7) db@12 (web@6) (web@2) (cache@8) (dc@5#2) late@11 db@13@13" },
};

static struct kvmstats_vm *set_vm(struct kvmstats_vm *vm, const struct sample_vm *from)
{
	static struct kvmstats_vcpu vcpu[3];
	static struct kvmstats_vcpu *list[3];
	static unsigned int n;

	n = (n + 1) % 3;
	memset(vm, 0, sizeof(*vm));
	vcpu[n].tid = TID_OF(from->pid, from->nth);
	list[n] = &vcpu[n];
	vm->vcpu = &list[n];
	vm->vcpus = 1;
	vm->identity.pid = from->pid;
	vm->nth = from->nth;
	vm->ended = from->ended;
	vm->sum.times.elapsed = SECOND;
	snprintf(vm->identity.name, sizeof(vm->identity.name), "%s", from->name);
	snprintf(vm->identity.label, sizeof(vm->identity.label), "%s", from->label ?: from->name);
	return vm;
}

/* Each sum as label@pid#nth; in brackets if the VM is not live */
static const char *list_sums(const struct sums *s)
{
	static char text[256];
	const struct sum *sum;
	size_t i, n = 0;

	for (i = 0; i < s->count; i++) {
		sum = sum_at(s, i);
		n += snprintf(text + n, sizeof(text) - n, "%s%s%s@%d", i ? " " : "", sum->live ? "" : "(",
			      sum->label, sum->pid);
		if (sum->nth != 1)
			n += snprintf(text + n, sizeof(text) - n, "#%u", sum->nth);
		n += snprintf(text + n, sizeof(text) - n, "%s", sum->live ? "" : ")");
	}
	return text;
}

static void test_follow(void)
{
	struct blame_thread threads[3];
	struct kvmstats_vm vms[3], ended;
	struct sums follow = { .type = &type };
	FILE *real_stderr = stderr;
	struct sum *sum;
	unsigned int i, n;
	const char *label;
	char *said;
	size_t size;

	stderr = open_memstream(&said, &size);
	if (!stderr)
		exit(1);
	for (i = 0; i < sizeof(follow_cases) / sizeof(*follow_cases); i++) {
		char *selector = (char *)follow_cases[i].selector;

		for (n = 0; n < 3 && follow_cases[i].vms[n].pid; n++) {
			const struct sample_vm *vm = &follow_cases[i].vms[n];

			set_vm(&vms[n], vm);
			if (n)
				vms[n - 1].next = &vms[n];
			threads[n] = (struct blame_thread){
				.vm = { .kvm = KVM_OF(vm->pid, vm->nth), .tgid = vm->pid },
				.tid = TID_OF(vm->pid, vm->nth),
			};
		}
		follow.continues = follow_cases[i].continues;
		begin_sums(&follow, vms, &selector, 1, threads, n);
		add_elapsed(&follow, vms);
		tap_result(!strcmp(list_sums(&follow), follow_cases[i].sums), "%s: %s", follow_cases[i].what,
			   list_sums(&follow));
	}

	fclose(stderr);
	stderr = real_stderr;
	tap_result(!strcmp(said, "sums_test: web: VM exited; continuing with process 7\n"
			   "sums_test: db: VM exited; continuing with process 12\n"), "successors are reported: %s", said);
	free(said);

	sum = sum_at(&follow, 0);
	set_vm(&ended, &(struct sample_vm){ "web", 4, 0, true });
	tap_result(find_sum(&follow, &ended) == sum, "the end of a VM belongs to the sum that its successor continues");
	ended.ended = false;
	tap_result(!find_sum(&follow, &ended), "a live VM with that PID has no sum");
	ended.ended = true;
	ended.identity.pid = 3;
	tap_result(!find_sum(&follow, &ended), "the end of a VM of another process has no sum");
	ended.identity.pid = 5;
	tap_result(find_sum(&follow, &ended) == sum_at(&follow, 1), "so does the end of a VM whose sum is not the first");
	ended.identity.pid = 4;
	ended.nth = 2;
	tap_result(!find_sum(&follow, &ended), "another VM of that process has no sum");
	tap_result(sum->elapsed == 6 * SECOND, "the time of both VMs adds up: %llu s",
		   (unsigned long long)(sum->elapsed / SECOND));
	set_elapsed(&follow, &vms[0], 77);
	set_elapsed(&follow, &ended, 78);
	sum = find_labelled_sum(&follow, "late");
	tap_result(sum && sum->elapsed == 77, "the time of a VM is set");
	tap_result(!find_labelled_sum(&follow, "mail"), "a VM that was not selected has no sum");

	sum = find_kernel_sum(&follow, &(struct blame_vm){ KVM_OF(5, 2), 5, 0 });
	tap_result(sum && !strcmp(sum->label, "dc"), "the kernel's VM has its sum");
	sum = find_kernel_sum(&follow, &(struct blame_vm){ KVM_OF(5, 1), 5, 0 });
	tap_result(sum && !strcmp(sum->label, "db"), "another VM of the process has another sum");
	tap_result(!find_kernel_sum(&follow, &(struct blame_vm){ KVM_OF(9, 0), 9, 0 }), "one that was not selected has none");
	label = find_label(&follow, KVM_OF(9, 0), 9);
	tap_result(label && !strcmp(label, "mail"), "but it has a label");
	label = find_label(&follow, 3, 5);
	tap_result(label && !strcmp(label, "db"), "an unknown VM has the label of the last one of its process: %s", label ?: "none");
	tap_result(!find_label(&follow, 0, 3), "a VM of an unknown process has no label");
	label = find_label(&follow, KVM_OF(11, 0), 11);
	tap_result(label && !strcmp(label, "late"), "a selected VM has the label of its sum: %s", label ?: "none");
	tap_result(follow.known_count == 23, "each VM is known once by its thread, and once by its process: %zu", follow.known_count);
	follow.known_count = 1;
	label = find_label(&follow, 99, follow.known[0].vm.tgid);
	tap_result(label && !strcmp(label, "web"), "the first VM that is known has a label: %s", label ?: "none");
	follow.known_count = 2;
	tap_result(follow.known[2].vm.tgid == 5 && !find_label(&follow, 99, 5), "a VM that is no longer known has none");

	/* The first sum stays in memory. */
	follow.count = 0;
	ended.nth = 0;
	tap_result(!find_sum(&follow, &ended), "the end of a VM without sums has no sum");
	ended.identity.pid = 7;
	tap_result(!find_sum(&follow, &ended), "a sum that was removed is not found");
	tap_result(!find_labelled_sum(&follow, "web"), "nor is it found by its label");
	free(follow.sum);
	free(follow.known);
}

/* Process 1 has a VM in all samples, in which processes from 100 on have one VM after the other. */
static void test_forget(void)
{
	struct kvmstats_vcpu vcpu[2] = { { .tid = 1 }, { .tid = 2 } };
	struct kvmstats_vcpu *list[] = { &vcpu[0], &vcpu[1] };
	const struct blame_thread thread = { .vm = { .kvm = 7, .tgid = 1 }, .tid = 2 };
	struct kvmstats_vm vms[2] = { { .next = &vms[1] }, { .vcpu = list, .vcpus = 2 } };
	struct sums known = { .type = &type };
	char *selector = (char *)"none";
	const char *label;
	unsigned int i;

	strcpy(vms[1].identity.label, "stays");
	vms[1].identity.pid = 1;
	for (i = 0; i < MAX_EXITED + 3; i++) {
		vms[0].identity.pid = 100 + i;
		snprintf(vms[0].identity.label, sizeof(vms[0].identity.label), "vm-%u", i);
		begin_sums(&known, vms, &selector, 1, &thread, 1);
	}
	tap_result(known.known_count == MAX_EXITED + 3, "labels of %zu VMs are known, three of them of VMs that exist",
		   known.known_count);
	tap_result(!find_label(&known, 1, 101) && find_label(&known, 1, 102) && find_label(&known, 1, 99 + i),
		   "the oldest labels are forgotten");
	label = find_label(&known, 7, 1);
	tap_result(label && !strcmp(label, "stays"), "a VM that exists keeps its label: %s", label ?: "none");
	free(known.known);
}

uint64_t __wrap_recorder_unit(const struct recorder *r)
{
	return 1000;
}

static void put_item(const void *item, struct bytes *b)
{
	bytes_number(b, ((const struct test_item *)item)->key);
	bytes_time(b, ((const struct test_item *)item)->item.cost);
}

static void take_item(struct sums *s, struct sum *sum, struct rec_bytes *t)
{
	const uint64_t key = take_number(t);

	if (key == 77)
		t->wrong = true;
	else
		add_cost(s, sum, &key, take_time(t));
}

static void put_elapsed(const struct sum *sum, struct bytes *b)
{
	bytes_number(b, sum->elapsed);
}

static void take_elapsed(struct sum *sum, struct rec_bytes *t)
{
	sum->elapsed += take_number(t);
}

static unsigned int cleared;

static void clear_elapsed(struct sum *sum)
{
	cleared++;
}

/* Costs in microseconds of the items 0 to 4, and what a recording of most items has of them */
static const struct {
	const char *what;
	bool others;
	uint64_t cost[5];
	size_t most;
	uint64_t least;
	const char *items;
} record_cases[] = {
	{ "all items", true, { 5, 3, 1 }, 3, 0, "0:5 1:3 2:1, 9" },
	{ "one item more than those is recorded", true, { 5, 3, 1 }, 2, 0, "0:5 1:3 2:1, 9" },
	{ "the smallest items are one", true, { 5, 1, 3, 2 }, 2, 0, "0:5 2:3 1000:3, 11" },
	{ "a larger item than the first one", true, { 1, 3 }, 2, 0, "0:1 1:3, 4" },
	{ "the first items", false, { 5, 3, 1 }, 2, 0, "0:5 1:3, 8" },
	{ "the first of many items", false, { 5, 3, 2, 1 }, 2, 0, "0:5 1:3, 8" },
	{ "all of fewer items", false, { 5, 3, 1 }, 4, 0, "0:5 1:3 2:1, 9" },
	{ "of equal items, the first ones", true, { 5, 3, 3 }, 1, 0, "0:5 1000:6, 11" },
	{ "of equal items, the first one", true, { 5, 3, 3, 3 }, 2, 0, "0:5 3:3 1000:6, 14" },
	{ "a sum with the least cost", true, { 5, 3 }, 2, 8000, "0:5 1:3, 8" },
	{ "a sum with less", true, { 5, 3 }, 2, 8001, ", 0" },
};

/* Items by key, and the cost of the sum, in microseconds */
static const char *list_costs(const struct sums *s, const struct sum *sum)
{
	static char text[256];
	const struct test_item *item;
	uint64_t key;
	size_t i, n = 0;

	for (key = 0; key <= other_key; key++) {
		for (i = 0; i < sum->count; i++) {
			item = item_at(s, sum, i);
			if (item->key == key)
				n += snprintf(text + n, sizeof(text) - n, "%s%u:%u", n ? " " : "",
					      (unsigned int)key, (unsigned int)(item->item.cost / 1000));
		}
	}
	snprintf(text + n, sizeof(text) - n, ", %u", (unsigned int)(sum->cost / 1000));
	return text;
}

/* Return true if the first item is not cheaper than the last one. */
static bool is_sorted(const struct sums *s, const struct sum *sum)
{
	const struct sum_item *first = item_at(s, sum, 0);

	return !sum->count || first->cost >= ((const struct sum_item *)item_at(s, sum, sum->count - 1))->cost;
}

static void test_record(void)
{
	struct sums_type shape = {
		.all_size = sizeof(struct sums), .size = sizeof(struct sum), .item_size = sizeof(struct test_item),
		.key_size = sizeof(uint64_t), .put = put_item, .take = take_item, .put_sum = put_elapsed,
		.take_sum = take_elapsed, .clear = clear_elapsed,
	};
	struct kvmstats_vm vms[2];
	struct recording *rec = (void *)&recorded;
	struct sums from = { .type = &shape }, to;
	struct sum *sum;
	unsigned int i;
	uint64_t key;
	char *selector = (char *)"web";

	set_vm(&vms[0], &(struct sample_vm){ "db", 5 });
	set_vm(&vms[1], &(struct sample_vm){ "web", 4 });
	vms[0].next = &vms[1];
	begin_sums(&from, vms, NULL, 0, NULL, 0);
	for (i = 0; i < sizeof(record_cases) / sizeof(*record_cases); i++) {
		shape.other = record_cases[i].others ? &other_key : NULL;
		key = 3;
		add_cost(&from, sum_at(&from, 0), &key, 1000000);
		for (key = 0; key < 5; key++)
			if (record_cases[i].cost[key])
				add_cost(&from, sum_at(&from, 1), &key, record_cases[i].cost[key] * 1000);
		set_elapsed(&from, &vms[1], 7);
		cleared = 0;
		record_sums(&from, NULL, 'Q', record_cases[i].most, record_cases[i].least);
		sum = sum_at(&from, 1);
		tap_result(!sum->count && !sum->cost && !sum->elapsed && cleared == 2,
			   "%s: sums begin again when they are recorded", record_cases[i].what);
		memset(&to, 0, sizeof(to));
		read_recorded_sums(&to, &shape, rec);
		take_recorded_sums(&to, 'Q', vms, &selector, 1);
		sum = sum_at(&to, 0);
		tap_result(to.continues && to.count == 1 && is_sorted(&to, sum) && !strcmp(list_costs(&to, sum), record_cases[i].items) &&
			   sum->elapsed == (*record_cases[i].items == ',' ? 0 : 7), "%s: %s, in %u ns",
			   record_cases[i].what, list_costs(&to, sum), (unsigned int)sum->elapsed);
		close_sums(&to);
		tap_result(!to.type && !to.sum && !to.known, "%s: a closed sum is empty", record_cases[i].what);
	}

	key = 2;
	add_cost(&from, sum_at(&from, 0), &key, 1000);
	key = 0;
	add_cost(&from, sum_at(&from, 1), &key, 1000);
	key = 77;
	add_cost(&from, sum_at(&from, 1), &key, 1000);
	key = 1;
	add_cost(&from, sum_at(&from, 1), &key, 1000);
	set_elapsed(&from, &vms[1], 7);
	record_sums(&from, NULL, 'Q', 9, 0);
	memset(&to, 0, sizeof(to));
	read_recorded_sums(&to, &shape, rec);
	take_recorded_sums(&to, 'Q', vms, NULL, 0);
	sum = find_labelled_sum(&to, "web");
	tap_result(sum && !strcmp(list_costs(&to, sum), "0:1, 1") && !sum->elapsed,
		   "nothing is read after an item that is wrong: %s", list_costs(&to, sum));
	sum = find_labelled_sum(&to, "db");
	tap_result(sum && !strcmp(list_costs(&to, sum), "2:1, 1"), "a sum before it is read: %s", list_costs(&to, sum));
	recorded_times = 2;
	take_recorded_sums(&to, 'Q', vms, NULL, 0);
	recorded_times = 1;
	tap_result(!strcmp(list_costs(&to, find_labelled_sum(&to, "db")), "2:3, 3"), "a sample with two records: %s",
		   list_costs(&to, find_labelled_sum(&to, "db")));
	vms[0].identity.pid = 15;
	take_recorded_sums(&to, 'Q', vms, NULL, 0);
	tap_result(!strcmp(list_costs(&to, find_labelled_sum(&to, "db")), "2:4, 4"), "what a VM did before its successor: %s",
		   list_costs(&to, find_labelled_sum(&to, "db")));
	vms[0].identity.pid = 5;
	close_sums(&to);

	for (i = 0; i < 2; i++) {
		for (key = 0; key < 2; key++)
			add_cost(&from, sum_at(&from, i), &key, 1000 * (i + key + 1));
	}
	keep_growth(&from);
	for (i = 0; i < 2; i++) {
		for (key = 0; key < 2; key++) {
			const struct sum_item *item = add_cost(&from, sum_at(&from, i), &key, 0);

			tap_result(item->recent == 1000 * (i + key + 1) && !item->growth, "growth is kept once: %u",
				   (unsigned int)item->recent);
		}
	}
	shape.clear = NULL;
	clear_sums(&from);
	tap_result(!((struct sum *)sum_at(&from, 0))->count && !((struct sum *)sum_at(&from, 1))->count, "sums of a type with items only are cleared");

	shape.other = NULL;
	for (key = 78; key <= MAX_ITEMS + 78; key++)
		add_cost(&from, sum_at(&from, 0), &key, 1000);
	sum = sum_at(&from, 0);
	tap_result(sum->count == MAX_ITEMS + 1, "items of a type without others are not added up: %zu", sum->count);
	shape.put_sum = NULL;
	shape.take_sum = NULL;
	for (i = 0; i < 2; i++) {
		record_sums(&from, NULL, 'Q', 999, 0);
		memset(&to, 0, sizeof(to));
		read_recorded_sums(&to, &shape, rec);
		take_recorded_sums(&to, 'Q', vms, NULL, 0);
		sum = find_labelled_sum(&to, "db");
		tap_result(sum->count == (i ? 0 : MAX_ITEMS + 1), "items that are read: %zu", sum->count);
		close_sums(&to);
		for (key = 78; key < MAX_ITEMS + 80; key++)
			add_cost(&from, sum_at(&from, 0), &key, 1000);
	}
	from.rec = rec;
	close_sums(&from);
	free(recorded.data);
}

static const char *ready_of(const struct item *item)
{
	static char text[COLUMN_SIZE];

	column_cell(&columns[column_by_title("READY")], item, text);
	return text;
}

static const char *wait_of(const struct kvmstats_vm *vm)
{
	const struct item item = item_vm(vm);
	static char text[COLUMN_SIZE];

	column_cell(&columns[column_by_title("WAIT")], &item, text);
	return text;
}

static void test_mean_wait(void)
{
	struct kvmstats_vm vm = { .elapsed = SECOND };
	struct kvmstats_times *t = &vm.sum.times;

	t->known = KVMSTATS_TURNS_KNOWN;
	t->mode[KVMSTATS_READY] = SECOND / 10 * 3;
	t->mode[KVMSTATS_THROTTLED] = SECOND / 5;
	t->turns = 125;
	tap_result(!strcmp(wait_of(&vm), "4.0"), "125 waits of 500 ms: %s ms each", wait_of(&vm));
	t->turns = 7;
	tap_result(!strcmp(wait_of(&vm), "71.4"), "7 waits of 500 ms: %s ms each", wait_of(&vm));
	t->turns = 0;
	tap_result(!strcmp(wait_of(&vm), "500"), "one wait that has not ended: %s ms", wait_of(&vm));
	t->mode[KVMSTATS_READY] = t->mode[KVMSTATS_THROTTLED] = 0;
	tap_result(!strcmp(wait_of(&vm), "-"), "no wait has no length: %s", wait_of(&vm));
	t->turns = 9;
	tap_result(!strcmp(wait_of(&vm), "0.0"), "wakeups onto an idle CPU: %s ms", wait_of(&vm));
	t->known = 0;
	tap_result(!strcmp(wait_of(&vm), "-"), "an unknown number of waits: %s", wait_of(&vm));
}

/* vCPUs are read one after the other, each with its own clock. */
static void test_shares(void)
{
	struct kvmstats_vcpu vcpus[2] = { 0 };
	struct kvmstats_vcpu *list[] = { &vcpus[0], &vcpus[1] };
	struct kvmstats_vm vm = { .elapsed = SECOND, .vcpus = 2, .vcpu = list };
	struct item item;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct kvmstats_times *t = &vcpus[i].last.times;

		t->elapsed = t->mode[KVMSTATS_READY] = i ? SECOND / 100 * 99 : SECOND / 1000 * 1029;
		t->known = -1;
		add_activity(&vm.sum, &vcpus[i].last);
	}
	item = item_vcpu(&vm, &vcpus[0]);
	tap_result(!strcmp(ready_of(&item), "100.0"),
		   "a vCPU that only waited, in a longer time than its VM: %s %%", ready_of(&item));
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "100.0"),
		   "a vCPU that only waited, in a shorter time: %s %%", ready_of(&item));
	item = item_vm(&vm);
	tap_result(!strcmp(ready_of(&item), "200.0") && item_most(&item, KVMSTATS_READY) == 1000,
		   "a VM with these vCPUs: %s %%", ready_of(&item));
	vcpus[1].last.times.elapsed = vcpus[1].last.times.mode[KVMSTATS_READY] = SECOND / 10;
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "10.0"),
		   "a vCPU that was created since the previous sample: %s %%", ready_of(&item));
	vm.ended = true;
	vcpus[1].last.times.elapsed = SECOND / 4 * 3;
	item = item_vcpu(&vm, &vcpus[1]);
	tap_result(!strcmp(ready_of(&item), "10.0"), "a vCPU of a VM that has ended: %s %%",
		   ready_of(&item));
}

/* Each column has its own letter, which is not another key of "top". */
static void test_letters(void)
{
	unsigned int i;
	int found;

	for (i = 0; i < columns_count; i++) {
		const char letter = columns[i].letter;

		found = column_by_letter(letter);
		tap_result(letter >= 'A' && letter <= 'Z' && letter != 'S' && found == (int)i,
			   "column %s has the letter %c, as %s", columns[i].title, letter,
			   found < 0 ? "no column" : columns[found].title);
	}
	tap_result(column_by_letter('s') == -1, "no column has the letter s");
}

/* Instead of the BPF program: a row of one thread */
#define TID	5
static struct stalls_row row;
static const struct blame_thread thread = { .vm = { .kvm = 1, .tgid = 4 }, .tid = TID };

static int open_error;
static unsigned int closed;

int stalls_open(struct stalls **stalls, struct threads *shared, const struct kvmstats_vm *first,
		struct kvmstats_probe *p)
{
	return open_error;
}

void stalls_close(struct stalls *stalls)
{
	closed++;
}

void stalls_enter(struct stalls *stalls, const struct kvmstats_vm *first)
{
}

int stalls_sample(struct stalls *stalls)
{
	return 0;
}

const struct stalls_row *stalls_rows(const struct stalls *stalls, size_t *n)
{
	*n = 1;
	return &row;
}

const struct blame_thread *stalls_threads(const struct stalls *stalls, size_t *n)
{
	*n = 1;
	return &thread;
}

uint64_t stalls_lost(const struct stalls *stalls)
{
	return 0;
}

static struct kvmstats_vcpu vcpu = { .tid = TID };
static struct kvmstats_vcpu *const vcpus[] = { &vcpu };
static struct kvmstats_vm vm = {
	.identity = { .pid = 4, .name = "web", .label = "web" }, .vcpus = 1, .vcpu = vcpus,
};

/* A sample with so many exits, seconds of OTHER, and seconds for a reason; return the reasons. */
static const char *sample_stalls(struct stalls_sum *stalls, uint64_t exits, uint64_t other,
				 enum stall reason, uint64_t seconds)
{
	static char text[256];
	struct sum *sum;
	size_t i, n = 0;

	vcpu.last.known = 1 << KVMSTATS_EXITS;
	vcpu.last.event[KVMSTATS_EXITS] = exits;
	vm.sum.times.mode[KVMSTATS_OTHER] = other * SECOND;
	vm.sum.times.elapsed = 10 * SECOND;
	row = (struct stalls_row){ .vm = thread.vm, .tid = TID };
	row.growth[reason] = seconds * SECOND;
	add_sums(&stalls->sums, &vm, NULL, 0);
	sum = sum_at(&stalls->sums, 0);
	*text = '\0';
	for (i = 0; i < sum->count; i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%s %u", i ? ", " : "",
			      stall_name(stall_share_at(sum, i)->reason),
			      (unsigned int)(stall_share_at(sum, i)->item.cost / SECOND));
	return text;
}

static void test_stalls(void)
{
	struct kvmstats_probe probe;
	struct stalls_sum stalls = { 0 };
	const char *found;

	open_error = -5;
	tap_result(open_sums(&stalls.sums, &stalls_sums, NULL, &vm, &probe) == -5, "the error of a BPF program is returned");
	open_error = 0;
	open_sums(&stalls.sums, &stalls_sums, NULL, &vm, &probe);
	found = sample_stalls(&stalls, 0, 9, STALL_NONE, 0);
	tap_result(!*found, "OTHER before the first sample does not count: '%s'", found);
	found = sample_stalls(&stalls, 1, 5, STALL_LOCK, 5);
	tap_result(!strcmp(found, "lock 5"), "vCPU with an exit: %s", found);
	found = sample_stalls(&stalls, 0, 3, STALL_LOCK, 3);
	tap_result(!strcmp(found, "lock 5, paused 3"), "vCPU without an exit, in a lock: %s", found);
	found = sample_stalls(&stalls, 0, 1, STALL_WAIT, 1);
	tap_result(!strcmp(found, "lock 5, paused 4"), "vCPU without an exit, in a sleep: %s", found);
	found = sample_stalls(&stalls, 0, 2, STALL_DISK, 2);
	tap_result(!strcmp(found, "lock 5, paused 4, disk 2"), "vCPU without an exit, in I/O: %s", found);
	found = sample_stalls(&stalls, 1, 6, STALL_STOPPED, 3);
	tap_result(!strcmp(found, "lock 5, paused 4, stopped 3, unknown 3, disk 2"),
		   "OTHER without a reason is unknown: %s", found);
	found = sample_stalls(&stalls, 1, 1, STALL_STOPPED, 2);
	tap_result(!strcmp(found, "stopped 5, lock 5, paused 4, unknown 3, disk 2"),
		   "a reason can be known a sample before OTHER: %s", found);
	found = sample_stalls(&stalls, 1, 3, STALL_STOPPED, 2);
	tap_result(!strcmp(found, "stopped 7, lock 5, paused 4, unknown 3, disk 2"),
		   "which is not unknown later: %s", found);
	close_sums(&stalls.sums);
	tap_result(closed == 1, "closed sums close their BPF program");
}

int main(void)
{
	test_stalls();
	test_shares();
	test_mean_wait();
	test_letters();
	test_series();
	test_others();
	test_listed();
	test_listed_others();
	test_sort();
	test_exited();
	test_follow();
	test_forget();
	test_record();
	return tap_end();
}
