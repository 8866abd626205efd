// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run a program while another process has VMs, as on a host in use: some that are
 * there all the time, others that come and go: beside-vms PROGRAM ARG...
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
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

static int create_vm(int kvm)
{
	int vm = no_less(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");

	close(no_less(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU"));
	return vm;
}

static void have_vms(void)
{
	int kvm = no_less(open("/dev/kvm", O_RDWR), "/dev/kvm");
	int event = -1, vm = -1, others = 0;

	no_less(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
	for (; others < 2; others++)
		create_vm(kvm);
	for (;;) {
		close(vm);
		close(event);
		vm = create_vm(kvm);
		event = no_less(eventfd(0, 0), "eventfd");
		/* What is measured beside it is not the load. */
		usleep(5000);
	}
}

int main(int argc, char **argv)
{
	pid_t maker, program;
	int status, made;

	if (argc < 2) {
		fprintf(stderr, "usage: beside-vms PROGRAM ARG...\n");
		return 2;
	}
	maker = no_less(fork(), "fork");
	if (!maker)
		have_vms();
	program = no_less(fork(), "fork");
	if (!program) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	no_less(waitpid(program, &status, 0), "waitpid");
	/* Without it nothing was beside the program. */
	if (waitpid(maker, &made, WNOHANG)) {
		fprintf(stderr, "beside-vms: the other process has ended\n");
		return 1;
	}
	kill(maker, SIGKILL);
	no_less(waitpid(maker, &made, 0), "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
