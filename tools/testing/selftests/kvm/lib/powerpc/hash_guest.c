// SPDX-License-Identifier: GPL-2.0-only
/*
 * 64-bit Book3S guests, and the hashed page table of those that kvm-pr runs
 *
 * Guests of kvm-hv have a radix tree, see radix_guest.c. The guest runs in
 * supervisor mode with translation on and without interrupts; it has no
 * exception vectors.
 *
 * In a hashed page table, each segment of 256M has its own number as virtual
 * segment id.
 */
#include <asm/byteorder.h>
#include <linux/bits.h>

#include "kvm_util.h"
#include "processor.h"
#include "ucall_common.h"

#define MSR_SF		BIT_ULL(63)
#define MSR_VEC		BIT_ULL(25)
#define MSR_VSX		BIT_ULL(23)
#define MSR_FP		BIT_ULL(13)
#define MSR_IR		BIT_ULL(5)
#define MSR_DR		BIT_ULL(4)
#define MSR_LE		BIT_ULL(0)

#define SEGMENT_SHIFT	28
#define NR_SEGMENTS	4
#define SLB_VALID	BIT_ULL(27)
#define SLB_VSID_SHIFT	12

/* The smallest table: 2048 groups of 8 entries, aligned to its size */
#define NR_GROUPS	2048
#define GROUP_SIZE	8
#define TABLE_SIZE	(NR_GROUPS * GROUP_SIZE * sizeof(struct hash_pte))
#define TABLE_GPA	TABLE_SIZE

#define PTE_VALID	BIT_ULL(0)
#define PTE_AVPN_SHIFT	7
/* An AVPN has no bits of the hash: those of the address from here. */
#define AVPN_SHIFT	23
#define PTE_RPN_MASK	GENMASK_ULL(59, 12)
#define PTE_REFERENCED	BIT_ULL(8)
#define PTE_CHANGED	BIT_ULL(7)
#define PTE_COHERENT	BIT_ULL(4)

struct hash_pte {
	__be64 v;
	__be64 r;
};

gva_t *ucall_exit_mmio_addr;
bool guest_has_hcalls;

void virt_arch_pgd_alloc(struct kvm_vm *vm)
{
	if (vm->mmu.pgd_created)
		return;

	vm->mmu.pgd_created = true;
	vm->arch.radix = vm_runs_on_hv();
	/* The first allocation of the VM, so the memory is free. */
	if (vm->arch.radix)
		return radix_pgd_alloc(vm);

	vm->mmu.pgd = vm_phy_pages_alloc(vm, TABLE_SIZE / vm->page_size, TABLE_GPA,
					 vm->memslots[MEM_REGION_PT]);
	TEST_ASSERT(vm->mmu.pgd == TABLE_GPA, "Page table at 0x%lx", (long)vm->mmu.pgd);
}

static u64 pte_v(gva_t gva)
{
	return gva >> AVPN_SHIFT << PTE_AVPN_SHIFT | PTE_VALID;
}

/* Return the entry of the primary group with this first word, NULL if none has it. */
static struct hash_pte *find_pte(struct kvm_vm *vm, gva_t gva, u64 v)
{
	u64 vsid = gva >> SEGMENT_SHIFT;
	u64 page = (gva & (BIT_ULL(SEGMENT_SHIFT) - 1)) >> vm->page_shift;
	struct hash_pte *pte = addr_gpa2hva(vm, vm->mmu.pgd);
	int i;

	TEST_ASSERT(vsid < NR_SEGMENTS, "No segment for gva 0x%lx", (long)gva);
	pte += (vsid ^ page) % NR_GROUPS * GROUP_SIZE;
	for (i = 0; i < GROUP_SIZE; i++, pte++) {
		if (be64_to_cpu(pte->v) == v)
			return pte;
	}
	return NULL;
}

void virt_arch_pg_map(struct kvm_vm *vm, gva_t gva, gpa_t gpa)
{
	struct hash_pte *pte;

	if (vm->arch.radix)
		return radix_pg_map(vm, gva, gpa);

	pte = find_pte(vm, gva, 0);
	TEST_ASSERT(pte, "No free entry for gva 0x%lx", (long)gva);
	pte->r = cpu_to_be64(gpa | PTE_REFERENCED | PTE_CHANGED | PTE_COHERENT);
	pte->v = cpu_to_be64(pte_v(gva));
}

gpa_t addr_arch_gva2gpa(struct kvm_vm *vm, gva_t gva)
{
	struct hash_pte *pte;

	if (vm->arch.radix)
		return radix_gva2gpa(vm, gva);

	pte = find_pte(vm, gva, pte_v(gva));
	TEST_ASSERT(pte, "gva 0x%lx is not mapped", (long)gva);
	return (be64_to_cpu(pte->r) & PTE_RPN_MASK) | (gva & (vm->page_size - 1));
}

