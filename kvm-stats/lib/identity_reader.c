// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "hash.h"
#include "identity.h"
#include "identity_reader.h"
#include "proc.h"

#define POLL_MS		10
#define PATIENCE_FIRST_NS	1000000000LL
#define PATIENCE_MAX_NS		200000000LL
/* Reciprocal of the share of time that is spent waiting for blocked children */
#define PATIENCE_DIVISOR	10

/*
 * The child is a copy of a process that may have threads, whose locks stay locked in the copy.
 * Use system calls only, without functions that tools such as thread sanitizers replace.
 */

static size_t child_read_file(int proc, const char *directory, const char *file, char *buf, size_t size)
{
	char path[80];
	size_t len = 0;
	long n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	fd = syscall(SYS_openat, proc, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while (len + 1 < size &&
		       (n = syscall(SYS_read, fd, buf + len, size - 1 - len)) > 0)
			len += n;
		syscall(SYS_close, fd);
	}
	buf[len] = '\0';
	return len;
}

/*
 * Append the lines of a file that keep() wants, and return a hash of the file. A line of cgroup v1
 * has a path of up to 4 KiB.
 */
static uint64_t child_read_cgroups(int proc, const char *directory, bool (*keep)(const char *line),
				   char *to, size_t size)
{
	static char text[65536];
	size_t len = strlen(to), line_len;
	char *line, *end;
	uint64_t hash;

	hash = hash_data(HASH_BASIS, text, child_read_file(proc, directory, "cgroup", text, sizeof(text)));
	for (line = text; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		*end = '\0';
		line_len = end - line;
		if (!keep(line) || line_len + 2 > size - len)
			continue;
		memcpy(to + len, line, line_len);
		len += line_len;
		to[len++] = '\n';
		to[len] = '\0';
	}
	return hash;
}

static bool is_main_cgroup(const char *line)
{
	return !strncmp(line, "0::", 3) || !strncmp(line + strcspn(line, ":"), ":memory:", 8);
}

static bool is_pod(const char *line)
{
	return strstr(line, "kubepods");
}

struct kata_threads {
	int proc;
	struct proc_texts *texts;
};

static int child_read_thread(void *arg, int dirfd, int tid)
{
	const struct kata_threads *threads = arg;
	struct proc_texts *texts = threads->texts;
	const size_t len = strlen(texts->cgroups);
	char thread[48];

	snprintf(thread, sizeof(thread), "%d/task/%d", texts->pid, tid);
	child_read_cgroups(threads->proc, thread, is_pod, texts->cgroups, sizeof(texts->cgroups));
	return texts->cgroups[len];
}

/* Append the cgroups of the first thread that has a pod. */
static void child_read_kata_threads(int proc, struct proc_texts *texts)
{
	struct kata_threads threads = { proc, texts };
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "%d/task", texts->pid);
	fd = syscall(SYS_openat, proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	proc_numbers(fd, child_read_thread, &threads);
	syscall(SYS_close, fd);
}

#define LIVE_THREADS_MAX	8

struct live_thread {
	int proc, tries;
	pid_t pid;
	char path[48];	/* directory of the thread or the process in procfs */
};

/* A thread whose memory exists, as its statm says: that of one that has exited is 0 pages. */
static int child_find_live(void *arg, int dirfd, int tid)
{
	struct live_thread *live = arg;
	char path[sizeof(live->path)], statm[32];

	snprintf(path, sizeof(path), "%d/task/%d", live->pid, tid);
	if (tid != live->pid && child_read_file(live->proc, path, "statm", statm, sizeof(statm)) &&
	    *statm != '0') {
		strcpy(live->path, path);
		return 1;
	}
	return ++live->tries == LIVE_THREADS_MAX;
}

/*
 * When the first thread of a process exits and others continue, /proc/PID no longer has its command
 * line, nor its cgroup v1; the directories of the other threads have them.
 */
