// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf_program.h"
#include "clock.h"
#include "exits.h"
#include "probe_vm.h"
#include "src/bpf/exits.skel.h"
#include "threads.h"
#include "time_namespace.h"

/* The vCPUs with their open exits at one time, sorted by serial */
struct vcpus {
	struct exits_vcpu *list;
	size_t count;
};

struct exits {
	bool addresses;
	int64_t clock_offset;	/* of this process's time namespace */
	struct exits_bpf *program;
	/* Last sample and the one before it, sorted by key */
	struct exits_row *rows, *before;
	size_t count, count_before, space, space_before;
	/* The program's arrays, mapped */
	struct exits_vcpu *slots;
	struct exits_place *places;
	struct vcpus first, second;
	struct blame_thread *threads;
	size_t thread_count;
};

/* So many that each finds one by its hash */
#define SLOTS_SHARED	(EXITS_SLOTS / 2)
#define CELLS_SHARED	(EXITS_CELLS / 16 * 15)

#define SLOTS_SIZE	(EXITS_SLOTS * sizeof(struct exits_vcpu))
#define PLACES_SIZE	(EXITS_CELLS * sizeof(struct exits_place))

static void *map_array(const struct bpf_map *map, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int load_exits_program(struct exits *e, const struct bpf_program_layout *layout)
{
	int error;

	e->program = exits_bpf__open();
	if (!e->program)
		return -errno;
#ifdef __aarch64__
	e->program->rodata->isa = EXITS_ARM64;
#endif
	e->program->rodata->vcpu_notifier = layout->vcpu_notifier;
	e->program->rodata->vcpu_kvm = layout->vcpu_kvm;
	e->program->rodata->vcpu_id = layout->vcpu_id;
	e->program->rodata->svm_vmcb = layout->svm_vmcb;
	e->program->rodata->vmcb_exit_code = layout->vmcb_exit_code;
	e->program->rodata->vmx_exit_reason = layout->vmx_exit_reason;
	bpf_program__set_autoload(e->program->progs.exits_mmio, e->addresses);
	bpf_program__set_autoload(e->program->progs.exits_pio, e->addresses && layout->ports);
	bpf_program__set_autoload(e->program->progs.exits_fast_mmio,
				  e->addresses && layout->ports);
	error = begin_shares(&e->program->bss->slot_shares, SLOTS_SHARED) ?:
		begin_shares(&e->program->bss->cell_shares, CELLS_SHARED) ?:
		exits_bpf__load(e->program);
	if (error)
		return error;
	e->slots = map_array(e->program->maps.vcpus, SLOTS_SIZE);
	e->places = map_array(e->program->maps.cells, PLACES_SIZE);
	return e->slots && e->places ? 0 : -errno;
}

static int load_exits(void *arg, const struct bpf_program_layout *layout)
{
	struct exits *e = arg;

	return load_exits_program(e, layout) ?: exits_bpf__attach(e->program);
}

static bool allocate(struct exits *e)
{
	e->first.list = calloc(EXITS_SLOTS, sizeof(*e->first.list));
	e->second.list = calloc(EXITS_SLOTS, sizeof(*e->second.list));
	e->threads = calloc(EXITS_SLOTS, sizeof(*e->threads));
	return e->first.list && e->second.list && e->threads;
}

/* Free a place whose vCPU has exited: the program does not use it. */
static void free_place(struct exits_place *place)
{
	place->key = (struct exits_key){ 0 };
	place->cell = (struct exits_cell){ 0 };
	__atomic_store_n(&place->taken, 0, __ATOMIC_RELEASE);
}

/* Free the slot of a thread that runs no vCPU any longer. */
static void free_slot(struct exits_vcpu *v)
{
	v->notifier = 0;
	__atomic_store_n(&v->tid, 0, __ATOMIC_RELEASE);
}

/* Forget the vCPU of the check, and start at 0. */
static int forget_exits_check(struct exits *e)
{
	size_t i;

	for (i = 0; i < EXITS_SLOTS; i++)
		if (e->slots[i].tid == (__u32)gettid())
			free_slot(&e->slots[i]);
	for (i = 0; i < EXITS_CELLS; i++)
		if (e->places[i].cell.tgid == (__u32)getpid())
			free_place(&e->places[i]);
	return exits_sample(e);
}

int exits_open(struct exits **opened, bool addresses, struct kvmstats_probe *p)
{
	struct exits *e = calloc(1, sizeof(*e));
	int error = -ENOMEM;

	if (!e || !allocate(e)) {
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
	} else {
		e->addresses = addresses;
		e->clock_offset = time_namespace_offset(CLOCK_MONOTONIC);
		error = bpf_program_open(BPF_EXITS, load_exits, e, p) ?: exits_check(e, p) ?:
			forget_exits_check(e);
	}
	if (error) {
		exits_close(e);
		return error;
	}
	*opened = e;
	return 0;
}

void exits_close(struct exits *e)
{
	if (!e)
		return;
	exits_bpf__destroy(e->program);
	free(e->rows);
	free(e->before);
	if (e->slots)
		munmap(e->slots, SLOTS_SIZE);
	if (e->places)
		munmap(e->places, PLACES_SIZE);
	free(e->first.list);
	free(e->second.list);
	free(e->threads);
	free(e);
}

static int compare_serials(const void *x, const void *y)
{
	const struct exits_vcpu *a = x, *b = y;

	return (a->serial > b->serial) - (a->serial < b->serial);
}

static void read_vcpus(const struct exits *e, struct vcpus *v)
{
	size_t i;

	v->count = 0;
	for (i = 0; i < EXITS_SLOTS; i++)
		if (e->slots[i].tid && e->slots[i].notifier)
			v->list[v->count++] = e->slots[i];
	qsort(v->list, v->count, sizeof(*v->list), compare_serials);
}

/* Return NULL if the vCPU has exited, or did not exist yet. */
static const struct exits_vcpu *find_serial(const struct vcpus *v, __u32 serial)
{
	const struct exits_vcpu wanted = { .serial = serial };

	return bsearch(&wanted, v->list, v->count, sizeof(*v->list), compare_serials);
}

static int compare_exits_rows(const void *x, const void *y)
{
	const struct exits_row *a = x, *b = y;

	return memcmp(&a->key, &b->key, sizeof(a->key));
}

static struct exits_row *add_row(struct exits *e, const struct exits_key *key)
{
	struct exits_row *row, *rows;

	if (e->count == e->space) {
		rows = realloc(e->rows, (2 * e->space + 64) * sizeof(*rows));
		if (!rows)
			return NULL;
		e->rows = rows;
		e->space = 2 * e->space + 64;
	}
	row = &e->rows[e->count++];
	memset(row, 0, sizeof(*row));
	row->key = *key;
	return row;
}

/* A row with the open exit of a vCPU, as far as its time is known; NULL without memory */
static struct exits_cell *add_exit(struct exits *e, const struct exits_vcpu *v)
{
	const struct exits_key key = {
		.serial = v->serial, .reason = v->reason,
		.space = v->space, .address = v->address,
	};
	struct exits_row *row = add_row(e, &key);

	if (!row)
		return NULL;
	row->cell = (struct exits_cell){
		.count = 1, .user = v->user, .ready = v->ready + v->early, .halt = v->halt,
		.kvm = v->kvm, .tgid = v->tgid, .tid = v->tid, .vcpu = v->vcpu,
		.isa = v->isa,
	};
	return &row->cell;
}

/*
 * Free the slots of threads that have exited while the kernel skipped the program: it does so
 * while the program is preempted on the same CPU, since Linux 7.0.
 */
static int reap_vcpus(struct exits *e)
{
	size_t i;

	for (i = 0; i < EXITS_SLOTS; i++) {
		struct exits_vcpu *v = &e->slots[i];

		if (!v->tid || !v->notifier || !tgkill(v->tgid, v->tid, 0) || errno != ESRCH)
			continue;
		if (v->exit && !add_exit(e, v))
			return -ENOMEM;
		free_slot(v);
	}
	return 0;
}

/* Return the thread's run_delay that the program has not taken yet, ns. */
static uint64_t read_new_delay(const struct exits_vcpu *v)
{
	unsigned long long delay = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", v->tgid, v->tid);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%*u %llu", &delay) != 1)
			delay = 0;
		fclose(f);
	}
	return delay > v->delay ? delay - v->delay : 0;
}

