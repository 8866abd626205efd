// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "threads.h"

static int compare_threads(const void *x, const void *y)
{
	const struct blame_thread *a = x, *b = y;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

/* Make space for more threads. */
static bool grow_threads(struct threads *threads)
{
	const size_t room = 2 * threads->room + 256;
	struct blame_thread *list = realloc(threads->list, room * sizeof(*list));

	if (!list)
		return false;
	threads->list = list;
	threads->room = room;
	return true;
}

int read_threads(struct threads *threads, const struct bpf_link *iterator)
{
	size_t len = 0;
	ssize_t n;
	int fd;

	fd = bpf_iter_create(bpf_link__fd(iterator));
	if (fd < 0)
		return -errno;
	do {
		if (len == threads->room * sizeof(*threads->list) && !grow_threads(threads)) {
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

bool has_thread(const struct threads *threads, uint32_t tid)
{
	const struct blame_thread key = { .tid = tid };

	return threads->count && bsearch(&key, threads->list, threads->count, sizeof(key),
					 compare_threads);
}

bool announce_threads(const struct threads *threads, const struct bpf_map *vcpus, void *entry,
		      const struct kvmstats_vm *first)
{
	const size_t max = bpf_map__max_entries(vcpus);
	const int map = bpf_map__fd(vcpus);
	size_t room = threads->count < max / 2 ? max / 2 - threads->count : 0;
	const struct kvmstats_vm *vm;
	bool announced = false;
	unsigned int i;

	for (vm = first; vm; vm = vm->next) {
		*(struct blame_vm *)entry = (struct blame_vm){ vm->nth ?: 1, vm->identity.pid, 0 };
		for (i = 0; !vm->ended && i < vm->vcpus && room; i++) {
			const uint32_t tid = vm->vcpu[i]->tid;

			if (tid && !has_thread(threads, tid) &&
			    !bpf_map_update_elem(map, &tid, entry, BPF_NOEXIST)) {
				announced = true;
				room--;
			}
		}
	}
	return announced;
}

int begin_shares(struct shares *shares, uint32_t max)
{
	shares->max = max;
	return getentropy(&shares->seed, sizeof(shares->seed)) ? -errno : 0;
}

int set_thread_room(struct bpf_map *map, struct shares *shares, const struct kvmstats_vm *first)
{
	const struct kvmstats_vm *vm;
	size_t vcpus = 0;
	int error = 0;

	for (vm = first; vm; vm = vm->next)
		vcpus += vm->vcpus;
	if (2 * vcpus > bpf_map__max_entries(map))
		error = bpf_map__set_max_entries(map, 2 * vcpus);
	return error ?: begin_shares(shares, bpf_map__max_entries(map));
}
