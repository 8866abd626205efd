// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "bpf_program.h"
#include "clock.h"
#include "threads.h"
#include "src/bpf/threads.skel.h"
#include "time_namespace.h"

int begin_shares(struct shares *shares, uint32_t max)
{
	shares->max = max;
	return getentropy(&shares->seed, sizeof(shares->seed)) ? -errno : 0;
}

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

/* Make space for twice the vCPUs of the host. */
static int set_thread_room(struct threads *t)
{
	struct bpf_map *const map = t->program->maps.vcpus;
	const struct kvmstats_vm *vm;
	size_t vcpus = 0;
	int error = 0;

	for (vm = t->first; vm; vm = vm->next)
		vcpus += vm->vcpus;
	if (2 * vcpus > bpf_map__max_entries(map))
		error = bpf_map__set_max_entries(map, 2 * vcpus);
	return error ?: begin_shares(&t->program->bss->thread_counts, bpf_map__max_entries(map));
}

static int prepare_waits(struct threads_bpf *program)
{
	const int cpus = libbpf_num_possible_cpus();

	if (cpus < 0)
		return cpus;
	program->rodata->opened = read_clock(CLOCK_MONOTONIC) - time_namespace_offset(CLOCK_MONOTONIC);
	return	bpf_map__set_max_entries(program->maps.cpus, cpus) ?:
		begin_shares(&program->bss->wait_shares, BLAME_VMS);
}

/* What follows waits is not attached, and their maps take no memory. */
static int leave_out_waits(struct threads_bpf *program)
{
	bpf_program__set_autoload(program->progs.threads_wakeup, false);
	bpf_program__set_autoload(program->progs.threads_migrate, false);
	return	bpf_map__set_max_entries(program->maps.charges, 1) ?:
		bpf_map__set_max_entries(program->maps.cgroups, 1) ?:
		bpf_map__set_max_entries(program->maps.exited, 1) ?:
		bpf_map__set_max_entries(program->maps.ended_waits, 1);
}

static int load_threads(void *arg, const struct bpf_program_layout *layout)
{
	struct threads *t = arg;
	const bool waits = t->counts & THREADS_WAITS, stalls = t->counts & THREADS_STALLS;
	const size_t offset = waits ? offsetof(struct threads_vcpu, stalls) : offsetof(struct threads_vcpu, blame);
	int error;

	t->program = threads_bpf__open();
	if (!t->program)
		return -errno;
	t->program->rodata->counts_waits = waits;
	t->program->rodata->counts_stalls = stalls;
	t->program->rodata->stalls_offset = offset;
	t->program->rodata->vcpu_notifier = layout->vcpu_notifier;
	t->program->rodata->vcpu_kvm = layout->vcpu_kvm;
	t->program->rodata->vcpu_pid = layout->vcpu_pid;
	t->program->rodata->vcpu_blocking = layout->vcpu_blocking;
	set_calls(t->program->rodata->calls);
	error = waits ? prepare_waits(t->program) : leave_out_waits(t->program);
	return	error ?: bpf_map__set_value_size(t->program->maps.vcpus,
						 offset + (stalls ? sizeof(struct stalls_vcpu) : 0)) ?:
		set_thread_room(t) ?: threads_bpf__load(t->program) ?: threads_bpf__attach(t->program);
}

int threads_open(struct threads **opened, unsigned int counts, const struct kvmstats_vm *first,
		 struct kvmstats_probe *p)
{
	struct threads *t = calloc(1, sizeof(*t));
	int error = -ENOMEM;

	if (!t) {
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
		return error;
	}
	t->counts = counts;
	t->users = 1;
	t->first = first;
	error = bpf_program_open((counts & THREADS_WAITS ? BPF_BLAME : 0) |
				 (counts & THREADS_STALLS ? BPF_STALLS : 0), load_threads, t, p);
	if (error)
		threads_close(t);
	else
		*opened = t;
	return error;
}

int threads_share(struct threads **opened, struct threads *shared, unsigned int count,
		  const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	if (!shared || !(shared->counts & count))
		return threads_open(opened, count, first, p);
	shared->users++;
	*opened = shared;
	return 0;
}

void threads_close(struct threads *t)
{
	if (!t || --t->users)
		return;
	threads_bpf__destroy(t->program);
	free(t->live.list);
	free(t->exited.list);
	free(t);
}

