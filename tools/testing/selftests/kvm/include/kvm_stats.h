/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read the statistics of a VM or a vCPU through their file descriptor, see
 * Documentation/virt/kvm/stats.rst
 */
#ifndef SELFTEST_KVM_STATS_H
#define SELFTEST_KVM_STATS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/kvm.h>

/* An id, its NUL included, is not longer in any file. */
#define KVM_STATS_ID_SIZE	64

/*
 * An open statistics file: the fields of its header, and its descriptors as in
 * the file, each desc_size bytes long. All offsets and sizes are in
 * bytes, all numbers in the byte order of the CPU.
 */
struct kvm_stats {
	int fd;
	char id[KVM_STATS_ID_SIZE];
	uint32_t name_size;
	uint32_t count;
	uint32_t id_offset;
	uint32_t desc_offset;
	uint32_t data_offset;
	size_t desc_size;
	char *descs;
};

/* Call KVM_STATS_GETFD with @scope, 0 or KVM_STATS_SCOPE_VCPUS; return its result. */
int kvm_stats_getfd(int fd, uint32_t scope);

/*
 * Open the statistics of @fd, a VM or vCPU fd, with KVM_STATS_GETFD and read
 * header and descriptors. @scope is 0 or KVM_STATS_SCOPE_VCPUS. Fails the test if
 * that is not possible.
 */
void kvm_stats_open_getfd(struct kvm_stats *stats, int fd, uint32_t scope);

/* As kvm_stats_open(), with KVM_GET_STATS_FD */
void kvm_stats_open_stats_fd(struct kvm_stats *stats, int fd);

/* As kvm_stats_open(), for @stats_fd of KVM_STATS_GETFD or KVM_STATS_NEXT */
void kvm_stats_take_getfd(struct kvm_stats *stats, int stats_fd);

/* As kvm_stats_open_stats_fd(), for @stats_fd of KVM_GET_STATS_FD */
void kvm_stats_take_stats_fd(struct kvm_stats *stats, int stats_fd);

/* Read the descriptors of a file whose header was read. */
void kvm_stats_read_descriptors(struct kvm_stats *stats);

/* Read @len bytes at @offset; fails the test if there are fewer. */
void kvm_stats_pread(int stats_fd, void *buf, size_t len, off_t offset);

/* Close the file and free the memory of the descriptors. */
void kvm_stats_close(struct kvm_stats *stats);

/* The descriptor number @i, of stats->count, in the order of the values */
const struct kvm_stats_desc *kvm_stats_desc(const struct kvm_stats *stats,
					    uint32_t i);

/* The descriptor of the statistic @name, NULL if there is none */
const struct kvm_stats_desc *kvm_stats_find(const struct kvm_stats *stats,
					    const char *name);

/*
 * Bytes of the values that the descriptors describe. The file ends after them;
 * one of KVM_STATS_SCOPE_VCPUS has as many for each vCPU.
 */
size_t kvm_stats_data_size(const struct kvm_stats *stats);

/* A row of KVM_STATS_SCOPE_VCPUS: the id of its vCPU and the TID of its thread */
struct kvm_stats_row {
	uint64_t id;
	uint64_t tid;
};

/* Read up to @max rows of a file of KVM_STATS_SCOPE_VCPUS; return their number. */
unsigned int kvm_stats_read_rows(const struct kvm_stats *stats,
				 struct kvm_stats_row *rows, unsigned int max);

/* Return the distance in bytes between two rows, as the file announces it. */
size_t kvm_stats_row_size(const struct kvm_stats *stats);

/* The value of the statistic @name now, of its first one if it has several */
uint64_t kvm_stats_value(const struct kvm_stats *stats, const char *name);

#endif /* SELFTEST_KVM_STATS_H */
