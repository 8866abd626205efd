// SPDX-License-Identifier: LGPL-2.1-or-later
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "file.h"
#include "source.h"

/*
 * Far more than any kernel has, and little enough to allocate on the word of
 * a header.
 */
#define BLOCK_MAX	0x100000

static const char *read_block(int fd, void *buf, size_t size, off_t offset)
{
	ssize_t n;

	do {
		n = pread(fd, buf, size, offset);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return strerror(errno);
	return (size_t)n == size ? NULL : "the file ends too early";
}

const char *file_read_layout(int fd, struct file_layout *layout)
{
	struct abi_getfd_header getfd;
	struct abi_rows_header rows;
	struct abi_header header;
	const char *wrong;
	size_t size;

	layout->row_size = 0;
	wrong = read_block(fd, &header, sizeof(header), 0);
	if (wrong)
		return wrong;
	/* The one begins with an id, the other with flags: no file has both. */
	if (memcmp(&header, "kvm-", 4)) {
		size = sizeof(header);
		layout->name_size = header.name_size;
		layout->count = header.count;
		layout->desc_offset = header.desc_offset;
		layout->data_offset = header.data_offset;
		if (header.flags & ABI_HEADER_ROW_SIZE) {
			size = sizeof(rows);
			wrong = read_block(fd, &rows, size, 0);
			if (wrong)
				return wrong;
			layout->row_size = rows.row_size;
			if (!rows.row_size || rows.row_size % sizeof(uint64_t) ||
			    rows.row_size > BLOCK_MAX)
				return "the header has an impossible row size";
		}
	} else {
		size = sizeof(getfd);
		wrong = read_block(fd, &getfd, size, 0);
		if (wrong)
			return wrong;
		layout->name_size = getfd.name_size;
		layout->count = getfd.count;
		layout->desc_offset = getfd.desc_offset;
		layout->data_offset = getfd.data_offset;
	}

	if (!layout->count)
		return "the header has no statistics";
	if (!layout->name_size ||
	    layout->count > BLOCK_MAX / (layout->name_size +
					 (uint64_t)sizeof(struct abi_desc)))
		return "the header has impossible sizes";
	if (layout->desc_offset < size || layout->data_offset < size)
		return "the header has impossible offsets";
	return NULL;
}

static const char *check_desc(const struct kvmstats_desc *desc)
{
	const char *c;

	if (!*desc->name)
		return "a name is empty";
	for (c = desc->name; *c; c++) {
		if (!isgraph((unsigned char)*c))
			return "a name has blanks or control characters";
	}
	if (!desc->size)
		return "a statistic has no value";
	/* one bucket for 0, and one per bit */
	if (desc->type == KVMSTATS_LOG_HIST && desc->size > 65)
		return "a log2 histogram has more than 65 buckets";
	if (desc->offset % sizeof(uint64_t) ||
	    desc->offset + (uint64_t)desc->size * sizeof(uint64_t) > BLOCK_MAX)
		return "a value is at an impossible offset";
	return NULL;
}

struct kvmstats_table *table_make(const struct kvmstats_desc *desc,
				  unsigned int count)
{
	struct kvmstats_table *table;
	struct kvmstats_desc *copy;
	size_t names = 0, end;
	unsigned int i;
	char *name;

	for (i = 0; i < count; i++)
		names += strlen(desc[i].name) + 1;
	table = malloc(sizeof(*table) + count * sizeof(*copy) + names);
	if (!table)
		return NULL;
	copy = (struct kvmstats_desc *)(table + 1);
	name = (char *)(copy + count);
	table->desc = copy;
	table->count = count;
	table->data_size = 0;
	for (i = 0; i < count; i++) {
		copy[i] = desc[i];
		copy[i].name = name;
		name = stpcpy(name, desc[i].name) + 1;
		end = desc[i].offset + desc[i].size * sizeof(uint64_t);
		if (table->data_size < end)
			table->data_size = end;
	}
	return table;
}

void kvmstats_free_table(struct kvmstats_table *table)
{
	free(table);
}

const char *file_read_table(int fd, const struct file_layout *layout,
			    struct kvmstats_table **table)
{
	size_t stride = sizeof(struct abi_desc) + layout->name_size;
	struct kvmstats_desc *desc;
	const char *wrong;
	struct abi_desc d;
	unsigned int i;
	char *raw;

	raw = malloc(stride * layout->count);
	desc = calloc(layout->count, sizeof(*desc));
	if (!raw || !desc)
		wrong = strerror(ENOMEM);
	else
		wrong = read_block(fd, raw, stride * layout->count,
				   layout->desc_offset);

	for (i = 0; !wrong && i < layout->count; i++) {
		char *name = raw + i * stride + sizeof(d);

		/* name_size need not be a multiple of an alignment */
		memcpy(&d, raw + i * stride, sizeof(d));
		desc[i].name = name;
		desc[i].type = d.flags & 0xf;
		desc[i].unit = d.flags >> 4 & 0xf;
		desc[i].base = d.flags >> 8 & 0xf;
		desc[i].exponent = d.exponent;
		desc[i].size = d.size;
		desc[i].offset = d.offset;
		desc[i].bucket_size = d.bucket_size;
		if (!memchr(name, '\0', layout->name_size))
			wrong = "a name has no end";
		else
			wrong = check_desc(&desc[i]);
	}
	if (!wrong) {
		*table = table_make(desc, layout->count);
		if (!*table)
			wrong = strerror(ENOMEM);
	}
	free(raw);
	free(desc);
	return wrong;
}

const char *file_read_values(int fd, const struct file_layout *layout,
			     void *values, size_t size)
{
	return read_block(fd, values, size, layout->data_offset);
}

const struct kvmstats_desc *kvmstats_find(const struct kvmstats_table *table,
					  const char *name)
{
	unsigned int i;

	for (i = 0; table && i < table->count; i++) {
		if (!strcmp(table->desc[i].name, name))
			return &table->desc[i];
	}
	return NULL;
}

uint64_t kvmstats_value(const struct kvmstats_desc *desc, const void *values,
			unsigned int i)
{
	const uint64_t *value = values;

	return value[desc->offset / sizeof(*value) + i];
}