/*
 * An exit that lasts. Its time in the kernel is not known yet, unless the vCPU has halted:
 * the program splits it at the end. A thread can wait for its CPU in userspace for long, so
 * these waits are read now.
 */
static int add_open(struct exits *e, const struct exits_vcpu *v, uint64_t at)
{
	struct exits_cell *cell = add_exit(e, v);
	uint64_t user, ready;

	if (!cell)
		return -ENOMEM;
	if (v->user_since) {
		user = at - v->user_since;
		ready = read_new_delay(v);
		if (ready > user)
			ready = user;
		cell->user += user - ready;
		cell->ready += ready;
	} else if (exit_is_halt(v->isa, v->reason)) {
		cell->halt = at - v->exit - v->user - v->ready;
	}
	cell->max = cell->user;
	return 0;
}

static int add_cells(struct exits *e)
{
	struct exits_row *row;
	size_t i;

	for (i = 0; i < EXITS_CELLS; i++) {
		if (!__atomic_load_n(&e->places[i].key.serial, __ATOMIC_ACQUIRE))
			continue;
		row = add_row(e, &e->places[i].key);
		if (!row)
			return -ENOMEM;
		row->cell = e->places[i].cell;
	}
	return 0;
}

/* Add up rows with the same key: a cell and an open exit. */
static void merge_rows(struct exits *e)
{
	size_t i, kept = 0;

	qsort(e->rows, e->count, sizeof(*e->rows), compare_exits_rows);
	for (i = 0; i < e->count; i++) {
		struct exits_row *last = &e->rows[kept - 1], *row = &e->rows[i];

		if (!kept || compare_exits_rows(last, row)) {
			e->rows[kept++] = *row;
			continue;
		}
		exits_add(&last->cell, &row->cell);
	}
	e->count = kept;
}

