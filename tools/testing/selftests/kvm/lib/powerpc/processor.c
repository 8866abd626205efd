// SPDX-License-Identifier: GPL-2.0-only
/*
 * powerpc code
 */
#include <linux/bits.h>

#include "kvm_util.h"
#include "processor.h"

#define MSR_SF	BIT_ULL(63)
#define MSR_LE	BIT_ULL(0)

void flat_vcpu_setup(struct kvm_vm *vm, uint32_t vcpuid, vm_vaddr_t pc,
		     vm_vaddr_t sp)
{
	struct kvm_regs regs;

	vcpu_regs_get(vm, vcpuid, &regs);
	regs.pc = pc;
	regs.gpr[12] = pc;	/* by convention holds the callee's address */
	/* The callee stores its link register above the stack pointer. */
	regs.gpr[1] = sp - 64;
	/* Guest code has the word size and the byte order of the test. */
	if (sizeof(long) == 8)
		regs.msr |= MSR_SF;
#ifdef __LITTLE_ENDIAN__
	regs.msr |= MSR_LE;
#endif
	vcpu_regs_set(vm, vcpuid, &regs);

	/* KVM takes e500v2's initial TLB entry for an empty one before this. */
	if (kvm_check_cap(KVM_CAP_SW_TLB)) {
		struct kvm_dirty_tlb dirty = { };

		vcpu_ioctl(vm, vcpuid, KVM_DIRTY_TLB, &dirty);
	}
}

void vcpu_dump(FILE *stream, struct kvm_vm *vm, uint32_t vcpuid, uint8_t indent)
{
	struct kvm_regs regs;

	vcpu_regs_get(vm, vcpuid, &regs);
	fprintf(stream, "%*spc: 0x%.16llx msr: 0x%.16llx lr: 0x%.16llx\n",
		indent, "", regs.pc, regs.msr, regs.lr);
}
