// SPDX-License-Identifier: GPL-2.0-only
/*
 * The time of a VMM's threads that are not vCPUs equals the kernel's own account of these
 * threads: others_test SOURCE VMM, where VMM is the program of vmm.c. The VMM is stopped at
 * both ends, so that all times are booked. Needs root and /dev/kvm; prints TAP.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "structures.h"
#include "tap.h"
#include "vm.h"

#define MS	1000000ULL

static const char *source;
static struct kvmstats *k;

#define result(ok, text, ...)	tap_result(ok, "%s: " text, source, ##__VA_ARGS__)

static bool read_thread_file(pid_t pid, const char *tid, const char *name, char *text, int size)
{
	char path[64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/task/%.10s/%s", pid, tid, name);
	f = fopen(path, "re");
	ok = f && fgets(text, size, f);
	if (f)
		fclose(f);
	return ok;
}

struct account {
	uint64_t others, io;
	bool stopped;
};

/* CPU time of the threads that are not vCPUs, and of those with the name of I/O threads */
static struct account read_account(pid_t pid)
{
	struct account account = { .stopped = true };
	char path[64], text[256];
	struct dirent *entry;
	const char *state;
	uint64_t run;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (!atoi(entry->d_name) ||
		    !read_thread_file(pid, entry->d_name, "stat", text, sizeof(text)))
			continue;
		state = strrchr(text, ')');
		account.stopped &= state && state[2] == 'T';
		read_thread_file(pid, entry->d_name, "schedstat", text, sizeof(text));
		run = strtoull(text, NULL, 10);
		read_thread_file(pid, entry->d_name, "comm", text, sizeof(text));
		if (!strncmp(text, "CPU ", 4))
			continue;
		account.others += run;
		if (!strncmp(text, "IO ", 3))
			account.io += run;
	}
	if (dir)
		closedir(dir);
	return account;
}

static struct account stop(pid_t pid)
{
	struct account account;

	kill(pid, SIGSTOP);
	do {
		usleep(10000);
		account = read_account(pid);
	} while (!account.stopped);
	return account;
}

static const struct kvmstats_vm *sample(pid_t pid)
{
	const struct kvmstats_vm *vm;

	if (kvmstats_sample(k))
		return NULL;
	for (vm = kvmstats_first(k); vm && vm->identity.pid != pid; vm = vm->next)
		;
	return vm;
}

static bool same(uint64_t a, uint64_t b)
{
	const uint64_t difference = a > b ? a - b : b - a;

	return difference <= 10 * MS || difference <= b / 100;
}

int main(int argc, char **argv)
{
	char *arguments[] = { argv[argc - 1], "-p", "-k", "-b", "-t", "1", "-i", "2", "1", "2",
			      NULL };
	const struct kvmstats_vm *vm;
	struct account before, after = { 0 };
	uint64_t role[KVMSTATS_ROLES], others = 0, io;
	unsigned int i;
	pid_t pid;

	if (argc != 3) {
		fprintf(stderr, "usage: others_test SOURCE VMM\n");
		return 2;
	}
	source = argv[1];
	pid = vm_start(arguments, NULL, NULL);
	result(pid > 0, "a VMM with three busy threads starts");
	before = stop(pid);
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
			after = read_account(pid);
			while (read_account(pid).others < after.others + 1000 * MS)
				usleep(10000);
			after = stop(pid);
		}
		vm = sample(pid);
		result(vm && vm->sum.known & KVMSTATS_OTHER_THREADS_KNOWN,
		       "sample %u has the time of other threads", i);
		if (!vm)
			return tap_end();
		others += vm->sum.other_threads;
	}
	after.others -= before.others;
	after.io -= before.io;
	result(same(others, after.others), "other threads: %.2f ms, by the kernel's account %.2f ms",
	       others / 1e6, after.others / 1e6);
	/* Roles are updated at intervals. */
	for (i = 0; i < 100 && kvmstats_vm_other_threads(vm, KVMSTATS_IO_THREADS) + 10 * MS < after.io;
	     i++) {
		usleep(100000);
		vm = sample(pid);
	}
	for (i = 0; i < KVMSTATS_ROLES; i++)
		role[i] = kvmstats_vm_other_threads(vm, i);
	io = role[KVMSTATS_IO_THREADS];
	result(same(io, after.io), "I/O threads: %.2f ms, by the kernel's account %.2f ms", io / 1e6,
	       after.io / 1e6);
	result(same(role[KVMSTATS_EMULATOR], after.others - after.io),
	       "emulator: %.2f ms, by the kernel's account %.2f ms", role[KVMSTATS_EMULATOR] / 1e6,
	       (after.others - after.io) / 1e6);
	result(!role[KVMSTATS_VHOST], "no vhost worker ran");
	kvmstats_close(k);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return tap_end();
}
