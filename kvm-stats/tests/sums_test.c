// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sums of "blame", "exits" and "stalls": which items have series, VMs that have exited, and reasons
 * that the BPF program does not find. Shares of times in "top" and "log". Prints TAP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
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

/* A sample in which item i costs cost[i] seconds; return the growth without series in seconds. */
static unsigned int add_sample(struct sum *sum, const unsigned int cost[3], uint64_t elapsed)
{
	uint64_t i;

	for (i = 0; i < 3; i++)
		add_cost(&sums, sum, &i, cost[i] * SECOND);
	return list_items(&sums, sum, 2, elapsed) / SECOND;
}

static void test_series(void)
{
	struct sum sum = { 0 };
	unsigned int rest;

	rest = add_sample(&sum, (unsigned int[]){ 5, 3, 1 }, SECOND);
	tap_result(!strcmp(listed(&sum), "01"), "the most expensive items have series: %s", listed(&sum));
	tap_result(rest == 1, "the costs of the other item are returned: %u", rest);
	add_sample(&sum, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&sum), "01"), "an item that costs a little more gets none: %s",
		   listed(&sum));
	rest = add_sample(&sum, (unsigned int[]){ 5, 0, 4 }, SECOND);
	tap_result(!strcmp(listed(&sum), "02"), "an item that costs twice as much replaces another one: %s",
		   listed(&sum));
	tap_result(!rest, "the replaced item has no cost in this sample: %u", rest);
	add_sample(&sum, (unsigned int[]){ 0, 1, 0 }, 400 * SECOND);
	tap_result(!strcmp(listed(&sum), "12") || !strcmp(listed(&sum), "01"),
		   "costs of more than five minutes ago do not count: %s", listed(&sum));
	tap_result(sum.listed == 2, "two items have series");
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

int stalls_open(struct stalls **stalls, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	return 0;
}

void stalls_close(struct stalls *stalls)
{
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

	open_sums(&stalls.sums, &stalls_sums, &vm, &probe);
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
}

int main(void)
{
	test_stalls();
	test_shares();
	test_mean_wait();
	test_letters();
	test_series();
	test_others();
	test_exited();
	return tap_end();
}
