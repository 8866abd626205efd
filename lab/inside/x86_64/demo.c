// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo, which runs on a patched x86-64 kernel of any base: two small VMMs, and
 * kvm-stats, which watches them from another process.
 *
 * The guest of "busy" has two vCPUs. vCPU 0 writes to ports and devices, executes
 * CPUID and hypercalls; vCPU 1 halts between timer interrupts. The guest of "brief"
 * has one vCPU, which also halts; its VMM is killed while kvm-stats watches.
 *
 * The guests run in real mode, so that the demo needs no selftest library: each
 * base has a different one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../must-succeed.h"

#define MEMORY_SIZE	0x10000
#define TICKS		0x500	/* A counter of timer interrupts; 0 to 0x3ff: vectors */
#define CODE		0x1000
#define STACK		0x8000
#define DEVICE_SEGMENT	0xd000	/* outside of the guest's memory */
#define TIMER_VECTOR	0xec
#define MAX_CPUID	256

/* Intel SDM volume 3, "Local x2APIC Register Address Space"; KVM's APIC timer has 1 GHz. */
asm(".pushsection .rodata\n"
	"	.code16\n"
	"guest_code:\n"

	"busy_guest:\n"
	"	movl %esi, %eax\n"
	"	outl %eax, $0x42\n"
	"	testl $1, %esi\n"
	"	jz 1f\n"
	"	movl %esi, %es:0\n"
	"1:	testl $3, %esi\n"
	"	jnz 2f\n"
	"	xorl %eax, %eax\n"
	"	cpuid\n"
	"2:	testl $7, %esi\n"
	"	jnz 3f\n"
	"	xorl %eax, %eax\n"
	"	vmmcall\n"
	"3:	incl %esi\n"
	"	jmp busy_guest\n"

	"halting_guest:\n"
	"	movl $0x1b, %ecx\n"	/* APIC base: enable x2APIC */
	"	rdmsr\n"
	"	orl $0xc00, %eax\n"
	"	wrmsr\n"
	"	xorl %edx, %edx\n"
	"	movl $0x80f, %ecx\n"	/* enable the APIC */
	"	movl $0x1ff, %eax\n"
	"	wrmsr\n"
	"	movl $0x83e, %ecx\n"	/* divide by 1 */
	"	movl $0xb, %eax\n"
	"	wrmsr\n"
	"	movl $0x832, %ecx\n"	/* periodic timer, TIMER_VECTOR */
	"	movl $0x200ec, %eax\n"
	"	wrmsr\n"
	"	movl $0x838, %ecx\n"	/* 5 ms */
	"	movl $5000000, %eax\n"
	"	wrmsr\n"
	"4:	sti\n"
	"	hlt\n"
	"	cli\n"
	"	jmp 4b\n"

	"timer_interrupt:\n"
	"	incl 0x500\n"		/* TICKS */
	"	movl $0x80b, %ecx\n"	/* end of interrupt */
	"	xorl %eax, %eax\n"
	"	wrmsr\n"
	"	iretw\n"

	"guest_code_end:\n"
	"	.code64\n"
	".popsection\n");
extern const uint8_t guest_code[], busy_guest[], halting_guest[], timer_interrupt[],
	guest_code_end[];

struct vmm {
	const char *name;
	void (*run)(struct vmm *vmm);
	uint8_t *memory;	/* shared with main(), which watches TICKS */
	int kvm;
	int vm;
	pid_t pid;
};

static uint16_t guest_address(const uint8_t *code)
{
	return CODE + (code - guest_code);
}

static void create_vm(struct vmm *vmm)
{
	struct kvm_userspace_memory_region region = {
		.memory_size = MEMORY_SIZE,
		.userspace_addr = (uintptr_t)vmm->memory,
	};

	vmm->kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vmm->vm = must_succeed(ioctl(vmm->kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	must_succeed(ioctl(vmm->vm, KVM_SET_USER_MEMORY_REGION, &region),
		     "KVM_SET_USER_MEMORY_REGION");
	must_succeed(ioctl(vmm->vm, KVM_CREATE_IRQCHIP, 0), "KVM_CREATE_IRQCHIP");
	memcpy(vmm->memory + CODE, guest_code, guest_code_end - guest_code);
	/* A real-mode interrupt vector: offset, then segment 0. */
	*(uint32_t *)(vmm->memory + TIMER_VECTOR * 4) = guest_address(timer_interrupt);
}

/* Let the guest see all features that KVM supports, x2APIC among them. */
static void set_cpuid(struct vmm *vmm, int vcpu)
{
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) +
					  MAX_CPUID * sizeof(cpuid->entries[0]));

	cpuid->nent = MAX_CPUID;
	must_succeed(ioctl(vmm->kvm, KVM_GET_SUPPORTED_CPUID, cpuid),
		     "KVM_GET_SUPPORTED_CPUID");
	must_succeed(ioctl(vcpu, KVM_SET_CPUID2, cpuid), "KVM_SET_CPUID2");
	free(cpuid);
}