void virt_arch_dump(FILE *stream, struct kvm_vm *vm, u8 indent)
{
}

struct kvm_vcpu *vm_arch_vcpu_add(struct kvm_vm *vm, u32 vcpu_id)
{
	size_t stack_size = DEFAULT_STACK_PGS * vm->page_size;
	gva_t stack = __vm_alloc(vm, stack_size, KVM_UTIL_MIN_VADDR, MEM_REGION_DATA);
	struct kvm_vcpu *vcpu = __vm_vcpu_add(vm, vcpu_id);
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	u64 i;

	vcpu_regs_get(vcpu, &regs);
	/* The callee stores its link register above the stack pointer. */
	regs.gpr[1] = stack + stack_size - 64;
	regs.msr = MSR_SF | MSR_VEC | MSR_VSX | MSR_FP | MSR_IR | MSR_DR;
#ifdef __LITTLE_ENDIAN__
	regs.msr |= MSR_LE;
#endif
	vcpu_regs_set(vcpu, &regs);

	if (vm->arch.radix) {
		vcpu_enable_cap(vcpu, KVM_CAP_PPC_PAPR, 1);
		return vcpu;
	}

	/* KVM maps the segments as the MSR is now. */
	vcpu_sregs_get(vcpu, &sregs);
	sregs.u.s.sdr1 = vm->mmu.pgd;
	for (i = 0; i < NR_SEGMENTS; i++) {
		sregs.u.s.ppc64.slb[i].slbe = i << SEGMENT_SHIFT | SLB_VALID | i;
		sregs.u.s.ppc64.slb[i].slbv = i << SLB_VSID_SHIFT;
	}
	vcpu_sregs_set(vcpu, &sregs);
	return vcpu;
}

void vcpu_arch_set_entry_point(struct kvm_vcpu *vcpu, void *guest_code)
{
	struct kvm_regs regs;

	vcpu_regs_get(vcpu, &regs);
	regs.pc = (u64)guest_code;
	regs.gpr[12] = regs.pc;	/* by convention holds the callee's address */
	vcpu_regs_set(vcpu, &regs);
}

void vcpu_args_set(struct kvm_vcpu *vcpu, unsigned int num, ...)
{
	struct kvm_regs regs;
	unsigned int i;
	va_list ap;

	TEST_ASSERT(num >= 1 && num <= 8, "Unsupported number of arguments: %u", num);
	vcpu_regs_get(vcpu, &regs);
	va_start(ap, num);
	for (i = 0; i < num; i++)
		regs.gpr[3 + i] = va_arg(ap, u64);
	va_end(ap);
	vcpu_regs_set(vcpu, &regs);
}

void vcpu_arch_dump(FILE *stream, struct kvm_vcpu *vcpu, u8 indent)
{
	struct kvm_regs regs;

	vcpu_regs_get(vcpu, &regs);
	fprintf(stream, "%*spc: 0x%.16llx msr: 0x%.16llx lr: 0x%.16llx\n", indent, "",
		(long long)regs.pc, (long long)regs.msr, (long long)regs.lr);
}

void assert_on_unhandled_exception(struct kvm_vcpu *vcpu)
{
}

void ucall_arch_init(struct kvm_vm *vm, gpa_t mmio_gpa)
{
	gva_t mmio_gva;

	if (vm->arch.radix) {
		write_guest_global(vm, guest_has_hcalls, true);
		return;
	}

	mmio_gva = vm_unused_gva_gap(vm, vm->page_size, KVM_UTIL_MIN_VADDR);
	virt_map(vm, mmio_gva, mmio_gpa, 1);
	vm->ucall_mmio_addr = mmio_gpa;
	write_guest_global(vm, ucall_exit_mmio_addr, (gva_t *)mmio_gva);
}

void *ucall_arch_get_ucall(struct kvm_vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	if (vcpu->vm->arch.radix)
		return run->exit_reason == KVM_EXIT_PAPR_HCALL && run->papr_hcall.nr == H_UCALL ?
			(void *)run->papr_hcall.args[0] : NULL;

	if (run->exit_reason != KVM_EXIT_MMIO ||
	    run->mmio.phys_addr != vcpu->vm->ucall_mmio_addr)
		return NULL;
	TEST_ASSERT(run->mmio.is_write && run->mmio.len == sizeof(u64),
		    "Unexpected access of the ucall address");
	return (void *)(*(u64 *)run->mmio.data);
}
