// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the tests of paravirtual perf events share
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "x86_64/pv_perf.h"
#include "test_util.h"

#define NMI_VECTOR	2
#define PARAMETER	"/sys/module/kvm/parameters/pv_perf"

struct pv_guest pv_guests[NR_VCPUS];
struct kvm_pv_perf_slot pv_slots[NR_VCPUS][NR_EVENTS] __aligned(32);
struct kvm_pv_perf_attr pv_attrs[NR_VCPUS];
struct kvm_pv_perf_info pv_info;
static char nmi_stack[4096] __aligned(16);

/* Guest code */

uint64_t pv_guest_overflows(void)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < NR_EVENTS; i++)
		sum += READ_ONCE(pv_slots[0][i].overflows);
	return sum;
}

/* Nothing saves SSE registers for a handler: no two of these may become one. */
static void add(uint64_t *var, uint64_t n)
{
	WRITE_ONCE(*var, READ_ONCE(*var) + n);
}

/* Only vCPU 0 has events with a period. */
static void pv_guest_nmi(struct ex_regs *regs)
{
	struct pv_guest *guest = &pv_guests[0];
	uint64_t now, woken;

	add(&guest->nested, READ_ONCE(guest->in_nmi));
	WRITE_ONCE(guest->in_nmi, 1);
	add(&guest->nmis, 1);
	if (READ_ONCE(guest->slow)) {
		add(&guest->slow, -1);
		/* Interrupts are off in a handler; see guest_spins(). */
		asm volatile("sti");
		/* Take so long that more overflows occur */
		now = pv_guest_overflows() + 2;
		while (pv_guest_overflows() < now)
			cpu_relax();
	}
	now = pv_guest_overflows();
	woken = READ_ONCE(guest->woken);
	if (regs->rip == READ_ONCE(guest->after_hlt)) {
		/* One that was held back until the end of this did not end the halt. */
		WRITE_ONCE(guest->after_hlt, 0);
		if (now > READ_ONCE(guest->seen) &&
		    woken == READ_ONCE(guest->woken_seen))
			add(&guest->hlt_nmis, 1);
	}
	WRITE_ONCE(guest->woken_seen, woken);
	WRITE_ONCE(guest->seen, now);
	add(&guest->stray, READ_ONCE(guest->nmis) > now);
	WRITE_ONCE(guest->in_nmi, 0);
}

void pv_guest_hypercall(struct pv_guest *guest)
{
	guest->ret = kvm_hypercall(KVM_HC_PV_PERF, guest->op, guest->a1,
				   guest->a2, 0);
}

void pv_guest_cpuid(struct pv_guest *guest)
{
	uint32_t eax, ecx;
	uint64_t i;

	for (i = 0; i < guest->until; i++) {
		eax = 0;
		ecx = 0;
		asm volatile("cpuid" : "+a" (eax), "+c" (ecx) : : "ebx", "edx");
	}
}

void pv_guest_busy(struct pv_guest *guest)
{
	while (READ_ONCE(guest->nmis) < guest->until)
		cpu_relax();
}

static void pv_guest_main(struct pv_guest *guest)
{
	/* See guest_spins(). */
	asm volatile("sti");
	for (;;) {
		guest->func(guest);
		GUEST_SYNC(0);
	}
}

/* The host */

static void too_late(int sig)
{
	ksft_exit_fail_msg("the guest hangs\n");
}

void pv_run(struct kvm_vm *vm, uint32_t vcpuid,
	    void (*func)(struct pv_guest *guest))
{
	int r;

	in_guest(vm, pv_guests[vcpuid])->func = func;
	alarm(LIMIT);
	r = ioctl(vcpu_get_fd(vm, vcpuid), KVM_RUN, NULL);
	TEST_ASSERT(!r, "KVM_RUN failed, errno: %i", errno);
	TEST_ASSERT(get_ucall(vm, vcpuid, NULL) == UCALL_SYNC,
		    "Exit reason %u (%s)", vcpu_state(vm, vcpuid)->exit_reason,
		    exit_reason_str(vcpu_state(vm, vcpuid)->exit_reason));
	alarm(0);
}

void pv_run_until(struct kvm_vm *vm, uint32_t vcpuid,
		  void (*func)(struct pv_guest *guest), uint64_t until)
{
	in_guest(vm, pv_guests[vcpuid])->until = until;
	pv_run(vm, vcpuid, func);
}

int64_t pv_call(struct kvm_vm *vm, uint32_t vcpuid, uint64_t op, uint64_t a1,
		uint64_t a2)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[vcpuid]);

	guest->op = op;
	guest->a1 = a1;
	guest->a2 = a2;
	pv_run(vm, vcpuid, pv_guest_hypercall);
	return guest->ret;
}

int64_t pv_event_op(struct kvm_vm *vm, uint64_t op, uint64_t id)
{
	return pv_call(vm, 0, op, id, 0);
}

