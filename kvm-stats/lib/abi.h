/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's interfaces that are used here, whatever kernel headers there are
 * to build with: Documentation/virt/kvm/stats.rst of this series for KVM_STATS_*,
 * Documentation/virt/kvm/api.rst of Linux 5.14 and later for KVM_GET_STATS_FD.
 * All numbers are in the byte order of the CPU.
 */
#ifndef KVMSTATS_ABI_H
#define KVMSTATS_ABI_H

#include <stdint.h>
#include <sys/ioctl.h>

#define ABI_KVMIO		0xAE	/* of <linux/kvm.h> */
#define ABI_CREATE_VM		_IO(ABI_KVMIO, 0x01)
#define ABI_CHECK_EXTENSION	_IO(ABI_KVMIO, 0x03)
#define ABI_CREATE_VCPU		_IO(ABI_KVMIO, 0x41)
#define ABI_RUN			_IO(ABI_KVMIO, 0x80)

/* On VM and vCPU fds; the argument is ignored. Linux 5.14 and later */
#define ABI_GET_STATS_FD	_IO(ABI_KVMIO, 0xce)
#define ABI_CAP_GET_STATS_FD	203
/* Flag in its value: a file does not pin its VM and reports its destruction by EPOLLHUP. */
#define ABI_STATS_FD_DETACHED	2

/* KVM_STATS_GETFD; on 5.10, which has other numbers, the argument is the scope itself. */
struct abi_getfd {
	uint32_t scope;		/* ABI_SCOPE_* */
	uint32_t flags;		/* 0 */
	uint64_t reserved[2];	/* 0 */
};
#define ABI_STATS_GETFD		_IOW(ABI_KVMIO, 0xd6, struct abi_getfd)
#define ABI_STATS_GETFD_5_10	_IO(ABI_KVMIO, 0xf0)
#define ABI_SCOPE_OWN		0
#define ABI_SCOPE_VCPUS		1	/* VM fd only: one row per vCPU */

/* On /dev/kvm: the statistics file of the next VM of the host */
struct abi_stats_next {
	uint64_t vm;		/* in: number to look after; out: number found */
	uint32_t pid;		/* out: thread group id of its creator */
	uint32_t scope;		/* in: ABI_SCOPE_* */
	uint64_t reserved[2];	/* 0 */
};
#define ABI_STATS_NEXT		_IOWR(ABI_KVMIO, 0xd7, struct abi_stats_next)
#define ABI_STATS_NEXT_5_10	_IOWR(ABI_KVMIO, 0xf1, struct abi_stats_next)

/* Their capability, whose value is a mask of the flags below */
#define ABI_CAP_STATS		252
#define ABI_CAP_STATS_5_10	1000
#define ABI_CAP_STATS_GETFD	1
#define ABI_CAP_STATS_VCPUS	2
#define ABI_CAP_STATS_NEXT	4

/* The header of all files except for those of ABI_STATS_GETFD_5_10 and ABI_STATS_NEXT_5_10 */
struct abi_header {
	uint32_t flags;		/* ABI_HEADER_* */
	uint32_t name_size;	/* bytes, of each descriptor's name */
	uint32_t count;		/* of descriptors */
	uint32_t id_offset;
	uint32_t desc_offset;	/* bytes, from the start of the file */
	uint32_t data_offset;
};

/* The header is the start of a struct abi_rows_header: the file has a row per vCPU. */
#define ABI_HEADER_ROW_SIZE	1

struct abi_rows_header {
	struct abi_header header;
	uint32_t row_size;	/* bytes */
	uint32_t reserved;	/* 0 */
};

/* The header of a file from ABI_STATS_GETFD_5_10 and ABI_STATS_NEXT_5_10 */
struct abi_getfd_header {
	char id[64];		/* begins with "kvm-" */
	uint32_t name_size;
	uint32_t count;
	uint32_t desc_offset;
	uint32_t data_offset;
};

/* A descriptor, in both */
struct abi_desc {
	uint32_t flags;		/* type: bits 0 to 3, unit: 4 to 7, base: 8 to 11 */
	int16_t exponent;
	uint16_t size;		/* number of u64s */
	uint32_t offset;	/* bytes from the start of the values to the first one */
	uint32_t bucket_size;
	char name[];		/* name_size bytes */
};

#endif /* KVMSTATS_ABI_H */
