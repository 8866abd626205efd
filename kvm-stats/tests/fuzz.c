// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whatever a statistics file has in it, and whatever a process calls itself,
 * nothing is read or written that should not be: a target for libFuzzer.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "file.h"
#include "identity.h"
#include "../src/recording.h"
#include "../src/text.h"

const struct source_ops *const source_list[] = { NULL };

static void try_text(const struct kvmstats_desc *desc, const void *values)
{
	char text[TEXT_SIZE];
	unsigned int i;

	text_type(desc->type);
	text_unit(desc->unit);
	text_base(desc->base);
	text_value_unit(desc, text);
	for (i = 0; i < desc->size; i++) {
		uint64_t value = kvmstats_value(desc, values, i);

		text_value(desc, value, text);
		text_rate(desc, value, value / 3, text);
		text_short(value, text);
		if (text_is_histogram(desc))
			text_bucket(desc, i, text);
	}
}

static void try_file(const uint8_t *data, size_t size)
{
	static struct stat_group groups[GROUPS];
	static int fd = -1;
	struct kvmstats_table *table;
	struct file_layout layout;
	unsigned int i;
	void *values;

	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (file_read_layout(fd, &layout) || file_read_table(fd, &layout, &table))
		return;
	values = malloc(table->data_size);
	stat_groups_find(table, groups);
	if (!file_read_values(fd, &layout, values, table->data_size)) {
		for (i = 0; i < table->count; i++)
			try_text(&table->desc[i], values);
	}
	free(values);
	kvmstats_free_table(table);
}

/* The output is UTF-8 and contains no terminal escapes. */
static void try_name(const char *name)
{
	char shown[TEXT_SHOWN(sizeof(((struct kvmstats_identity *)0)->name))];
	char cut[sizeof(shown)];
	const char *c;
	uint32_t code;
	size_t n;

	for (c = name; *c; c += n) {
		n = text_character(c, &code);
		if (!n)
			abort();
	}
	text_shown(name, shown, sizeof(shown));
	for (c = shown; *c; c += n) {
		n = text_character(c, &code);
		if (!n || code < ' ' || (code >= 0x7f && code < 0xa0) || code == 0x202e)
			abort();
	}
	for (n = 0; n < 20; n++) {
		memcpy(cut, shown, sizeof(cut));
		cut[text_fit(cut, n)] = '\0';
		if (text_width(cut) > n)
			abort();
	}
}

/* comm, cgroup and command line, with a '\n' between */
static void try_who(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *next = text;
	struct kvmstats_identity identity;
	char *comm, *cgroups;

	memcpy(text, data, size);
	text[size] = '\0';
	comm = strsep(&next, "\n");
	cgroups = next ? strsep(&next, "\t") : NULL;
	identity_from_proc(comm, next ? next : "", next ? text + size - next : 0,
		 cgroups ? cgroups : "", 0, &identity);
	if (!memchr(identity.name, '\0', sizeof(identity.name)))
		abort();
	try_name(identity.name);
	identity_clear(&identity);
	free(text);
}

/* A key sample, and one that differs from it: what is impossible is refused. */
static void try_recording(const uint8_t *data, size_t size)
{
	const size_t key = size > 1 ? data[0] | data[1] << 8 : 0;

	if (key + 2 >= size)
		return;
	recording_try(data + 2, key, 'K');
	recording_try(data + 2 + key, size - 2 - key, 'S');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] & 2)
		try_recording(data + 1, size - 1);
	else if (size && data[0] & 1)
		try_who(data + 1, size - 1);
	else if (size)
		try_file(data + 1, size - 1);
	return 0;
}
