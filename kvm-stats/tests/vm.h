/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes, CPUs and VMs for tests */
#ifndef VM_H
#define VM_H

#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"
#include "structures.h"

#define MS		1000000ULL
#define MODE(mode)	(1U << KVMSTATS_##mode)
#define WAITS		(MODE(READY) | MODE(THROTTLED))

/* Return a result that is not negative; otherwise end the test. */
static inline int need(int ret, const char *what)
{
	if (ret < 0)
		err(1, "%s", what);
	return ret;
}

/* Fork a process that ends with this one. */
static inline pid_t fork_child(void)
{
	const pid_t pid = need(fork(), "fork");

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Kill a process, and wait until it has exited. */
static inline void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A process that runs a function with two pipes */
struct peer {
	pid_t pid;
	int to, from;
};

/*
 * Start a peer, which has no other file of this process than the standard ones: a BPF program stays
 * attached while a process has a copy of its link.
 */
static inline struct peer start_peer(void (*run)(int from, int to))
{
	struct peer peer;
	int in[2], out[2];

	need(pipe2(in, O_CLOEXEC), "pipe");
	need(pipe2(out, O_CLOEXEC), "pipe");
	peer.pid = fork_child();
	if (!peer.pid) {
		dup2(in[0], 100);
		dup2(out[1], 101);
		close_range(3, 99, 0);
		close_range(102, ~0U, 0);
		run(100, 101);
		_exit(0);
	}
	close(in[0]);
	close(out[1]);
	peer.to = in[1];
	peer.from = out[0];
	return peer;
}

/* Send a byte to a peer; return false if it does not answer with one. */
static inline bool ask_peer(const struct peer *peer, char byte)
{
	return write(peer->to, &byte, 1) == 1 && read(peer->from, &byte, 1) == 1;
}

static inline void close_peer(const struct peer *peer)
{
	close(peer->to);
	close(peer->from);
}

static inline void end_peer(const struct peer *peer)
{
	end_process(peer->pid);
	close_peer(peer);
}

/* Return the nth of the CPUs that this process may use, from 0 on, or the last one. */
static inline int nth_cpu(unsigned int n)
{
	cpu_set_t cpus;
	int i, cpu = 0;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus)) {
			cpu = i;
			if (!n--)
				break;
		}
	return cpu;
}

static inline bool move_thread(pid_t tid, int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return !sched_setaffinity(tid, sizeof(cpus), &cpus);
}

/* Start a process that uses a CPU all the time. With its name, if it gets one, it is ready. */
static inline pid_t start_hog(int cpu, const char *name)
{
	const pid_t pid = fork_child();

	if (pid)
		return pid;
	closefrom(3);
	move_thread(0, cpu);
	if (name)
		prctl(PR_SET_NAME, name);
	for (;;)
		;
}

/*
 * Give a thread real-time priority, or the normal one if it is 0. The processes that it starts have
 * the normal one. Return false if this host does not allow it.
 */
static inline bool set_real_time(pid_t tid, int priority)
{
	const struct sched_param parameter = { .sched_priority = priority };
	const int policy = priority ? SCHED_FIFO : SCHED_OTHER;

	return !sched_setscheduler(tid, policy | SCHED_RESET_ON_FORK, &parameter);
}

/* Return the VM of a process at the last sample, or NULL. */
static inline const struct kvmstats_vm *find_vm(const struct kvmstats *k, pid_t pid)
{
	const struct kvmstats_vm *vm;

	for (vm = kvmstats_first(k); vm && vm->identity.pid != pid; vm = vm->next)
		;
	return vm;
}

/* Read a statistic by its name from its file; 0 if the kernel does not have it. */
static inline uint64_t read_stat(int fd, const char *wanted)
{
	struct abi_header head;
	char buf[sizeof(struct abi_desc) + 256];
	const struct abi_desc *desc = (void *)buf;
	uint64_t value = 0;
	uint32_t i;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return 0;
	for (i = 0; i < head.count; i++) {
		const size_t size = sizeof(*desc) + head.name_size;

		if (pread(fd, buf, size, head.desc_offset + i * size) != (ssize_t)size)
			return 0;
		if (!strcmp(desc->name, wanted) &&
		    pread(fd, &value, sizeof(value), head.data_offset + desc->offset) < 0)
			return 0;
	}
	return value;
}

/* Compare with a tolerance of 1 % or 10 ms. */
static inline bool same(uint64_t a, uint64_t b)
{
	const uint64_t difference = a > b ? a - b : b - a;

	return difference <= 10 * MS || difference <= a / 100 || difference <= b / 100;
}

/*
 * A VMM of vmm.c that has started, or -1. It ends with its parent. prepare, if there is one, is
 * called with arg in its process before; false: it is not to start.
 */
static inline pid_t vm_start(char *const arguments[], bool (*prepare)(const void *arg),
			     const void *arg)
{
	int in[2], out[2];
	char ready;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork_child();
	if (!pid) {
		if (prepare && !prepare(arg))
			_exit(126);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execv(arguments[0], arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	/* in[1] stays open: it ends when its input does */
	if (pid > 0 && read(out[0], &ready, 1) != 1)
		pid = -1;
	close(out[0]);
	return pid;
}

/* Return the most memory that this process has used, in KiB. */
static inline long max_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Return the time in these modes, a bit for each. */
static inline uint64_t sum_of(const struct kvmstats_times *times, unsigned int modes)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < KVMSTATS_MODES; i++)
		sum += modes >> i & 1 ? times->mode[i] : 0;
	return sum;
}

#endif /* VM_H */
