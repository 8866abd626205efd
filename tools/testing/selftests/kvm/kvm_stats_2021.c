// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that programs for the statistics series of 2021 read KVM_STATS_GETFD
 *
 * The reader knows only the posted structures, which are written out here. It is
 * compiled after the renames that Documentation/virt/kvm/stats.rst lists, and has to
 * find what KVM_GET_STATS_FD says of the same VM or vCPU.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kvm_stats.h"
#include "stats_test.h"

/* The posted layout */
struct posted_header {
	char id[64];
	__u32 name_size;
	__u32 count;
	__u32 desc_offset;
	__u32 data_offset;
};

struct posted_desc {
	__u32 flags;
	__s16 exponent;
	__u16 size;
	__u32 unused1;
	__u32 unused2;
	__u8 name[0];
};

/* The structures with the names that the table gives them here */
_Static_assert(offsetof(struct posted_header, id) ==
		offsetof(struct kvm_stats_getfd_header, id) &&
	       offsetof(struct posted_header, name_size) ==
		offsetof(struct kvm_stats_getfd_header, name_size) &&
	       offsetof(struct posted_header, count) ==
		offsetof(struct kvm_stats_getfd_header, count) &&
	       offsetof(struct posted_header, desc_offset) ==
		offsetof(struct kvm_stats_getfd_header, desc_offset) &&
	       offsetof(struct posted_header, data_offset) ==
		offsetof(struct kvm_stats_getfd_header, data_offset) &&
	       sizeof(struct posted_header) == sizeof(struct kvm_stats_getfd_header),
	       "headers differ");
_Static_assert(offsetof(struct posted_desc, flags) ==
		offsetof(struct kvm_stats_desc, flags) &&
	       offsetof(struct posted_desc, exponent) ==
		offsetof(struct kvm_stats_desc, exponent) &&
	       offsetof(struct posted_desc, size) ==
		offsetof(struct kvm_stats_desc, size) &&
	       offsetof(struct posted_desc, unused1) ==
		offsetof(struct kvm_stats_desc, offset) &&
	       offsetof(struct posted_desc, unused2) ==
		offsetof(struct kvm_stats_desc, bucket_size) &&
	       offsetof(struct posted_desc, name) ==
		offsetof(struct kvm_stats_desc, name) &&
	       sizeof(struct posted_desc) == sizeof(struct kvm_stats_desc),
	       "descriptors differ");

/* The posted bits with their names here */
_Static_assert(KVM_STATS_TYPE_MASK == 0xf && KVM_STATS_TYPE_CUMULATIVE == 0x0 &&
	       KVM_STATS_TYPE_INSTANT == 0x1, "types differ");
_Static_assert(KVM_STATS_UNIT_MASK == 0xf0 && KVM_STATS_UNIT_NONE == 0x00 &&
	       KVM_STATS_UNIT_BYTES == 0x10 && KVM_STATS_UNIT_SECONDS == 0x20 &&
	       KVM_STATS_UNIT_CYCLES == 0x30, "units differ");
_Static_assert(KVM_STATS_BASE_MASK == 0xf00 && KVM_STATS_BASE_POW10 == 0x000 &&
	       KVM_STATS_BASE_POW2 == 0x100, "scales differ");

/* Whether a statistic of the posted file is the same one in the file of KVM_GET_STATS_FD */
static bool is_same(const struct kvm_stats *stats, const struct posted_desc *desc,
		    const __u64 *value)
{
	const struct kvm_stats_desc *known = kvm_stats_find(stats, (const char *)desc->name);
	__u64 expected;
	int i;

	if (!known || known->flags != desc->flags || known->exponent != desc->exponent ||
	    known->size != desc->size)
		return false;
	for (i = 0; i < desc->size; i++) {
		kvm_stats_pread(stats->fd, &expected, sizeof(expected),
				stats->data_offset + known->offset + i * sizeof(expected));
		if (value[i] != expected)
			return false;
	}
	return true;
}

/* The reader of 2021: the header, then each descriptor and its values, in one order */
static void test_reader(int fd, const char *of)
{
	const int posted_fd = must_succeed(ioctl(fd, KVM_STATS_GETFD, 0));
	struct posted_header header;
	struct kvm_stats stats;
	__u32 i, same = 0, nr_values = 0;
	size_t desc_size;
	char *descs;
	__u64 *values;
	char extra;

	kvm_stats_open_stats_fd(&stats, fd);
	ok(read(posted_fd, &header, sizeof(header)) == sizeof(header) &&
	   !strcmp(header.id, stats.id), "%s: the posted header has the id %.64s", of, header.id);
	ok(header.count == stats.count, "%s: the posted header has a count of %u of %u statistics",
	   of, header.count, stats.count);

	desc_size = sizeof(struct posted_desc) + header.name_size;
	descs = malloc(header.count * desc_size);
	kvm_stats_pread(posted_fd, descs, header.count * desc_size, header.desc_offset);
	for (i = 0; i < header.count; i++)
		nr_values += ((struct posted_desc *)(descs + i * desc_size))->size;
	values = malloc(nr_values * sizeof(*values));
	kvm_stats_pread(posted_fd, values, nr_values * sizeof(*values), header.data_offset);
	ok(!pread(posted_fd, &extra, 1,
		  header.data_offset + nr_values * sizeof(*values)),
	   "%s: the file ends after the %u values that are described", of, nr_values);

	nr_values = 0;
	for (i = 0; i < header.count; i++) {
		const struct posted_desc *desc = (void *)(descs + i * desc_size);

		if (is_same(&stats, desc, values + nr_values))
			same++;
		else
			ksft_print_msg("%s differs\n", desc->name);
		nr_values += desc->size;
	}
	ok(same == header.count, "%s: %u of %u statistics are those of KVM_GET_STATS_FD", of, same,
	   header.count);
	free(values);
	free(descs);
	kvm_stats_close(&stats);
	close(posted_fd);
}

int main(void)
{
	int vm_fd, vcpu_fd;

	setbuf(stdout, NULL);
	ksft_print_header();
	vm_fd = create_bare_vm();
	vcpu_fd = create_bare_vcpu(vm_fd, 0);
	test_reader(vm_fd, "VM");
	test_reader(vcpu_fd, "vCPU");
	close(vcpu_fd);
	close(vm_fd);
	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
