// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf_iterator.h"
#include "clock.h"
#include "lib/bpf/iterator.skel.h"

/* One file that was found */
struct record_place {
	__u64 object;
	__s32 pid, fd;
	__u32 owner;
	__u32 at;
	bool repeated;		/* another file of the object counts */
};

struct bpf_iterator {
	struct iterator *program;
	struct bpf_link *link, *thread_link, *exit_link, *exit_again_link;
	bool hides;		/* a VM or vCPU has no open file */
	struct ring_buffer *finals;
	int (*take)(void *arg, const struct bpf_record *record);
	void *take_arg;
	char *data;
	size_t data_room;
	const struct bpf_record **records;
	struct record_place *places;	/* result of the last read: the next one is usually equal */
	size_t found, room;
};

/*
 * libbpf's first message explains most; a library does not print. libbpf has one print
 * function per process: set it once, permanently, and pass messages that are not caused by
 * this library to the previous function.
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

/* Linux 7.0 and later can preempt a program, which others then skip. */
static bool can_skip(void)
{
	struct utsname name;

	return !uname(&name) && atoi(name.release) >= 7;
}

/* Load only the main program if the kernel rejects one of the others. */
static int load_program(struct bpf_iterator *iterator, const struct bpf_layout *layout, bool all)
{
	int error;

	iterator->program = iterator__open();
	if (!iterator->program)
		return -errno;
	memcpy((void *)&iterator->program->rodata->layout, layout, sizeof(*layout));
	iterator->program->rodata->cpus = libbpf_num_possible_cpus();
	bpf_program__set_autoload(iterator->program->progs.kvm_threads, all);
	bpf_program__set_autoload(iterator->program->progs.kvm_exit, all);
	bpf_program__set_autoload(iterator->program->progs.kvm_exit_again, all && can_skip());
	error = iterator__load(iterator->program);
	if (!error || !all)
		return error;
	iterator__destroy(iterator->program);
	return load_program(iterator, layout, false);
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
	what = "loading the BPF program";
	error = load_program(iterator, layout, true);
	if (error)
		goto fail;
	what = "attaching the BPF program";
	iterator->link = bpf_program__attach_iter(iterator->program->progs.kvm_files, NULL);
	if (!iterator->link) {
		error = -errno;
		goto fail;
	}
	/* Without it, VMs without open files are not found. */
	iterator->thread_link = bpf_program__attach_iter(iterator->program->progs.kvm_threads, NULL);
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
	bpf_link__destroy(iterator->thread_link);
	bpf_link__destroy(iterator->exit_link);
	bpf_link__destroy(iterator->exit_again_link);
	ring_buffer__free(iterator->finals);
	iterator__destroy(iterator->program);
	free(iterator->records);
	free(iterator->places);
	free(iterator->data);
	free(iterator);
}

static int take_final_record(void *arg, void *data, size_t size)
{
	const struct bpf_iterator *iterator = arg;
	const struct bpf_record *record = data;

	if (size < sizeof(*record) || size - sizeof(*record) < record->size)
		return -EPROTO;
	return iterator->take(iterator->take_arg, record);
}

int bpf_iterator_keep_finals(struct bpf_iterator *iterator)
{
	char said[COMPLAINT_SIZE];
	int error = 0;

	if (!bpf_program__autoload(iterator->program->progs.kvm_exit))
		return -EOPNOTSUPP;
	bpf_complaints(said);
	iterator->finals = ring_buffer__new(bpf_map__fd(iterator->program->maps.finals),
					    take_final_record, iterator, NULL);
	if (iterator->finals)
		iterator->exit_link = bpf_program__attach(iterator->program->progs.kvm_exit);
	if (!iterator->exit_link)
		error = -errno;
	else if (bpf_program__autoload(iterator->program->progs.kvm_exit_again))
		iterator->exit_again_link =
			bpf_program__attach(iterator->program->progs.kvm_exit_again);
	bpf_complaints(NULL);
	return error;
}

int bpf_iterator_take_finals(struct bpf_iterator *iterator,
			     int (*take)(void *arg, const struct bpf_record *record), void *arg,
			     __u64 *lost)
{
	int n;

	if (!iterator->exit_link)
		return 0;
	iterator->take = take;
	iterator->take_arg = arg;
	n = ring_buffer__consume(iterator->finals);
	iterator->program->bss->finals_taken++;
	*lost = iterator->program->bss->finals_lost;
	return n < 0 ? n : 0;
}

/* Append the records that the program has stored to the data. Return 0 or a negative errno. */
static int take_records(struct bpf_iterator *iterator, size_t *len)
{
	const struct bpf_output *slots = iterator->program->bss->slots;
	const __u32 n = iterator->program->bss->filled;
	__u32 i;

	if (iterator->data_room < *len + n * sizeof(*slots)) {
		size_t room = 2 * iterator->data_room + n * sizeof(*slots);
		char *more = realloc(iterator->data, room);

		if (!more)
			return -ENOMEM;
		iterator->data = more;
		iterator->data_room = room;
	}
	for (i = 0; i < n; i++) {
		const size_t size = sizeof(slots[i].record) + slots[i].record.size;

		memcpy(iterator->data + *len, &slots[i], size);
		*len += size;
	}
	iterator->program->bss->filled = 0;
	return 0;
}

