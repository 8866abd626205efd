// SPDX-License-Identifier: GPL-2.0-only
/*
 * A user without VMs who has millions of open files neither slows down samples nor delays the VMs of
 * other users: shares_test. Needs root, /dev/kvm and the source bpf; prints TAP.
 */
#include <linux/kvm.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "core.h"
#include "tap.h"
#include "vm.h"

#define USER	65534
#define FILES	19900	/* in each table */
#define SAMPLES	8

static const struct row {
	const char *what;
	int processes;
	bool share;		/* one table */
	bool left_out;		/* there are more files than a user's share of a sample */
} rows[] = {
	{ "300 processes that share a table", 300, true, false },
	{ "40 processes with a table each", 40, false, true },
};

static const struct row *row;	/* for the next process */

static void start_children(void)
{
	const struct clone_args args = {
		.flags = row->share ? CLONE_FILES : 0, .exit_signal = SIGCHLD,
	};
	long pid;
	int i;

	for (i = 0; i < row->processes; i++) {
		pid = need(syscall(SYS_clone3, &args, sizeof(args)), "clone3");
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

static void be_user(int from, int to)
{
	struct rlimit limit;
	int i, null = need(open("/dev/null", O_RDONLY), "/dev/null");

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (i = 0; i < FILES; i++)
		need(dup(null), "dup");
	need(setuid(USER), "setuid");
	start_children();
	need(write(to, "", 1), "write");
	for (;;)
		pause();
}

static uid_t owner;		/* of the next VM */

static void be_vmm(int from, int to)
{
	int kvm = need(open("/dev/kvm", O_RDWR), "/dev/kvm");

	need(setuid(owner), "setuid");
	need(ioctl(need(ioctl(kvm, KVM_CREATE_VM, 0), "VM"), KVM_CREATE_VCPU, 0), "vCPU");
	need(write(to, "", 1), "write");
	for (;;)
		pause();
}

static pid_t start(void (*run)(int from, int to))
{
	struct peer peer = start_peer(run);
	char ready;

	if (read(peer.from, &ready, 1) != 1)
		errx(1, "a process did not start");
	close_peer(&peer);
	return peer.pid;
}

static uint64_t cpu_time(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/*
 * Return the time of reading as many files by /proc as are in one table: the most that a sample costs.
 * This depends on the algorithm, and hardly on the machine.
 */
static uint64_t measure_walk(void)
{
	uint64_t begin = cpu_time();
	char link[64];
	int i;

	for (i = 0; i < FILES && readlink("/proc/self/fd/0", link, sizeof(link)) > 0; i++)
		;
	return cpu_time() - begin;
}

static bool is_live(const struct kvmstats *k, pid_t pid)
{
	const struct kvmstats_vm *vm = find_vm(k, pid);

	return vm && vm->vcpus == 1 && !vm->ended;
}

static void test_row(void)
{
	pid_t user, before, after, users_own;
	unsigned int i, found_before = 0, found_after = 0, found_own = 0, lost = 0, left_out = 0;
	uint64_t begin, used, most = 0, walk = measure_walk();
	struct kvmstats *k;
	const char *why;

	owner = 0;
	before = start(be_vmm);
	user = start(be_user);
	if (kvmstats_open(&k, "bpf", NULL, 0)) {
		tap_result(false, "%s: the source bpf works", row->what);
		return;
	}
	kvmstats_sample(k);
	after = start(be_vmm);
	owner = USER;
	users_own = start(be_vmm);
	for (i = 0; i < SAMPLES; i++) {
		begin = cpu_time();
		kvmstats_sample(k);
		used = cpu_time() - begin;
		most = used > most ? used : most;
		found_before += is_live(k, before);
		found_after += is_live(k, after);
		found_own += is_live(k, users_own);
		lost += found_own && !is_live(k, users_own);
		left_out += kvmstats_failed_reads_by_reason(k, KVMSTATS_TOO_MANY, &why) &&
			    strstr(why, "user 65534");
	}
	tap_result(found_before == SAMPLES && found_after == SAMPLES,
		   "%s: other users' VMs are in %u and %u of %d samples", row->what, found_before,
		   found_after, SAMPLES);
	tap_result(found_own && !lost, "%s: the user's VM is found, and does not end", row->what);
	tap_result(!left_out == !row->left_out, "%s: %u samples report the user", row->what, left_out);
	tap_result(most <= walk, "%s: %.1f ms of CPU for a sample, at most a walk of %.1f ms", row->what,
		   most / 1e6, walk / 1e6);
	kvmstats_close(k);
	end_process(user);
	end_process(before);
	end_process(after);
	end_process(users_own);
}

int main(void)
{
	for (row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++)
		test_row();
	return tap_end();
}