static void child_choose_thread(struct live_thread *live)
{
	char statm[32];
	int fd;

	snprintf(live->path, sizeof(live->path), "%d", live->pid);
	if (!child_read_file(live->proc, live->path, "statm", statm, sizeof(statm)) || *statm != '0')
		return;
	snprintf(statm, sizeof(statm), "%d/task", live->pid);
	fd = syscall(SYS_openat, live->proc, statm, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	proc_numbers(fd, child_find_live, live);
	syscall(SYS_close, fd);
}

static void child_read_first(const struct live_thread *live, struct proc_texts *texts)
{
	const int proc = live->proc;
	const pid_t pid = live->pid;
	char process[16], *newline;

	snprintf(process, sizeof(process), "%d", pid);
	texts->pid = pid;
	texts->complete = false;
	texts->size = 0;
	*texts->cmdline = '\0';
	child_read_file(proc, process, "comm", texts->comm, sizeof(texts->comm));
	/* the last one: a process may have others in its name */
	newline = strrchr(texts->comm, '\n');
	if (newline)
		*newline = '\0';
	*texts->cgroups = '\0';
	texts->cgroups_hash = child_read_cgroups(proc, live->path, is_main_cgroup, texts->cgroups,
						 sizeof(texts->cgroups));
	if (strstr(texts->cgroups, ":" KATA_OVERHEAD))
		child_read_kata_threads(proc, texts);
}

static bool child_send(int fd, const struct proc_texts *texts)
{
	const long size = offsetof(struct proc_texts, cmdline) + texts->size + 1;

	return syscall(SYS_sendto, fd, texts, size, MSG_NOSIGNAL, NULL, 0) == size;
}

/* Close all files except for two: others must not stay open because this child waits. */
static void child_close_files(unsigned int a, unsigned int b)
{
	const unsigned int low = a < b ? a : b, high = a < b ? b : a;

	if (low)
		syscall(SYS_close_range, 0, low - 1, 0);
	if (high > low + 1)
		syscall(SYS_close_range, low + 1, high - 1, 0);
	syscall(SYS_close_range, high + 1, ~0U, 0);
}

/* Kill this child when the time is over, in case its parent has exited. */
static void child_set_timer(unsigned int seconds)
{
	const struct itimerval timer = { .it_value = { .tv_sec = seconds } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void child_run(int fd, int proc, const pid_t *pids, unsigned int count)
{
	static struct proc_texts texts;	/* The child has its copy. */
	bool sent = true;
	sigset_t none;
	unsigned int i;

	sigemptyset(&none);
	signal(SIGALRM, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "kvm-stats-names");
	child_close_files(fd, proc);
	for (i = 0; i < count && sent; i++) {
		struct live_thread live = { .proc = proc, .pid = pids[i] };

		child_set_timer(2);
		child_choose_thread(&live);
		child_read_first(&live, &texts);
		child_set_timer(0);
		sent = child_send(fd, &texts);
		child_set_timer(2);
		texts.size = child_read_file(proc, live.path, "cmdline", texts.cmdline,
					     sizeof(texts.cmdline));
		texts.complete = true;
		child_set_timer(0);
		sent = sent && child_send(fd, &texts);
	}
	syscall(SYS_exit_group, 0);
}

void readers_open(struct identity_readers *r, int proc)
{
	/* not the texts, which are large */
	memset(r, 0, offsetof(struct identity_readers, texts));
	r->proc = proc;
	r->patience = PATIENCE_FIRST_NS;
}

static void reap_reader(struct identity_reader *reader, int flags)
{
	/* __WALL: the child has no exit signal, so that programs do not notice it. */
	waitpid(reader->process, NULL, __WALL | flags);
	close(reader->fd);
	memset(reader, 0, sizeof(*reader));
}

static void kill_reader(struct identity_reader *reader)
{
	kill(reader->process, SIGKILL);
	reader->killed = true;
}

void readers_close(struct identity_readers *r)
{
	struct identity_reader *reader;
	unsigned int i;
	int n;

	for (i = 0; i < READERS_MAX; i++) {
		reader = &r->reader[i];
		if (!reader->process)
			continue;
		kill_reader(reader);
		/* Its files are closed when it exits; it may be in a wait that nothing ends. */
		n = poll(&(struct pollfd){ .fd = reader->fd }, 1, 10 * POLL_MS);
		reap_reader(reader, n > 0 ? 0 : WNOHANG);
	}
}

bool readers_start(struct identity_readers *r, const pid_t *pids, unsigned int count)
{
	struct identity_reader *reader = r->reader;
	int fds[2];

	while (reader < r->reader + READERS_MAX && reader->process)
		reader++;
	if (reader == r->reader + READERS_MAX)
		return false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return false;
	memcpy(reader->pids, pids, count * sizeof(*pids));
	/* Without flags it is fork() without SIGCHLD. */
	reader->process = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!reader->process)
		child_run(fds[1], r->proc, reader->pids, count);
	close(fds[1]);
	if (reader->process < 0) {
		close(fds[0]);
		memset(reader, 0, sizeof(*reader));
		return false;
	}
	reader->fd = fds[0];
	reader->count = count;
	reader->progress = read_clock(CLOCK_MONOTONIC);
	return true;
}

/* Return true if the child is in an uninterruptible sleep, as in a wait for a lock. */
static bool reader_is_blocked(const struct identity_reader *reader)
{
	char path[32], text[128], *end = NULL;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", reader->process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n > 0) {
		text[n] = '\0';
		end = strrchr(text, ')');
	}
	return end && end[1] == ' ' && end[2] == 'D';
}

/* Give up the process that the child reads; return the others. */
static void give_up(struct identity_reader *reader, const struct reader_results *results)
{
	if (reader->next < reader->count)
		results->blocked(results->arg, reader->pids[reader->next++]);
	while (reader->next < reader->count)
		results->returned(results->arg, reader->pids[reader->next++]);
}

static void take(struct identity_reader *reader, struct proc_texts *texts,
		 const struct reader_results *results)
{
	ssize_t n;

	while ((n = recv(reader->fd, texts, sizeof(*texts), MSG_DONTWAIT)) > 0) {
		if (reader->killed || reader->next == reader->count)
			continue;
		reader->next += texts->complete;
		reader->progress = read_clock(CLOCK_MONOTONIC);
		results->read(results->arg, texts);
	}
	if (!n || (errno != EAGAIN && errno != EINTR)) {
		give_up(reader, results);
		reap_reader(reader, 0);
		return;
	}
	if (!reader->killed && reader->next < reader->count &&
	    (read_clock(CLOCK_MONOTONIC) - reader->progress >= READER_DEADLINE_NS ||
	     (read_clock(CLOCK_MONOTONIC) - reader->progress >= READER_BLOCKED_NS &&
	      reader_is_blocked(reader)))) {
		kill_reader(reader);
		give_up(reader, results);
	}
}

void readers_take(struct identity_readers *r, const struct reader_results *results)
{
	unsigned int i;

	for (i = 0; i < READERS_MAX; i++) {
		if (r->reader[i].process)
			take(&r->reader[i], &r->texts, results);
	}
}

static void refill_patience(struct identity_readers *r, uint64_t now)
{
	if (r->refilled && r->patience < PATIENCE_MAX_NS) {
		r->patience += (now - r->refilled) / PATIENCE_DIVISOR;
		if (r->patience > PATIENCE_MAX_NS)
			r->patience = PATIENCE_MAX_NS;
	}
	r->refilled = now;
}

bool readers_wait(struct identity_readers *r)
{
	struct pollfd fds[READERS_MAX];
	const uint64_t begin = read_clock(CLOCK_MONOTONIC);
	bool blocked = false;
	unsigned int i, n = 0;

	refill_patience(r, begin);
	for (i = 0; i < READERS_MAX; i++) {
		if (r->reader[i].process && !r->reader[i].killed)
			fds[n++] = (struct pollfd){ .fd = r->reader[i].fd, .events = POLLIN };
	}
	if (!n || r->patience <= 0)
		return false;
	if (poll(fds, n, POLL_MS) > 0)
		return true;
	for (i = 0; i < READERS_MAX; i++)
		blocked |= r->reader[i].process && !r->reader[i].killed &&
			   reader_is_blocked(&r->reader[i]);
	if (blocked)
		r->patience -= read_clock(CLOCK_MONOTONIC) - begin;
	return true;
}

struct one {
	struct proc_texts *texts;
	bool done, read;
};

static void one_read(void *arg, const struct proc_texts *texts)
{
	struct one *one = arg;

	if (!texts->complete)
		return;
	memcpy(one->texts, texts, offsetof(struct proc_texts, cmdline) + texts->size + 1);
	one->done = one->read = true;
}

static void one_failed(void *arg, pid_t pid)
{
	struct one *one = arg;

	one->done = true;
}

bool reader_read_one(int proc, pid_t pid, struct proc_texts *texts)
{
	struct one one = { .texts = texts };
	const struct reader_results results = { &one, one_read, one_failed, one_failed };
	struct identity_readers *r = malloc(sizeof(*r));

	if (!r)
		return false;
	readers_open(r, proc);
	if (readers_start(r, &pid, 1)) {
		while (!one.done && readers_wait(r))
			readers_take(r, &results);
	}
	readers_close(r);
	free(r);
	return one.read;
}
