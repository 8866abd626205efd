// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "read.h"

/*
 * Far more than any kernel has, and little enough to allocate on the word of
 * a header.
 */
#define BLOCK_MAX	0x100000

#define FIELD(flags, field) \
	(((flags) & KVM_STATS_##field##_MASK) >> KVM_STATS_##field##_SHIFT)

int stats_open(int kvm_fd, enum stats_abi *abi)
{
	int fd = ioctl(kvm_fd, KVM_STATS_GETFD, 0);

	*abi = STATS_GETFD;
	if (fd < 0) {
		fd = ioctl(kvm_fd, KVM_GET_STATS_FD, 0);
		*abi = GET_STATS_FD;
	}
	return fd < 0 ? -errno : fd;
}

int stats_supported(void)
{
	/* A VM fd would answer too, but maybe only to the VM's own process. */
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int ret;

	if (kvm < 0)
		return -errno;
	ret = ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_STATS_BINARY_FD) > 0 ||
	      ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_BINARY_STATS_FD) > 0;
	close(kvm);
	return ret;
}

static const char *read_block(int fd, void *buf, size_t size, off_t offset)
{
	ssize_t n = pread(fd, buf, size, offset);

	if (n < 0)
		return strerror(errno);
	return (size_t)n == size ? NULL : "the file ends too early";
}

static const char *read_header(int fd, enum stats_abi abi,
			       struct kvm_stats_getfd_header *header)
{
	struct kvm_stats_header other;
	const char *wrong;
	size_t size;

	if (abi == STATS_GETFD) {
		size = sizeof(*header);
		wrong = read_block(fd, header, size, 0);
	} else {
		size = sizeof(other);
		wrong = read_block(fd, &other, size, 0);
		if (!wrong) {
			header->name_size = other.name_size;
			header->count = other.num_desc;
			header->desc_offset = other.desc_offset;
			header->data_offset = other.data_offset;
		}
	}
	if (wrong)
		return wrong;
	if (!header->count)
		return "the header has no statistics";
	if (!header->name_size ||
	    header->count > BLOCK_MAX / (header->name_size +
					 (__u64)sizeof(struct kvm_stats_desc)))
		return "the header has impossible sizes";
	if (header->desc_offset < size || header->data_offset < size)
		return "the header has impossible offsets";
	return NULL;
}

static const char *parse_desc(const char *raw, __u32 name_size,
			      struct stats_desc *desc)
{
	const char *name = raw + offsetof(struct kvm_stats_desc, name), *c;
	struct kvm_stats_desc d;

	/* name_size need not be a multiple of an alignment */
	memcpy(&d, raw, sizeof(d));
	desc->name = name;
	desc->type = FIELD(d.flags, TYPE);
	desc->unit = FIELD(d.flags, UNIT);
	desc->base = FIELD(d.flags, BASE);
	desc->exponent = d.exponent;
	desc->size = d.size;
	desc->offset = d.offset;
	desc->bucket_size = d.bucket_size;

	if (!*name || !memchr(name, '\0', name_size))
		return "a name is empty or has no end";
	for (c = name; *c; c++) {
		if (!isgraph((unsigned char)*c))
			return "a name has blanks or control characters";
	}
	if (!desc->size)
		return "a statistic has no value";
	/* one bucket for 0, and one per bit */
	if (desc->type == FIELD(KVM_STATS_TYPE_LOG_HIST, TYPE) &&
	    desc->size > 65)
		return "a log2 histogram has more than 65 buckets";
	if ((__u64)desc->offset + desc->size * sizeof(__u64) > BLOCK_MAX)
		return "a value is at an impossible offset";
	return NULL;
}

const char *stats_read_table(int fd, enum stats_abi abi,
			     struct stats_table *table)
{
	struct kvm_stats_getfd_header header;
	const char *wrong;
	size_t stride;
	unsigned int i;

	memset(table, 0, sizeof(*table));
	wrong = read_header(fd, abi, &header);
	if (wrong)
		return wrong;

	stride = sizeof(struct kvm_stats_desc) + header.name_size;
	table->count = header.count;
	table->data_offset = header.data_offset;
	table->names = malloc(stride * header.count);
	table->desc = calloc(header.count, sizeof(*table->desc));
	if (!table->names || !table->desc)
		wrong = strerror(ENOMEM);
	else
		wrong = read_block(fd, table->names, stride * header.count,
				   header.desc_offset);

	for (i = 0; !wrong && i < table->count; i++) {
		struct stats_desc *desc = &table->desc[i];
		size_t end;

		wrong = parse_desc(table->names + i * stride, header.name_size,
				   desc);
		end = desc->offset + desc->size * sizeof(__u64);
		if (table->data_size < end)
			table->data_size = end;
	}
	if (wrong)
		stats_free_table(table);
	return wrong;
}

void stats_free_table(struct stats_table *table)
{
	free(table->names);
	free(table->desc);
	memset(table, 0, sizeof(*table));
}

const char *stats_read_data(int fd, const struct stats_table *table,
			    void *data)
{
	return read_block(fd, data, table->data_size, table->data_offset);
}

__u64 stats_value(const struct stats_desc *desc, const void *data,
		  unsigned int i)
{
	__u64 value;

	memcpy(&value, (const char *)data + desc->offset + i * sizeof(value),
	       sizeof(value));
	return value;
}
