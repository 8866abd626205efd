// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the statistics of a VM or a vCPU through their file descriptor
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvm_stats.h"
#include "test_util.h"

void kvm_stats_pread(int fd, void *buf, size_t len, off_t offset)
{
	ssize_t r = pread(fd, buf, len, offset);

	TEST_ASSERT(r == (ssize_t)len,
		    "pread of %zu bytes at %lld of a statistics file returned %zd",
		    len, (long long)offset, r);
}

void kvm_stats_read_descriptors(struct kvm_stats *stats)
{
	stats->desc_size = sizeof(struct kvm_stats_desc) + stats->name_size;
	stats->descs = calloc(stats->count, stats->desc_size);
	TEST_ASSERT(stats->descs, "No memory for %u descriptors", stats->count);
	kvm_stats_pread(stats->fd, stats->descs, stats->count * stats->desc_size,
			stats->desc_offset);
}

void kvm_stats_open_getfd(struct kvm_stats *stats, int fd, uint32_t scope)
{
	int stats_fd = kvm_stats_getfd(fd, scope);

	TEST_ASSERT(stats_fd >= 0, "No statistics of fd %d, scope %u, errno: %i",
		    fd, scope, errno);
	kvm_stats_take_getfd(stats, stats_fd);
}

void kvm_stats_take_stats_fd(struct kvm_stats *stats, int stats_fd)
{
	struct kvm_stats_header header;

	memset(stats, 0, sizeof(*stats));
	kvm_stats_pread(stats_fd, &header, sizeof(header), 0);
	TEST_ASSERT(header.name_size <= sizeof(stats->id), "Id of %u bytes",
		    header.name_size);
	kvm_stats_pread(stats_fd, stats->id, header.name_size, header.id_offset);
	stats->fd = stats_fd;
	stats->name_size = header.name_size;
	stats->count = header.num_desc;
	stats->id_offset = header.id_offset;
	stats->desc_offset = header.desc_offset;
	stats->data_offset = header.data_offset;
	kvm_stats_read_descriptors(stats);
}

void kvm_stats_open_stats_fd(struct kvm_stats *stats, int fd)
{
	int stats_fd = ioctl(fd, KVM_GET_STATS_FD, 0);

	TEST_ASSERT(stats_fd >= 0, "No statistics of fd %d, errno: %i", fd, errno);
	kvm_stats_take_stats_fd(stats, stats_fd);
}

void kvm_stats_close(struct kvm_stats *stats)
{
	close(stats->fd);
	free(stats->descs);
}

const struct kvm_stats_desc *kvm_stats_desc(const struct kvm_stats *stats,
					    uint32_t i)
{
	return (const void *)(stats->descs + i * stats->desc_size);
}

const struct kvm_stats_desc *kvm_stats_find(const struct kvm_stats *stats,
					    const char *name)
{
	const struct kvm_stats_desc *desc;
	uint32_t i;

	for (i = 0; i < stats->count; i++) {
		desc = kvm_stats_desc(stats, i);
		if (!strncmp(desc->name, name, stats->name_size))
			return desc;
	}
	return NULL;
}

size_t kvm_stats_data_size(const struct kvm_stats *stats)
{
	size_t size = 0;
	uint32_t i;

	for (i = 0; i < stats->count; i++)
		size += kvm_stats_desc(stats, i)->size * sizeof(uint64_t);
	return size;
}

uint64_t kvm_stats_value(const struct kvm_stats *stats, const char *name)
{
	const struct kvm_stats_desc *desc = kvm_stats_find(stats, name);
	uint64_t value;

	TEST_ASSERT(desc, "No statistic %s", name);
	kvm_stats_pread(stats->fd, &value, sizeof(value),
			stats->data_offset + desc->offset);
	return value;
}
