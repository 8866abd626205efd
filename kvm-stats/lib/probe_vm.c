// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/kvm.h>

#include "abi.h"
#include "probe_vm.h"

#define HALTS 3

#ifdef __x86_64__
/* The vCPU begins 16 bytes below 4 GiB: "hlt", "jmp" back to it, "nop". */
static const uint32_t guest[] = { 0x90fdebf4, 0x90fdebf4 };
#define LEAVES		KVM_EXIT_HLT
#define CODE_END	(1ULL << 32)

static int prepare(const struct probe_vm *own, uint64_t code)
{
	return 0;
}
#elif defined(__aarch64__)
/* "str w0, [x0]", where x0 is 0 and no memory is, and "b" back to it */
static const uint32_t guest[] = { 0xb9000000, 0x17ffffff };
#define LEAVES		KVM_EXIT_MMIO
#define CODE_END	(1ULL << 30)
#define REGISTER_PC	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
			 KVM_REG_ARM_CORE_REG(regs.pc))

static int prepare(const struct probe_vm *own, uint64_t code)
{
	struct kvm_one_reg pc = { .id = REGISTER_PC, .addr = (uintptr_t)&code };
	struct kvm_vcpu_init init;

	return ioctl(own->vm, KVM_ARM_PREFERRED_TARGET, &init) ?:
	       ioctl(own->vcpu, KVM_ARM_VCPU_INIT, &init) ?:
	       ioctl(own->vcpu, KVM_SET_ONE_REG, &pc);
}
#endif

#ifdef CODE_END
bool probe_vm_step(struct probe_vm *own)
{
	return !ioctl(own->vcpu, KVM_RUN, 0);
}

void probe_vm_run(struct probe_vm *own)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = CODE_END - page,
		.memory_size = page,
	};
	struct kvm_run *run;
	uint32_t *code;

	code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	own->code = code;
	if (code == MAP_FAILED)
		return;
	for (; (char *)code < (char *)own->code + page; code += 2)
		memcpy(code, guest, sizeof(guest));
	region.userspace_addr = (uintptr_t)own->code;
	/* Only its first page is scanned. */
	run = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, own->vcpu, 0);
	if (run == MAP_FAILED)
		return;
	if (!ioctl(own->vm, KVM_SET_USER_MEMORY_REGION, &region) &&
	    !prepare(own, region.guest_phys_addr))
		while (own->halts < HALTS && !ioctl(own->vcpu, KVM_RUN, 0) &&
		       run->exit_reason == LEAVES)
			own->halts++;
	munmap(run, page);
}
#else
bool probe_vm_step(struct probe_vm *own)
{
	return false;
}

void probe_vm_run(struct probe_vm *own)
{
}
#endif

/* A statistics file, -ENOSYS if the kernel has none, or another negative errno */
static int open_stats(int fd)
{
	int stats = ioctl(fd, ABI_GET_STATS_FD, 0);

	if (stats >= 0)
		return stats;
	return errno == ENOTTY || errno == EINVAL ? -ENOSYS : -errno;
}

/* Return the descriptor, or a negative errno with the message in why. */
static int check_fd(int fd, const char *what, char *why, size_t size)
{
	if (fd >= 0)
		return fd;
	fd = -errno;
	snprintf(why, size, "%s: %s", what, strerror(-fd));
	return fd;
}

int probe_vm_open(struct probe_vm *own, int vcpu_id, char *why, size_t size)
{
	int kvm, ret;

	*own = (struct probe_vm){ -1, -1, -1, -1, MAP_FAILED, 0 };
	ret = kvm = check_fd(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm", why, size);
	if (ret >= 0)
		ret = own->vm = check_fd(ioctl(kvm, ABI_CREATE_VM, 0), "KVM_CREATE_VM", why,
				     size);
	if (ret >= 0)
		ret = own->vcpu = check_fd(ioctl(own->vm, ABI_CREATE_VCPU, vcpu_id),
				       "KVM_CREATE_VCPU", why, size);
	if (ret >= 0) {
		own->vm_stats = open_stats(own->vm);
		own->vcpu_stats = open_stats(own->vcpu);
		ret = own->vm_stats < 0 ? own->vm_stats : own->vcpu_stats;
		if (ret == -ENOSYS)
			ret = 0;
		if (ret < 0)
			snprintf(why, size, "KVM_GET_STATS_FD: %s", strerror(-ret));
	}
	if (kvm >= 0)
		close(kvm);
	if (ret < 0)
		probe_vm_close(own);
	return ret < 0 ? ret : 0;
}

void probe_vm_close(struct probe_vm *own)
{
	const int files[] = { own->vcpu_stats, own->vm_stats, own->vcpu, own->vm };
	unsigned int i;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i] >= 0)
			close(files[i]);
	if (own->code != MAP_FAILED)
		munmap(own->code, sysconf(_SC_PAGESIZE));
}
