// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rows that "exits" makes of what its BPF program has counted: vCPUs and cells that the test makes
 * up, with a clock, files of /proc and threads of its own. Needs neither KVM nor rights; prints TAP.
 */
#include <inttypes.h>

/* with its arrays */
#include "../src/bpf/exits.c"
#include "tap.h"

#define NOW	1000000ULL
#define SERIALS	100	/* given out before the first sample */
#define TGID	4711
#define HLT	0x78

static struct exits_bpf program;
static typeof(*program.bss) bss;
static struct exits *exits;
static uint64_t now;

uint64_t __wrap_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock)
{
	return now;
}

/* What the file schedstat of all threads has; NULL: the thread has exited */
static const char *schedstat;

FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	return schedstat ? fmemopen((void *)schedstat, strlen(schedstat), "r") : NULL;
}

/* This thread has exited, and this one belongs to another user. */
static int exited_tid, foreign_tid;

int __wrap_tgkill(pid_t tgid, pid_t tid, int number);
int __wrap_tgkill(pid_t tgid, pid_t tid, int number)
{
	errno = tid == exited_tid ? ESRCH : EPERM;
	return tid == exited_tid || tid == foreign_tid ? -1 : 0;
}

static void begin(void)
{
	static struct exits none;

	if (exits) {
		free(exits->rows);
		free(exits->before);
		memset(exits->slots, 0, SLOTS_SIZE);
		memset(exits->places, 0, PLACES_SIZE);
	} else {
		none.slots = calloc(1, SLOTS_SIZE);
		none.places = calloc(1, PLACES_SIZE);
		allocate(&none);
		exits = &none;
	}
	*exits = (struct exits){
		.program = &program, .slots = exits->slots, .places = exits->places,
		.first.list = exits->first.list, .second.list = exits->second.list,
		.threads = exits->threads, .clock_offset = 0,
	};
	program.bss = &bss;
	memset(&bss, 0, sizeof(bss));
	bss.serials = SERIALS;
	schedstat = NULL;
	exited_tid = foreign_tid = 0;
	now = NOW;
}

/* The slot of a vCPU; those of higher numbers are first. */
static struct exits_vcpu *slot_of(unsigned int n)
{
	return &exits->slots[EXITS_SLOTS - n];
}

/* A vCPU with this number; its thread has the same one. */
static struct exits_vcpu *add_vcpu(unsigned int n)
{
	*slot_of(n) = (struct exits_vcpu){
		.tid = n, .serial = n, .notifier = 1, .kvm = 5, .tgid = TGID, .vcpu = 3, .isa = EXITS_SVM, .uid = 7,
	};
	return slot_of(n);
}

static struct exits_cell *add_cell(unsigned int n, uint32_t serial, uint32_t reason)
{
	exits->places[n].key = (struct exits_key){ .serial = serial, .reason = reason };
	exits->places[n].cell = (struct exits_cell){ .tgid = TGID, .tid = serial };
	exits->places[n].taken = 8;
	return &exits->places[n].cell;
}

static const struct exits_row *find_row(uint32_t serial, uint32_t reason)
{
	const struct exits_row *rows;
	size_t i, n;

	rows = exits_rows(exits, &n);
	for (i = 0; i < n; i++)
		if (rows[i].key.serial == serial && rows[i].key.reason == reason)
			return &rows[i];
	return NULL;
}

static size_t count_rows(void)
{
	size_t n;

	exits_rows(exits, &n);
	return n;
}

static void test_growth(void)
{
	struct exits_cell *cell, *other;
	const struct exits_row *row;

	begin();
	add_vcpu(2);
	cell = add_cell(9, 2, 30);
	other = add_cell(4, 2, 31);
	*cell = (struct exits_cell){ .count = 5, .kernel = 50, .user = 20, .ready = 7, .halt = 3, .max = 40, .bucket[6] = 5 };
	other->count = 1;
	row = exits_sample(exits) ? NULL : find_row(2, 30);
	tap_result(row && count_rows() == 2 && row->growth.count == 5 && row->growth.kernel == 50 &&
		   row->growth.bucket[6] == 5, "the first sample: all of a cell has grown");
	cell->count = 7;
	cell->kernel = 60;
	cell->user = 21;
	cell->ready = 9;
	cell->halt = 3;
	cell->bucket[6] = 6;
	cell->bucket[EXITS_BUCKETS - 1] = 1;
	row = exits_sample(exits) ? NULL : find_row(2, 30);
	tap_result(row && row->growth.count == 2 && row->growth.kernel == 10 && row->growth.user == 1 &&
		   row->growth.ready == 2 && row->growth.halt == 0 && row->growth.bucket[6] == 1 &&
		   row->growth.bucket[EXITS_BUCKETS - 1] == 1 && row->growth.max == 40 && row->cell.count == 7,
		   "the next one: what came since then, and the longest exit");
	row = find_row(2, 31);
	tap_result(row && row->growth.count == 0 && row->cell.count == 1, "another reason of the vCPU has not grown");
	add_cell(5, 2, 31)->count = 4;
	exits->places[5].key.address = 0x60;
	exits->places[5].key.space = EXITS_PORT;
	tap_result(!exits_sample(exits) && count_rows() == 3, "a reason has a row for each address");
}

