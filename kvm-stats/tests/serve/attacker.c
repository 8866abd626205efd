// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process that serves, after an attacker has taken it over: part of host.c. If the file "attack"
 * in KVM_STATS_HOST begins with the PID of this process, it continues with the means, and for how
 * many seconds they are used. Afterwards the process does nothing, and doesn't end.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FILES	64

static int sampler;		/* its PID */

/* A write to an eventfd makes it readable for all processes that have it. */
static void attack_events(void)
{
	const uint64_t most = UINT64_MAX - 1;
	int fd;

	for (fd = 0; fd < FILES; fd++) {
		fcntl(fd, F_SETFL, fd == STDERR_FILENO ? 0 : O_NONBLOCK);
		if (fd != STDERR_FILENO && write(fd, &most, sizeof(most)) < 0)
			continue;
	}
}

/* End the sockets, or drop all that arrives there. */
static void attack_sockets(void)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = { .len = 1, .filter = &drop };
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	const int on = 1;
	int fd, copy;

	for (fd = 0; fd < FILES; fd++) {
		if (fd == STDERR_FILENO)
			continue;
		copy = fcntl(fd, F_DUPFD, FILES);
		setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
		setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
		connect(fd, &none, sizeof(none));
		shutdown(fd, SHUT_RDWR);
		shutdown(copy < 0 ? dup(fd) : copy, SHUT_RDWR);
	}
}

static void attack_with_signals(void)
{
	struct f_owner_ex owner = { .type = F_OWNER_PID, .pid = sampler };
	int pair[2];

	/* A pipe that sends the signal when it can be read */
	if (!pipe(pair)) {
		fcntl(pair[0], F_SETOWN_EX, &owner);
		fcntl(pair[0], F_SETSIG, SIGSTOP);
		fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
		if (write(pair[1], "", 1) == 1)
			close(pair[1]);
		close(pair[0]);
	}
	syscall(SYS_tkill, sampler, SIGSTOP);
	syscall(SYS_tgkill, sampler, sampler, SIGSTOP);
	kill(sampler, SIGSTOP);
}

static void attack_limits(void)
{
	const struct rlimit none = { 0 };
	cpu_set_t first;
	int i, fd;
	char path[64];

	for (i = 0; i < (int)RLIM_NLIMITS; i++)
		prlimit(sampler, i, &none, NULL);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(sampler, sizeof(first), &first);
	sched_setscheduler(sampler, SCHED_IDLE, &(struct sched_param){ 0 });
	setpriority(PRIO_PROCESS, sampler, 19);
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", sampler);
	fd = open(path, O_WRONLY);
	if (fd >= 0 && write(fd, "1000", 4) == 4)
		close(fd);
}

/* Write into the memory of the sampler. */
static void attack_memory(void)
{
	struct iovec here = { &sampler, sizeof(sampler) }, there = { NULL, sizeof(sampler) };
	unsigned long begin, end;
	char line[512];
	FILE *maps;

	ptrace(PTRACE_SEIZE, sampler, 0, 0);
	ptrace(PTRACE_INTERRUPT, sampler, 0, 0);
	maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &begin, &end) != 2)
			continue;
		if (strstr(line, " rw-s "))
			memset((void *)begin, 0xff, end - begin);
		there.iov_base = (void *)begin;
		process_vm_writev(sampler, &here, 1, &there, 1, 0);
	}
	if (maps)
		fclose(maps);
}

static void attack_with_messages(void)
{
	unsigned int i;

	for (i = 0; i < 10000; i++)
		send(STDOUT_FILENO, "RWSRWSRWSRWSRWSRWS", 18, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Leave a process that accepts all connections. */
static void attack_with_children(void)
{
	int fd;

	if (fork())
		return;
	if (fork())
		_exit(0);
	alarm(60);
	for (;;) {
		for (fd = 3; fd < FILES; fd++)
			accept(fd, NULL, NULL);
	}
}

static void do_nothing(void)
{
}

static const struct means {
	const char *name;
	void (*use)(void);
} means[] = {
	{ "events", attack_events },
	{ "sockets", attack_sockets },
	{ "signals", attack_with_signals },
	{ "limits", attack_limits },
	{ "memory", attack_memory },
	{ "messages", attack_with_messages },
	{ "children", attack_with_children },
	{ "silence", do_nothing },
};

static void attack(const char *name, unsigned int seconds)
{
	const time_t end = time(NULL) + seconds;
	unsigned int i;

	sampler = getppid();
	do {
		for (i = 0; i < sizeof(means) / sizeof(*means); i++) {
			if (!strcmp(name, means[i].name) || !strcmp(name, "all"))
				means[i].use();
		}
	} while (time(NULL) < end);
	for (;;)
		pause();
}

struct server;
void __real_close_slow_connections(struct server *s, uint64_t now);
void __wrap_close_slow_connections(struct server *s, uint64_t now);
void __wrap_close_slow_connections(struct server *s, uint64_t now)
{
	const char *dir = getenv("KVM_STATS_HOST");
	unsigned int seconds;
	char path[4096], name[16];
	FILE *f;
	int pid;

	snprintf(path, sizeof(path), "%s/attack", dir ? dir : "none");
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%d %15s %u", &pid, name, &seconds) == 3 && pid == getpid())
			attack(name, seconds);
		fclose(f);
	}
	__real_close_slow_connections(s, now);
}
