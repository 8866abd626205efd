/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between this kernel's library and that of Linux 5.10 in the tests of
 * paravirtual perf events: a vCPU is a structure, not a number, and vm_create() does
 * what were several calls.
 */
#ifndef SELFTEST_KVM_PV_PERF_BASE_H
#define SELFTEST_KVM_PV_PERF_BASE_H

#include "guest_exits.h"
#include "kvm_util.h"
#include "processor.h"
#include "ucall_common.h"

/* KVM_SET_CPUID2 fails once the vCPU has run. */
#define PV_CPUID_CAN_CHANGE		false
/* KVM counts a hypercall when it begins, before Linux 6.14 when it ends. */
#ifdef KVM_EXIT_TDX	/* since Linux 6.16 */
#define PV_HYPERCALL_COUNTED_AT_END	0
#else
#define PV_HYPERCALL_COUNTED_AT_END	1
#endif

#define vm_create(mode, pages, perm)		vm_create(1)
#define kvm_vm_elf_load(vm, name, ...)		do { } while (0)
#define vm_create_irqchip(vm)			do { } while (0)
#define vm_init_descriptor_tables(vm)		do { } while (0)
#define vcpu_init_descriptor_tables(vm, id)	do { } while (0)
#define vm_handle_exception			vm_install_exception_handler
#define vm_get_page_size(vm)			((vm)->page_size)
#define vm_enable_cap(vm, enable)		vm_ioctl(vm, KVM_ENABLE_CAP, enable)

#undef vcpu_ioctl
#define vcpu_ioctl(vm, id, request, arg)					\
	TEST_ASSERT(!ioctl(vcpu_get_fd(vm, id), request, arg),			\
		    #request " failed, errno: %i (%s)", errno, strerror(errno))
#define vcpu_state(vm, id)			(vcpu_of(vm, id)->run)
#define get_ucall(vm, id, uc)			get_ucall(vcpu_of(vm, id), uc)
#define vcpu_args_set(vm, id, num, ...)		vcpu_args_set(vcpu_of(vm, id), num, __VA_ARGS__)
#define vcpu_set_cpuid(vm, id, cpuid)		vcpu_ioctl(vm, id, KVM_SET_CPUID2, cpuid)
#define vcpu_set_mp_state(vm, id, state)	vcpu_ioctl(vm, id, KVM_SET_MP_STATE, state)
#define vcpu_regs_get(vm, id, regs)		vcpu_regs_get(vcpu_of(vm, id), regs)
#define vcpu_regs_set(vm, id, regs)		vcpu_regs_set(vcpu_of(vm, id), regs)
#define vcpu_sregs_get(vm, id, sregs)		vcpu_sregs_get(vcpu_of(vm, id), sregs)
#define vcpu_sregs_set(vm, id, sregs)		vcpu_sregs_set(vcpu_of(vm, id), sregs)
#define vcpu_events_get(vm, id, events)		vcpu_events_get(vcpu_of(vm, id), events)
#define vcpu_events_set(vm, id, events)		vcpu_events_set(vcpu_of(vm, id), events)

#endif /* SELFTEST_KVM_PV_PERF_BASE_H */
