/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ABI of the statistics files: a copy of the constants and structures of
 * <linux/kvm.h>, so that this builds with the header of any kernel. Numbers in
 * the files are in the byte order of the CPU.
 */
#ifndef KVM_STATS_ABI_H
#define KVM_STATS_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KVMIO				0xAE
#define KVM_CHECK_EXTENSION		_IO(KVMIO, 0x03)
#define KVM_CAP_BINARY_STATS_FD		203
#define KVM_CAP_STATS_BINARY_FD		1000

#define KVM_GET_STATS_FD		_IO(KVMIO, 0xce)
#define KVM_STATS_GETFD			_IO(KVMIO, 0xf0)

/* The start of a file of KVM_STATS_GETFD */
struct kvm_stats_getfd_header {
	char id[64];
	__u32 name_size;
	__u32 count;
	__u32 desc_offset;
	__u32 data_offset;
};

/* The start of a file of KVM_GET_STATS_FD */
struct kvm_stats_header {
	__u32 flags;
	__u32 name_size;
	__u32 num_desc;
	__u32 id_offset;
	__u32 desc_offset;
	__u32 data_offset;
};

#define KVM_STATS_TYPE_SHIFT		0
#define KVM_STATS_TYPE_MASK		(0xF << KVM_STATS_TYPE_SHIFT)
#define KVM_STATS_TYPE_CUMULATIVE	(0x0 << KVM_STATS_TYPE_SHIFT)
#define KVM_STATS_TYPE_INSTANT		(0x1 << KVM_STATS_TYPE_SHIFT)
#define KVM_STATS_TYPE_PEAK		(0x2 << KVM_STATS_TYPE_SHIFT)
#define KVM_STATS_TYPE_LINEAR_HIST	(0x3 << KVM_STATS_TYPE_SHIFT)
#define KVM_STATS_TYPE_LOG_HIST		(0x4 << KVM_STATS_TYPE_SHIFT)

#define KVM_STATS_UNIT_SHIFT		4
#define KVM_STATS_UNIT_MASK		(0xF << KVM_STATS_UNIT_SHIFT)
#define KVM_STATS_UNIT_NONE		(0x0 << KVM_STATS_UNIT_SHIFT)
#define KVM_STATS_UNIT_BYTES		(0x1 << KVM_STATS_UNIT_SHIFT)
#define KVM_STATS_UNIT_SECONDS		(0x2 << KVM_STATS_UNIT_SHIFT)
#define KVM_STATS_UNIT_CYCLES		(0x3 << KVM_STATS_UNIT_SHIFT)
#define KVM_STATS_UNIT_BOOLEAN		(0x4 << KVM_STATS_UNIT_SHIFT)

#define KVM_STATS_BASE_SHIFT		8
#define KVM_STATS_BASE_MASK		(0xF << KVM_STATS_BASE_SHIFT)
#define KVM_STATS_BASE_POW10		(0x0 << KVM_STATS_BASE_SHIFT)
#define KVM_STATS_BASE_POW2		(0x1 << KVM_STATS_BASE_SHIFT)

/* One statistic; the header says how many bytes its name has. */
struct kvm_stats_desc {
	__u32 flags;
	__s16 exponent;
	__u16 size;
	__u32 offset;
	__u32 bucket_size;
	char name[];
};

#endif /* KVM_STATS_ABI_H */
