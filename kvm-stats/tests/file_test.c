// SPDX-License-Identifier: GPL-2.0-only
/*
 * Statistics files like the kernel's, and invalid files, which are refused with a message.
 * Needs no KVM.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "file.h"
#include "tap.h"

#define NR_DESC		4
#define FILE_SIZE	2048
#define ARRAY_LEN(x)	(sizeof(x) / sizeof((x)[0]))
#define VALUE(desc, i)	(0xfedcba9876543200ULL + (desc) * 0x100 + (i))

enum abi {
	STATS_GETFD,
	GET_STATS_FD,
	ALL_VCPUS,
};

static const char * const abi_names[] = { "STATS_GETFD", "GET_STATS_FD", "ALL_VCPUS" };

/* What a file is made of: all in uint32_t, for a case to change any of it. */
struct image {
	uint32_t name_size;
	uint32_t count;
	uint32_t desc_offset;
	uint32_t data_offset;
	uint32_t file_size;
	uint32_t row_size;
	struct {
		uint32_t flags;
		uint32_t exponent;
		uint32_t size;
		uint32_t offset;
		uint32_t bucket_size;
		char name[64];
	} desc[NR_DESC];
};

/* There is a gap after each block, and one in the data. */
static const struct image good = {
	48, NR_DESC, 200, 1000, FILE_SIZE, 64, {
		{ 0x000, 0, 1, 0, 0, "exits" },
		{ 0x020, -9, 1, 8, 0, "halt_wait_ns" },
		{ 0x1b9, 3, 1, 24, 0, "unknown" },
		{ 0x003, 0, 3, 40, 10, "histogram" },
	}
};

struct change {
	const char *what;
	const char *wrong;	/* NULL if the file is valid */
	size_t field;
	uint32_t value;
};

#define AT(member)	offsetof(struct image, member)

static const struct change table_changes[] = {
	{ "blocks with gaps", NULL, AT(count), NR_DESC },
	{ "data before descriptors", NULL, AT(desc_offset), 1500 },
	{ "names without alignment", NULL, AT(name_size), 13 },
	{ "fewer statistics", NULL, AT(count), NR_DESC - 1 },
	{ "no statistics", "the header has no statistics", AT(count), 0 },
	{ "a huge count", "the header has impossible sizes",
	  AT(count), 0xffffffff },
	{ "a count that only the product makes huge",
	  "the header has impossible sizes", AT(count), 0x8000 },
	{ "names of no size", "the header has impossible sizes",
	  AT(name_size), 0 },
	{ "names of huge size", "the header has impossible sizes",
	  AT(name_size), 0xfffffff0 },
	{ "descriptors in the header", "the header has impossible offsets",
	  AT(desc_offset), 20 },
	{ "data in the header", "the header has impossible offsets",
	  AT(data_offset), 20 },
	{ "descriptors after the end", "the file ends too early",
	  AT(desc_offset), 0xffffff00 },
	{ "a part of a header", "the file ends too early",
	  AT(file_size), 20 },
	{ "a part of the descriptors", "the file ends too early",
	  AT(file_size), 400 },
	{ "a name without end", "a name has no end",
	  AT(name_size), 12 },
	{ "an empty name", "a name is empty",
	  AT(desc[3].name), 0 },
	{ "a name with blanks", "a name has blanks or control characters",
	  AT(desc[3].name), 0x20202020 },
	{ "a statistic without value", "a statistic has no value",
	  AT(desc[2].size), 0 },
	{ "a log2 histogram with a bucket too many",
	  "a log2 histogram has more than 65 buckets",
	  AT(desc[3]), 0x004 },
	{ "a value that is not at a multiple of 8",
	  "a value is at an impossible offset", AT(desc[1].offset), 12 },
	{ "a value far away", "a value is at an impossible offset",
	  AT(desc[1].offset), 0xfffffff8 },
};

static const struct change data_changes[] = {
	{ "values in the middle of the file", NULL, AT(count), NR_DESC },
	{ "values up to the end of the file", NULL, AT(data_offset), 1984 },
	{ "values after the end of the file", "the file ends too early",
	  AT(data_offset), 1985 },
	{ "values far after the end of the file", "the file ends too early",
	  AT(data_offset), 0xffffff00 },
};

static const struct change row_changes[] = {
	{ "rows longer than the values", NULL, AT(row_size), 72 },
	{ "rows of no size", "the header has an impossible row size", AT(row_size), 0 },
	{ "rows of huge size", "the header has an impossible row size",
	  AT(row_size), 0xfffffff8 },
	{ "rows that are not a multiple of 8", "the header has an impossible row size",
	  AT(row_size), 60 },
	{ "a header without the row size", "the file ends too early", AT(file_size), 28 },
	{ "descriptors in the longer header", "the header has impossible offsets",
	  AT(desc_offset), 28 },
};

/* Only what lies within the file is written. */
static void put(char *file, size_t offset, const void *from, size_t size)
{
	if (offset < FILE_SIZE && size <= FILE_SIZE - offset)
		memcpy(file + offset, from, size);
}