struct kvm_pv_perf_slot *pv_slot(struct kvm_vm *vm, uint32_t id)
{
	return in_guest(vm, pv_slots[0][id]);
}

uint64_t pv_count(struct kvm_vm *vm, uint32_t id)
{
	int64_t r = pv_event_op(vm, KVM_PV_PERF_READ, id);

	TEST_ASSERT(!r, "READ of event %u returned %ld", id, r);
	return pv_slot(vm, id)->count;
}

struct kvm_pv_perf_attr *pv_attr(struct kvm_vm *vm, uint32_t vcpuid,
				 uint32_t id, uint32_t type)
{
	struct kvm_pv_perf_attr *attr = in_guest(vm, pv_attrs[vcpuid]);

	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->id = id;
	attr->type = type;
	attr->flags = KVM_PV_PERF_ENABLED;
	attr->slot = gpa_of(vm, pv_slots[vcpuid][id]);
	return attr;
}

struct kvm_pv_perf_attr *pv_stat_attr(struct kvm_vm *vm, uint32_t id,
				      const char *name)
{
	struct kvm_pv_perf_attr *stat = pv_attr(vm, 0, id, KVM_PV_PERF_TYPE_STAT);

	strcpy(stat->name, name);
	return stat;
}

struct kvm_pv_perf_attr *pv_clock_attr(struct kvm_vm *vm, uint32_t id,
				       uint64_t config, uint64_t period)
{
	struct kvm_pv_perf_attr *clock = pv_attr(vm, 0, id,
						 KVM_PV_PERF_TYPE_SOFTWARE);

	clock->config = config;
	clock->period = period;
	return clock;
}

int64_t pv_open_event(struct kvm_vm *vm, uint32_t vcpuid)
{
	return pv_call(vm, vcpuid, KVM_PV_PERF_OPEN, gpa_of(vm, pv_attrs[vcpuid]), 0);
}

void pv_open_stat(struct kvm_vm *vm, uint32_t id, const char *name)
{
	int64_t r;

	pv_stat_attr(vm, id, name);
	r = pv_open_event(vm, 0);
	TEST_ASSERT(!r, "OPEN of %s returned %ld", name, r);
}

void pv_open_clock(struct kvm_vm *vm, uint32_t id, uint64_t period)
{
	int64_t r;

	pv_clock_attr(vm, id, PERF_COUNT_SW_CPU_CLOCK, period);
	r = pv_open_event(vm, 0);
	TEST_ASSERT(!r, "OPEN of a clock returned %ld", r);
}

void pv_reset(struct kvm_vm *vm)
{
	int64_t r = pv_call(vm, 0, KVM_PV_PERF_RESET, 0, 0);

	TEST_ASSERT(!r, "RESET returned %ld", r);
}

/* The NMI handler needs a separate stack: userspace code has a red zone. */
static void give_nmi_a_stack(struct kvm_vm *vm)
{
	const size_t idt_entry_size = 16, ist_in_entry = 4, ist1_in_tss = 36;
	uint64_t top = (uint64_t)nmi_stack + sizeof(nmi_stack);
	struct kvm_sregs sregs;

	vcpu_sregs_get(vm, 0, &sregs);
	*((char *)addr_gva2hva(vm, sregs.idt.base + NMI_VECTOR * idt_entry_size) +
	  ist_in_entry) = 1;
	memcpy((char *)addr_gva2hva(vm, sregs.tr.base) + ist1_in_tss, &top,
	       sizeof(top));
}

static struct kvm_vm *create_vm(uint32_t features)
{
	struct kvm_vm *vm = vm_create(VM_MODE_DEFAULT, DEFAULT_GUEST_PHY_PAGES, O_RDWR);
	uint32_t i;

	kvm_vm_elf_load(vm, program_invocation_name, 0, 0);
	vm_create_irqchip(vm);
	for (i = 0; i < NR_VCPUS; i++)
		vm_vcpu_add_default(vm, i, pv_guest_main);
	vm_init_descriptor_tables(vm);
	for (i = 0; i < NR_VCPUS; i++) {
		pv_set_features(vm, i, features);
		vcpu_init_descriptor_tables(vm, i);
		vcpu_args_set(vm, i, 1, &pv_guests[i]);
	}
	vm_handle_exception(vm, NMI_VECTOR, pv_guest_nmi);
	give_nmi_a_stack(vm);
	return vm;
}

struct kvm_vm *pv_create_vm(void)
{
	return create_vm(pv_features() | FEATURE);
}

struct kvm_vm *pv_create_vm_without_feature(void)
{
	return create_vm(pv_features() & ~FEATURE);
}

static char parameter;

void pv_set_parameter(char value)
{
	FILE *file = fopen(PARAMETER, "r+");

	TEST_ASSERT(file && fputc(value, file) == value && !fclose(file),
		    "No %c into " PARAMETER, value);
}