static void test_open_exits(void)
{
	static const struct {
		const char *what;
		uint32_t reason;
		uint64_t exit, user_since, user, ready, early, halt, delay;
		const char *schedstat;
		uint64_t kernel_sum, user_sum, ready_sum, halt_sum;
	} rows[] = {
		{ "no exit is open", 30, .user = 9 },
		{ "in the kernel: what is known", 30, .exit = 1, .user = 10, .ready = 5, .early = 2, .halt = 3,
		  .user_sum = 10, .ready_sum = 7, .halt_sum = 3 },
		{ "in userspace", 30, .exit = 1, .user_since = NOW - 100, .user = 10, .ready = 5,
		  .user_sum = 110, .ready_sum = 5 },
		{ "in userspace, and waited for a CPU", 30, .exit = 1, .user_since = NOW - 100, .delay = 40,
		  .schedstat = "7 70 1\n", .user_sum = 70, .ready_sum = 30 },
		{ "the wait was counted already", 30, .exit = 1, .user_since = NOW - 100, .delay = 40,
		  .schedstat = "7 40 1\n", .user_sum = 100, .ready_sum = 0 },
		{ "the wait began earlier: as long as the exit", 30, .exit = 1, .user_since = NOW - 100, .delay = 40,
		  .schedstat = "7 141 1\n", .user_sum = 0, .ready_sum = 100 },
		{ "a file without numbers", 30, .exit = 1, .user_since = NOW - 100, .delay = 40,
		  .schedstat = "\n", .user_sum = 100 },
		{ "a halt", HLT, .exit = NOW - 200, .user = 20, .ready = 30, .early = 4, .halt = 9,
		  .user_sum = 20, .ready_sum = 34, .halt_sum = 150 },
		{ "a halt in userspace is none", HLT, .exit = NOW - 200, .user_since = NOW - 100,
		  .user_sum = 100 },
	};
	const struct exits_row *row;
	struct exits_vcpu *vcpu;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin();
		vcpu = add_vcpu(2);
		vcpu->reason = rows[i].reason;
		vcpu->exit = rows[i].exit;
		vcpu->user_since = rows[i].user_since;
		vcpu->user = rows[i].user;
		vcpu->ready = rows[i].ready;
		vcpu->early = rows[i].early;
		vcpu->halt = rows[i].halt;
		vcpu->delay = rows[i].delay;
		schedstat = rows[i].schedstat;
		row = exits_sample(exits) ? NULL : find_row(2, rows[i].reason);
		if (!rows[i].exit) {
			tap_result(!row && !count_rows(), "%s: no row", rows[i].what);
			continue;
		}
		tap_result(row && row->cell.count == 1 && row->cell.kernel == 0 &&
			   row->cell.user == rows[i].user_sum && row->cell.ready == rows[i].ready_sum &&
			   row->cell.halt == rows[i].halt_sum && row->cell.max == rows[i].user_sum &&
			   row->cell.kvm == 5 && row->cell.tgid == TGID && row->cell.tid == 2 &&
			   row->cell.vcpu == 3 && row->cell.isa == EXITS_SVM,
			   "%s: user %" PRIu64 ", ready %" PRIu64 ", halt %" PRIu64, rows[i].what,
			   row ? (uint64_t)row->cell.user : 0, row ? (uint64_t)row->cell.ready : 0,
			   row ? (uint64_t)row->cell.halt : 0);
	}
	exits->clock_offset = 10;
	vcpu = add_vcpu(2);
	vcpu->exit = 1;
	vcpu->user_since = NOW - 100;
	row = exits_sample(exits) ? NULL : find_row(2, 0);
	tap_result(row && row->cell.user == 90, "the clock of a time namespace is 10 ns ahead of the program's");
}

