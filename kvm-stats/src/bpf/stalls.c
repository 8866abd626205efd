// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "stalls.h"
#include "threads.h"
#include "src/bpf/threads.skel.h"

struct stalls {
	struct threads *threads;
	unsigned int turn;	/* of the program, at the last sample */
	/* Last sample and the one before it, sorted by TID */
	struct stalls_row *rows, *before;
	size_t count, count_before, room, room_before;
};

/* The thread of the check runs no vCPU. It has a CPU now, so neither a wait nor a stall of it is open. */
static void forget_stalls_check(struct stalls *s)
{
	const uint32_t tid = gettid();
	struct threads_vcpu vcpu;

	if (!bpf_map_lookup_and_delete_elem(bpf_map__fd(s->threads->program->maps.vcpus), &tid, &vcpu) &&
	    vcpu.task)
		return_entry(&s->threads->program->bss->thread_counts, vcpu.uid);
}

int stalls_open(struct stalls **opened, struct threads *shared, const struct kvmstats_vm *first,
		struct kvmstats_probe *p)
{
	struct stalls *s = calloc(1, sizeof(*s));
	int error = -ENOMEM;

	if (!s) {
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
		return error;
	}
	error = threads_share(&s->threads, shared, THREADS_STALLS, first, p);
	if (!error) {
		s->turn = s->threads->program->bss->turn;
		s->threads->takes_stalls = true;
		error = stalls_check(s, p);
		forget_stalls_check(s);
		error = error ?: stalls_sample(s);
	}
	if (error) {
		stalls_close(s);
		return error;
	}
	stalls_enter(s, first);
	*opened = s;
	return 0;
}

void stalls_close(struct stalls *s)
{
	if (!s)
		return;
	if (s->threads)
		s->threads->takes_stalls = false;
	threads_close(s->threads);
	free(s->rows);
	free(s->before);
	free(s);
}

void stalls_enter(struct stalls *s, const struct kvmstats_vm *first)
{
	threads_enter(s->threads, first);
}

static int compare_stalls_rows(const void *x, const void *y)
{
	const struct stalls_row *a = x, *b = y;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static void add_stalls_row(struct stalls *s, const struct blame_thread *thread)
{
	struct stalls_row *row = &s->rows[s->count++];

	row->vm = thread->vm;
	row->tid = thread->tid;
	memcpy(row->ns, thread->stalls, sizeof(row->ns));
}

/* Take the stalls of all threads, also of those that have exited since they were taken last. */
static int take_stalls(struct stalls *s)
{
	struct threads_list *live = &s->threads->live, *exited = &s->threads->exited;
	const size_t count = live->count + exited->count;
	struct stalls_row *rows;
	size_t i;

	if (count > s->room) {
		rows = realloc(s->rows, 2 * count * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		s->rows = rows;
		s->room = 2 * count;
	}
	for (i = 0; i < live->count; i++)
		add_stalls_row(s, &live->list[i]);
	for (i = 0; i < exited->count; i++)
		add_stalls_row(s, &exited->list[i]);
	exited->count = 0;
	if (count)
		qsort(s->rows, count, sizeof(*s->rows), compare_stalls_rows);
	return 0;
}

static void find_stall_growth(struct stalls *s, struct stalls_row *row)
{
	const struct stalls_row *before;
	unsigned int i;

	before = s->count_before ? bsearch(row, s->before, s->count_before, sizeof(*row),
					   compare_stalls_rows) : NULL;
	/* Another thread with this TID counts from 0. */
	for (i = 0; i < STALLS; i++)
		row->growth[i] = row->ns[i] - (before && before->ns[i] <= row->ns[i] ?
					       before->ns[i] : 0);
}

int stalls_sample(struct stalls *s)
{
	struct stalls_row *rows = s->before;
	const size_t room = s->room_before;
	size_t i;
	int error;

	s->before = s->rows;
	s->rows = rows;
	s->room_before = s->room;
	s->room = room;
	s->count_before = s->count;
	s->count = 0;
	error = s->turn == s->threads->program->bss->turn ? threads_sample(s->threads) : 0;
	s->turn = s->threads->program->bss->turn;
	error = error ?: take_stalls(s);
	for (i = 0; i < s->count && !error; i++)
		find_stall_growth(s, &s->rows[i]);
	return error;
}

const struct stalls_row *stalls_rows(const struct stalls *s, size_t *n)
{
	*n = s->count;
	return s->rows;
}

const struct blame_thread *stalls_threads(const struct stalls *s, size_t *n)
{
	*n = s->threads->live.count;
	return s->threads->live.list;
}

uint64_t stalls_lost(const struct stalls *s)
{
	return s->threads->program->bss->counts.no_vcpu;
}
