// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the statistics of a nested guest, and with SVM of its end by a triple fault or an
 * INIT
 *
 * The guest, L1, runs a nested guest, L2.
 *
 * With SVM and nested paging L1 intercepts neither SHUTDOWN nor INIT. So when L2 has a
 * triple fault it is the vCPU that shuts down, and an INIT resets the vCPU while L2
 * runs: that ends L2, and L1 has to start again without anything that was set up for it.
 *
 * With VMX both of these are exits to L1. There L2 calls L1, which resumes it.
 */
#include <string.h>
#include <sys/ioctl.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "processor.h"
#include "stats_test.h"
#include "svm_util.h"
#include "test_util.h"
#include "vmx.h"

#define VCPU_ID		0
#define L2_STACK_WORDS	64
#define VMCALL_SIZE	3

/* Bits of an entry in the page tables that translate L2's physical addresses */
#define NPT_TABLE	0x07ull		/* present, writable, user */
#define NPT_PAGE	0xe7ull		/* the same, accessed, dirty, 2 MiB */
#define NPT_ENTRIES	512

enum stage { IN_L1, IN_L2, AFTER_RESET, AFTER_VMCALL };

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
	struct kvm_run *run = vcpu_state(vm, VCPU_ID);
	struct ucall uc = { 0 };

	vcpu_run(vm, VCPU_ID);
	if (run->exit_reason == KVM_EXIT_IO &&
	    get_ucall(vm, VCPU_ID, &uc) == UCALL_SYNC && uc.args[1] == stage)
		return true;
	ksft_print_msg("exit reason %u, ucall %lu, stage %lu instead of %u\n",
		       run->exit_reason, uc.cmd, uc.args[1], stage);
	return false;
}

/* Send the vCPU an INIT; KVM handles it before it returns the state. */
static void send_init(struct kvm_vm *vm)
{
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = 5 << 8 };
	struct kvm_mp_state mp_state;
	struct kvm_lapic_state lapic;

	/* KVM looks for vCPUs by their APIC ids when something of an APIC is set. */
	vcpu_ioctl(vm, VCPU_ID, KVM_GET_LAPIC, &lapic);
	vcpu_ioctl(vm, VCPU_ID, KVM_SET_LAPIC, &lapic);
	TEST_ASSERT(ioctl(vm_get_fd(vm), KVM_SIGNAL_MSI, &msi) > 0,
		    "KVM_SIGNAL_MSI, errno: %i", errno);
	vcpu_ioctl(vm, VCPU_ID, KVM_GET_MP_STATE, &mp_state);
}

static void test_end(bool by_init)
{
	const char *end = by_init ? "INIT" : "triple fault";
	struct kvm_regs regs, reset_regs;
	uint64_t *tables[3], npt, runs;
	struct kvm_vcpu_events events;
	struct kvm_stats stats;
	struct kvm_sregs sregs;
	struct kvm_vm *vm;
	vm_vaddr_t svm, other_page;
	int i;

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
	   "%s: guest_mode is 0 while L1 runs", end);
	runs = kvm_stats_value(&stats, "nested_run");
	ok(reaches(vm, IN_L2) && kvm_stats_value(&stats, "guest_mode") == 1,
	   "%s: guest_mode is 1 while L2 runs", end);
	ok(!runs && kvm_stats_value(&stats, "nested_run") == 1,
	   "%s: nested_run counts the VMRUN, and no entry after it", end);

	if (by_init) {
		send_init(vm);
		vcpu_regs_get(vm, VCPU_ID, &reset_regs);
		ok(reset_regs.rip == 0xfff0, "%s: the vCPU is reset while L2 runs", end);
	} else {
		vcpu_run(vm, VCPU_ID);
		ok(vcpu_state(vm, VCPU_ID)->exit_reason == KVM_EXIT_SHUTDOWN,
		   "%s: the vCPU shuts down while L2 runs", end);
	}
	ok(!kvm_stats_value(&stats, "guest_mode"), "%s: guest_mode is 0 after the reset", end);

	/* As a VMM resets the vCPU; L2's page tables are memory like any other. */
	for (i = 0; i < 3; i++)
		memset(tables[i], 0, getpagesize());
	regs.rip = (uintptr_t)l1_again;
	regs.rdi = other_page;
	vcpu_sregs_set(vm, VCPU_ID, &sregs);
	vcpu_regs_set(vm, VCPU_ID, &regs);
	vcpu_events_set(vm, VCPU_ID, &events);
	ok(reaches(vm, AFTER_RESET), "%s: L1 starts again without L2's page tables", end);
	ok(kvm_stats_value(&stats, "nested_run") == 1 &&
	   !kvm_stats_value(&stats, "guest_mode"), "%s: L1 runs without a nested guest", end);

	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

