/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ARCH_X86_KVM_PV_PERF_H
#define ARCH_X86_KVM_PV_PERF_H

#include <linux/kvm_host.h>

#ifdef CONFIG_KVM_PV_PERF
void kvm_pv_perf_init_vm(struct kvm *kvm);
u32 kvm_pv_perf_feature(void);
long kvm_pv_perf_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1, u64 a2);
void kvm_pv_perf_handle_overflow(struct kvm_vcpu *vcpu);
void kvm_pv_perf_write_slots(struct kvm_vcpu *vcpu);
void kvm_pv_perf_reset(struct kvm_vcpu *vcpu);
void kvm_pv_perf_close_all(struct kvm_vcpu *vcpu);
void kvm_pv_perf_destroy(struct kvm_vcpu *vcpu);
#else
static inline void kvm_pv_perf_init_vm(struct kvm *kvm) { }
static inline u32 kvm_pv_perf_feature(void) { return 0; }

static inline long kvm_pv_perf_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1,
					 u64 a2)
{
	return -KVM_ENOSYS;
}

static inline void kvm_pv_perf_handle_overflow(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_write_slots(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_reset(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_close_all(struct kvm_vcpu *vcpu) { }
static inline void kvm_pv_perf_destroy(struct kvm_vcpu *vcpu) { }
#endif

#endif
