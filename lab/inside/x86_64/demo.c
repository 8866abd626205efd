// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo, as it runs in the lab's x86-64 kernel: a VMM whose guest has two
 * vCPUs, and kvm-stats, which watches it from outside.
 *
 * vCPU 0 writes to ports and devices, asks CPUID and makes hypercalls; vCPU 1
 * halts until its timer ticks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvm_util.h"
#include "processor.h"

#define BUSY_VCPU	0
#define HALTING_VCPU	1

#define PORT		0x42
#define DEVICE		0xd0000000UL	/* outside of the guest's memory */

/* Intel SDM volume 3, "Local x2APIC Register Address Space" */
#define MSR_APIC_BASE	0x1b
#define APIC_X2APIC	(3UL << 10)
#define MSR_APIC_EOI	0x80b
#define MSR_APIC_SVR	0x80f
#define MSR_APIC_LVTT	0x832
#define MSR_APIC_TMICT	0x838
#define MSR_APIC_TDCR	0x83e
#define LVTT_PERIODIC	(1UL << 17)
#define TIMER_VECTOR	0xec
#define TIMER_PERIOD	5000000		/* ns: KVM's APIC timer has 1 GHz */

static void busy_guest(void)
{
	uint32_t i, eax, ebx, ecx, edx;
	long call;

	for (i = 0;; i++) {
		outl(PORT, i);
		if (i % 2)
			*(volatile uint32_t *)DEVICE = i;
		if (i % 4 == 0) {
			eax = 0;
			asm volatile("cpuid"
				     : "+a" (eax), "=b" (ebx), "=c" (ecx), "=d" (edx));
		}
		if (i % 8 == 0) {
			call = 0;
			asm volatile("vmmcall" : "+a" (call) : : "memory");
		}
	}
}

static void timer_tick(struct ex_regs *regs)
{
	wrmsr(MSR_APIC_EOI, 0);
}

static void halting_guest(void)
{
	wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | APIC_X2APIC);
	wrmsr(MSR_APIC_SVR, 0x1ff);
	wrmsr(MSR_APIC_TDCR, 0xb);	/* divide by 1 */
	wrmsr(MSR_APIC_LVTT, LVTT_PERIODIC | TIMER_VECTOR);
	wrmsr(MSR_APIC_TMICT, TIMER_PERIOD);
	for (;;)
		asm volatile("sti; hlt; cli");
}

static struct kvm_vm *vm;

static void *run(void *vcpuid)
{
	for (;;)
		vcpu_run(vm, (long)vcpuid);
	return NULL;
}

static void vmm(void)
{
	pthread_t thread;

	vm = vm_create_default(BUSY_VCPU, 0, busy_guest);
	vm_vcpu_add_default(vm, HALTING_VCPU, halting_guest);
	vcpu_set_cpuid(vm, BUSY_VCPU, kvm_get_supported_cpuid());
	vcpu_set_cpuid(vm, HALTING_VCPU, kvm_get_supported_cpuid());
	virt_pg_map(vm, DEVICE, DEVICE, 0);
	vm_init_descriptor_tables(vm);
	vcpu_init_descriptor_tables(vm, HALTING_VCPU);
	vm_handle_exception(vm, TIMER_VECTOR, timer_tick);

	pthread_create(&thread, NULL, run, (void *)HALTING_VCPU);
	run((void *)BUSY_VCPU);
}

/* A command of kvm-stats, as a person would type it; its status. */
static int kvm_stats(char **argv)
{
	int status, i;
	pid_t pid;

	printf("\n$");
	for (i = 0; argv[i]; i++)
		printf(" %s", argv[i]);
	printf("\n");
	pid = fork();
	if (!pid) {
		execv("/lab/bin/kvm-stats", argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
	char pid_text[16];
	char *list[] = { "kvm-stats", "list", NULL };
	char *top[] = { "kvm-stats", "top", "-d", "1", "-n", "4", pid_text, NULL };
	int status;
	pid_t pid;

	setbuf(stdout, NULL);
	pid = fork();
	if (!pid)
		vmm();
	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	sleep(1);	/* for the guest to be on its way */
	status = kvm_stats(list) || kvm_stats(top);
	kill(pid, SIGKILL);
	return status;
}
