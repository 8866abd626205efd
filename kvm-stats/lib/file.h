/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The format of a statistics file. Descriptors are the same in all files of one
 * kind, so they are read once, and from every other file only the header, to see
 * where its values are. All reads are pread()s: the position of a file that is
 * shared with a VMM stays where it is.
 *
 * What no kernel writes (blocks of absurd size or beyond the end of the file,
 * names without an end...) is refused with words for it; types and units that
 * are not known are kept.
 */
#ifndef KVMSTATS_FILE_H
#define KVMSTATS_FILE_H

#include "structures.h"

/* Where the blocks of one file are */
struct file_layout {
	uint32_t name_size;
	uint32_t count;
	uint32_t desc_offset;
	uint32_t data_offset;
	uint32_t row_size;	/* bytes between the values of two vCPUs, 0 if not announced */
};

/* NULL, or what is wrong; strings are static, or strerror()'s */
const char *file_read_layout(int fd, struct file_layout *layout);
const char *file_read_table(int fd, const struct file_layout *layout,
			    struct kvmstats_table **table);
const char *file_read_values(int fd, const struct file_layout *layout,
			     void *values, size_t size);

#endif /* KVMSTATS_FILE_H */
