// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/kvm.h>

#include "own_vm.h"

/* Since Linux 5.14: older headers lack it. */
#ifndef KVM_GET_STATS_FD
#define KVM_GET_STATS_FD _IO(KVMIO, 0xce)
#endif

#define HALTS 3

#ifdef __x86_64__
/* The vCPU begins 16 bytes below 4 GiB, here in a page full of HLT. */
static void run(struct own_vm *own, int kvm)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = (1ULL << 32) - page,
		.memory_size = page,
	};
	struct kvm_run *run;

	own->code = mmap(NULL, page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own->code == MAP_FAILED)
		return;
	memset(own->code, 0xf4, page);
	region.userspace_addr = (uintptr_t)own->code;
	run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, own->vcpu, 0);
	if (run == MAP_FAILED)
		return;
	if (!ioctl(own->vm, KVM_SET_USER_MEMORY_REGION, &region))
		while (own->halts < HALTS && !ioctl(own->vcpu, KVM_RUN, 0) &&
		       run->exit_reason == KVM_EXIT_HLT)
			own->halts++;
	munmap(run, size);
}
#else
static void run(struct own_vm *own, int kvm)
{
}
#endif

int own_vm_open(struct own_vm *own, char *why, size_t size)
{
	const char *what = "/dev/kvm";
	int error, kvm;

	*own = (struct own_vm){ -1, -1, -1, -1, MAP_FAILED, 0 };
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		goto fail;
	what = "creating a VM";
	own->vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (own->vm < 0)
		goto fail;
	what = "creating a vCPU";
	own->vcpu = ioctl(own->vm, KVM_CREATE_VCPU, OWN_VCPU_ID);
	if (own->vcpu < 0)
		goto fail;
	run(own, kvm);
	own->vm_stats = ioctl(own->vm, KVM_GET_STATS_FD, 0);
	own->vcpu_stats = ioctl(own->vcpu, KVM_GET_STATS_FD, 0);
	close(kvm);
	return 0;

fail:
	error = errno;
	snprintf(why, size, "%s: %s", what, strerror(error));
	if (kvm >= 0)
		close(kvm);
	own_vm_close(own);
	return -error;
}

void own_vm_close(struct own_vm *own)
{
	const int files[] = { own->vcpu_stats, own->vm_stats, own->vcpu, own->vm };
	unsigned int i;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i] >= 0)
			close(files[i]);
	if (own->code != MAP_FAILED)
		munmap(own->code, sysconf(_SC_PAGESIZE));
}
