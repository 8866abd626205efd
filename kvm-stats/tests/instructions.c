// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many instructions it takes, the kernel's and ours, to sample 1,000 vCPUs of 100
 * processes that sleep: instructions SOURCE... It wants QEMU's -icount, where the time
 * stamp counter counts them. Prints for each source the least and the mean, as the lab's
 * bench does: "sample_SOURCE NUMBER", "sample_SOURCE_mean NUMBER".
 */
#include <linux/kvm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include "vm.h"

#define VMMS	100
#define VCPUS	10	/* vCPUs of each VM */
#define SAMPLES	4
#define ROUNDS	5

static int run_size;

struct vcpu {
	int fd, done;
};

/* Enter the guest and return at once, so that KVM knows the thread. */
static void *run(void *arg)
{
	const struct vcpu *vcpu = arg;
	struct kvm_run *state = mmap(NULL, run_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				     vcpu->fd, 0);

	if (state == MAP_FAILED)
		err(1, "mmap");
	state->immediate_exit = 1;
	ioctl(vcpu->fd, ABI_RUN, 0);
	need(write(vcpu->done, "", 1), "write");
	for (;;)
		pause();
}

static void be_vmm(int kvm, int done)
{
	static struct vcpu vcpus[VCPUS];
	int vm = need(ioctl(kvm, ABI_CREATE_VM, 0), "KVM_CREATE_VM");
	pthread_t thread;
	int i;

	for (i = 0; i < VCPUS; i++) {
		vcpus[i].fd = need(ioctl(vm, ABI_CREATE_VCPU, i), "KVM_CREATE_VCPU");
		vcpus[i].done = done;
		if (pthread_create(&thread, NULL, run, &vcpus[i]))
			errx(1, "pthread_create");
	}
	for (;;)
		pause();
}

static unsigned int count_vcpus(const struct kvmstats *k)
{
	const struct kvmstats_vm *vm;
	unsigned int count = 0;

	for (vm = kvmstats_first(k); vm; vm = vm->next)
		count += vm->vcpus;
	return count;
}

/* In one of four samples each idle vCPU is read. */
static void measure(const char *source)
{
	unsigned long long start, spent, least = -1ULL, sum = 0;
	struct kvmstats *k;
	int i, j;

	if (kvmstats_open(&k, source, NULL, 0))
		errx(1, "the source %s does not work here", source);
	for (i = -1; i < ROUNDS; i++) {
		start = __rdtsc();
		for (j = 0; j < SAMPLES; j++) {
			if (kvmstats_sample(k))
				errx(1, "%s: %s", source, kvmstats_problem(k));
		}
		spent = (__rdtsc() - start) / SAMPLES;
		/* the first ones find VMs and threads */
		if (i < 0)
			continue;
		sum += spent;
		if (least > spent)
			least = spent;
	}
	if (count_vcpus(k) != VMMS * VCPUS)
		errx(1, "%s: sees %u vCPUs", source, count_vcpus(k));
	printf("sample_%s %llu\nsample_%s_mean %llu\n", source, least, source, sum / ROUNDS);
	kvmstats_close(k);
}

int main(int argc, char **argv)
{
	int kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm"), done[2], i;
	char c;

	run_size = need(ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");
	need(pipe(done), "pipe");
	for (i = 0; i < VMMS; i++) {
		if (!fork_child())
			be_vmm(kvm, done[1]);
	}
	for (i = 0; i < VMMS * VCPUS; i++) {
		if (read(done[0], &c, 1) != 1)
			err(1, "vCPUs do not start");
	}
	for (i = 1; i < argc; i++)
		measure(argv[i]);
	return 0;
}
