// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "other_waits.h"
#include "proc.h"
#include "xalloc.h"

struct other_thread {
	pid_t pid, tid;
	uint64_t ran, waited;
};

struct other_waits {
	int proc;
	uint64_t at;		/* on CLOCK_MONOTONIC */
	struct other_thread *threads;	/* sorted by PID and TID */
	size_t count;
	const struct kvmstats_vm *vm;	/* whose threads are read */
};

static int compare_other_threads(const void *a, const void *b)
{
	const struct other_thread *x = a, *y = b;

	return x->pid != y->pid ? x->pid - y->pid : x->tid - y->tid;
}

static bool is_vcpu_thread(const struct kvmstats_vm *vm, pid_t tid)
{
	unsigned int i;

	for (i = 0; i < vm->vcpus && vm->vcpu[i]->tid != tid; i++)
		;
	return i < vm->vcpus;
}

static int add_other_thread(void *arg, int dirfd, int tid)
{
	struct other_waits *w = arg;
	struct other_thread thread = { w->vm->identity.pid, tid };
	char text[128];

	/* Columns of schedstat: time on a CPU, time waiting for one, turns */
	if (is_vcpu_thread(w->vm, tid) || !proc_read(dirfd, tid, "schedstat", text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &thread.ran, &thread.waited) != 2)
		return 0;
	/* The array grows when its size is a power of two. */
	if (!(w->count & (w->count - 1)))
		w->threads = check_alloc(realloc(w->threads, (w->count ? 2 * w->count : 1) * sizeof(thread)));
	w->threads[w->count++] = thread;
	return 0;
}

struct other_waits *read_other_waits(int proc, const struct kvmstats_vm *first)
{
	struct other_waits *w = check_alloc(calloc(1, sizeof(*w)));
	char path[32];
	int fd;

	w->proc = proc;
	w->at = app_now();
	for (w->vm = first; w->vm; w->vm = w->vm->next) {
		snprintf(path, sizeof(path), "%d/task", w->vm->identity.pid);
		fd = w->vm->ended ? -1 : openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		proc_numbers(fd, add_other_thread, w);
		close(fd);
	}
	if (w->count)
		qsort(w->threads, w->count, sizeof(*w->threads), compare_other_threads);
	return w;
}

void free_other_waits(struct other_waits *waits)
{
	if (waits)
		free(waits->threads);
	free(waits);
}

/* Return the index of the first thread of a process. */
static size_t find_first_thread(const struct other_waits *w, pid_t pid)
{
	size_t low = 0, high = w->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (w->threads[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct other_use find_other_use(const struct other_waits *before, const struct other_waits *now, pid_t pid)
{
	struct other_use use = { .elapsed = now->at - before->at };
	const struct other_thread *thread, *old;
	uint64_t most = 0;
	size_t i;

	for (i = find_first_thread(now, pid); before->count && i < now->count; i++) {
		thread = &now->threads[i];
		if (thread->pid != pid)
			break;
		/* A process with several VMs is read for each of them. */
		if (i + 1 < now->count && !compare_other_threads(thread, thread + 1))
			return (struct other_use){ 0 };
		old = bsearch(thread, before->threads, before->count, sizeof(*thread), compare_other_threads);
		/* A TID can be another thread by now. */
		if (!old || old->waited > thread->waited || old->ran > thread->ran)
			continue;
		use.ran += thread->ran - old->ran;
		use.waited += thread->waited - old->waited;
		if (thread->waited - old->waited > most) {
			most = thread->waited - old->waited;
			use.tid = thread->tid;
		}
	}
	if (!use.tid || !proc_comm(now->proc, use.tid, use.comm, sizeof(use.comm)))
		*use.comm = '\0';
	return use;
}