/* Run a program to its end, and append its records to the data. Return 0 or a negative errno. */
static int run_link(struct bpf_iterator *iterator, const struct bpf_link *link, size_t *len)
{
	int fd = bpf_iter_create(bpf_link__fd(link)), error = 0;
	ssize_t n = 1;
	char byte;

	if (fd < 0)
		return -errno;
	/* This CPU notes the time of the scheduler's clock, see clock_offset. */
	read_clock(CLOCK_THREAD_CPUTIME_ID);
	iterator->program->bss->begins = true;
	/* The program writes nothing: it stops with EAGAIN when it has records, or after some files. */
	while (n && !error) {
		n = read(fd, &byte, sizeof(byte));
		error = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : take_records(iterator, len);
	}
	close(fd);
	return error;
}

static int compare_numbers(__u64 a, __u64 b)
{
	return (a > b) - (a < b);
}

/* For the same object, sort the lowest file of the owner first. */
static int compare_files(const void *x, const void *y)
{
	const struct record_place *a = x, *b = y;

	return compare_numbers(a->object, b->object) ?: compare_numbers(b->owner, a->owner) ?:
	       compare_numbers(a->pid, b->pid) ?: compare_numbers(a->fd, b->fd);
}

static int compare_places(const void *x, const void *y)
{
	const struct record_place *a = x, *b = y;

	return compare_numbers(a->at, b->at);
}

static void mark_repeated(struct record_place *places, size_t n)
{
	size_t i;

	qsort(places, n, sizeof(*places), compare_files);
	for (i = 0; i < n; i++)
		places[i].repeated = i && places[i].object == places[i - 1].object;
	qsort(places, n, sizeof(*places), compare_places);
}

static bool make_record_room(struct bpf_iterator *iterator)
{
	size_t room = 2 * iterator->room + 64;
	const struct bpf_record **records;
	struct record_place *places;

	records = realloc(iterator->records, room * sizeof(*records));
	if (records)
		iterator->records = records;
	places = realloc(iterator->places, room * sizeof(*places));
	if (places)
		iterator->places = places;
	if (records && places)
		iterator->room = room;
	return records && places;
}

/* Return the number of records after removing duplicates, or a negative errno. */
static int find_records(struct bpf_iterator *iterator, ssize_t len)
{
	const struct bpf_record *record;
	size_t i, n = 0, kept = 0;
	struct record_place *place;
	bool same = true;
	ssize_t at;

	for (at = 0; at < len; at += sizeof(*record) + record->size) {
		if (n == iterator->room && !make_record_room(iterator))
			return -ENOMEM;
		record = (void *)(iterator->data + at);
		place = &iterator->places[n];
		same = same && n < iterator->found && place->object == record->object &&
		       place->pid == record->pid && place->fd == record->fd &&
		       place->owner == record->owner;
		if (!same)
			*place = (struct record_place){ record->object, record->pid, record->fd,
						 record->owner, n, false };
		iterator->records[n++] = record;
	}
	/* The kernel allocates memory for this, which dominates the cost. */
	if (!same || n != iterator->found)
		mark_repeated(iterator->places, n);
	iterator->found = n;
	for (i = 0; i < n; i++)
		if (!iterator->places[i].repeated)
			iterator->records[kept++] = iterator->records[i];
	return kept;
}

bool bpf_iterator_is_partial(const struct bpf_iterator *iterator, unsigned int *user)
{
	*user = iterator->program->bss->partial_user;
	return iterator->program->bss->partial;
}

bool bpf_iterator_hides(const struct bpf_iterator *iterator)
{
	return iterator->hides;
}

static int walk(struct bpf_iterator *iterator, enum bpf_mode mode, bool threads,
		const struct bpf_record ***records)
{
	size_t len = 0, files;
	int error;

	iterator->program->bss->mode = mode;
	iterator->program->bss->walk++;
	error = run_link(iterator, iterator->link, &len);
	files = len;
	if (!error && threads && iterator->thread_link) {
		error = run_link(iterator, iterator->thread_link, &len);
		iterator->hides = len > files;
	}
	if (!error)
		error = find_records(iterator, len);
	*records = iterator->records;
	return error;
}

bool bpf_iterator_note(struct bpf_iterator *iterator)
{
	size_t len = 0;

	iterator->program->bss->mode = BPF_NOTE;
	iterator->program->bss->news = false;
	return iterator->thread_link && !run_link(iterator, iterator->thread_link, &len) &&
	       iterator->program->bss->news;
}

int bpf_iterator_read(struct bpf_iterator *iterator, bool threads,
		      const struct bpf_record ***records)
{
	return walk(iterator, BPF_ALL, threads, records);
}

int bpf_iterator_read_known(struct bpf_iterator *iterator, const struct bpf_record ***records)
{
	return walk(iterator, BPF_KNOWN, false, records);
}

int bpf_iterator_read_own(struct bpf_iterator *iterator, const struct bpf_record ***records)
{
	return walk(iterator, BPF_OWN, false, records);
}
