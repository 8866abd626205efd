// SPDX-License-Identifier: GPL-2.0-only
/*
 * Differences between this kernel and later ones in the tests of statistics:
 * KVM_STATS_GETFD has a separate header, and the library finds a vCPU by its id.
 */
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest_exits.h"
#include "processor.h"
#include "stats_test.h"

const bool stats_values_in_order = true;
const bool stats_vm_is_large_block = true;

const long stats_mem_module_refs;
const bool stats_id_has_tid;
const bool stats_rows_in_fdinfo;
const bool stats_has_read_iter = true;
const bool stats_vm_id_is_time;

const struct stats_abi abi_getfd = {
	.name = "getfd",
	.request = KVM_STATS_GETFD,
	.cap = KVM_CAP_STATS_BINARY_FD,
	.flags = KVM_STATS_CAP_GETFD | KVM_STATS_CAP_VCPUS | KVM_STATS_CAP_NEXT,
	.header_size = sizeof(struct kvm_stats_getfd_header),
	.id_offset = offsetof(struct kvm_stats_getfd_header, id),
	.id_size = sizeof(((struct kvm_stats_getfd_header *)0)->id),
};

int kvm_stats_getfd(int fd, uint32_t scope)
{
	return ioctl(fd, KVM_STATS_GETFD, (unsigned long)scope);
}

#ifdef __x86_64__
int stats_getfd_compat(int fd, uint32_t scope)
{
	return compat_ioctl(fd, KVM_STATS_GETFD, scope);
}
#endif

size_t kvm_stats_row_size(const struct kvm_stats *stats)
{
	return kvm_stats_data_size(stats);
}

unsigned int kvm_stats_read_rows(const struct kvm_stats *stats,
				 struct kvm_stats_row *rows, unsigned int max)
{
	const struct kvm_stats_desc *id = kvm_stats_find(stats, "vcpu_id");
	off_t offset = stats->data_offset + id->offset;
	unsigned int i;

	/* vcpu_tid follows vcpu_id. */
	for (i = 0; i < max; i++, offset += kvm_stats_row_size(stats)) {
		if (pread(stats->fd, &rows[i], sizeof(rows[i]), offset) != sizeof(rows[i]))
			break;
	}
	return i;
}

void kvm_stats_take_getfd(struct kvm_stats *stats, int stats_fd)
{
	struct kvm_stats_getfd_header header;

	kvm_stats_pread(stats_fd, &header, sizeof(header), 0);
	stats->fd = stats_fd;
	memcpy(stats->id, header.id, sizeof(stats->id));
	stats->name_size = header.name_size;
	stats->count = header.count;
	stats->id_offset = offsetof(struct kvm_stats_getfd_header, id);
	stats->desc_offset = header.desc_offset;
	stats->data_offset = header.data_offset;
	kvm_stats_read_descriptors(stats);
}

#ifdef FLAT_GUEST_VADDR	/* There is no ucall for flat guests. */

struct kvm_vm *vm_create_guest(uint32_t vcpuid, void *guest_code)
{
	return vm_create_default(vcpuid, 0, guest_code);
}

#else

struct kvm_vm *vm_create_guest(uint32_t vcpuid, void *guest_code)
{
	struct kvm_vm *vm = vm_create_default(vcpuid, 0, guest_code);

	ucall_init(vm, NULL);
	return vm;
}

void guest_sync(void)
{
	GUEST_SYNC(0);
}

#endif

void vcpu_run_exits(struct kvm_vm *vm, uint32_t vcpuid, unsigned int n)
{
	struct kvm_run *run = vcpu_state(vm, vcpuid);

	while (n--) {
		vcpu_run(vm, vcpuid);
		guest_exit_check(run->exit_reason);
	}
}
