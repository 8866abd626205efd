// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time and memory of a sample stay small if processes have 400,000 descriptors of one vCPU, or if
 * one has 20,000 threads: crowd_test SOURCE. Other VMs are read, and a process that is not read
 * in full is reported. Needs root and /dev/kvm; prints TAP.
 */
#include <linux/kvm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "abi.h"
#include "core.h"
#include "tap.h"
#include "vm.h"

#define COPIES	(files ? 15000 : 400000)	/* descriptors of one statistics file or vCPU */
#define THREADS	20000

/*
 * The most that a sample costs, in units of one walk over the descriptors of such a process, whose
 * links it reads: this depends on the algorithm, and hardly on the machine.
 */
#define WALKS_MAX	(files ? 16 : 4)
#define MEMORY_MAX_KIB	32768

static const char *source;
static bool files;	/* the source */

#define result(ok, text, ...)	tap_result(ok, "%s: " text, source, ##__VA_ARGS__)

static int create_vm(int *vm)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	*vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
	return *vm < 0 ? -1 : ioctl(*vm, KVM_CREATE_VCPU, 0);
}

static void *wait_forever(void *arg)
{
	prctl(PR_SET_NAME, "worker");
	for (;;)
		pause();
	return NULL;
}

/* As many threads as the host allows */
static int start_threads(int count)
{
	pthread_attr_t attr;
	pthread_t thread;
	int n;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (n = 0; n < count && !pthread_create(&thread, &attr, wait_forever, NULL); n++)
		;
	return n;
}

/* Copy it as often as one process can, then in children of this one, unless they count as VMMs. */
static int copy_descriptor(int fd, int count, bool children)
{
	struct rlimit limit;
	int n, all;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (n = 0; n < count && dup(fd) >= 0; n++)
		;
	for (all = n; children && n && all < count; all += n) {
		if (fork_child())
			continue;
		for (;;)
			pause();
	}
	return all;
}

static int copies, threads;	/* that the next process creates */

/* A process with a VM; write how many copies and threads it could create. */
static void be_crowd(int from, int to)
{
	int vm, vcpu = create_vm(&vm), stats = vcpu < 0 ? -1 : ioctl(vcpu, ABI_GET_STATS_FD), made[2];

	if (vcpu < 0)
		return;
	made[0] = copies ? copy_descriptor(files ? stats : vcpu, copies, !files) : 0;
	made[1] = threads ? start_threads(threads) : 0;
	if (write(to, made, sizeof(made)) < 0)
		return;
	for (;;)
		pause();
}

/* Return a process that has started, or -1. */
static pid_t start(int nr_copies, int nr_threads, int made[2])
{
	struct peer peer;

	copies = nr_copies;
	threads = nr_threads;
	peer = start_peer(be_crowd);
	if (read(peer.from, made, 2 * sizeof(*made)) <= 0)
		peer.pid = -1;
	close_peer(&peer);
	return peer.pid;
}

/* Milliseconds of CPU time */
static unsigned long long cpu_ms(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID) / 1000000;
}

/* Return the milliseconds of CPU time of a walk: of 15,000 links, that of this process. */
static unsigned long long walk_ms(void)
{
	unsigned long long begin = cpu_ms();
	char link[64];
	int i;

	for (i = 0; i < 15000; i++)
		if (readlink("/proc/self/fd/0", link, sizeof(link)) < 0)
			break;
	return cpu_ms() - begin + 1;
}

/* Take samples: check the CPU time of the most expensive one, and memory. */
static void sample(struct kvmstats *k, pid_t crowd, pid_t other, const char *what)
{
	const struct kvmstats_vm *vm = NULL;
	unsigned long long begin, most = 0, walk = walk_ms();
	int i;

	for (i = 0; i < 3; i++) {
		begin = cpu_ms();
		if (kvmstats_sample(k))
			break;
		if (most < cpu_ms() - begin)
			most = cpu_ms() - begin;
	}
	vm = find_vm(k, crowd);
	result(vm && vm->vcpus == 1, "%s: its VM has one vCPU", what);
	vm = find_vm(k, other);
	result(vm && vm->vcpus == 1, "%s: the other VM has one vCPU", what);
	result(most <= WALKS_MAX * walk, "%s: %llu ms of CPU for a sample, at most %d walks of %llu ms", what,
	       most, WALKS_MAX, walk);
	result(max_memory() <= MEMORY_MAX_KIB, "%s: %ld KiB of memory, at most %d", what, max_memory(),
	       MEMORY_MAX_KIB);
}

static bool reports(const struct kvmstats *k, pid_t pid)
{
	const char *why;
	char process[32];

	snprintf(process, sizeof(process), "process %d has", pid);
	return kvmstats_failed_reads_by_reason(k, KVMSTATS_TOO_MANY, &why) && strstr(why, process);
}

int main(int argc, char **argv)
{
	pid_t crowd, other;
	struct kvmstats *k;
	int made[2];

	if (argc != 2)
		errx(2, "usage: crowd_test SOURCE");
	source = argv[1];
	files = !strcmp(source, "files");
	crowd = start(COPIES, 0, made);
	result(crowd > 0 && made[0] >= COPIES, "%d descriptors of a vCPU exist",
	       made[0]);
	/* After the crowd: it is read although the crowd was. */
	other = start(1, 0, made);
	result(other > 0 && !kvmstats_open(&k, source, NULL, 0), "another VM starts");
	if (tap_failed)
		return tap_end();
	sample(k, crowd, other, "descriptors");
	result(reports(k, crowd) == files, "descriptors: a process that is not read in full is reported");
	end_process(crowd);
	kvmstats_close(k);

	crowd = start(1, THREADS, made);
	result(crowd > 0 && made[1] > 2000 && !kvmstats_open(&k, source, NULL, 0), "a process has %d threads",
	       made[1]);
	if (tap_failed)
		return tap_end();
	sample(k, crowd, other, "threads");
	/* Their roles are unknown if the vCPUs' threads are. */
	result(reports(k, crowd) == !files, "threads: a process that is not read in full is reported");
	end_process(crowd);
	end_process(other);
	kvmstats_close(k);
	return tap_end();
}
