// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the reader with files that have a row of values per vCPU, in both forms: fdinfo
 * has the ids and threads of the rows, or the rows themselves have them (Linux 5.10). Files
 * and procfs are made by the test. Needs no KVM.
 */
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi.h"
#include "reader.h"
#include "tap.h"

#define NAME_SIZE	48
#define ARRAY_LEN(x)	(sizeof(x) / sizeof((x)[0]))

/* The file: statistics of a vCPU, then those that only 5.10 has */
static const char * const names[] = { "exits", "halt_wait_ns", "vcpu_id", "vcpu_tid" };
static bool in_rows;			/* the form of Linux 5.10 */
static uint32_t row_size;
static int rows;			/* in the file */
static uint64_t row[4][4];

static uint64_t clock_ns = 1000000000;
static char folder[] = "/tmp/rows_test-XXXXXX";
static FILE *file;
static struct reader reader;
static struct stats_file stats;
static struct gone gone;
static const char *wrong;		/* what reader_add() returned */

/* The kernel: whether it announces EPOLLHUP, and whether its files can be polled */
static bool detached, can_poll, tells;

bool __wrap_privileges_stats_detached(void);
bool __wrap_privileges_stats_detached(void)
{
	return detached;
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (can_poll)
		return 0;
	errno = EPERM;
	return -1;
}

static void write_file(void)
{
	const unsigned int count = in_rows ? 4 : 2;
	const uint32_t desc_size = count * (sizeof(struct abi_desc) + NAME_SIZE);
	const uint32_t start = sizeof(struct abi_rows_header) + NAME_SIZE;
	const struct abi_rows_header header = {
		.header = {
			.flags = in_rows ? 0 : ABI_HEADER_ROW_SIZE,
			.name_size = NAME_SIZE,
			.count = count,
			.id_offset = sizeof(header),
			.desc_offset = start,
			.data_offset = start + desc_size,
		},
		.row_size = row_size,
	};
	unsigned int i;

	rewind(file);
	fwrite(&header, sizeof(header), 1, file);
	fseek(file, start, SEEK_SET);
	for (i = 0; i < count; i++) {
		const struct abi_desc desc = { .size = 1, .offset = i * sizeof(uint64_t) };
		char name[NAME_SIZE] = "";

		strcpy(name, names[i]);
		fwrite(&desc, sizeof(desc), 1, file);
		fwrite(name, sizeof(name), 1, file);
	}
	for (i = 0; (int)i < rows; i++)
		fwrite(row[i], row_size, 1, file);
	fflush(file);
}

/* Write the fdinfo of the file: the lines "ID TID" of these vCPUs. */
static void write_fdinfo(const char *lines)
{
	char path[64], copy[256], *line, *next = copy;
	FILE *info;

	snprintf(path, sizeof(path), "%s/self/fdinfo/%d", folder, stats.fd);
	info = fopen(path, "w");
	fprintf(info, "pos:\t0\nkvm-stats-vm:\t77\n");
	strcpy(copy, lines);
	while ((line = strsep(&next, ",")))
		fprintf(info, "kvm-stats-vcpu:\t%s\n", line);
	fclose(info);
}

static int test_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	static const struct kvmstats_desc desc[] = { { .name = "remote_tlb_flush", .size = 1 } };

	core_set_table(k, KVMSTATS_VM, table_make(desc, ARRAY_LEN(desc)));
	reader_open(&reader);
	wrong = reader_add(k, &reader, dup(fileno(file)), FILE_VCPUS, &stats, &gone, &tells);
	return wrong ? -ENODEV : 0;
}

static int test_sample(struct kvmstats *k, void *state)
{
	struct core_vm *vm;

	core_set_time(k, clock_ns);
	vm = core_vm(k, 1, 100);
	*(uint64_t *)core_vm_values(vm) = 0;
	reader_vcpus(k, &reader, &stats, vm);
	return 0;
}

static void test_close(struct kvmstats *k, void *state)
{
	reader_drop(&stats);
	reader_close(&reader);
}

static const struct source_ops source_test = {
	.name = "test",
	.what = "a file that the test makes",
	.open = test_open,
	.sample = test_sample,
	.close = test_close,
};

const struct source_ops *const source_list[] = { &source_test, NULL };

static struct kvmstats *open_rows(void)
{
	struct kvmstats *k = NULL;

	file = tmpfile();
	write_file();
	kvmstats_open(&k, NULL, folder, 0);
	return k;
}

static void close_rows(struct kvmstats *k)
{
	kvmstats_close(k);
	fclose(file);
}

/* Sample, and check a vCPU: its id, its thread and its first statistic. */
static bool has_vcpu(struct kvmstats *k, unsigned int i, uint32_t id, pid_t tid, uint64_t exits)
{
	const struct kvmstats_vm *vm;

	write_file();
	kvmstats_sample(k);
	vm = kvmstats_first(k);
	return vm && i < vm->vcpus && vm->vcpu[i]->id == id && vm->vcpu[i]->tid == tid &&
	       *(const uint64_t *)vm->vcpu[i]->values == exits;
}

static bool has_problem(struct kvmstats *k, const char *text)
{
	const char *why;

	write_file();
	kvmstats_sample(k);
	return kvmstats_failed_reads_by_reason(k, KVMSTATS_FORMAT, &why) == 1 &&
	       strstr(why, text);
}

