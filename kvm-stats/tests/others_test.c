// SPDX-License-Identifier: GPL-2.0-only
/*
 * The time of a VMM's threads that are not vCPUs equals the kernel's own account of these
 * threads: others_test SOURCE VMM, where VMM is the program of vmm.c. The VMM is stopped at
 * both ends, so that all times are booked. Needs root and /dev/kvm; prints TAP.
 */
#include "account.h"
#include "tap.h"
#include "vm.h"

static const char *source;
static struct kvmstats *k;

#define result(ok, text, ...)	tap_result(ok, "%s: " text, source, ##__VA_ARGS__)

/* CPU time of the threads that are not vCPUs */
static uint64_t others_time(pid_t pid)
{
	return run_time(pid, "") - run_time(pid, "CPU ");
}

static void add_wait_time(pid_t pid, pid_t tid, void *arg)
{
	*(uint64_t *)arg += read_account(pid, tid).waited;
}

/* How long threads that are not vCPUs waited for a CPU */
static uint64_t others_waited(pid_t pid)
{
	uint64_t all = 0, vcpus = 0;

	each_thread(pid, "", add_wait_time, &all);
	each_thread(pid, "CPU ", add_wait_time, &vcpus);
	return all - vcpus;
}

static void check_stopped(pid_t pid, pid_t tid, void *arg)
{
	*(bool *)arg &= is_stopped(pid, tid);
}

static void stop(pid_t pid)
{
	bool stopped;

	kill(pid, SIGSTOP);
	do {
		usleep(10000);
		stopped = true;
		each_thread(pid, "", check_stopped, &stopped);
	} while (!stopped);
}

static const struct kvmstats_vm *sample(pid_t pid)
{
	return kvmstats_sample(k) ? NULL : find_vm(k, pid);
}

/* Waits are read every five seconds: two samples that are farther from each other have those between them. */
static void test_waits(pid_t pid)
{
	const struct kvmstats_vm *vm;
	uint64_t waited, known;

	usleep(5500000);
	stop(pid);
	sample(pid);
	waited = others_waited(pid);
	kill(pid, SIGCONT);
	usleep(5500000);
	stop(pid);
	vm = sample(pid);
	waited = others_waited(pid) - waited;
	known = vm && vm->sum.known & KVMSTATS_OTHER_WAITS_KNOWN ? vm->sum.other_waits : 0;
	result(waited > 500 * MS && same(known, waited), "waits of other threads: %.2f ms, by the kernel's account %.2f ms",
	       known / 1e6, waited / 1e6);
}

int main(int argc, char **argv)
{
	char *arguments[] = { argv[argc - 1], "-p", "-k", "-b", "-t", "1", "-i", "2", "1", "2",
			      NULL };
	const struct kvmstats_vm *vm;
	uint64_t role[KVMSTATS_ROLES], others = 0, io, last, others_ran, io_ran;
	unsigned int i;
	pid_t pid;

	if (argc != 3)
		errx(2, "usage: others_test SOURCE VMM");
	source = argv[1];
	pid = vm_start(arguments, NULL, NULL);
	result(pid > 0, "a VMM with three busy threads starts");
	stop(pid);
	others_ran = others_time(pid);
	io_ran = run_time(pid, "IO ");
	result(!kvmstats_open(&k, source, NULL, 0) && (vm = sample(pid)), "the VM is found");
	if (tap_failed)
		return tap_end();
	/*
	 * The vCPUs' threads become known after the first sample. If this process is preempted
	 * between the reads of the source and of the process clock, a sample reports too much
	 * and the next one less, so the other threads run for a second before the last one.
	 */
	kill(pid, SIGUSR2);
	for (i = 0; i < 4; i++) {
		kill(pid, SIGCONT);
		usleep(500000);
		if (i == 3) {
			last = others_time(pid);
			while (others_time(pid) < last + 1000 * MS)
				usleep(10000);
			stop(pid);
		}
		vm = sample(pid);
		result(vm && vm->sum.known & KVMSTATS_OTHER_THREADS_KNOWN,
		       "sample %u has the time of other threads", i);
		if (!vm)
			return tap_end();
		others += vm->sum.other_threads;
	}
	others_ran = others_time(pid) - others_ran;
	io_ran = run_time(pid, "IO ") - io_ran;
	result(same(others, others_ran), "other threads: %.2f ms, by the kernel's account %.2f ms",
	       others / 1e6, others_ran / 1e6);
	/* Roles are updated at intervals. */
	for (i = 0; i < 100 && kvmstats_vm_other_threads(vm, KVMSTATS_IO_THREADS) + 10 * MS < io_ran;
	     i++) {
		usleep(100000);
		vm = sample(pid);
	}
	for (i = 0; i < KVMSTATS_ROLES; i++)
		role[i] = kvmstats_vm_other_threads(vm, i);
	io = role[KVMSTATS_IO_THREADS];
	result(same(io, io_ran), "I/O threads: %.2f ms, by the kernel's account %.2f ms", io / 1e6,
	       io_ran / 1e6);
	result(same(role[KVMSTATS_EMULATOR], others_ran - io_ran),
	       "emulator: %.2f ms, by the kernel's account %.2f ms", role[KVMSTATS_EMULATOR] / 1e6,
	       (others_ran - io_ran) / 1e6);
	result(!role[KVMSTATS_VHOST], "no vhost worker ran");
	kill(pid, SIGCONT);
	test_waits(pid);
	kvmstats_close(k);
	end_process(pid);
	return tap_end();
}
