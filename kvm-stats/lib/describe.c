// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "file.h"

static int open_stats(int fd)
{
	int stats = ioctl(fd, ABI_STATS_GETFD, ABI_SCOPE_OWN);

	if (stats < 0)
		stats = ioctl(fd, ABI_GET_STATS_FD, 0);
	if (stats >= 0)
		return stats;
	return errno == ENOTTY || errno == EINVAL ? -ENOSYS : -errno;
}

static int read_table(int fd, struct kvmstats_table **table, char *why, size_t size)
{
	int stats = open_stats(fd);
	struct file_layout layout;
	const char *wrong;

	if (stats < 0) {
		snprintf(why, size, "%s", stats == -ENOSYS ?
			 "this kernel has no statistics files" : strerror(-stats));
		return stats;
	}
	wrong = file_read_layout(stats, &layout);
	if (!wrong)
		wrong = file_read_table(stats, &layout, table);
	close(stats);
	if (!wrong)
		return 0;
	snprintf(why, size, "%s", wrong);
	return -EIO;
}

/* A descriptor, or a negative errno and the words for it */
static int said(int fd, const char *what, char *why, size_t size)
{
	if (fd >= 0)
		return fd;
	fd = -errno;
	snprintf(why, size, "%s: %s", what, strerror(-fd));
	return fd;
}

int kvmstats_describe(struct kvmstats_table **vm_table,
		      struct kvmstats_table **vcpu_table, char *why, size_t size)
{
	int kvm, vm = -1, vcpu = -1, ret;

	*vm_table = NULL;
	*vcpu_table = NULL;
	ret = kvm = said(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm", why, size);
	if (ret >= 0)
		ret = vm = said(ioctl(kvm, ABI_CREATE_VM, 0), "KVM_CREATE_VM", why, size);
	if (ret >= 0)
		ret = vcpu = said(ioctl(vm, ABI_CREATE_VCPU, 0), "KVM_CREATE_VCPU", why,
				  size);
	if (ret >= 0)
		ret = read_table(vm, vm_table, why, size);
	if (ret >= 0)
		ret = read_table(vcpu, vcpu_table, why, size);
	if (vcpu >= 0)
		close(vcpu);
	if (vm >= 0)
		close(vm);
	if (kvm >= 0)
		close(kvm);
	if (ret < 0) {
		kvmstats_free_table(*vm_table);
		kvmstats_free_table(*vcpu_table);
		*vm_table = NULL;
		*vcpu_table = NULL;
	}
	return ret;
}
