// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the tests of the statistics do otherwise on this kernel than on Linux 5.10:
 * there is one header, and a vCPU is a structure, not a number.
 */
#include <stdio.h>
#include <sys/ioctl.h>

#include "guest_exits.h"
#include "processor.h"
#include "stats_test.h"
#include "ucall_common.h"

/* Values are in the order of the struct members; descriptors may be in any order. */
const bool stats_values_in_order;
/* struct kvm is allocated by kmalloc(). */
const bool stats_vm_is_large_block;

/* The vendor module */
const long stats_mem_module_refs = 1;
const bool stats_id_has_tid = true;
const bool stats_rows_in_fdinfo = true;
const bool stats_has_read_iter;
const bool stats_vm_id_is_time = true;

const struct stats_abi abi_getfd = {
	.name = "getfd",
	.request = KVM_STATS_GETFD,
	.cap = KVM_CAP_STATS_SCOPES,
	.flags = KVM_STATS_CAP_GETFD | KVM_STATS_CAP_VCPUS | KVM_STATS_CAP_NEXT,
	.header_size = sizeof(struct kvm_stats_header),
	.id_offset = sizeof(struct kvm_stats_header),
	.id_size = STATS_NAME_SIZE,
};

int kvm_stats_getfd(int fd, uint32_t scope)
{
	struct kvm_stats_getfd args = { .scope = scope };

	return ioctl(fd, KVM_STATS_GETFD, &args);
}

#ifdef __x86_64__
int stats_getfd_compat(int fd, uint32_t scope)
{
	/* Static programs have their data where 32-bit pointers reach it. */
	static struct kvm_stats_getfd args;

	args.scope = scope;
	return compat_ioctl(fd, KVM_STATS_GETFD, (uintptr_t)&args);
}
#endif

size_t kvm_stats_row_size(const struct kvm_stats *stats)
{
	struct kvm_stats_rows_header header;

	kvm_stats_pread(stats->fd, &header, sizeof(header), 0);
	TEST_ASSERT(header.header.flags == KVM_STATS_HEADER_ROWS && !header.reserved &&
		    header.header.id_offset >= sizeof(header),
		    "The header does not announce the size of a row");
	return header.row_size;
}

unsigned int kvm_stats_read_rows(const struct kvm_stats *stats,
				 struct kvm_stats_row *rows, unsigned int max)
{
	unsigned long long id, tid;
	char path[64], line[256];
	unsigned int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", stats->fd);
	f = fopen(path, "r");
	TEST_ASSERT(f, "%s, errno: %i", path, errno);
	while (n < max && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "kvm-stats-vcpu:\t%llu %llu\n", &id, &tid) != 2)
			continue;
		rows[n].id = id;
		rows[n++].tid = tid;
	}
	fclose(f);
	return n;
}

void kvm_stats_take_getfd(struct kvm_stats *stats, int stats_fd)
{
	kvm_stats_take_stats_fd(stats, stats_fd);
}

struct kvm_vcpu *vcpu_of(struct kvm_vm *vm, uint32_t vcpuid)
{
	struct kvm_vcpu *vcpu;

	list_for_each_entry(vcpu, &vm->vcpus, list) {
		if (vcpu->id == vcpuid)
			return vcpu;
	}
	TEST_FAIL("There is no vCPU %u", vcpuid);
	return NULL;
}

int vm_get_fd(struct kvm_vm *vm)
{
	return vm->fd;
}

int vcpu_get_fd(struct kvm_vm *vm, uint32_t vcpuid)
{
	return vcpu_of(vm, vcpuid)->fd;
}

void vm_vcpu_add_default(struct kvm_vm *vm, uint32_t vcpuid, void *guest_code)
{
	vm_vcpu_add(vm, vcpuid, guest_code);
}

struct kvm_vm *vm_create_guest(uint32_t vcpuid, void *guest_code)
{
	struct kvm_vm *vm;

#ifdef __aarch64__
	/* With the library's a vCPU cannot be added to a VM that has run. */
	test_disable_default_vgic();
#endif
	vm = vm_create(1);
#ifdef __powerpc__
	/* guest_exit() writes there, where no memory is. */
	virt_map(vm, 0x08000000, 0x08000000, 1);
#endif
	vm_vcpu_add(vm, vcpuid, guest_code);
	return vm;
}

void vcpu_run_exits(struct kvm_vm *vm, uint32_t vcpuid, unsigned int n)
{
	struct kvm_vcpu *vcpu = vcpu_of(vm, vcpuid);

	while (n--) {
		vcpu_run(vcpu);
		guest_exit_check(vcpu->run->exit_reason);
	}
}

void guest_sync(void)
{
	GUEST_SYNC(0);
}
