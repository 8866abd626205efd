// SPDX-License-Identifier: GPL-2.0-only
/*
 * mips code
 */
#include "kvm_util.h"
#include "processor.h"

void flat_vcpu_setup(struct kvm_vm *vm, uint32_t vcpuid, vm_vaddr_t pc,
		     vm_vaddr_t sp)
{
	struct kvm_regs regs;

	vcpu_regs_get(vm, vcpuid, &regs);
	regs.pc = pc;
	regs.gpr[25] = pc;	/* by convention holds the callee's address */
	/* The callee may store its arguments above the stack pointer. */
	regs.gpr[29] = sp - 64;
	vcpu_regs_set(vm, vcpuid, &regs);
}

void vcpu_dump(FILE *stream, struct kvm_vm *vm, uint32_t vcpuid, uint8_t indent)
{
	struct kvm_regs regs;

	vcpu_regs_get(vm, vcpuid, &regs);
	fprintf(stream, "%*spc: 0x%.16llx sp: 0x%.16llx ra: 0x%.16llx\n",
		indent, "", regs.pc, regs.gpr[29], regs.gpr[31]);
}