static bool is_live(const struct exits *e, __u32 serial, __u32 last_serial)
{
	return serial > last_serial || find_serial(&e->first, serial) ||
	       find_serial(&e->second, serial);
}

/*
 * A sum or maximum must not decrease because an open exit was about to end and was left out:
 * keep those of the sample before. count: rows of this sample, which are sorted
 */
static int carry(struct exits *e, size_t count, const struct exits_row *before,
		 __u32 last_serial)
{
	struct exits_row *row = bsearch(before, e->rows, count, sizeof(*row), compare_exits_rows);
	size_t i;

	if (!row) {
		if (!is_live(e, before->key.serial, last_serial))
			return 0;
		row = add_row(e, &before->key);
		if (!row)
			return -ENOMEM;
		row->cell = before->cell;
	}
	for (i = 0; i < EXITS_SUMS; i++)
		if (row->cell.sum[i] < before->cell.sum[i])
			row->cell.sum[i] = before->cell.sum[i];
	if (row->cell.max < before->cell.max)
		row->cell.max = before->cell.max;
	return 0;
}

static void find_exits_growth(const struct exits *e, struct exits_row *row)
{
	const struct exits_row *before = bsearch(row, e->before, e->count_before, sizeof(*row),
						 compare_exits_rows);
	size_t i;

	row->growth = row->cell;
	for (i = 0; i < EXITS_SUMS && before; i++)
		row->growth.sum[i] -= before->cell.sum[i];
	for (i = 0; i < EXITS_BUCKETS && before; i++)
		row->growth.bucket[i] -= before->cell.bucket[i];
}

