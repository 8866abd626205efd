// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo, as it runs in the lab's x86-64 kernel: two VMMs, and kvm-stats, which
 * watches them from outside.
 *
 * The guest of "busy" has two vCPUs. vCPU 0 writes to ports and devices, asks
 * CPUID and makes hypercalls; vCPU 1 halts until its timer ticks. That of "brief"
 * has one, which halts likewise; its VMM is killed while kvm-stats watches.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvm_util.h"
#include "processor.h"

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

static void prepare_halting_vcpu(uint32_t vcpuid)
{
	vcpu_set_cpuid(vm, vcpuid, kvm_get_supported_cpuid());
	vm_init_descriptor_tables(vm);
	vcpu_init_descriptor_tables(vm, vcpuid);
	vm_handle_exception(vm, TIMER_VECTOR, timer_tick);
}

static void busy(void)
{
	pthread_t thread;

	vm = vm_create_default(0, 0, busy_guest);
	vm_vcpu_add_default(vm, 1, halting_guest);
	vcpu_set_cpuid(vm, 0, kvm_get_supported_cpuid());
	virt_pg_map(vm, DEVICE, DEVICE, 0);
	prepare_halting_vcpu(1);

	pthread_create(&thread, NULL, run, (void *)1);
	run((void *)0);
}

static void brief(void)
{
	vm = vm_create_default(0, 0, halting_guest);
	prepare_halting_vcpu(0);
	run((void *)0);
}

/* Run a VMM in a process of its own; kvm-stats shows the VM by that name. */
static pid_t start(const char *name, void (*vmm)(void))
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_NAME, name);
		vmm();
	}
	return pid;
}

/* Show and run a command of kvm-stats as a person types it; returns its status. */
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
	char *list[] = { "kvm-stats", "list", NULL };
	char *top[] = { "kvm-stats", "top", "-d", "1", "-n", "4", NULL };
	char *show[] = { "kvm-stats", "show", "busy", NULL };
	pid_t busy_pid, brief_pid, killer;
	int status;

	setbuf(stdout, NULL);
	busy_pid = start("busy", busy);
	brief_pid = start("brief", brief);
	sleep(1);	/* The guests need a moment to start. */
	status = kvm_stats(list);

	printf("\n(the process of \"brief\" is killed after 2.5 s)\n");
	killer = fork();
	if (!killer) {
		usleep(2500000);
		kill(brief_pid, SIGKILL);
		_exit(0);
	}
	status = status ?: kvm_stats(top);
	waitpid(killer, NULL, 0);
	waitpid(brief_pid, NULL, 0);
	status = status ?: kvm_stats(list);
	status = status ?: kvm_stats(show);
	kill(busy_pid, SIGKILL);
	return status;
}
