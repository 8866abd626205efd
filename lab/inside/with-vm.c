// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hold a VM with one vCPU while a program runs, which gets the holder's pid as
 * its last argument: with-vm PROGRAM ARG...
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int no_less(int value, const char *what)
{
	if (value < 0) {
		perror(what);
		exit(1);
	}
	return value;
}

int main(int argc, char **argv)
{
	char pid[16], *args[argc + 1];
	int i, kvm, vm, status;

	kvm = no_less(open("/dev/kvm", O_RDWR), "/dev/kvm");
	vm = no_less(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	no_less(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");

	snprintf(pid, sizeof(pid), "%d", getpid());
	for (i = 1; i < argc; i++)
		args[i - 1] = argv[i];
	args[argc - 1] = pid;
	args[argc] = NULL;
	if (!no_less(fork(), "fork")) {
		execvp(args[0], args);
		perror(args[0]);
		_exit(127);
	}
	no_less(wait(&status), "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
