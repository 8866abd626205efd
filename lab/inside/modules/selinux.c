// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the stats fds of KVM_STATS_NEXT under SELinux, with the policy selinux.conf: each has its
 * own inode, to which the policy gives a type. The kernel must be booted with security=selinux.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../must-succeed.h"

#define SELINUX "/sys/fs/selinux"

/* POLICY is the path of the compiled policy. */
asm(".section .rodata\npolicy:\n.incbin \"" POLICY "\"\npolicy_end:\n.previous");
extern const char policy[], policy_end[];

static int results;
static int failed;

static void report(int passed, const char *name)
{
	printf("%sok %d %s\n", passed ? "" : "not ", ++results, name);
	failed |= !passed;
}

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = must_succeed(open(path, O_WRONLY), path);

	must_succeed(write(fd, data, size), path);
	close(fd);
}

/* Return a stats fd of the first VM, or -1. */
static int open_next(int kvm, __u32 scope)
{
	struct kvm_stats_next next = { .scope = scope };

	return ioctl(kvm, KVM_STATS_NEXT, &next);
}

static int has_type(int fd, const char *type)
{
	char label[64] = "";

	return fgetxattr(fd, "security.selinux", label, sizeof(label) - 1) > 0 &&
	       strstr(label, type);
}

/* Return whether a process of the type stranger_t fails with EACCES to open a stats fd. */
static int stranger_is_refused(int kvm)
{
	static const char label[] = "system_u:system_r:stranger_t";
	int status;
	pid_t pid = must_succeed(fork(), "fork");

	if (!pid) {
		write_file("/proc/self/attr/current", label, sizeof(label));
		_exit(open_next(kvm, 0) == -1 && errno == EACCES);
	}
	must_succeed(waitpid(pid, &status, 0), "waitpid");
	return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int main(void)
{
	int kvm, vm, next_vm, next_vcpus, own;
	char byte;

	must_succeed(mount("selinuxfs", SELINUX, "selinuxfs", 0, NULL), SELINUX);
	write_file(SELINUX "/load", policy, policy_end - policy);
	write_file(SELINUX "/enforce", "1", 1);
	kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vm = must_succeed(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	own = must_succeed(ioctl(vm, KVM_GET_STATS_FD, 0), "KVM_GET_STATS_FD");
	next_vm = must_succeed(open_next(kvm, 0), "KVM_STATS_NEXT");
	next_vcpus = must_succeed(open_next(kvm, KVM_STATS_SCOPE_VCPUS), "KVM_STATS_NEXT");

	printf("TAP version 13\n1..6\n");
	report(has_type(next_vm, ":vm_stats_t"), "a VM's fd of KVM_STATS_NEXT has the policy's type");
	report(has_type(next_vcpus, ":vcpus_stats_t"),
	       "an all-vCPUs fd of KVM_STATS_NEXT has the policy's type");
	report(pread(next_vm, &byte, 1, 0) == 1, "a read that the policy allows succeeds");
	report(pread(next_vcpus, &byte, 1, 0) == -1 && errno == EACCES,
	       "a read that the policy does not allow fails with EACCES");
	report(stranger_is_refused(kvm),
	       "KVM_STATS_NEXT fails with EACCES if the policy does not allow its inode");
	report(pread(own, &byte, 1, 0) == 1, "the policy does not apply to KVM_GET_STATS_FD");
	write_file(SELINUX "/enforce", "0", 1);
	return failed;
}