static void run_vcpu(struct vmm *vmm, int id, const uint8_t *code)
{
	struct kvm_regs regs = {
		.rip = guest_address(code), .rsp = STACK - 0x1000 * id, .rflags = 2,
	};
	struct kvm_mp_state runnable = { .mp_state = KVM_MP_STATE_RUNNABLE };
	struct kvm_sregs sregs;
	struct kvm_run *exit;
	int vcpu;

	vcpu = must_succeed(ioctl(vmm->vm, KVM_CREATE_VCPU, id), "KVM_CREATE_VCPU");
	exit = mmap(NULL, must_succeed(ioctl(vmm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
				       "KVM_GET_VCPU_MMAP_SIZE"),
		    PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	must_succeed(exit == MAP_FAILED ? -1 : 0, "mmap of the vCPU");
	set_cpuid(vmm, vcpu);
	must_succeed(ioctl(vcpu, KVM_GET_SREGS, &sregs), "KVM_GET_SREGS");
	sregs.cs.selector = sregs.cs.base = 0;
	sregs.es.selector = DEVICE_SEGMENT;
	sregs.es.base = DEVICE_SEGMENT << 4;
	must_succeed(ioctl(vcpu, KVM_SET_SREGS, &sregs), "KVM_SET_SREGS");
	must_succeed(ioctl(vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	must_succeed(ioctl(vcpu, KVM_SET_MP_STATE, &runnable), "KVM_SET_MP_STATE");
	for (;;) {
		if (ioctl(vcpu, KVM_RUN, NULL) && errno == EINTR)
			continue;
		if (exit->exit_reason != KVM_EXIT_IO && exit->exit_reason != KVM_EXIT_MMIO)
			break;
	}
	fprintf(stderr, "demo: vCPU %d of \"%s\" ended with exit reason %u\n", id,
		vmm->name, exit->exit_reason);
	_exit(1);
}

static void *run_second_vcpu(void *vmm)
{
	run_vcpu(vmm, 1, halting_guest);
	return NULL;
}

static void run_busy(struct vmm *vmm)
{
	pthread_t thread;

	must_succeed(-pthread_create(&thread, NULL, run_second_vcpu, vmm), "pthread_create");
	run_vcpu(vmm, 0, busy_guest);
}

static void run_brief(struct vmm *vmm)
{
	run_vcpu(vmm, 0, halting_guest);
}

/* Run a VMM in a new process; kvm-stats shows the VM by the name of the process. */
static void start(struct vmm *vmm)
{
	vmm->memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must_succeed(vmm->memory == MAP_FAILED ? -1 : 0, "mmap of guest memory");
	vmm->pid = must_succeed(fork(), "fork");
	if (!vmm->pid) {
		must_succeed(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
		prctl(PR_SET_NAME, vmm->name);
		create_vm(vmm);
		vmm->run(vmm);
	}
}

/* Return once the guest has taken some timer interrupts; fail if its VMM has exited. */
static void wait_for_ticks(struct vmm *vmm)
{
	volatile uint32_t *ticks = (volatile uint32_t *)(vmm->memory + TICKS);

	while (*ticks < 20) {
		if (waitpid(vmm->pid, NULL, WNOHANG)) {
			fprintf(stderr, "demo: the VMM of \"%s\" has exited\n", vmm->name);
			exit(1);
		}
		usleep(10000);
	}
}

/*
 * Show and run a command of kvm-stats as a user types it; return its exit status. Kill
 * a VMM once kvm-stats has begun so many tables.
 */
static int kvm_stats(char **argv, struct vmm *victim, int tables)
{
	int status, i, output[2];
	char *line = NULL;
	size_t size = 0;
	FILE *lines;
	pid_t pid;

	printf("\n$");
	for (i = 0; argv[i]; i++)
		printf(" %s", argv[i]);
	printf("\n");
	must_succeed(pipe(output), "pipe");
	pid = must_succeed(fork(), "fork");
	if (!pid) {
		dup2(output[1], STDOUT_FILENO);
		close(output[0]);
		close(output[1]);
		execv("/lab/bin/kvm-stats", argv);
		_exit(127);
	}
	close(output[1]);
	lines = fdopen(output[0], "r");
	while (getline(&line, &size, lines) > 0) {
		printf("%s", line);
		if (victim && strncmp(line, "kvm-stats: ", 11) == 0 && --tables == 0) {
			usleep(500000);	/* The third table shows its last half second. */
			kill(victim->pid, SIGKILL);
			waitpid(victim->pid, NULL, 0);
		}
	}
	fclose(lines);
	free(line);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
	char *list[] = { "kvm-stats", "list", NULL };
	char *top[] = { "kvm-stats", "top", "-d", "1", "-n", "4", NULL };
	char *show[] = { "kvm-stats", "show", "busy", NULL };
	struct vmm busy = { .name = "busy", .run = run_busy };
	struct vmm brief = { .name = "brief", .run = run_brief };
	int status;

	setbuf(stdout, NULL);
	start(&busy);
	start(&brief);
	wait_for_ticks(&busy);
	wait_for_ticks(&brief);
	status = kvm_stats(list, NULL, 0);

	printf("\n(the process of \"brief\" is killed after the second table)\n");
	status = status ?: kvm_stats(top, &brief, 2);
	status = status ?: kvm_stats(list, NULL, 0);
	status = status ?: kvm_stats(show, NULL, 0);
	kill(busy.pid, SIGKILL);
	return status;
}