static int compare_threads(const void *x, const void *y)
{
	const struct blame_thread *a = x, *b = y;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

/* Make space for more threads. */
static bool grow_list(struct threads_list *threads)
{
	const size_t room = 2 * threads->room + 256;
	struct blame_thread *list = realloc(threads->list, room * sizeof(*list));

	if (!list)
		return false;
	threads->list = list;
	threads->room = room;
	return true;
}

/* Run the program that visits all tasks, and list the threads that it writes. */
static int visit_threads(struct threads_list *threads, const struct bpf_link *iterator)
{
	size_t len = 0;
	ssize_t n;
	int fd;

	fd = bpf_iter_create(bpf_link__fd(iterator));
	if (fd < 0)
		return -errno;
	do {
		if (len == threads->room * sizeof(*threads->list) && !grow_list(threads)) {
			n = -1;
			break;
		}
		n = read(fd, (char *)threads->list + len,
			 threads->room * sizeof(*threads->list) - len);
		if (n > 0)
			len += n;
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	n = n < 0 ? -errno : 0;
	close(fd);
	threads->count = len / sizeof(*threads->list);
	if (threads->count)
		qsort(threads->list, threads->count, sizeof(*threads->list), compare_threads);
	return n;
}

bool threads_have(const struct threads *t, uint32_t tid)
{
	const struct blame_thread key = { .tid = tid };

	return t->live.count && bsearch(&key, t->live.list, t->live.count, sizeof(key), compare_threads);
}

static bool is_exited_thread(const struct threads_vcpu *vcpu, uint32_t tid)
{
	return vcpu->task == THREADS_EXITED || (tgkill(vcpu->vm.tgid, tid, 0) && errno == ESRCH);
}

static void keep_stalls(struct threads *t, uint32_t tid, const struct threads_vcpu *vcpu)
{
	const struct stalls_vcpu *stalls = (const void *)vcpu + t->program->rodata->stalls_offset;
	struct blame_thread thread = { .vm = vcpu->vm, .tid = tid };
	struct threads_list *exited = &t->exited;

	if (exited->count == exited->room && !grow_list(exited))
		return;
	memcpy(thread.stalls, stalls->ns, sizeof(thread.stalls));
	exited->list[exited->count++] = thread;
}

/* Remove the entries of threads that have exited. */
static void remove_exited_threads(struct threads *t)
{
	const int map = bpf_map__fd(t->program->maps.vcpus);
	struct threads_vcpu vcpu;
	uint32_t tid, next;
	bool more = !bpf_map_get_next_key(map, NULL, &next);

	while (more) {
		tid = next;
		more = !bpf_map_get_next_key(map, &tid, &next);
		if (threads_have(t, tid) || bpf_map_lookup_elem(map, &tid, &vcpu) ||
		    !is_exited_thread(&vcpu, tid) || bpf_map_lookup_and_delete_elem(map, &tid, &vcpu) ||
		    !vcpu.task)
			continue;
		return_entry(&t->program->bss->thread_counts, vcpu.uid);
		if (t->takes_stalls)
			keep_stalls(t, tid, &vcpu);
	}
}

/* Return true if more threads have entries than are listed. */
static bool has_unlisted(const struct threads *t)
{
	return t->program->bss->thread_counts.all > t->live.count;
}

int threads_sample(struct threads *t)
{
	int error;

	t->program->bss->turn++;
	error = visit_threads(&t->live, t->program->links.threads_sample);
	if (!error && has_unlisted(t))
		remove_exited_threads(t);
	return error;
}

/*
 * Announce the vCPUs that are not listed: add entries, until half of them are used. The rest is for
 * threads that the program enters. Return true if one was added.
 */
static bool announce_threads(const struct threads *t, const struct kvmstats_vm *first)
{
	const int map = bpf_map__fd(t->program->maps.vcpus);
	const size_t half = bpf_map__max_entries(t->program->maps.vcpus) / 2;
	size_t room = t->live.count < half ? half - t->live.count : 0;
	struct threads_vcpu entry = { 0 };
	const struct kvmstats_vm *vm;
	bool announced = false;
	unsigned int i;

	for (vm = first; vm; vm = vm->next) {
		entry.vm = (struct blame_vm){ vm->nth ?: 1, vm->identity.pid, 0 };
		for (i = 0; !vm->ended && i < vm->vcpus && room; i++) {
			const uint32_t tid = vm->vcpu[i]->tid;

			if (tid && !threads_have(t, tid) &&
			    !bpf_map_update_elem(map, &tid, &entry, BPF_NOEXIST)) {
				announced = true;
				room--;
			}
		}
	}
	return announced;
}

void threads_enter(struct threads *t, const struct kvmstats_vm *first)
{
	if ((announce_threads(t, first) || has_unlisted(t)) &&
	    !visit_threads(&t->live, t->program->links.threads_sample))
		remove_exited_threads(t);
}