static void l2_calls(void)
{
	GUEST_SYNC(IN_L2);
	vmcall();
	GUEST_SYNC(IN_L2);
}

static void l1_resumes(struct vmx_pages *vmx)
{
	unsigned long stack[L2_STACK_WORDS];

	GUEST_SYNC(IN_L1);
	GUEST_ASSERT(prepare_for_vmx_operation(vmx));
	GUEST_ASSERT(load_vmcs(vmx));
	prepare_vmcs(vmx, l2_calls, &stack[L2_STACK_WORDS]);
	GUEST_ASSERT(!vmlaunch());
	GUEST_ASSERT(vmreadz(VM_EXIT_REASON) == EXIT_REASON_VMCALL);
	GUEST_SYNC(AFTER_VMCALL);
	vmwrite(GUEST_RIP, vmreadz(GUEST_RIP) + VMCALL_SIZE);
	vmresume();
	GUEST_ASSERT(0);
}

static void test_vmx(void)
{
	struct kvm_stats stats;
	struct kvm_vm *vm;
	vm_vaddr_t vmx;

	vm = vm_create_default(VCPU_ID, 0, l1_resumes);
	vcpu_set_cpuid(vm, VCPU_ID, kvm_get_supported_cpuid());
	vcpu_alloc_vmx(vm, &vmx);
	vcpu_args_set(vm, VCPU_ID, 1, vmx);
	kvm_stats_open_getfd(&stats, vcpu_get_fd(vm, VCPU_ID), 0);

	ok(reaches(vm, IN_L1) && !kvm_stats_value(&stats, "guest_mode") &&
	   !kvm_stats_value(&stats, "nested_run"), "VMX: guest_mode is 0 while L1 runs");
	ok(reaches(vm, IN_L2) && kvm_stats_value(&stats, "guest_mode") == 1 &&
	   kvm_stats_value(&stats, "nested_run") == 1,
	   "VMX: guest_mode is 1 while L2 runs, nested_run counts the VMLAUNCH");
	ok(reaches(vm, AFTER_VMCALL) && !kvm_stats_value(&stats, "guest_mode") &&
	   kvm_stats_value(&stats, "nested_run") == 1,
	   "VMX: guest_mode is 0 after an exit of L2, nested_run counts no entry");
	ok(reaches(vm, IN_L2) && kvm_stats_value(&stats, "guest_mode") == 1 &&
	   kvm_stats_value(&stats, "nested_run") == 2,
	   "VMX: guest_mode is 1 again, nested_run counts the VMRESUME");

	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

int main(void)
{
	ksft_print_header();
	if (nested_svm_supported()) {
		ksft_set_plan(14);
		test_end(false);
		test_end(true);
	} else if (nested_vmx_supported()) {
		ksft_set_plan(4);
		test_vmx();
	} else {
		ksft_exit_skip("no nested SVM or VMX\n");
	}
	if (ksft_get_fail_cnt())
		ksft_exit_fail();
	ksft_exit_pass();
}
