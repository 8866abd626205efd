/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __KVM_STATS_H
#define __KVM_STATS_H

#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/types.h>

struct kvm;
struct kvm_vcpu;
struct module;

/* "kvm-PID/vcpu-ID" with two numbers of 32 bits */
#define KVM_STATS_ID_SIZE	32

/* By the type of a statistic, the u64 or array of them that its member is. */
#define KVM_STATS_ARRAY_CUMULATIVE
#define KVM_STATS_ARRAY_INSTANT
#define KVM_STATS_ARRAY_PEAK
#define KVM_STATS_ARRAY_LOG_HIST(_buckets)	[_buckets]

/*
 * The counters of a VM and of a vCPU. The structures are flat and made from
 * <linux/kvm_stats_defs.h> alone, so there is no counter that user space could
 * not see.
 */
struct kvm_vm_stat {
#define KVM_VM_STAT(_member, _type, ...) u64 _member KVM_STATS_ARRAY_##_type;
#include <linux/kvm_stats_defs.h>
};

struct kvm_vcpu_stat {
#define KVM_VCPU_STAT(_member, _type, ...) u64 _member KVM_STATS_ARRAY_##_type;
#include <linux/kvm_stats_defs.h>
};

/**
 * kvm_stats_log_hist_add - count a value in a histogram
 * @hist: the buckets: the first counts 0, number i counts [2^(i-1), 2^i)
 * @buckets: how many there are; the last one also counts all larger values
 * @value: what to count
 */
static inline void kvm_stats_log_hist_add(u64 *hist, unsigned int buckets, u64 value)
{
	++hist[min_t(unsigned int, fls64(value), buckets - 1)];
}

#define kvm_stats_hist_add(_vcpu, _member, _value)			\
	kvm_stats_log_hist_add((_vcpu)->stat._member,			\
			       ARRAY_SIZE((_vcpu)->stat._member), _value)

enum kvm_stat_kind {
	KVM_STAT_VM,
	KVM_STAT_VCPU,
};

/**
 * struct kvm_stats_debugfs_item - a statistic and its file in debugfs
 * @name: the member of the statistics structure; NULL ends the table
 * @debugfs_name: name of the file, NULL if it is @name
 * @offset: bytes from the start of struct kvm or struct kvm_vcpu to the u64
 * @kind: which of the two structures
 * @mode: mode of the file, 0 if there is none
 */
struct kvm_stats_debugfs_item {
	const char *name;
	const char *debugfs_name;
	int offset;
	enum kvm_stat_kind kind;
	umode_t mode;
};

extern const struct kvm_stats_debugfs_item debugfs_entries[];

long kvm_stats_ioctl(struct kvm *kvm, struct kvm_vcpu *vcpu,
		     unsigned int ioctl, unsigned long arg);
void kvm_stats_init(struct module *module);

#endif
