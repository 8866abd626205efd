/* SPDX-License-Identifier: GPL-2.0-only */
/* What the BPF program and its loader say to each other. */
#ifndef KVMSTATS_BPF_RECORD_H
#define KVMSTATS_BPF_RECORD_H

#include <linux/types.h>

/* The largest struct kvm_vm_stat or kvm_vcpu_stat; 1584 is the largest seen. */
#define BPF_VALUES_MAX 8192

/*
 * One open file of a VM or vCPU. The values follow: struct kvm_vm_stat of a VM,
 * struct kvm_vcpu_stat of a vCPU, as long as layout says.
 */
struct bpf_record {
	__u64 vm;	/* address of struct kvm: the same for all of a VM */
	__u64 object;	/* address of struct kvm or kvm_vcpu */
	__u64 started;	/* the process, in ns of CLOCK_BOOTTIME */
	__s32 pid;	/* of the process, in the caller's PID namespace, as tid */
	__s32 fd;	/* in that process */
	__s32 vcpu_id;	/* -1: a VM */
	__s32 tid;	/* the thread that last ran it; 0: none, or not to be seen */
	__u32 owner;	/* the process made the VM: others have it from there */
	__u32 size;	/* of the values, bytes */
};

/*
 * Where the running kernel has what is copied, in bytes. KVM may be a module,
 * which the program cannot name the types of without more rights: the loader
 * looks them up and sets this before the program is loaded.
 */
struct bpf_layout {
	__u32 vm_mm;		/* of struct kvm */
	__u32 vm_stat;
	__u32 vm_stat_size;
	__u32 vcpu_kvm;		/* of struct kvm_vcpu */
	__u32 vcpu_id;
	__u32 vcpu_pid;
	__u32 vcpu_stat;
	__u32 vcpu_stat_size;
};

#endif /* KVMSTATS_BPF_RECORD_H */
