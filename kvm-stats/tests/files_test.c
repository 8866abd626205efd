// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source files scans all processes only if VMs may have been created or destroyed, and
 * misses none, with or without uevents. Simulates kernels where a VMM opens the statistics
 * itself, as these processes do. Needs root and /dev/kvm, and a PID namespace with its own
 * procfs and no other VMs. Prints TAP.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "proc.h"
#include "uevent_test.h"

/* The source scans all processes after this many seconds in any case. */
#define WALK_INTERVAL_S	10

static struct kvmstats *k;
static uint64_t later;		/* nanoseconds by which the source's clock is ahead */

uint64_t __real_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock)
{
	return __real_read_clock(clock) + later;
}

static bool open_source(void)
{
	bool opened = !kvmstats_open(&k, "files", NULL, 0);

	if (!opened)
		tap_result(false, "the source files");
	return opened;
}

static void sample(unsigned int times)
{
	while (times--)
		kvmstats_sample(k);
}

static void test_scans(void)
{
	struct peer maker;

	if (!open_source())
		return;
	sample(5);
	silent = true;
	maker = start_maker();
	sample(5);
	tap_result(!find_vm(k, maker.pid), "without a uevent, not all processes are scanned");
	later += (WALK_INTERVAL_S + 1) * 1000000000ULL;
	sample(1);
	tap_result(find_vm(k, maker.pid), "without a uevent, all processes are scanned after an interval");
	silent = false;
	end_peer(&maker);
	kvmstats_close(k);
}

static void run_growing_vmm(int from, int to)
{
	struct probe_vm own;
	char c;

	if (!probe_vm_open(&own, 1, why, sizeof(why)) && read(from, &c, 1) == 1 &&
	    write(to, "", 1) == 1 && read(from, &c, 1) == 1 &&
	    ioctl(ioctl(own.vm, ABI_CREATE_VCPU, 2), ABI_GET_STATS_FD) >= 0 &&
	    write(to, "", 1) == 1)
		pause();
}

/* KVM sends no uevents for vCPUs. */
static void test_vcpu(void)
{
	const struct peer vmm = start_peer(run_growing_vmm);
	const struct kvmstats_vm *vm;

	if (!open_source())
		return;
	tap_result(ask_peer(&vmm, 0), "a VM with a vCPU");
	sample(5);
	vm = find_vm(k, vmm.pid);
	tap_result(vm && vm->vcpus == 1, "is seen");
	tap_result(ask_peer(&vmm, 0), "one more vCPU");
	sample(1);
	vm = find_vm(k, vmm.pid);
	tap_result(vm && vm->vcpus == 2, "is seen at the next sample");
	end_peer(&vmm);
	kvmstats_close(k);
}

static void nothing(int signal)
{
}

/* As many files as before, but one that was being opened then; probe_vm_open() makes four. */
static void make_instead(const char *fifo)
{
	const struct sigaction action = { .sa_handler = nothing };
	struct probe_vm own;
	int fds[3], i;

	sigaction(SIGUSR1, &action, NULL);
	for (i = 0; i < 3; i++)
		fds[i] = dup(STDERR_FILENO);
	/* No process reads it. */
	if (open(fifo, O_WRONLY) >= 0 || probe_vm_open(&own, 1, why, sizeof(why)))
		_exit(1);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	for (;;)
		pause();
}

/* Until it has so many files, a minute at most; vm: and a VM */
static void wait_for(pid_t pid, long fds, bool vm)
{
	struct kvm_fd list[8];
	int proc = open("/proc", O_PATH | O_DIRECTORY), i;
	long all;

	for (i = 0; i < 6000; i++) {
		if (proc_kvm_fds(proc, pid, list, 8, &all) >= vm &&
		    proc_count_fds(proc, pid, -1) == fds)
			break;
		usleep(10000);
	}
	close(proc);
}

/* The number is taken before the file exists, and creating a VM takes a while. */
static void test_in_the_making(void)
{
	char folder[] = "/tmp/files_test-XXXXXX", fifo[64];
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	long before = proc_count_fds(proc, getpid(), -1);
	pid_t pid;

	close(proc);
	if (!before || !mkdtemp(folder)) {
		tap_result(true, "a file that is being opened # SKIP Linux does not count them");
		return;
	}
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	mkfifo(fifo, 0600);
	pid = fork();
	if (!pid)
		make_instead(fifo);
	/* not /proc, which is closed; three copies, and what is being opened */
	wait_for(pid, before - 1 + 3 + 1, false);
	if (open_source()) {
		sample(5);
		kill(pid, SIGUSR1);
		wait_for(pid, before - 1 + 4, true);
		sample(1);
		tap_result(find_vm(k, pid), "a process has as many files as before, "
			   "one of which was being opened: a VM");
		kvmstats_close(k);
	}
	end_process(pid);
	unlink(fifo);
	rmdir(folder);
}

int main(void)
{
	struct probe_vm own;

	if (probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why))) {
		printf("Bail out! %s\n", why);
		return 1;
	}
	probe_vm_close(&own);
	test_scans();
	test_vcpu();
	test_in_the_making();
	test_heir("files");
	/* into another network namespace: the last one */
	test_told("files");
	return tap_end();
}
