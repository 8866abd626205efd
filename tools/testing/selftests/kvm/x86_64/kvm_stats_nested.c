// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the statistics tell of a nested guest, and of its end by a triple fault
 *
 * The guest, L1, runs a guest of its own, L2, with nested paging, and does not
 * intercept SHUTDOWN. So when L2 has a triple fault it is the vCPU that shuts
 * down: that ends L2, and L1 has to start again without anything that was set
 * up for it.
 */
#include <string.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "processor.h"
#include "stats_test.h"
#include "svm_util.h"
#include "test_util.h"

#define VCPU_ID		0
#define L2_STACK_WORDS	64

/* Of an entry in the page tables that translate L2's physical addresses */
#define NPT_TABLE	0x07ull		/* present, writable, user */
#define NPT_PAGE	0xe7ull		/* the same, accessed, dirty, 2 MiB */
#define NPT_ENTRIES	512

enum stage { IN_L1, IN_L2, AFTER_RESET };

static void l2_code(struct svm_test_data *svm)
{
	GUEST_SYNC(IN_L2);
	asm volatile("ud2");
}

static void l1_code(struct svm_test_data *svm, uint64_t npt)
{
	unsigned long stack[L2_STACK_WORDS];

	GUEST_SYNC(IN_L1);
	generic_svm_setup(svm, l2_code, &stack[L2_STACK_WORDS]);
	svm->vmcb->control.nested_ctl = SVM_NESTED_CTL_NP_ENABLE;
	svm->vmcb->control.nested_cr3 = npt;
	/* No handler can be called: each exception becomes a triple fault. */
	svm->vmcb->save.idtr.limit = 0;
	run_guest(svm->vmcb, svm->vmcb_gpa);
	/* L2 does not end with an exit to L1. */
	GUEST_ASSERT(0);
}

/* What L2 touched may still be mapped as it was, so touch another page. */
static void l1_again(uint64_t *other_page)
{
	*other_page = 1;
	GUEST_SYNC(AFTER_RESET);
}

/*
 * Tables, a page each, that map the first GiB of L1's memory to itself; returns
 * the physical address of the first one.
 */
static uint64_t make_npt(struct kvm_vm *vm, uint64_t *tables[3])
{
	uint64_t gpa[3];
	int i;

	for (i = 0; i < 3; i++) {
		vm_vaddr_t gva = vm_vaddr_alloc(vm, getpagesize(), 0x10000, 0, 0);

		gpa[i] = addr_gva2gpa(vm, gva);
		tables[i] = addr_gva2hva(vm, gva);
		memset(tables[i], 0, getpagesize());
	}
	tables[0][0] = gpa[1] | NPT_TABLE;
	tables[1][0] = gpa[2] | NPT_TABLE;
	for (i = 0; i < NPT_ENTRIES; i++)
		tables[2][i] = ((uint64_t)i << 21) | NPT_PAGE;
	return gpa[0];
}

/* Whether the guest runs up to a stage, and nothing else. */
static bool reaches(struct kvm_vm *vm, enum stage stage)
{
	struct ucall uc = { 0 };

	vcpu_run(vm, VCPU_ID);
	if (vcpu_state(vm, VCPU_ID)->exit_reason != KVM_EXIT_IO)
		return false;
	return get_ucall(vm, VCPU_ID, &uc) == UCALL_SYNC && uc.args[1] == stage;
}

int main(void)
{
	uint64_t *tables[3], npt, runs;
	struct kvm_vcpu_events events;
	struct kvm_stats stats;
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	struct kvm_vm *vm;
	vm_vaddr_t svm, other_page;
	int i;

	ksft_print_header();
	if (!nested_svm_supported())
		ksft_exit_skip("no nested SVM\n");
	ksft_set_plan(7);

	vm = vm_create_default(VCPU_ID, 0, l1_code);
	vcpu_set_cpuid(vm, VCPU_ID, kvm_get_supported_cpuid());
	vcpu_alloc_svm(vm, &svm);
	npt = make_npt(vm, tables);
	other_page = vm_vaddr_alloc(vm, getpagesize(), 0x10000, 0, 0);
	vcpu_args_set(vm, VCPU_ID, 2, svm, npt);
	vcpu_regs_get(vm, VCPU_ID, &regs);
	vcpu_sregs_get(vm, VCPU_ID, &sregs);
	vcpu_events_get(vm, VCPU_ID, &events);
	kvm_stats_open_getfd(&stats, vcpu_get_fd(vm, VCPU_ID), 0);

	ok(reaches(vm, IN_L1) && !kvm_stats_value(&stats, "guest_mode"),
	   "guest_mode is 0 while L1 runs");
	runs = kvm_stats_value(&stats, "nested_run");
	ok(reaches(vm, IN_L2) && kvm_stats_value(&stats, "guest_mode") == 1,
	   "guest_mode is 1 while L2 runs");
	ok(!runs && kvm_stats_value(&stats, "nested_run") == 1,
	   "nested_run counts the VMRUN, and no entry after it");

	vcpu_run(vm, VCPU_ID);
	ok(vcpu_state(vm, VCPU_ID)->exit_reason == KVM_EXIT_SHUTDOWN,
	   "a triple fault of L2 shuts the vCPU down");
	ok(!kvm_stats_value(&stats, "guest_mode"),
	   "guest_mode is 0 after that");

	/* As a VMM resets the vCPU; L2's page tables are memory like any other. */
	for (i = 0; i < 3; i++)
		memset(tables[i], 0, getpagesize());
	regs.rip = (uintptr_t)l1_again;
	regs.rdi = other_page;
	vcpu_sregs_set(vm, VCPU_ID, &sregs);
	vcpu_regs_set(vm, VCPU_ID, &regs);
	vcpu_events_set(vm, VCPU_ID, &events);
	ok(reaches(vm, AFTER_RESET), "L1 starts again without L2's page tables");
	ok(kvm_stats_value(&stats, "nested_run") == 1 &&
	   !kvm_stats_value(&stats, "guest_mode"), "and without a nested guest");

	kvm_stats_close(&stats);
	kvm_vm_free(vm);
	if (ksft_get_fail_cnt())
		ksft_exit_fail();
	ksft_exit_pass();
}
