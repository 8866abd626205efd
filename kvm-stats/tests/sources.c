// SPDX-License-Identifier: GPL-2.0-only
/*
 * Another process creates and destroys VMs and vCPUs. Each source named reports this at the
 * next sample, distinguishes them, reports the last values once, and keeps no file of a
 * destroyed VM: sources SOURCE... Needs /dev/kvm, runs no guest; prints TAP.
 */
#include <dirent.h>
#include <time.h>

#include "tap.h"
#include "vm.h"

#define MAX_FDS		16

static const char *source;
static struct kvmstats *k;
static struct peer vmm;

#define result(ok, text)	tap_result(ok, "%s: %s", source, text)

/* The VMM: 'V' creates a VM with two vCPUs, 'C' adds one, 'X' closes the VM. */
static void be_vmm(int in, int out)
{
	int kvm = need(open("/dev/kvm", O_RDWR), "/dev/kvm");
	int fds[2][MAX_FDS], count[2] = { 0 }, vms = 0, i;
	char command;

	prctl(PR_SET_NAME, "test-vmm");
	while (read(in, &command, 1) == 1) {
		if (command == 'V') {
			fds[vms][0] = need(ioctl(kvm, ABI_CREATE_VM, 0), "KVM_CREATE_VM");
			count[vms++] = 1;
		}
		for (i = 0; command != 'X' && i < (command == 'V' ? 2 : 1); i++) {
			int *fd = &fds[vms - 1][count[vms - 1]];

			/* the VM's fd is the first, so the next id is one less */
			*fd = need(ioctl(fds[vms - 1][0], ABI_CREATE_VCPU,
					 count[vms - 1] - 1), "KVM_CREATE_VCPU");
			count[vms - 1]++;
		}
		if (command == 'X') {
			for (vms--; count[vms]; )
				close(fds[vms][--count[vms]]);
		}
		need(write(out, ".", 1), "write");
	}
}

static void tell(char command)
{
	if (!ask_peer(&vmm, command))
		errx(1, "the VMM has ended");
}

/* Without files, the values of a destroyed VM cannot be read. */
static bool keeps_files(void)
{
	return strcmp(source, "bpf");
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Some machines' clocks have no more than the resolution of the timer. */
static void let_time_pass(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_MONOTONIC, &before);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

static void sample(void)
{
	let_time_pass();
	if (kvmstats_sample(k))
		errx(1, "%s: %s", source, kvmstats_problem(k));
}

/* Return VM number nth of the VMM at the last sample, NULL if there is none. */
static struct kvmstats_vm *find(unsigned int nth)
{
	struct kvmstats_vm *vm;

	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (vm->identity.pid == vmm.pid && !--nth)
			return vm;
	}
	return NULL;
}

static bool has_vcpus(const struct kvmstats_vm *vm, unsigned int n)
{
	unsigned int i;

	for (i = 0; vm && i < vm->vcpus; i++) {
		if (vm->vcpu[i]->id != i || !vm->vcpu[i]->values)
			return false;
	}
	return vm && vm->vcpus == n;
}

/*
 * All of its time is OTHER; or UNKNOWN, where the kernel does not count halt times, or, with
 * the source files, the thread was not found.
 */
static bool never_ran(const struct kvmstats_vcpu *vcpu)
{
	const struct kvmstats_times *times = &vcpu->last.times;
	bool known = times->known & 1 << KVMSTATS_OTHER;
	bool halts = kvmstats_find(kvmstats_table(k, KVMSTATS_VCPU), "halt_wait_ns");

	return times->elapsed && (known || !halts || !strcmp(source, "files")) &&
	       times->elapsed == times->mode[known ? KVMSTATS_OTHER : KVMSTATS_UNKNOWN];
}

static void come(void)
{
	const struct kvmstats_vm *vm;

	sample();
	result(!find(1), "a process without VMs has none");
	tell('V');
	sample();
	vm = find(1);
	result(vm && !find(2) && vm->first_sample && !vm->elapsed && vm->values,
	       "a VM is reported at the next sample");
	result(has_vcpus(vm, 2), "and its two vCPUs");
	result(vm && !strcmp(vm->identity.name, "test-vmm") && !vm->nth,
	       "its name is the name of the process");
	sample();
	vm = find(1);
	result(has_vcpus(vm, 2) && !vm->first_sample && vm->elapsed && !vm->ended &&
	       !vm->vcpu[0]->first_sample,
	       "then it has time that passed");
	result(has_vcpus(vm, 2) && never_ran(vm->vcpu[0]) && never_ran(vm->vcpu[1]),
	       "its vCPUs, which have never run, were in the VMM, as far as it is known");
	tell('C');
	sample();
	vm = find(1);
	result(has_vcpus(vm, 3) && vm->vcpu[2]->first_sample && !vm->vcpu[1]->first_sample,
	       "a vCPU that was added is reported");
	tell('V');
	sample();
	/* BPF sees no number of the kernel's */
	result(find(2) && !find(3) && find(1)->nth == 1 && find(2)->nth == 2 &&
	       !find(1)->identity.vm_id == !keeps_files() &&
	       !find(2)->identity.vm_id == !keeps_files() && find(1)->identity.vm_id <= find(2)->identity.vm_id,
	       "a second VM of the process has another number");
	result(has_vcpus(find(1), 3) && has_vcpus(find(2), 2),
	       "and each has its own vCPUs");
}

static void go(int fds)
{
	tell('X');
	sample();
	result(find(2) && find(2)->ended && find(2)->values && has_vcpus(find(2), 2) &&
	       !find(2)->elapsed == !keeps_files() && !find(1)->ended,
	       "the VM that was closed has its last values");
	sample();
	result(find(1) && !find(2) && !find(1)->nth && !find(1)->ended,
	       "once; the other one is the only one");
	end_process(vmm.pid);
	sample();
	result(find(1) && find(1)->ended && has_vcpus(find(1), 3),
	       "the VM of a process that was killed has its last values");
	sample();
	result(!find(1), "once");
	result(count_fds() == fds, "no file of a destroyed VM is kept");
}

int main(int argc, char **argv)
{
	int i, before, fds, ret;

	if (argc < 2)
		errx(2, "usage: sources SOURCE...");
	for (i = 1; i < argc; i++) {
		source = argv[i];
		vmm = start_peer(be_vmm);
		before = count_fds();
		ret = kvmstats_open(&k, source, NULL, 0);
		result(!ret, "works here");
		if (!ret) {
			sample();
			fds = count_fds();
			come();
			go(fds);
			kvmstats_close(k);
			result(count_fds() == before, "nothing is left open at the end");
		} else {
			end_process(vmm.pid);
		}
		close_peer(&vmm);
	}
	return tap_end();
}
