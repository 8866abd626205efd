// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "blame.h"
#include "blame_check.h"
#include "bpf_layout.h"
#include "bpf_program.h"
#include "blame.skel.h"

/* Entries that remain free until pairs that no longer grow are removed */
#define SPARE_PAIRS	(BLAME_CHARGES / 4)

struct blame {
	struct bpf_notifier notifier;
	struct blame_bpf *program;
	struct bpf_link *sampler;
	/* Last sample and the one before it, sorted by pair */
	struct blame_row *rows, *before;
	size_t count, count_before;
	struct blame_pair *keys;
	struct blame_charge *values;
	size_t room;
	struct blame_thread threads[BLAME_VCPUS];
	size_t thread_count;
};

static int find(void *arg, char *why, size_t size)
{
	struct blame *b = arg;

	return bpf_notifier_find(&b->notifier, why, size);
}

static int load(void *arg)
{
	union bpf_iter_link_info info = { 0 };
	struct bpf_iter_attach_opts options;
	struct blame *b = arg;
	int error, cpus = libbpf_num_possible_cpus();

	if (cpus < 0)
		return cpus;
	b->program = blame_bpf__open();
	if (!b->program)
		return -errno;
	b->program->rodata->vcpu_notifier = b->notifier.vcpu_notifier;
	b->program->rodata->vcpu_kvm = b->notifier.vcpu_kvm;
	b->program->rodata->vcpu_pid = b->notifier.vcpu_pid;
	error = bpf_map__set_max_entries(b->program->maps.cpus, cpus);
	/* attached by hand: it needs the map */
	bpf_program__set_autoattach(b->program->progs.blame_sample, false);
	error = error ?: blame_bpf__load(b->program);
	if (error)
		return error;
	/* libbpf requires zeros in the padding; LIBBPF_OPTS does not guarantee them. */
	memset(&options, 0, sizeof(options));
	options.sz = sizeof(options);
	options.link_info = &info;
	options.link_info_len = sizeof(info);
	info.map.map_fd = bpf_map__fd(b->program->maps.vcpus);
	b->sampler = bpf_program__attach_iter(b->program->progs.blame_sample, &options);
	if (!b->sampler)
		return -errno;
	return blame_bpf__attach(b->program);
}

/* Remove the pairs of the VMs of this process: those of the check. */
static void forget_check(struct blame *b)
{
	const int map = bpf_map__fd(b->program->maps.charges);
	size_t i;

	for (i = 0; i < b->count; i++)
		if (b->rows[i].pair.vm.tgid == (uint32_t)getpid())
			bpf_map_delete_elem(map, &b->rows[i].pair);
}

int blame_open(struct blame **opened, struct kvmstats_probe *p)
{
	/* Batches may have a bucket more than the map has entries. */
	const size_t room = 2 * BLAME_CHARGES;
	struct blame *b = calloc(1, sizeof(*b));
	int error = -ENOMEM;

	if (b) {
		b->room = room;
		b->rows = calloc(room, sizeof(*b->rows));
		b->before = calloc(room, sizeof(*b->before));
		b->keys = calloc(room, sizeof(*b->keys));
		b->values = calloc(room, sizeof(*b->values));
	}
	if (!b || !b->rows || !b->before || !b->keys || !b->values)
		snprintf(p->why, sizeof(p->why), "%s", strerror(-error));
	else
		error = bpf_program_open(find, load, b, p) ?: blame_check(b, p) ?: blame_sample(b);
	if (error) {
		blame_close(b);
		return error;
	}
	forget_check(b);
	blame_sample(b);
	*opened = b;
	return 0;
}

void blame_close(struct blame *b)
{
	if (!b)
		return;
	bpf_link__destroy(b->sampler);
	blame_bpf__destroy(b->program);
	free(b->rows);
	free(b->before);
	free(b->keys);
	free(b->values);
	free(b);
}

/* Charge open waits, and list the vCPUs. */
static int run_sampler(struct blame *b)
{
	const size_t size = sizeof(b->threads);
	char *to = (char *)b->threads;
	size_t len = 0;
	ssize_t n;
	int fd;

	fd = bpf_iter_create(bpf_link__fd(b->sampler));
	if (fd < 0)
		return -errno;
	do {
		n = read(fd, to + len, size - len);
		if (n > 0)
			len += n;
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	n = n < 0 ? -errno : 0;
	close(fd);
	b->thread_count = len / sizeof(*b->threads);
	return n;
}

static int compare_rows(const void *x, const void *y)
{
	const struct blame_row *a = x, *b = y;

	return memcmp(&a->pair, &b->pair, sizeof(a->pair));
}

static int read_charges(struct blame *b)
{
	size_t i;
	int error;

	error = bpf_program_read(bpf_map__fd(b->program->maps.charges), b->keys,
				 sizeof(*b->keys), b->values, sizeof(*b->values), b->room,
				 &b->count);
	if (error)
		return error;
	for (i = 0; i < b->count; i++) {
		b->rows[i].pair = b->keys[i];
		b->rows[i].ns = b->values[i].ns;
		b->rows[i].removed = false;
	}
	qsort(b->rows, b->count, sizeof(*b->rows), compare_rows);
	return 0;
}

/* Compare with the sample before; make space in the map if it is nearly full. */
static void find_growth(struct blame *b)
{
	const int map = bpf_map__fd(b->program->maps.charges);
	const bool full = b->count > BLAME_CHARGES - SPARE_PAIRS;
	struct blame_charge last;
	size_t i, j = 0;

	for (i = 0; i < b->count; i++) {
		struct blame_row *row = &b->rows[i];

		while (j < b->count_before && compare_rows(&b->before[j], row) < 0)
			j++;
		row->growth = row->ns;
		if (j == b->count_before || compare_rows(&b->before[j], row))
			continue;
		if (!b->before[j].removed)
			row->growth -= b->before[j].ns;
		/* Charges can be added between the two reads. */
		if (full && !row->growth &&
		    !bpf_map_lookup_and_delete_elem(map, &row->pair, &last)) {
			row->growth = last.ns - row->ns;
			row->removed = true;
		}
	}
}

int blame_sample(struct blame *b)
{
	struct blame_row *rows = b->before;
	int error;

	b->before = b->rows;
	b->rows = rows;
	b->count_before = b->count;
	error = run_sampler(b) ?: read_charges(b);
	if (!error)
		find_growth(b);
	return error;
}

const struct blame_row *blame_rows(const struct blame *b, size_t *n)
{
	*n = b->count;
	return b->rows;
}

const struct blame_thread *blame_threads(const struct blame *b, size_t *n)
{
	*n = b->thread_count;
	return b->threads;
}

struct blame_counts blame_counts(const struct blame *b)
{
	return b->program->bss->counts;
}

bool blame_cgroup(const struct blame *b, uint64_t id, struct blame_cgroup *cgroup)
{
	const int map = bpf_map__fd(b->program->maps.cgroups);

	return id && !bpf_map_lookup_elem(map, &id, cgroup);
}
