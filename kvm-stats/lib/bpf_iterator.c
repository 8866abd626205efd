// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf_iterator.h"
#include "iterator.skel.h"

/* What the kernel's side collects for one read(). */
#define CHUNK (32 * 1024)

struct bpf_iterator {
	struct iterator *program;
	struct bpf_link *link;
	char *data;
	size_t room;
	const struct bpf_record **records;
	size_t records_room;
};

/*
 * libbpf's first complaint says most; a library does not print. There is one function
 * for all threads of the process: it is set once, for good, and what is not for this
 * library goes to the one that was there before.
 */
static __thread char *complaint;
static libbpf_print_fn_t print_before;

__attribute__((format(printf, 2, 0)))
static int keep_complaint(enum libbpf_print_level level, const char *format,
			  va_list args)
{
	if (!complaint)
		return print_before ? print_before(level, format, args) : 0;
	if (level == LIBBPF_WARN && !*complaint) {
		vsnprintf(complaint, COMPLAINT_SIZE, format, args);
		complaint[strcspn(complaint, "\n")] = '\0';
	}
	return 0;
}

static void set_print(void)
{
	print_before = libbpf_set_print(keep_complaint);
}

void bpf_complaints(char *text)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_print);
	if (text)
		*text = '\0';
	complaint = text;
}

int bpf_iterator_open(struct bpf_iterator **opened,
		      const struct bpf_layout *layout, char *why, size_t size)
{
	struct bpf_iterator *iterator = calloc(1, sizeof(*iterator));
	char said[COMPLAINT_SIZE];
	const char *what = "allocating";
	int error = -ENOMEM;

	bpf_complaints(said);
	if (!iterator)
		goto fail;
	what = "opening the BPF program";
	iterator->program = iterator__open();
	if (!iterator->program) {
		error = -errno;
		goto fail;
	}
	memcpy((void *)&iterator->program->rodata->layout, layout, sizeof(*layout));
	what = "loading the BPF program";
	error = iterator__load(iterator->program);
	if (error)
		goto fail;
	what = "attaching the BPF program";
	iterator->link = bpf_program__attach_iter(iterator->program->progs.kvm_files, NULL);
	if (!iterator->link) {
		error = -errno;
		goto fail;
	}
	*opened = iterator;
	bpf_complaints(NULL);
	return 0;

fail:
	snprintf(why, size, "%s: %s%s%s%s", what, strerror(-error),
		 *said ? " (" : "", said, *said ? ")" : "");
	bpf_complaints(NULL);
	bpf_iterator_close(iterator);
	return error;
}

void bpf_iterator_close(struct bpf_iterator *iterator)
{
	if (!iterator)
		return;
	bpf_link__destroy(iterator->link);
	iterator__destroy(iterator->program);
	free(iterator->records);
	free(iterator->data);
	free(iterator);
}

/* Returns the number of bytes, or a negative errno. */
static ssize_t read_all(struct bpf_iterator *iterator)
{
	int fd = bpf_iter_create(bpf_link__fd(iterator->link));
	ssize_t len, total = 0;
	struct timespec t;

	if (fd < 0)
		return -errno;
	/* This CPU notes the time of the scheduler's clock, see clock_offset. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	do {
		if (iterator->room < (size_t)total + CHUNK) {
			size_t room = 2 * iterator->room + CHUNK;
			char *more = realloc(iterator->data, room);

			if (!more) {
				total = -ENOMEM;
				break;
			}
			iterator->data = more;
			iterator->room = room;
		}
		len = read(fd, iterator->data + total, iterator->room - total);
		if (len > 0)
			total += len;
		else if (len < 0 && errno != EAGAIN && errno != EINTR)
			total = -errno;
	} while (len && total >= 0);
	close(fd);
	return total;
}

static int compare(__s64 a, __s64 b)
{
	return (a > b) - (a < b);
}

/* By VM; of the same object the owner's file, the lowest one, first. */
static int compare_records(const struct bpf_record *a, const struct bpf_record *b)
{
	return compare(a->vm, b->vm) ?: compare(a->vcpu_id, b->vcpu_id) ?:
	       compare(a->object, b->object) ?: compare(b->owner, a->owner) ?:
	       compare(a->pid, b->pid) ?: compare(a->fd, b->fd);
}

/* As the kernel wrote them: by process, then descriptor */
static int compare_places(const struct bpf_record *a, const struct bpf_record *b)
{
	return (a > b) - (a < b);
}

/* Heap sort: qsort() would allocate memory for every sample. */
static void sort(const struct bpf_record **records, size_t n,
		 int (*order)(const struct bpf_record *a, const struct bpf_record *b))
{
	const struct bpf_record *down;
	size_t i = n / 2, at, child;

	while (n > 1) {
		if (i) {
			down = records[--i];
		} else {
			down = records[--n];
			records[n] = records[0];
		}
		for (at = i; (child = 2 * at + 1) < n; at = child) {
			if (child + 1 < n && order(records[child], records[child + 1]) < 0)
				child++;
			if (order(down, records[child]) >= 0)
				break;
			records[at] = records[child];
		}
		records[at] = down;
	}
}

int bpf_iterator_read(struct bpf_iterator *iterator,
		      const struct bpf_record ***records)
{
	ssize_t at, len = read_all(iterator);
	size_t i, n = 0, kept = 0;

	if (len < 0)
		return len;
	for (at = 0; at < len; at += sizeof(**iterator->records) + iterator->records[n++]->size) {
		if (n == iterator->records_room) {
			size_t room = 2 * n + 64;
			void *more = realloc(iterator->records, room * sizeof(*iterator->records));

			if (!more)
				return -ENOMEM;
			iterator->records = more;
			iterator->records_room = room;
		}
		iterator->records[n] = (void *)(iterator->data + at);
	}
	sort(iterator->records, n, compare_records);
	for (i = 0; i < n; i++)
		if (!kept || iterator->records[kept - 1]->object != iterator->records[i]->object)
			iterator->records[kept++] = iterator->records[i];
	sort(iterator->records, kept, compare_places);
	*records = iterator->records;
	return kept;
}
