/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __KVM_STATS_H
#define __KVM_STATS_H

#include <linux/types.h>

struct kvm;
struct kvm_vcpu;
struct module;

/* "kvm-PID/vcpu-ID" with two numbers of 32 bits */
#define KVM_STATS_ID_SIZE	32

/*
 * The counters of a VM and of a vCPU. The structures are flat and made from
 * <linux/kvm_stats_defs.h> alone, so there is no counter that user space could
 * not see.
 */
struct kvm_vm_stat {
#define KVM_VM_STAT(_member, ...) u64 _member;
#include <linux/kvm_stats_defs.h>
};

struct kvm_vcpu_stat {
#define KVM_VCPU_STAT(_member, ...) u64 _member;
#include <linux/kvm_stats_defs.h>
};

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
