// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unload the module that implements KVM for this CPU while one file is the only
 * user of a VM:
 *
 *	vendor-module MODULE KIND [close]
 *
 * KIND is vm or vcpu for a stats fd, the name of a file in the debugfs directory of
 * the VM, or vfio for a device of the sample driver mtty that was opened with the VM.
 *
 * The file refers to the VM or its memory, so unloading must fail with EAGAIN. If it
 * succeeds, the kernel warns, and closing the file jumps to the address where the
 * module was: the host panics. The lab's machines panic at the warning and reboot.
 * With close they continue until the jump, and don't reboot after it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/vfio.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../must-succeed.h"

#define MTTY_CREATE	"/sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
#define MTTY_GROUP	"/sys/bus/mdev/devices/%s/iommu_group"
#define UUID		"83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"

static void write_text(const char *path, const char *text)
{
	int fd = must_succeed(open(path, O_WRONLY), path);

	must_succeed(write(fd, text, strlen(text)), path);
	close(fd);
}

static int open_vfio(int vm)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_VFIO };
	struct kvm_device_attr attr = { 0 };
	char path[128], target[128] = "";
	int container, group, file;
	int32_t group_fd;

	write_text(MTTY_CREATE, UUID);
	snprintf(path, sizeof(path), MTTY_GROUP, UUID);
	must_succeed(readlink(path, target, sizeof(target) - 1), path);
	snprintf(path, sizeof(path), "/dev/vfio/%s", strrchr(target, '/') + 1);
	container = must_succeed(open("/dev/vfio/vfio", O_RDWR), "/dev/vfio/vfio");
	group = must_succeed(open(path, O_RDWR), path);
	must_succeed(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container),
		     "VFIO_GROUP_SET_CONTAINER");
	must_succeed(ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU), "VFIO_SET_IOMMU");

	must_succeed(ioctl(vm, KVM_CREATE_DEVICE, &device), "KVM_CREATE_DEVICE");
	group_fd = group;
	attr.group = KVM_DEV_VFIO_GROUP;
	attr.attr = KVM_DEV_VFIO_GROUP_ADD;
	attr.addr = (uintptr_t)&group_fd;
	must_succeed(ioctl(device.fd, KVM_SET_DEVICE_ATTR, &attr), "KVM_DEV_VFIO_GROUP_ADD");
	file = must_succeed(ioctl(group, VFIO_GROUP_GET_DEVICE_FD, UUID),
			    "VFIO_GROUP_GET_DEVICE_FD");
	/* Also a user of the VM, with the right owner. */
	close(device.fd);
	return file;
}

int main(int argc, char **argv)
{
	int kvm, vm, vcpu, file, unloaded;
	char path[128], byte;

	if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "close"))) {
		fprintf(stderr, "usage: vendor-module MODULE vm|vcpu|vfio|DEBUGFS-FILE [close]\n");
		return 2;
	}
	if (argc == 4) {
		write_text("/proc/sys/kernel/panic_on_warn", "0");
		write_text("/proc/sys/kernel/panic", "0");
	}
	kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vm = must_succeed(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	vcpu = must_succeed(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	if (!strcmp(argv[2], "vfio")) {
		file = open_vfio(vm);
	} else if (!strcmp(argv[2], "vm") || !strcmp(argv[2], "vcpu")) {
		file = must_succeed(ioctl(strcmp(argv[2], "vm") ? vcpu : vm,
					  KVM_GET_STATS_FD, 0), "KVM_GET_STATS_FD");
	} else {
		snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%d-%d/%s",
			 getpid(), vm, argv[2]);
		file = must_succeed(open(path, O_RDONLY), path);
	}
	close(vcpu);
	close(vm);
	close(kvm);

	unloaded = !syscall(SYS_delete_module, argv[1], O_NONBLOCK);
	printf("TAP version 13\n1..1\n");
	printf("%sok 1 unloading %s fails while only %s refers to a VM: %s\n",
	       unloaded ? "not " : "", argv[1], argv[2],
	       unloaded ? "unloaded" : strerror(errno));
	fflush(stdout);
	/* Give the console time for the lines above: the host may panic next. */
	sleep(1);
	if (pread(file, &byte, 1, 0) < 0)
		perror("read");
	close(file);
	return unloaded;
}
