// SPDX-License-Identifier: GPL-2.0-only
/*
 * 64-bit Book3S guests with a radix tree, as kvm-hv runs them
 *
 * The tree translates 52 bits of an address in four levels to pages of 4K. The
 * process table has one entry, for process 0.
 */
#include <asm/byteorder.h>
#include <linux/bits.h>

#include "kvm_util.h"
#include "processor.h"

#define ROOT_BITS	13
#define LEVEL_BITS	9
#define NR_LEVELS	4
#define ROOT_SIZE	(sizeof(__be64) << ROOT_BITS)
/* Aligned to its size */
#define ROOT_GPA	(2 * ROOT_SIZE)

/* The process table: of 4K, and of a guest with radix trees */
#define PATB_GR		BIT_ULL(63)
/* Its entry: an address of 52 bits is encoded as 21, that is 31 less. */
#define RADIX_TREE_SIZE	(2ULL << 61 | 5 << 5)

#define PTE_VALID	BIT_ULL(63)
#define PTE_LEAF	BIT_ULL(62)
#define PTE_ADDRESS	GENMASK_ULL(55, 12)
#define PTE_REFERENCED	BIT_ULL(8)
#define PTE_CHANGED	BIT_ULL(7)
/* Supervisor mode may read, write and execute. */
#define PTE_ACCESS	GENMASK_ULL(3, 0)

void radix_pgd_alloc(struct kvm_vm *vm)
{
	struct kvm_ppc_mmuv3_cfg cfg = {
		.flags = KVM_PPC_MMUV3_RADIX | KVM_PPC_MMUV3_GTSE,
	};
	gpa_t process_table;
	__be64 *entry;

	vm->mmu.pgd = vm_phy_pages_alloc(vm, ROOT_SIZE / vm->page_size, ROOT_GPA,
					 vm->memslots[MEM_REGION_PT]);
	TEST_ASSERT(vm->mmu.pgd % ROOT_SIZE == 0, "Page table at 0x%lx", (long)vm->mmu.pgd);
	process_table = vm_alloc_page_table(vm);
	entry = addr_gpa2hva(vm, process_table);
	entry[0] = cpu_to_be64(RADIX_TREE_SIZE | vm->mmu.pgd | ROOT_BITS);
	cfg.process_table = PATB_GR | process_table;
	vm_ioctl(vm, KVM_PPC_CONFIGURE_V3_MMU, &cfg);
}

/* Return the entry of a page in the last level. Add missing tables if asked to. */
static __be64 *find_pte(struct kvm_vm *vm, gva_t gva, bool add)
{
	int level, shift = vm->page_shift + (NR_LEVELS - 1) * LEVEL_BITS;
	u64 mask = BIT_ULL(ROOT_BITS) - 1;
	gpa_t table = vm->mmu.pgd;
	__be64 *pte;

	for (level = 1; ; level++, shift -= LEVEL_BITS) {
		pte = (__be64 *)addr_gpa2hva(vm, table) + (gva >> shift & mask);
		if (level == NR_LEVELS)
			return pte;
		if (!*pte) {
			TEST_ASSERT(add, "gva 0x%lx is not mapped", (long)gva);
			*pte = cpu_to_be64(PTE_VALID | vm_alloc_page_table(vm) | LEVEL_BITS);
		}
		table = be64_to_cpu(*pte) & PTE_ADDRESS;
		mask = BIT_ULL(LEVEL_BITS) - 1;
	}
}

void radix_pg_map(struct kvm_vm *vm, gva_t gva, gpa_t gpa)
{
	*find_pte(vm, gva, true) = cpu_to_be64(PTE_VALID | PTE_LEAF | gpa | PTE_REFERENCED |
					       PTE_CHANGED | PTE_ACCESS);
}

gpa_t radix_gva2gpa(struct kvm_vm *vm, gva_t gva)
{
	u64 pte = be64_to_cpu(*find_pte(vm, gva, false));

	TEST_ASSERT(pte, "gva 0x%lx is not mapped", (long)gva);
	return (pte & PTE_ADDRESS) | (gva & (vm->page_size - 1));
}
