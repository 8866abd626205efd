// SPDX-License-Identifier: GPL-2.0-only
/*
 * Create a VM with one vCPU and run a program with this process' PID as an additional last
 * argument: with-one-vm PROGRAM ARG...
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must-succeed.h"

int main(int argc, char **argv)
{
	char pid[16], *args[argc + 1];
	int i, kvm, vm, status;

	if (argc < 2) {
		fprintf(stderr, "usage: with-one-vm PROGRAM ARG...\n");
		return 2;
	}
	kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vm = must_succeed(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	must_succeed(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");

	snprintf(pid, sizeof(pid), "%d", getpid());
	for (i = 1; i < argc; i++)
		args[i - 1] = argv[i];
	args[argc - 1] = pid;
	args[argc] = NULL;
	if (!must_succeed(fork(), "fork")) {
		execvp(args[0], args);
		perror(args[0]);
		_exit(127);
	}
	must_succeed(wait(&status), "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
