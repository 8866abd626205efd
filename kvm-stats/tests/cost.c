// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it costs to sample 1,000 vCPUs of 100 VMs each second, on a host with as many
 * other processes, one of which ends and another comes each time: cost VMM, where VMM
 * is the program of vmm.c. For each source that works: CPU time, memory, and
 * allocations in the steady state. The VMs stand still meanwhile, so that the time is
 * ours, and so do the others; it runs in a PID namespace with a procfs of its own, so
 * that other processes of the machine are not looked at.
 *
 * They take caches and halves of cores away, though: a sample costs twice as much on a
 * busy machine. Of many samples the one that was disturbed least counts; what is done
 * in one of ten or sixty samples alone (files are compared, processes looked at) is
 * some per cent of it. Needs root and /dev/kvm; prints TAP.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kvmstats.h"
#include "tap.h"

/* 100 VMMs of a VM each of 10 vCPUs */
#define VMMS	100
#define VMS	"1"
#define VCPUS	"10"
#define VCPUS_ALL	1000

#define OTHERS	100

#define SAMPLES	20
#define MEMORY_MAX	(20 * 1024)	/* KiB */

/*
 * Per source, in tenths of a per cent of a core; and the samples before that is
 * so: borrowing files looks at a new process each time for a minute.
 */
static const struct {
	const char *name;
	unsigned int permille, warm_up;
} limits[] = {
	{ "next", 5, 3 },
	{ "bpf", 15, 3 },
	{ "files", 5, 65 },
};

static unsigned long allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	allocations++;
	return __libc_realloc(memory, size);
}

/* A VMM that has started, and stands still */
static pid_t start_vmm(char *program)
{
	char *arguments[] = { program, "-k", VMS, VCPUS, NULL };
	int in[2], out[2];
	char ready;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execv(program, arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	if (read(out[0], &ready, 1) != 1)
		return -1;
	kill(pid, SIGSTOP);
	return pid;
}

/* One that stands still; or one that has a child, and another each second */
static void start_other(bool children)
{
	pid_t pid = fork();

	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	while (children && (pid = fork()) > 0) {
		sleep(1);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	for (;;)
		pause();
}

static long memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Nanoseconds */
static unsigned long long cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void measure(const char *name, unsigned int permille, int warm_up)
{
	const struct kvmstats_options options = { .source = name };
	unsigned long long start, used, sum = 0, fewest = -1ULL;
	const struct kvmstats_vm *vm;
	unsigned int vcpus = 0;
	struct kvmstats *k;
	unsigned long before, most = 0;
	int i, error;

	error = kvmstats_open(&k, &options);
	if (error) {
		printf("# %s: does not work here\n", name);
		return;
	}
	for (i = 0; !error && i < warm_up + SAMPLES; i++) {
		start = cpu_time();
		before = allocations;
		error = kvmstats_sample(k);
		if (i >= warm_up) {
			used = cpu_time() - start;
			sum += used;
			if (fewest > used)
				fewest = used;
			if (most < allocations - before)
				most = allocations - before;
		}
		sleep(1);
	}
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		vcpus += vm->vcpus;
	kvmstats_close(k);
	tap_result(!error && vcpus >= VCPUS_ALL, "%s: sees %u vCPUs", name, vcpus);
	tap_result(fewest < permille * 1000000ULL,
		   "%s: %.2f ms for a sample, less than %u (mean, of this machine: %.2f)",
		   name, fewest / 1e6, permille, sum / 1e6 / SAMPLES);
	tap_result(!most, "%s: at most %lu allocations for a sample", name, most);
	tap_result(memory() <= MEMORY_MAX, "%s: %ld KiB, at most %d", name, memory(),
		   MEMORY_MAX);
}

int main(int argc, char **argv)
{
	pid_t vmm[VMMS];
	unsigned int i;
	pid_t pid;

	if (argc != 2) {
		fprintf(stderr, "usage: cost VMM\n");
		return 2;
	}
	for (i = 0; i < VMMS; i++) {
		vmm[i] = start_vmm(argv[1]);
		if (vmm[i] < 0) {
			printf("Bail out! %s: %s\n", argv[1], strerror(errno));
			return 1;
		}
	}
	for (i = 0; i < OTHERS; i++)
		start_other(!i);
	/* Each in a process of its own: memory is the most that it ever had. */
	for (i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		int status;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			tap_count = tap_failed = 0;
			measure(limits[i].name, limits[i].permille, limits[i].warm_up);
			fflush(stdout);
			_exit(tap_count << 4 | tap_failed);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status)) {
			tap_result(false, "%s: died", limits[i].name);
			continue;
		}
		tap_count += WEXITSTATUS(status) >> 4;
		tap_failed += WEXITSTATUS(status) & 15;
	}
	for (i = 0; i < VMMS; i++)
		kill(vmm[i], SIGKILL);
	return tap_end();
}