static void set_row(int i, uint64_t exits, uint64_t id, uint64_t tid)
{
	row[i][0] = exits;
	row[i][2] = id;
	row[i][3] = tid;
}

static void test_in_rows(void)
{
	struct kvmstats *k;

	in_rows = true;
	row_size = 4 * sizeof(uint64_t);
	rows = 2;
	set_row(0, 10, 0, 0);
	set_row(1, 20, 5, 105);
	k = open_rows();
	tap_result(has_vcpu(k, 0, 0, 0, 10), "5.10: a row has the id of a vCPU that has not run");
	tap_result(has_vcpu(k, 1, 5, 105, 20), "5.10: a row has the id and the thread of its vCPU");
	close_rows(k);
}

static void test_in_fdinfo(void)
{
	struct kvmstats *k;

	in_rows = false;
	row_size = 2 * sizeof(uint64_t);
	rows = 2;
	set_row(0, 10, 0, 0);
	row[0][1] = 0;
	k = open_rows();
	write_fdinfo("7 101,2 102");
	set_row(1, 20, 0, 0);
	tap_result(has_vcpu(k, 1, 7, 101, 10), "fdinfo: the first line belongs to the first row");
	tap_result(has_vcpu(k, 0, 2, 102, 20), "fdinfo: the second line belongs to the second row");
	write_fdinfo("7 103,2 102,0 104");
	rows = 3;
	set_row(2, 30, 0, 0);
	tap_result(has_vcpu(k, 0, 0, 104, 30), "fdinfo: is read again for a new row");
	tap_result(has_vcpu(k, 2, 7, 103, 10), "fdinfo: other lines are read as well");
	write_fdinfo("7 105,2 0,0 104");
	tap_result(has_vcpu(k, 2, 7, 103, 10), "fdinfo: is not read at each sample");
	clock_ns += 10000000000ULL;
	tap_result(has_vcpu(k, 2, 7, 105, 10), "fdinfo: is read again after 10 s");
	write_fdinfo("7 105,2 106,0 104");
	tap_result(has_vcpu(k, 1, 2, 106, 20), "fdinfo: is read again while a thread is missing");
	rows = 4;
	set_row(3, 40, 0, 0);
	tap_result(has_problem(k, "fdinfo has not all vCPUs"),
		   "fdinfo: a missing line is a problem");
	write_fdinfo("7 105,2 106,0 104,9 107");
	tap_result(has_vcpu(k, 3, 9, 107, 40), "fdinfo: is read again after a problem");
	close_rows(k);
}

/* Whether it is known where the time of vCPU 0 went since the last sample */
static bool has_times(struct kvmstats *k)
{
	const struct kvmstats_vcpu *vcpu;

	clock_ns += 1000000000;
	write_file();
	kvmstats_sample(k);
	vcpu = kvmstats_first(k)->vcpu[0];
	return vcpu->last.times.mode[KVMSTATS_OTHER] == 1000000000;
}

static void test_without_thread(void)
{
	struct kvmstats *k;

	rows = 1;
	set_row(0, 0, 0, 0);
	row[0][1] = 0;
	k = open_rows();
	write_fdinfo("0 0");
	has_times(k);
	tap_result(has_times(k), "a vCPU without a thread and without exits has not run");
	set_row(0, 10, 0, 0);
	tap_result(!has_times(k), "the times of a vCPU with exits are unknown without a thread");
	close_rows(k);
}

static void test_row_size(void)
{
	struct kvmstats *k;

	rows = 2;
	row_size = 3 * sizeof(uint64_t);
	k = open_rows();
	write_fdinfo("0 101,1 102");
	tap_result(has_vcpu(k, 1, 1, 102, 20), "rows that are longer than their values are read");
	close_rows(k);
	row_size = sizeof(uint64_t);
	k = open_rows();
	tap_result(!k && wrong && !strcmp(wrong, "a row is shorter than its values"),
		   "rows that are shorter than their values are refused: %s", wrong);
	fclose(file);
}

/* Return true if the reader relies on EPOLLHUP. */
static bool relies_on_hup(bool announced, bool polled)
{
	struct kvmstats *k;

	detached = announced;
	can_poll = polled;
	rows = 0;
	row_size = 2 * sizeof(uint64_t);
	k = open_rows();
	close_rows(k);
	return tells;
}

static void test_hup(void)
{
	tap_result(relies_on_hup(true, true), "the reader relies on EPOLLHUP if it is announced");
	tap_result(!relies_on_hup(false, true),
		   "the reader does not rely on EPOLLHUP of a kernel that does not announce it");
	tap_result(!relies_on_hup(true, false),
		   "the reader does not rely on EPOLLHUP of a file that it cannot poll");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

int main(void)
{
	char path[64];

	if (!mkdtemp(folder)) {
		printf("Bail out! no temporary directory: %s\n", strerror(errno));
		return 1;
	}
	snprintf(path, sizeof(path), "%s/self", folder);
	mkdir(path, 0700);
	strcat(path, "/fdinfo");
	mkdir(path, 0700);
	test_in_rows();
	test_in_fdinfo();
	test_without_thread();
	test_row_size();
	test_hup();
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return tap_end();
}
