// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guests that run without page tables
 *
 * Such a guest does not see the test program at the program's own addresses.
 * Instead all functions marked __guest_code are copied into its memory, next
 * to each other.  They have to do without global data and without calls of
 * functions that are not inlined.
 */
#include "kvm_util.h"
#include "kvm_util_internal.h"
#include "processor.h"

/* Above the exception vectors */
#define FLAT_GUEST_CODE_PADDR	0x10000

void virt_pgd_alloc(struct kvm_vm *vm, uint32_t pgd_memslot)
{
}

void virt_pg_map(struct kvm_vm *vm, uint64_t vaddr, uint64_t paddr,
		 uint32_t memslot)
{
	TEST_ASSERT(vaddr == FLAT_GUEST_VADDR + paddr,
		    "No page tables to map vaddr 0x%" PRIx64 " to paddr 0x%" PRIx64,
		    vaddr, paddr);
}

vm_paddr_t addr_gva2gpa(struct kvm_vm *vm, vm_vaddr_t gva)
{
	return gva - FLAT_GUEST_VADDR;
}

void virt_dump(FILE *stream, struct kvm_vm *vm, uint8_t indent)
{
}

struct kvm_vm *vm_create_default(uint32_t vcpuid, uint64_t extra_mem_pages,
				 void *guest_code)
{
	size_t size = __stop_guest_code - __start_guest_code;
	struct kvm_vm *vm;
	vm_paddr_t paddr;

	vm = vm_create(VM_MODE_DEFAULT, DEFAULT_GUEST_PHY_PAGES, O_RDWR);

	paddr = vm_phy_pages_alloc(vm, DIV_ROUND_UP(size, vm->page_size),
				   FLAT_GUEST_CODE_PADDR, 0);
	TEST_ASSERT(paddr == FLAT_GUEST_CODE_PADDR,
		    "Guest code at 0x%" PRIx64, paddr);
	memcpy(addr_gpa2hva(vm, paddr), __start_guest_code, size);

	vm_vcpu_add_default(vm, vcpuid, guest_code);

	return vm;
}

void vm_vcpu_add_default(struct kvm_vm *vm, uint32_t vcpuid, void *guest_code)
{
	size_t offset = (char *)guest_code - __start_guest_code;
	vm_paddr_t stack;

	TEST_ASSERT((char *)guest_code >= __start_guest_code &&
		    (char *)guest_code < __stop_guest_code,
		    "%p is not marked __guest_code", guest_code);

	stack = vm_phy_pages_alloc(vm, DEFAULT_STACK_PGS,
				   KVM_UTIL_MIN_VADDR, 0);

	vm_vcpu_add(vm, vcpuid);
	flat_vcpu_setup(vm, vcpuid,
			FLAT_GUEST_VADDR + FLAT_GUEST_CODE_PADDR + offset,
			FLAT_GUEST_VADDR + stack +
			DEFAULT_STACK_PGS * vm->page_size);
}

void assert_on_unhandled_exception(struct kvm_vm *vm, uint32_t vcpuid)
{
}
