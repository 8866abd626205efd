// SPDX-License-Identifier: GPL-2.0-only
/*
 * Check that statistics which the series add to released kernels count
 *
 * Their names are the arguments. A guest in real mode causes what they count, and each must be
 * above 0 afterwards, that of the VM or of the vCPU. A statistic that this guest does not cause
 * needs a few more instructions here.
 */
#define _GNU_SOURCE
#include <asm/kvm_para.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../must-succeed.h"

#define MEMORY_SIZE	0x10000
#define CODE		0x1000
#define STACK		0x8000
#define ATTR		0x9000	/* struct kvm_pv_perf_attr of the hypercall */
#define SLOT		0xa000
#define DEVICE_SEGMENT	0xd000	/* outside of the guest's memory */
#define MAX_CPUID	256
#define EXITS		100	/* to userspace, in one run of the guest */
#define PV_PERF		"/sys/module/kvm/parameters/pv_perf"
#define STRING(x)	#x
#define VALUE(x)	STRING(x)

asm(".pushsection .rodata\n"
	"	.code16\n"
	"guest_code:\n"
	"	movl $" VALUE(KVM_HC_PV_PERF) ", %eax\n"
	"	movl $" VALUE(KVM_PV_PERF_OPEN) ", %ebx\n"
	"	movl $" VALUE(ATTR) ", %ecx\n"
	"	xorl %edx, %edx\n"
	"	xorl %esi, %esi\n"
	"	vmmcall\n"
	"1:	outl %eax, $0x42\n"
	"	movl %eax, %es:0\n"
	"	xorl %eax, %eax\n"
	"	cpuid\n"
	"	movl $0x1b, %ecx\n"	/* APIC base: KVM emulates the access */
	"	rdmsr\n"
	"	wrmsr\n"
	"	jmp 1b\n"
	"guest_code_end:\n"
	"	.code64\n"
	".popsection\n");
extern const uint8_t guest_code[], guest_code_end[];

struct guest {
	uint8_t *memory;
	int kvm;
	int vm;
	int vcpu;
};

static void create_guest(struct guest *guest)
{
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY_SIZE };
	struct kvm_regs regs = { .rip = CODE, .rsp = STACK, .rflags = 2 };
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) +
					  MAX_CPUID * sizeof(cpuid->entries[0]));
	struct kvm_sregs sregs;

	guest->memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must_succeed(guest->memory == MAP_FAILED ? -1 : 0, "mmap of guest memory");
	region.userspace_addr = (uintptr_t)guest->memory;
	memcpy(guest->memory + CODE, guest_code, guest_code_end - guest_code);
	guest->kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	guest->vm = must_succeed(ioctl(guest->kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	must_succeed(ioctl(guest->vm, KVM_SET_USER_MEMORY_REGION, &region),
		     "KVM_SET_USER_MEMORY_REGION");
	must_succeed(ioctl(guest->vm, KVM_CREATE_IRQCHIP, 0), "KVM_CREATE_IRQCHIP");
	guest->vcpu = must_succeed(ioctl(guest->vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	cpuid->nent = MAX_CPUID;
	must_succeed(ioctl(guest->kvm, KVM_GET_SUPPORTED_CPUID, cpuid), "KVM_GET_SUPPORTED_CPUID");
	must_succeed(ioctl(guest->vcpu, KVM_SET_CPUID2, cpuid), "KVM_SET_CPUID2");
	free(cpuid);
	must_succeed(ioctl(guest->vcpu, KVM_GET_SREGS, &sregs), "KVM_GET_SREGS");
	sregs.cs.selector = sregs.cs.base = 0;
	sregs.es.selector = DEVICE_SEGMENT;
	sregs.es.base = DEVICE_SEGMENT << 4;
	must_succeed(ioctl(guest->vcpu, KVM_SET_SREGS, &sregs), "KVM_SET_SREGS");
	must_succeed(ioctl(guest->vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
}

static void run_guest(struct guest *guest)
{
	struct kvm_pv_perf_attr *attr = (void *)(guest->memory + ATTR);
	int i;

	*attr = (struct kvm_pv_perf_attr) {
		.size = sizeof(*attr),
		.type = KVM_PV_PERF_TYPE_STAT,
		.flags = KVM_PV_PERF_ENABLED,
		.slot = SLOT,
		.name = "exits",
	};
	for (i = 0; i < EXITS; i++)
		must_succeed(ioctl(guest->vcpu, KVM_RUN, NULL), "KVM_RUN");
}

/* Return true if the statistics of a VM or vCPU include the name, and set its value. */
static bool read_value(int fd, const char *name, uint64_t *value)
{
	int stats = must_succeed(ioctl(fd, KVM_GET_STATS_FD, NULL), "KVM_GET_STATS_FD");
	struct kvm_stats_header header;
	struct kvm_stats_desc *desc;
	bool found = false;
	uint32_t i;

	must_succeed(pread(stats, &header, sizeof(header), 0), "header");
	desc = calloc(1, sizeof(*desc) + header.name_size + 1);
	for (i = 0; i < header.num_desc && !found; i++) {
		must_succeed(pread(stats, desc, sizeof(*desc) + header.name_size,
				   header.desc_offset + i * (sizeof(*desc) + header.name_size)),
			     "descriptor");
		found = !strcmp(desc->name, name);
	}
	if (found)
		must_succeed(pread(stats, value, sizeof(*value),
				   header.data_offset + desc->offset), "value");
	free(desc);
	close(stats);
	return found;
}

int main(int argc, char **argv)
{
	int i, failed = 0, fd = open(PV_PERF, O_WRONLY);
	struct guest guest;
	uint64_t value;

	if (fd >= 0)
		must_succeed(write(fd, "Y", 1), PV_PERF);
	create_guest(&guest);
	run_guest(&guest);
	printf("1..%d\n", argc - 1);
	for (i = 1; i < argc; i++) {
		value = 0;
		if (!read_value(guest.vcpu, argv[i], &value) &&
		    !read_value(guest.vm, argv[i], &value))
			printf("not ok %d %s: no such statistic\n", i, argv[i]);
		else
			printf("%s %d %s counts: %llu\n", value ? "ok" : "not ok", i, argv[i],
			       (unsigned long long)value);
		failed += !value;
	}
	if (fd >= 0)
		must_succeed(write(fd, "N", 1), PV_PERF);
	return !!failed;
}
