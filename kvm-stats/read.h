/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reading: the statistics file of one VM or vCPU.
 *
 * The file has three blocks: a header, which says where the other two are;
 * descriptors, one per statistic; and data, u64s in the byte order of the CPU.
 * There are two headers, for two ways to open the file, and one format for the
 * rest. Header and descriptors are the same for all VMs of a kernel, and for
 * all its vCPUs: read them once, with stats_read_table(), and from then on only
 * values, with one pread() each, which leaves the position of a file that is
 * shared with others alone.
 *
 * The format is ABI, the list of statistics is not: types and units that are
 * not known here are kept as numbers. What is impossible (blocks of absurd
 * size or beyond the end of the file, names without an end) is refused.
 *
 * Functions that return a string return NULL, or what is wrong.
 */
#ifndef KVM_STATS_READ_H
#define KVM_STATS_READ_H

#include <stddef.h>

#include "abi.h"

/* The header follows the ioctl that opened the file. */
enum stats_abi {
	STATS_GETFD,
	GET_STATS_FD,
};

struct stats_desc {
	const char *name;
	unsigned int type;	/* KVM_STATS_TYPE_*, shifted to bit 0: 0 to 15 */
	unsigned int unit;
	unsigned int base;
	__s16 exponent;
	unsigned int size;	/* number of u64s */
	__u32 offset;		/* of the first, in the data block */
	__u32 bucket_size;
};

struct stats_table {
	unsigned int count;
	struct stats_desc *desc;
	__u32 data_offset;
	size_t data_size;	/* of the buffer for stats_read_data() */
	char *names;
};

/*
 * Open the statistics of a VM or vCPU: a new descriptor, or a negative errno.
 * Either ABI will do, the kernel's own way first. The second one works only
 * for the process that created the VM, others get -EIO.
 */
int stats_open(int kvm_fd, enum stats_abi *abi);

/* 1: the kernel has either ABI, 0: neither, -errno: /dev/kvm does not open */
int stats_supported(void);

const char *stats_read_table(int fd, enum stats_abi abi,
			     struct stats_table *table);
void stats_free_table(struct stats_table *table);

const char *stats_read_data(int fd, const struct stats_table *table,
			    void *data);

/* Value number i of a statistic, out of a data block. */
__u64 stats_value(const struct stats_desc *desc, const void *data,
		  unsigned int i);

#endif /* KVM_STATS_READ_H */