void pv_begin(void)
{
	FILE *file = fopen(PARAMETER, "r+");

	setbuf(stdout, NULL);
	ksft_print_header();
	if (!file || fread(&parameter, 1, 1, file) != 1)
		ksft_exit_skip("no " PARAMETER " that could be written\n");
	fclose(file);
	pv_set_parameter(PV_ON);
	signal(SIGALRM, too_late);
}

void pv_restore_parameter(void)
{
	pv_set_parameter(parameter);
}

struct kvm_cpuid2 *pv_supported_cpuid(void)
{
	const int nent = 256;
	int fd = open("/dev/kvm", O_RDWR);
	struct kvm_cpuid2 *cpuid;

	cpuid = calloc(1, sizeof(*cpuid) + nent * sizeof(cpuid->entries[0]));
	TEST_ASSERT(cpuid, "No memory");
	cpuid->nent = nent;
	TEST_ASSERT(!ioctl(fd, KVM_GET_SUPPORTED_CPUID, cpuid),
		    "KVM_GET_SUPPORTED_CPUID, errno: %i", errno);
	close(fd);
	return cpuid;
}

uint32_t pv_features(void)
{
	struct kvm_cpuid2 *cpuid = pv_supported_cpuid();
	uint32_t i, features = 0;

	for (i = 0; i < cpuid->nent; i++) {
		if (cpuid->entries[i].function == KVM_CPUID_FEATURES)
			features = cpuid->entries[i].eax;
	}
	free(cpuid);
	return features;
}

void pv_set_features(struct kvm_vm *vm, uint32_t vcpuid, uint32_t features)
{
	struct kvm_cpuid2 *cpuid = pv_supported_cpuid();
	uint32_t i;

	for (i = 0; cpuid->entries[i].function != KVM_CPUID_FEATURES; i++)
		TEST_ASSERT(i < cpuid->nent, "No KVM_CPUID_FEATURES");
	cpuid->entries[i].eax = features;
	vcpu_set_cpuid(vm, vcpuid, cpuid);
	free(cpuid);
}

void pv_remove_features(struct kvm_vm *vm, uint32_t vcpuid)
{
	struct kvm_cpuid2 *cpuid = pv_supported_cpuid();
	uint32_t i;

	for (i = 0; cpuid->entries[i].function != KVM_CPUID_FEATURES; i++)
		TEST_ASSERT(i < cpuid->nent, "No KVM_CPUID_FEATURES");
	cpuid->entries[i] = cpuid->entries[--cpuid->nent];
	vcpu_set_cpuid(vm, vcpuid, cpuid);
	free(cpuid);
}

int64_t pv_query(struct kvm_vm *vm)
{
	return pv_call(vm, 0, KVM_PV_PERF_QUERY, gpa_of(vm, pv_info), 0);
}

void pv_forget_nmis(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);

	guest->nmis = 0;
	guest->hlt_nmis = 0;
	guest->stray = 0;
	guest->nested = 0;
	guest->seen = 0;
	guest->slow = 0;
	memset(in_guest(vm, pv_slots[0]), 0, sizeof(pv_slots[0]));
}

void pv_run_for(struct kvm_vm *vm, uint64_t ns)
{
	uint32_t id = NR_EVENTS - 1;

	pv_open_clock(vm, id, 0);
	while (pv_count(vm, id) < ns)
		pv_run_until(vm, 0, pv_guest_cpuid, 1000);
	pv_event_op(vm, KVM_PV_PERF_CLOSE, id);
}

void pv_interrupt(struct kvm_vm *vm)
{
	struct kvm_run *run = vcpu_state(vm, 0);

	run->immediate_exit = 1;
	TEST_ASSERT(ioctl(vcpu_get_fd(vm, 0), KVM_RUN, NULL) < 0 && errno == EINTR,
		    "KVM_RUN with immediate_exit, errno: %i", errno);
	run->immediate_exit = 0;
}

void pv_restore_clock(int vcpu_fd)
{
	struct {
		struct kvm_msrs header;
		struct kvm_msr_entry entry;
	} msrs = {
		.header.nmsrs = 1,
		.entry.index = MSR_KVM_SYSTEM_TIME_NEW,
	};

	TEST_ASSERT(ioctl(vcpu_fd, KVM_GET_MSRS, &msrs) == 1, "KVM_GET_MSRS, errno: %i", errno);
	TEST_ASSERT(ioctl(vcpu_fd, KVM_SET_MSRS, &msrs) == 1, "KVM_SET_MSRS, errno: %i", errno);
}

void pv_init_vcpu(struct kvm_vm *vm)
{
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = 5 << 8 };
	struct kvm_mp_state mp_state;

	TEST_ASSERT(ioctl(vm_get_fd(vm), KVM_SIGNAL_MSI, &msi) > 0,
		    "KVM_SIGNAL_MSI, errno: %i", errno);
	vcpu_ioctl(vm, 0, KVM_GET_MP_STATE, &mp_state);
	TEST_ASSERT(mp_state.mp_state == KVM_MP_STATE_RUNNABLE,
		    "The BSP is in state %u", mp_state.mp_state);
}
