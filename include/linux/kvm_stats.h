/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __KVM_STATS_H
#define __KVM_STATS_H

#include <linux/bitops.h>
#include <linux/kernel.h>
#include <linux/kvm.h>
#include <linux/types.h>

struct kvm;
struct kvm_stats_desc;
struct kvm_vcpu;
struct module;

/* "kvm-PID/vcpu-ID" with two numbers of 32 bits */
#define KVM_STATS_ID_SIZE	32

/* What the member of a type is: a u64, or an array of them. */
#define KVM_STATS_ARRAY_CUMULATIVE
#define KVM_STATS_ARRAY_INSTANT
#define KVM_STATS_ARRAY_PEAK
#define KVM_STATS_ARRAY_LOG_HIST(_buckets)	[_buckets]

/*
 * The counters of a VM and of a vCPU. The structures are flat and made from
 * <linux/kvm_stats_defs.h> alone, so user space can see every counter.
 */
struct kvm_vm_stat {
#define DEFINE_VM_STAT(_member, _type, ...) u64 _member KVM_STATS_ARRAY_##_type;
#include <linux/kvm_stats_defs.h>
};

struct kvm_vcpu_stat {
#define DEFINE_VCPU_STAT(_member, _type, ...) u64 _member KVM_STATS_ARRAY_##_type;
#include <linux/kvm_stats_defs.h>
};

/*
 * Count a value in a histogram: bucket 0 counts zeros, bucket i the values in
 * [2^(i-1), 2^i), and the last bucket also all larger ones.
 */
static inline void kvm_stats_log_hist_add(u64 *hist, unsigned int buckets, u64 value)
{
	++hist[min_t(unsigned int, fls64(value), buckets - 1)];
}

#define kvm_stats_hist_add(_vcpu, _member, _value)			\
	kvm_stats_log_hist_add((_vcpu)->stat._member,			\
			       ARRAY_SIZE((_vcpu)->stat._member), _value)

enum kvm_stat_kind {
	KVM_STAT_KIND_VM,
	KVM_STAT_KIND_VCPU,
};

/**
 * struct kvm_stats_item - a statistic, as its line says
 * @name: the member of the statistics structure; NULL ends the table
 * @debugfs_name: name of its file in debugfs, NULL if it is @name
 * @mode: mode of its file in debugfs, 0 if there is none
 * @kind: whether it is in struct kvm_vm_stat or struct kvm_vcpu_stat
 * @offset: bytes from the start of struct kvm or struct kvm_vcpu to the u64
 * @size: bytes of the member, one u64 or an array of them
 * @flags: KVM_STATS_{TYPE,UNIT,BASE}_*
 * @exponent: the unit is multiplied by 10 to the power of this
 */
struct kvm_stats_item {
	const char *name;
	const char *debugfs_name;
	umode_t mode;
	enum kvm_stat_kind kind;
	int offset;
	int size;
	u32 flags;
	s16 exponent;
};

extern const struct kvm_stats_item kvm_stats_items[];

/* Called for each ioctl of a VM or vCPU, KVM_RUN among them. */
static inline bool kvm_is_stats_ioctl(unsigned int ioctl)
{
	return ioctl == KVM_STATS_GETFD || ioctl == KVM_GET_STATS_FD;
}

long kvm_stats_ioctl(struct kvm *kvm, struct kvm_vcpu *vcpu,
		     unsigned int ioctl, unsigned long arg);
long kvm_stats_next(struct kvm_stats_next __user *argp);
void kvm_stats_notify_destroyed(struct kvm *kvm);
void kvm_stats_init(struct module *module);
const struct kvm_stats_desc *kvm_stats_vcpu_desc(unsigned int index);

#endif
