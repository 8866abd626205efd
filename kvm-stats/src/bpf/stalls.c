// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf_program.h"
#include "stalls.h"
#include "threads.h"
#include "src/bpf/stalls.skel.h"

struct stalls {
	const struct kvmstats_vm *first;	/* VMs while the program is loaded */
	struct stalls_bpf *program;
	/* Last sample and the one before it, sorted by TID */
	struct stalls_row *rows, *before;
	size_t count, count_before;
	uint32_t *keys;
	struct stalls_vcpu *values;
	size_t room;
	struct threads threads;
};

/* System calls whose sleeps are not those of a pipe, a socket or a clock */
static void set_calls(__u8 calls[STALLS_CALLS])
{
	static const struct {
		unsigned int call;
		enum stall_call class;
	} classes[] = {
		{ SYS_futex, CALL_FUTEX },
#ifdef SYS_futex_waitv
		{ SYS_futex_waitv, CALL_FUTEX },
#endif
		{ 455, CALL_FUTEX },	/* futex_wait, Linux 6.7; newer than the headers of some hosts */
		{ 456, CALL_FUTEX },	/* futex_requeue */
		{ SYS_ioctl, CALL_IOCTL },
		{ SYS_pread64, CALL_FILE },
		{ SYS_pwrite64, CALL_FILE },
		{ SYS_preadv, CALL_FILE },
		{ SYS_pwritev, CALL_FILE },
		{ SYS_preadv2, CALL_FILE },
		{ SYS_pwritev2, CALL_FILE },
		{ SYS_fsync, CALL_FILE },
		{ SYS_fdatasync, CALL_FILE },
		{ SYS_mmap, CALL_MEMORY },
		{ SYS_munmap, CALL_MEMORY },
		{ SYS_mremap, CALL_MEMORY },
		{ SYS_mprotect, CALL_MEMORY },
		{ SYS_madvise, CALL_MEMORY },
		{ SYS_mlock, CALL_MEMORY },
		{ SYS_munlock, CALL_MEMORY },
		{ SYS_brk, CALL_MEMORY },
		{ SYS_mbind, CALL_MEMORY },
		{ SYS_move_pages, CALL_MEMORY },
		{ SYS_migrate_pages, CALL_MEMORY },
#ifdef SYS_vfork
		{ SYS_vfork, CALL_CHILD },
#endif
		{ SYS_clone, CALL_CHILD },
		{ SYS_clone3, CALL_CHILD },
	};
	size_t i;

	for (i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		calls[classes[i].call] = classes[i].class;
}

static int load_stalls(void *arg, const struct bpf_program_layout *layout)
{
	struct stalls *s = arg;
	int error;

	s->program = stalls_bpf__open();
	if (!s->program)
		return -errno;
	s->program->rodata->vcpu_notifier = layout->vcpu_notifier;
	s->program->rodata->vcpu_kvm = layout->vcpu_kvm;
	s->program->rodata->vcpu_pid = layout->vcpu_pid;
	s->program->rodata->vcpu_blocking = layout->vcpu_blocking;
	set_calls(s->program->rodata->calls);
	error = set_thread_room(s->program->maps.vcpus, &s->program->bss->thread_counts, s->first) ?:
		stalls_bpf__load(s->program);
	if (error)
		return error;
	/* Batches may have a bucket more than the map has entries. */
	s->room = 2 * bpf_map__max_entries(s->program->maps.vcpus);
	s->rows = calloc(s->room, sizeof(*s->rows));
	s->before = calloc(s->room, sizeof(*s->before));
	s->keys = calloc(s->room, sizeof(*s->keys));
	s->values = calloc(s->room, sizeof(*s->values));
	if (!s->rows || !s->before || !s->keys || !s->values)
		return -ENOMEM;
	return stalls_bpf__attach(s->program);
}

int stalls_open(struct stalls **opened, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	struct stalls *s = calloc(1, sizeof(*s));
	int error = -ENOMEM;

	if (!s) {
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
		return error;
	}
	s->first = first;
	error = bpf_program_open(BPF_STALLS, load_stalls, s, p) ?: stalls_check(s, p) ?:
		stalls_sample(s);
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
	stalls_bpf__destroy(s->program);
	free(s->threads.list);
	free(s->rows);
	free(s->before);
	free(s->keys);
	free(s->values);
	free(s);
}

/* Enter vCPUs, charge open stalls, and list the vCPUs. */
static int run_stall_sampler(struct stalls *s)
{
	return read_threads(&s->threads, s->program->links.stalls_sample);
}

void stalls_enter(struct stalls *s, const struct kvmstats_vm *first)
{
	struct stalls_vcpu entry = { 0 };

	if (announce_threads(&s->threads, s->program->maps.vcpus, &entry, first))
		run_stall_sampler(s);
}

static int compare_stalls_rows(const void *x, const void *y)
{
	const struct stalls_row *a = x, *b = y;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static int read_stalls(struct stalls *s)
{
	const int map = bpf_map__fd(s->program->maps.vcpus);
	size_t i;
	int error;

	error = bpf_program_read(map, s->keys, sizeof(*s->keys), s->values, sizeof(*s->values),
				 s->room, &s->count);
	for (i = 0; i < s->count && !error; i++) {
		struct stalls_vcpu *vcpu = &s->values[i];
		struct stalls_row *row = &s->rows[i];

		row->tid = s->keys[i];
		if (!has_thread(&s->threads, row->tid) &&
		    tgkill(vcpu->vm.tgid, row->tid, 0) && errno == ESRCH &&
		    !bpf_map_lookup_and_delete_elem(map, &row->tid, vcpu) && vcpu->task)
			return_entry(&s->program->bss->thread_counts, vcpu->uid);
		row->vm = vcpu->vm;
		memcpy(row->ns, vcpu->ns, sizeof(row->ns));
	}
	if (s->count)
		qsort(s->rows, s->count, sizeof(*s->rows), compare_stalls_rows);
	return error;
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
	size_t i;
	int error;

	s->before = s->rows;
	s->rows = rows;
	s->count_before = s->count;
	error = run_stall_sampler(s) ?: read_stalls(s);
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
	*n = s->threads.count;
	return s->threads.list;
}

uint64_t stalls_lost(const struct stalls *s)
{
	return s->program->bss->no_vcpu;
}