/* An open exit has the key of a cell; in the next sample, it is about to end, and left out. */
static void test_sums_do_not_decrease(void)
{
	struct exits_cell *cell;
	const struct exits_row *row;
	struct exits_vcpu *vcpu;

	begin();
	vcpu = add_vcpu(2);
	vcpu->reason = 30;
	vcpu->exit = 1;
	vcpu->user = 500;
	cell = add_cell(3, 2, 30);
	*cell = (struct exits_cell){ .count = 4, .user = 40, .max = 300 };
	row = exits_sample(exits) ? NULL : find_row(2, 30);
	tap_result(row && count_rows() == 1 && row->cell.count == 5 && row->cell.user == 540 && row->cell.max == 500,
		   "a cell and an open exit with its key are one row");
	vcpu->exit = 0;
	cell->user = 41;
	row = exits_sample(exits) ? NULL : find_row(2, 30);
	tap_result(row && row->cell.count == 5 && row->cell.user == 540 && row->cell.max == 500 &&
		   !row->growth.count && !row->growth.user, "without the open exit, no sum decreases");
	cell->user = 600;
	cell->count = 5;
	cell->max = 501;
	row = exits_sample(exits) ? NULL : find_row(2, 30);
	tap_result(row && row->cell.user == 600 && row->growth.user == 60 && !row->growth.count && row->cell.max == 501,
		   "then it is in the cell: the sums go on from there");
	vcpu->reason = 31;
	vcpu->exit = 1;
	vcpu->user = 3;
	exits_sample(exits);
	vcpu->exit = 0;
	row = exits_sample(exits) ? NULL : find_row(2, 31);
	tap_result(row && row->cell.user == 3 && count_rows() == 2, "an exit that is in no cell yet keeps its row");
	vcpu->tid = 0;
	row = exits_sample(exits) ? NULL : find_row(2, 31);
	tap_result(!row, "but not after its vCPU has exited");
}

static void test_vcpus_that_exit(void)
{
	const struct exits_row *row;
	struct exits_vcpu *vcpu;

	begin();
	add_cell(3, 2, 30)->count = 1;
	add_cell(4, SERIALS, 30)->count = 2;
	add_cell(5, SERIALS + 1, 30)->count = 3;
	add_cell(6, 0, 30);
	tap_result(!exits_sample(exits) && count_rows() == 3 && !exits->places[3].taken &&
		   !exits->places[4].key.serial && !exits->places[4].cell.count && exits->places[5].taken == 8,
		   "cells of vCPUs that have exited are read once; a vCPU that is new keeps its own");
	tap_result(exits->places[6].taken == 8, "a cell that is being entered is not read, and kept");
	tap_result(!exits_sample(exits) && count_rows() == 1 && find_row(SERIALS + 1, 30), "then only that one has a row");
	begin();
	vcpu = add_vcpu(2);
	add_vcpu(6)->notifier = 0;
	add_vcpu(8)->exit = 1;
	slot_of(8)->user = 11;
	add_vcpu(9)->exit = 1;
	exited_tid = 8;
	foreign_tid = 9;
	row = exits_sample(exits) ? NULL : find_row(8, 0);
	tap_result(row && row->cell.user == 11 && !slot_of(8)->tid && !slot_of(8)->notifier,
		   "a thread that has exited without a report: its slot is free, its exit counts");
	tap_result(vcpu->tid == 2 && slot_of(9)->tid == 9 && find_row(9, 0), "others keep their slots");
	exited_tid = 6;
	exits_sample(exits);
	tap_result(slot_of(6)->tid == 6, "a thread whose vCPU is being entered keeps its slot");
}

static void test_shares_and_threads(void)
{
	const struct blame_thread *threads;
	struct shares *slots = &bss.slot_shares, *cells = &bss.cell_shares;
	size_t n;

	begin();
	slots->seed = 3;
	slots->max = 50;
	*user_count(slots, 7) = 90;
	*user_count(cells, 7) = 90;
	slots->all = cells->all = 90;
	add_vcpu(2);
	add_vcpu(3);
	add_vcpu(4)->uid = 1000;
	add_cell(3, 2, 30);
	add_cell(4, 3, 30);
	exits->places[4].taken = 1001;
	exits_sample(exits);
	tap_result(slots->all == 3 && *user_count(slots, 7) == 2 && *user_count(slots, 1000) == 1 &&
		   slots->seed == 3 && slots->max == 50, "slots are counted again, by user");
	tap_result(cells->all == 2 && *user_count(cells, 7) == 1 && *user_count(cells, 1000) == 1,
		   "cells are counted again, by user");
	threads = exits_threads(exits, &n);
	tap_result(n == 3 && threads[0].tid == 2 && threads[2].tid == 4 && threads[0].vm.kvm == 5 &&
		   threads[0].vm.tgid == TGID, "all threads are listed");
	add_vcpu(5)->notifier = 0;
	slot_of(3)->tid = 0;
	exits_sample(exits);
	threads = exits_threads(exits, &n);
	tap_result(n == 2 && threads[1].tid == 4, "without one that has exited, and one that is being entered");
	bss.counts.no_cell = 6;
	tap_result(exits_counts(exits).no_cell == 6, "exits that were lost are counted");
}

static void test_forget_check(void)
{
	begin();
	add_vcpu(2)->tid = gettid();
	add_vcpu(3);
	add_cell(4, 2, 30)->tgid = getpid();
	add_cell(5, 3, 30);
	tap_result(!forget_exits_check(exits) && !slot_of(2)->tid && slot_of(3)->tid == 3 &&
		   !exits->places[4].taken && !find_row(2, 30) && find_row(3, 30),
		   "nothing is left of the VM of the check");
}

int main(void)
{
	test_growth();
	test_open_exits();
	test_sums_do_not_decrease();
	test_vcpus_that_exit();
	test_shares_and_threads();
	test_forget_check();
	return tap_end();
}
