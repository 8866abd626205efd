// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unload the module that implements KVM for this CPU while nothing of a VM is open
 * but a statistics file: vendor-module MODULE KIND [close], which is vm, vcpu, or
 * debugfs for a file of the VM there.
 *
 * The file holds the VM or its memory, so the module has to stay: EAGAIN. If it
 * goes, the kernel warns, and closing the file jumps to where the module was: the
 * host panics. The lab's machines panic at the warning and reboot; with close they
 * get as far as the jump, and do not reboot after it, as that would jump there again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../must-succeed.h"

static void set_sysctl(const char *path, const char *value)
{
	int fd = must_succeed(open(path, O_WRONLY), path);

	must_succeed(write(fd, value, strlen(value)), path);
	close(fd);
}

int main(int argc, char **argv)
{
	int kvm, vm, vcpu, stats, unloaded;
	char path[64], byte;

	if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "close"))) {
		fprintf(stderr, "usage: vendor-module MODULE vm|vcpu|debugfs [close]\n");
		return 2;
	}
	if (argc == 4) {
		set_sysctl("/proc/sys/kernel/panic_on_warn", "0");
		set_sysctl("/proc/sys/kernel/panic", "0");
	}
	kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vm = must_succeed(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	vcpu = must_succeed(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	if (!strcmp(argv[2], "debugfs")) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%d-%d/remote_tlb_flush",
			 getpid(), vm);
		stats = must_succeed(open(path, O_RDONLY), path);
	} else {
		stats = must_succeed(ioctl(strcmp(argv[2], "vm") ? vcpu : vm, KVM_GET_STATS_FD,
				      0), "KVM_GET_STATS_FD");
	}
	close(vcpu);
	close(vm);
	close(kvm);

	unloaded = !syscall(SYS_delete_module, argv[1], O_NONBLOCK);
	printf("TAP version 13\n1..1\n");
	printf("%sok 1 %s with a file of %s open: %s\n", unloaded ? "not " : "", argv[1],
	       argv[2], unloaded ? "unloaded" : strerror(errno));
	fflush(stdout);
	/* Give the console time for the lines above: the host may panic next. */
	sleep(1);
	must_succeed(read(stats, &byte, 1), "read");
	close(stats);
	return unloaded;
}
