// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of sampling 100 or 1,000 VMs each second, on a host with 100 other processes,
 * one of which exits and is replaced in each second; and with as many again that have 100,000
 * files: cost VMM, where VMM is the program of vmm.c. Prints CPU time, memory, and allocations
 * in the steady state for each source that works. The VMs and other processes are stopped
 * during the measurement, in a PID namespace with its own procfs.
 *
 * Other load takes caches and hyperthreads away: a sample costs twice as much on a busy
 * machine, so the fastest of many samples counts. Work that is done in one of ten or sixty
 * samples (comparing files, scanning processes) is some per cent. Needs root and /dev/kvm;
 * prints TAP.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "tap.h"
#include "vm.h"

#define OTHERS	100
#define FILES	1000	/* files of each process */

#define SAMPLES	20
#define MEMORY_MAX	(20 * 1024)	/* KiB */

/*
 * CPU time, and the number of samples before the steady state: the source bpf does full scans
 * while VMs are created and destroyed, and the source files scans a new process for a minute.
 */
static const struct row {
	const char *source;
	unsigned int vms;	/* with a process each */
	unsigned int vcpus;	/* vCPUs of each VM */
	bool files;		/* others have files */
	unsigned int ms, warm_up;
} rows[] = {
	{ "next", 100, 10, false, 3, 3 },
	{ "bpf", 100, 8, false, 4, 5 },
	{ "bpf", 100, 8, true, 15, 5 },
	{ "bpf", 1000, 1, false, 15, 5 },
	{ "files", 100, 10, false, 5, 65 },
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

/* A VMM that has started and is stopped */
static bool start_vmm(char *program, unsigned int count)
{
	char vcpus[16], *arguments[] = { program, "-k", "1", vcpus, NULL };
	pid_t pid;

	snprintf(vcpus, sizeof(vcpus), "%u", count);
	pid = vm_start(arguments, NULL, NULL);
	return pid > 0 && !kill(pid, SIGSTOP);
}

static bool children;	/* The next process creates a child each second. */
static int files;		/* that it opens */

static void be_other(int from, int to)
{
	pid_t pid;

	while (files--)
		need(open("/dev/null", O_RDONLY), "/dev/null");
	need(write(to, "", 1), "write");
	close(to);
	while (children && (pid = fork()) > 0) {
		sleep(1);
		end_process(pid);
	}
	for (;;)
		pause();
}

static bool start_other(bool with_children, int nr_files)
{
	struct peer peer;
	bool started;
	char ready;

	children = with_children;
	files = nr_files;
	peer = start_peer(be_other);
	started = read(peer.from, &ready, 1) == 1;
	close_peer(&peer);
	return started;
}

static void measure(const struct row *row)
{
	unsigned long long start, used, sum = 0, fewest = -1ULL;
	unsigned int vcpus = 0, i;
	const struct kvmstats_vm *vm;
	unsigned long before, most = 0;
	struct kvmstats *k;
	char what[64];
	int error;

	snprintf(what, sizeof(what), "%s, %u VMs, %u vCPUs%s", row->source, row->vms,
		 row->vms * row->vcpus,
		 row->files ? " with 100,000 files" : "");
	error = kvmstats_open(&k, row->source, NULL, 0);
	if (error) {
		printf("# %s: does not work here\n", what);
		return;
	}
	for (i = 0; !error && i < row->warm_up + SAMPLES; i++) {
		start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
		before = allocations;
		error = kvmstats_sample(k);
		if (i >= row->warm_up) {
			used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start;
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
	tap_result(!error && vcpus == row->vms * row->vcpus, "%s: sees %u", what, vcpus);
	tap_result(fewest <= row->ms * 1000000ULL,
		   "%s: %.2f ms for a sample, at most %u (mean, of this machine: %.2f)",
		   what, fewest / 1e6, row->ms, sum / 1e6 / SAMPLES);
	tap_result(!most, "%s: at most %lu allocations for a sample", what, most);
	tap_result(max_memory() <= MEMORY_MAX, "%s: %ld KiB, at most %d", what, max_memory(),
		   MEMORY_MAX);
}

static void start_and_measure(char *vmm, const struct row *row)
{
	bool started = true;
	unsigned int i;

	for (i = 0; started && i < row->vms; i++)
		started = start_vmm(vmm, row->vcpus);
	for (i = 0; started && i < OTHERS; i++)
		started = start_other(!i, 0);
	for (i = 0; row->files && started && i < OTHERS; i++)
		started = start_other(false, FILES);
	if (started)
		measure(row);
	else
		tap_result(false, "VMs and others do not start: %s", strerror(errno));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned int i;
	int status;
	pid_t pid;

	if (argc != 2 || getpid() != 1) {
		fprintf(stderr, "usage: unshare --pid --fork --mount-proc cost VMM\n");
		return 2;
	}
	/* A process for each source: memory is measured as the peak of a process. */
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		fflush(stdout);
		pid = fork();
		if (!pid) {
			tap_failed = 0;
			start_and_measure(argv[1], &rows[i]);
			_exit((tap_count & 15) << 4 | tap_failed);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status)) {
			tap_result(false, "%s: died", rows[i].source);
			continue;
		}
		while (tap_count % 16 != (unsigned int)WEXITSTATUS(status) >> 4)
			tap_count++;
		tap_failed += WEXITSTATUS(status) & 15;
		/* what it started: all that there is in this namespace */
		kill(-1, SIGKILL);
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	return tap_end();
}