static FILE *make_file(const struct image *image, enum abi abi)
{
	struct abi_getfd_header own = {
		.id = "kvm-1234",
		.name_size = image->name_size,
		.count = image->count,
		.desc_offset = image->desc_offset,
		.data_offset = image->data_offset,
	};
	struct abi_rows_header rows = {
		.row_size = image->row_size,
	};
	struct abi_header other = {
		.flags = abi == ALL_VCPUS ? ABI_HEADER_ROW_SIZE : 0,
		.name_size = image->name_size,
		.count = image->count,
		.id_offset = sizeof(other),
		.desc_offset = image->desc_offset,
		.data_offset = image->data_offset,
	};
	FILE *f = tmpfile();
	char file[FILE_SIZE];
	unsigned int i, j;

	memset(file, 0xff, sizeof(file));
	for (i = 0; i < NR_DESC; i++) {
		struct abi_desc desc = {
			.flags = image->desc[i].flags,
			.exponent = image->desc[i].exponent,
			.size = image->desc[i].size,
			.offset = image->desc[i].offset,
			.bucket_size = image->desc[i].bucket_size,
		};
		size_t at = image->desc_offset +
			    i * (sizeof(desc) + (size_t)image->name_size);

		put(file, at, &desc, sizeof(desc));
		put(file, at + sizeof(desc), image->desc[i].name,
		    image->name_size < 64 ? image->name_size : 64);
		for (j = 0; j < desc.size; j++) {
			uint64_t value = VALUE(i, j);

			put(file, (size_t)image->data_offset + desc.offset +
			    j * sizeof(value), &value, sizeof(value));
		}
	}
	if (abi == STATS_GETFD)
		put(file, 0, &own, sizeof(own));
	else if (abi == GET_STATS_FD)
		put(file, 0, &other, sizeof(other));
	rows.header = other;
	if (abi == ALL_VCPUS)
		put(file, 0, &rows, sizeof(rows));

	if (!f || fwrite(file, 1, image->file_size, f) != image->file_size ||
	    fflush(f)) {
		printf("Bail out! no temporary file: %s\n", strerror(errno));
		exit(1);
	}
	return f;
}

/* The table has the contents of the image. */
static bool same_table(const struct kvmstats_table *table,
		       const struct image *image)
{
	unsigned int i;

	if (table->count != image->count)
		return false;
	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		uint32_t flags = image->desc[i].flags;

		if (strcmp(desc->name, image->desc[i].name) ||
		    desc->type != (flags & 0xf) ||
		    desc->unit != (flags >> 4 & 0xf) ||
		    desc->base != (flags >> 8 & 0xf) ||
		    desc->exponent != (int32_t)image->desc[i].exponent ||
		    desc->size != image->desc[i].size ||
		    desc->offset != image->desc[i].offset ||
		    desc->bucket_size != image->desc[i].bucket_size)
			return false;
	}
	return true;
}

static bool same_values(const struct kvmstats_table *table, const void *data)
{
	unsigned int i, j;

	for (i = 0; i < table->count; i++) {
		for (j = 0; j < table->desc[i].size; j++) {
			if (kvmstats_value(&table->desc[i], data, j) !=
			    VALUE(i, j))
				return false;
		}
	}
	return true;
}

/* One file: the table has to be right, or wrong for the expected reason. */
static void test(const struct change *change, enum abi abi, bool data)
{
	struct image image = good;
	struct kvmstats_table *table = NULL;
	struct file_layout layout;
	const char *wrong;
	char values[64] __attribute__((aligned(8)));
	bool ok = true;
	FILE *f;

	memcpy((char *)&image + change->field, &change->value, sizeof(uint32_t));
	if (change->field == offsetof(struct image, desc[3]))
		image.desc[3].size = 66;

	f = make_file(&image, abi);
	fseek(f, 7, SEEK_SET);
	memset(values, 0xee, sizeof(values));
	wrong = file_read_layout(fileno(f), &layout);
	if (!wrong)
		wrong = file_read_table(fileno(f), &layout, &table);
	if (!wrong) {
		ok = same_table(table, &image) &&
		     layout.row_size == (abi == ALL_VCPUS ? image.row_size : 0);
		if (data && ok)
			ok = table->data_size == sizeof(values);
		if (data && ok)
			wrong = file_read_values(fileno(f), &layout, values,
						 table->data_size);
		if (data && ok && !wrong)
			ok = same_values(table, values);
		kvmstats_free_table(table);
	}
	if (wrong || change->wrong)
		ok = ok && wrong && change->wrong &&
		     !strcmp(wrong, change->wrong);
	/* reading must not move the position that others share */
	ok = ok && lseek(fileno(f), 0, SEEK_CUR) == 7;
	fclose(f);

	tap_result(ok, "%s: %s: %s", abi_names[abi], change->what, wrong ? wrong : "read");
}

int main(void)
{
	enum abi abi;
	unsigned int i;

	for (abi = STATS_GETFD; abi <= ALL_VCPUS; abi++) {
		for (i = 0; i < ARRAY_LEN(table_changes); i++)
			test(&table_changes[i], abi, false);
		for (i = 0; i < ARRAY_LEN(data_changes); i++)
			test(&data_changes[i], abi, true);
	}
	for (i = 0; i < ARRAY_LEN(row_changes); i++)
		test(&row_changes[i], ALL_VCPUS, false);
	return tap_end();
}
