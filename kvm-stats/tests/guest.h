/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory, code and registers of guests on x86 and arm64, for tests */
#ifndef GUEST_H
#define GUEST_H

#include <err.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "vm.h"

#define GUEST_SIZE	0x10000
#define GUEST_CODE	0x1000		/* from the start of the memory */
#ifdef __aarch64__
#define GUEST_MEMORY	0x40000000
#else
#define GUEST_MEMORY	0
#endif
#if defined(__x86_64__) || defined(__i386__)
#define GUEST_HANDLER	0x1100		/* NMIs, after which a halted vCPU continues */
#define GUEST_IRET	0xcf
#define NMI_VECTOR	2
#define MSI_NMI		(4 << 8)	/* delivery mode, Intel SDM volume 3 */
#define MSI_ADDRESS	0xfee00000	/* + the APIC's id << 12 */
#endif

/* Give a VM memory with this code; return the memory. */
static inline unsigned char *guest_memory(int vm, const void *code, size_t size)
{
	unsigned char *memory = mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = GUEST_MEMORY,
		.memory_size = GUEST_SIZE,
		.userspace_addr = (uintptr_t)memory,
	};

	if (memory == MAP_FAILED)
		err(1, "mmap");
	memcpy(memory + GUEST_CODE, code, size);
#ifdef GUEST_HANDLER
	memory[GUEST_HANDLER] = GUEST_IRET;
	memory[NMI_VECTOR * 4 + 1] = GUEST_HANDLER >> 8;
#endif
	need(ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region), "memory");
	return memory;
}

#ifdef __aarch64__
#define REGISTER_PC	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
			 KVM_REG_ARM_CORE_REG(regs.pc))

/* Let a vCPU begin with the code. */
static inline void guest_registers(int vm, int vcpu, uint64_t stack)
{
	uint64_t code = GUEST_MEMORY + GUEST_CODE;
	struct kvm_one_reg pc = { .id = REGISTER_PC, .addr = (uintptr_t)&code };
	struct kvm_vcpu_init init;

	need(ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init), "target");
	need(ioctl(vcpu, KVM_ARM_VCPU_INIT, &init), "init");
	need(ioctl(vcpu, KVM_SET_ONE_REG, &pc), "pc");
}
#elif defined(GUEST_HANDLER)
static inline void guest_registers(int vm, int vcpu, uint64_t stack)
{
	struct kvm_regs regs = { .rip = GUEST_CODE, .rsp = stack, .rflags = 2 };
	struct kvm_sregs sregs;

	need(ioctl(vcpu, KVM_GET_SREGS, &sregs), "sregs");
	sregs.cs.selector = 0;
	sregs.cs.base = 0;
	need(ioctl(vcpu, KVM_SET_SREGS, &sregs), "sregs");
	need(ioctl(vcpu, KVM_SET_REGS, &regs), "regs");
}

/*
 * Let MSIs wake a vCPU. KVM finds those that an MSI may be for when the APIC of one is reset or set:
 * the last vCPU was not among them yet when its APIC was reset.
 */
static inline void guest_msi(int vcpu)
{
	struct kvm_mp_state state = { .mp_state = KVM_MP_STATE_RUNNABLE };
	struct kvm_lapic_state apic;

	need(ioctl(vcpu, KVM_GET_LAPIC, &apic), "APIC");
	need(ioctl(vcpu, KVM_SET_LAPIC, &apic), "APIC");
	need(ioctl(vcpu, KVM_SET_MP_STATE, &state), "mp_state");
}
#endif

#endif /* GUEST_H */
