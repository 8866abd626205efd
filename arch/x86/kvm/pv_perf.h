/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ARCH_X86_KVM_PV_PERF_H
#define ARCH_X86_KVM_PV_PERF_H

#include <linux/kvm_host.h>

/* The module parameter pv_perf: which VMs may have events */
#define KVM_PV_PERF_NEVER	0
#define KVM_PV_PERF_ASKED	1
#define KVM_PV_PERF_ALL		2

#ifdef CONFIG_KVM_PV_PERF
unsigned int kvm_pv_perf_mode(void);
int kvm_pv_perf_enable_cap(struct kvm *kvm, u64 allow);
long kvm_pv_perf_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1, u64 a2);
void kvm_pv_perf_handle_overflow(struct kvm_vcpu *vcpu);
void kvm_pv_perf_write_slots(struct kvm_vcpu *vcpu);
void kvm_pv_perf_reset(struct kvm_vcpu *vcpu);
void kvm_pv_perf_update_feature(struct kvm_vcpu *vcpu);
void kvm_pv_perf_destroy(struct kvm_vcpu *vcpu);

static inline void kvm_pv_perf_init_vm(struct kvm *kvm)
{
	kvm->arch.pv_perf = kvm_pv_perf_mode() == KVM_PV_PERF_ALL;
}

/* What KVM_CPUID_FEATURES has of it in eax */
static inline u32 kvm_pv_perf_feature(void)
{
	return kvm_pv_perf_mode() ? 1 << KVM_FEATURE_PV_PERF : 0;
}
#else
static inline unsigned int kvm_pv_perf_mode(void)
{
	return KVM_PV_PERF_NEVER;
}

static inline int kvm_pv_perf_enable_cap(struct kvm *kvm, u64 allow)
{
	return -EINVAL;
}

static inline long kvm_pv_perf_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1,
					 u64 a2)
{
	return -KVM_ENOSYS;
}

static inline void kvm_pv_perf_handle_overflow(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_write_slots(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_reset(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_update_feature(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_destroy(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_init_vm(struct kvm *kvm) { }
static inline u32 kvm_pv_perf_feature(void) { return 0; }
#endif

#endif
