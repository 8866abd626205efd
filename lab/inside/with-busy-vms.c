// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run a program while another process has two permanent VMs and creates and destroys a
 * third one repeatedly, as on a busy host: with-busy-vms PROGRAM ARG...
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must-succeed.h"

static int create_vm(int kvm)
{
	int vm = must_succeed(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");

	close(must_succeed(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU"));
	return vm;
}

static void cycle_vms(void)
{
	int kvm = must_succeed(open("/dev/kvm", O_RDWR), "/dev/kvm");
	int event = -1, vm = -1, others = 0;

	must_succeed(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
	for (; others < 2; others++)
		create_vm(kvm);
	for (;;) {
		close(vm);
		close(event);
		vm = create_vm(kvm);
		event = must_succeed(eventfd(0, 0), "eventfd");
		/* Leave the CPU to the program. */
		usleep(5000);
	}
}

int main(int argc, char **argv)
{
	pid_t maker, program;
	int status, made;

	if (argc < 2) {
		fprintf(stderr, "usage: with-busy-vms PROGRAM ARG...\n");
		return 2;
	}
	maker = must_succeed(fork(), "fork");
	if (!maker)
		cycle_vms();
	program = must_succeed(fork(), "fork");
	if (!program) {
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	must_succeed(waitpid(program, &status, 0), "waitpid");
	/* If the maker has exited, the program ran without other VMs: nothing was tested. */
	if (waitpid(maker, &made, WNOHANG)) {
		fprintf(stderr, "with-busy-vms: the process with the VMs has exited\n");
		return 1;
	}
	kill(maker, SIGKILL);
	must_succeed(waitpid(maker, &made, 0), "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
