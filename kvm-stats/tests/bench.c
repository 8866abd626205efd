// SPDX-License-Identifier: GPL-2.0-only
/*
 * What does it cost to watch 1,000 vCPUs once a second? bench SOURCE makes four
 * VMs of 250 vCPUs each in another process, which keeps their statistics files
 * open, and has kvmstats_sample() read and sum them. What was promised:
 *
 *	0.5 % of a core by files, 1.5 % by the iterator; 20 MiB; no allocation
 *
 * The vCPUs do not run, so there is nothing of schedstat. Needs /dev/kvm, and a
 * machine that has little else to do; prints TAP.
 */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "kvmstats.h"
#include "tap.h"

#define VMS		4
#define VCPUS		250
#define SAMPLES		20	/* a second apart, as in life: /proc is looked at by time */
#define MEMORY_KIB	(20 * 1024)

static unsigned long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);

/* The linker leads all calls of the program here (--wrap). */
void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	allocations++;
	return __real_realloc(old, size);
}

static int check(int ret, const char *what)
{
	if (ret < 0)
		err(1, "%s", what);
	return ret;
}

static void make_vms(int ready)
{
	int kvm = check(open("/dev/kvm", O_RDWR), "/dev/kvm"), i, j;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < VMS; i++) {
		int vm = check(ioctl(kvm, ABI_CREATE_VM, 0), "KVM_CREATE_VM");

		check(ioctl(vm, ABI_GET_STATS_FD, 0), "KVM_GET_STATS_FD");
		for (j = 0; j < VCPUS; j++) {
			int vcpu = check(ioctl(vm, ABI_CREATE_VCPU, j), "KVM_CREATE_VCPU");

			check(ioctl(vcpu, ABI_GET_STATS_FD, 0), "KVM_GET_STATS_FD");
		}
	}
	check(write(ready, "", 1), "write");
	pause();
}

/* User and system time of this process, nanoseconds */
static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static long memory(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "VmHWM: %ld", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

static unsigned int count_vcpus(const struct kvmstats *k)
{
	const struct kvmstats_vm *vm;
	unsigned int n = 0;

	for (vm = kvmstats_first(k); vm; vm = vm->next)
		n += vm->vcpus;
	return n;
}

int main(int argc, char **argv)
{
	struct kvmstats_options options = { 0 };
	uint64_t start, spent, limit;
	struct rlimit files;
	struct kvmstats *k;
	int ready[2], i;
	unsigned int vcpus;
	pid_t child;
	char byte;

	if (argc != 2)
		errx(2, "usage: bench SOURCE");
	options.source = argv[1];
	/* nanoseconds per second of a core */
	limit = strcmp(argv[1], "bpf") ? 5000000 : 15000000;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	check(pipe(ready), "pipe");
	child = check(fork(), "fork");
	if (!child) {
		close(ready[0]);
		make_vms(ready[1]);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		errx(1, "the VMs could not be made");
	if (kvmstats_open(&k, &options))
		errx(1, "the source %s does not work here", argv[1]);
	/* find them, allocate, give up on threads that never show themselves */
	for (i = 0; i < 12; i++)
		check(kvmstats_sample(k), kvmstats_problem(k));
	vcpus = count_vcpus(k);

	allocations = 0;
	start = cpu_time();
	for (i = 0; i < SAMPLES; i++) {
		sleep(1);
		check(kvmstats_sample(k), kvmstats_problem(k));
	}
	spent = (cpu_time() - start) / SAMPLES;

	tap_result(vcpus >= VMS * VCPUS, "%s: %u vCPUs are sampled", argv[1], vcpus);
	tap_result(spent <= limit, "%s: %llu us a sample, %llu.%02llu %% of a core at one a second, promised %llu.%llu %%",
		   argv[1], (unsigned long long)spent / 1000,
		   (unsigned long long)spent / 10000000,
		   (unsigned long long)spent / 100000 % 100,
		   (unsigned long long)limit / 10000000,
		   (unsigned long long)limit / 1000000 % 10);
	tap_result(!allocations, "%s: %lu allocations in %d samples", argv[1], allocations,
		   SAMPLES);
	tap_result(memory() <= MEMORY_KIB, "%s: %ld KiB of memory at most, promised %d", argv[1],
		   memory(), MEMORY_KIB);
	kvmstats_close(k);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return tap_end();
}