/* Compare with the sample before; remove the cells of vCPUs that have exited. */
static int update_growth(struct exits *e, __u32 last_serial)
{
	size_t i, count;
	int error = 0;

	merge_rows(e);
	count = e->count;
	for (i = 0; i < e->count_before && !error; i++)
		error = carry(e, count, &e->before[i], last_serial);
	qsort(e->rows, e->count, sizeof(*e->rows), compare_exits_rows);
	for (i = 0; i < e->count; i++)
		find_exits_growth(e, &e->rows[i]);
	for (i = 0; i < EXITS_CELLS; i++) {
		const __u32 serial = e->places[i].key.serial;

		if (serial && !is_live(e, serial, last_serial))
			free_place(&e->places[i]);
	}
	return error;
}

/* Count what users have: their vCPUs may have exited, or lost their slots. */
static void count_shares(struct exits *e)
{
	struct shares slots = e->program->bss->slot_shares, cells = e->program->bss->cell_shares;
	size_t i;

	memset(slots.user, 0, sizeof(slots.user));
	memset(cells.user, 0, sizeof(cells.user));
	slots.all = cells.all = 0;
	for (i = 0; i < EXITS_SLOTS; i++) {
		if (e->slots[i].tid) {
			++*user_count(&slots, e->slots[i].uid);
			slots.all++;
		}
	}
	for (i = 0; i < EXITS_CELLS; i++) {
		if (e->places[i].taken) {
			++*user_count(&cells, e->places[i].taken - 1);
			cells.all++;
		}
	}
	e->program->bss->slot_shares = slots;
	e->program->bss->cell_shares = cells;
}

static void list_threads(struct exits *e)
{
	size_t i;

	for (i = 0; i < e->second.count; i++) {
		const struct exits_vcpu *v = &e->second.list[i];

		e->threads[i] = (struct blame_thread){
			.vm = { .kvm = v->kvm, .tgid = v->tgid },
			.tid = v->tid,
		};
	}
	e->thread_count = e->second.count;
}

static void swap_rows(struct exits *e)
{
	struct exits_row *rows = e->before;
	const size_t space = e->space_before;

	e->before = e->rows;
	e->count_before = e->count;
	e->space_before = e->space;
	e->rows = rows;
	e->space = space;
	e->count = 0;
}

/*
 * A vCPU that is the same before and after the cells are read has had no event: its open
 * exit is not in its cells. The open exit of any other one is as short as this sample.
 */
int exits_sample(struct exits *e)
{
	const __u32 last_serial = e->program->bss->serials;
	int error;
	size_t i;

	swap_rows(e);
	error = reap_vcpus(e);
	read_vcpus(e, &e->first);
	error = error ?: add_cells(e);
	read_vcpus(e, &e->second);
	for (i = 0; i < e->second.count && !error; i++) {
		const struct exits_vcpu *after = &e->second.list[i];
		const struct exits_vcpu *before = find_serial(&e->first, after->serial);

		if (after->exit && before && !memcmp(before, after, sizeof(*after)))
			error = add_open(e, after, read_clock(CLOCK_MONOTONIC) - e->clock_offset);
	}
	if (error)
		return error;
	list_threads(e);
	error = update_growth(e, last_serial);
	count_shares(e);
	return error;
}

const struct exits_row *exits_rows(const struct exits *e, size_t *n)
{
	*n = e->count;
	return e->rows;
}

const struct blame_thread *exits_threads(const struct exits *e, size_t *n)
{
	*n = e->thread_count;
	return e->threads;
}

struct exits_counts exits_counts(const struct exits *e)
{
	return e->program->bss->counts;
}
