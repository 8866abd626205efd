// SPDX-License-Identifier: LGPL-2.1-or-later
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "hash.h"
#include "proc.h"

/* Names that end in ':' are followed by the vCPU id. */
static const char * const links[KVM_FD_KINDS] = {
	[KVM_FD_VM]		= "anon_inode:kvm-vm",
	[KVM_FD_VCPU]		= "anon_inode:kvm-vcpu:",
	[KVM_FD_VM_STATS]	= "anon_inode:kvm-vm-stats",
	[KVM_FD_VCPU_STATS]	= "anon_inode:kvm-vcpu-stats:",
	[KVM_FD_VCPUS_STATS]	= "anon_inode:kvm-vcpus-stats",
};

/* A number as /proc writes them, or -1. */
static int parse_decimal(const char *s)
{
	long n;
	char *end;

	if (!isdigit((unsigned char)*s))
		return -1;
	errno = 0;
	n = strtol(s, &end, 10);
	return *end || errno || n > INT_MAX ? -1 : n;
}

static bool parse_link(const char *link, struct kvm_fd *fd)
{
	unsigned int kind;

	for (kind = 0; kind < KVM_FD_KINDS; kind++) {
		size_t len = strlen(links[kind]);

		fd->kind = kind;
		fd->id = 0;
		if (!strcmp(link, links[kind]))
			return links[kind][len - 1] != ':';
		if (links[kind][len - 1] == ':' &&
		    !strncmp(link, links[kind], len)) {
			fd->id = parse_decimal(link + len);
			return fd->id >= 0;
		}
	}
	return false;
}

/* 1: a KVM file, 0: another one, or gone; else a negative errno */
static int read_kvm_link(int dirfd, const char *name, struct kvm_fd *fd)
{
	char link[64];
	ssize_t len = readlinkat(dirfd, name, link, sizeof(link) - 1);

	if (len < 0)
		return errno == ENOENT ? 0 : -errno;
	link[len] = '\0';
	return parse_link(link, fd);
}

/* readdir() would allocate a buffer for each of the thousands of directories. */
int proc_numbers(int dirfd, int (*number)(void *arg, int dirfd, int n), void *arg)
{
	char buf[8192] __attribute__((aligned(8)));
	long size, at;
	int n, ret;

	while ((size = syscall(SYS_getdents64, dirfd, buf, sizeof(buf))) > 0) {
		for (at = 0; at < size;) {
			const struct dirent64 *entry = (void *)(buf + at);

			at += entry->d_reclen;
			n = parse_decimal(entry->d_name);
			ret = n < 0 ? 0 : number(arg, dirfd, n);
			if (ret)
				return ret;
		}
	}
	return size < 0 ? -errno : 0;
}

static int open_of(int proc, pid_t pid, const char *what, int flags)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", pid, what);
	fd = openat(proc, path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static ssize_t read_and_close(int fd, char *buf, size_t size)
{
	ssize_t n = read(fd, buf, size - 1);

	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

bool proc_read(int proc, pid_t pid, const char *name, char *text, size_t size)
{
	int fd = open_of(proc, pid, name, O_RDONLY);

	return fd >= 0 && read_and_close(fd, text, size) > 0;
}

FILE *proc_open(int proc, const char *path)
{
	const int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !f) {
		close(fd);
		errno = ENOMEM;
	}
	return f;
}

bool proc_hash(int proc, pid_t pid, const char *name, uint64_t *hash)
{
	int fd = open_of(proc, pid, name, O_RDONLY);
	char text[4096];
	ssize_t n;

	*hash = HASH_BASIS;
	if (fd < 0)
		return false;
	while ((n = read(fd, text, sizeof(text))) > 0)
		*hash = hash_data(*hash, text, n);
	close(fd);
	return !n;
}

struct fd_list {
	struct kvm_fd *list;
	int max, count;
	long all;
};

static int add_fd(void *arg, int dirfd, int n)
{
	struct fd_list *fds = arg;
	struct kvm_fd fd = { .num = n };
	char name[16];
	int ret;

	if (fds->all++ == PROC_FDS_MAX)
		return 1;
	snprintf(name, sizeof(name), "%d", n);
	ret = read_kvm_link(dirfd, name, &fd);
	if (ret <= 0)
		return ret;
	if (fds->count < fds->max)
		fds->list[fds->count] = fd;
	fds->count++;
	return 0;
}

int proc_kvm_fds(int proc, pid_t pid, struct kvm_fd *list, int max, long *all)
{
	struct fd_list fds = { list, max, 0, 0 };
	int dirfd, ret;

	dirfd = open_of(proc, pid, "fd", O_RDONLY | O_DIRECTORY);
	if (dirfd < 0)
		return dirfd;
	ret = proc_numbers(dirfd, add_fd, &fds);
	close(dirfd);
	*all = fds.all;
	return ret < 0 ? ret : fds.count;
}

int proc_fd_folder(int proc, pid_t pid)
{
	int fd = open_of(proc, pid, "fd", O_PATH | O_DIRECTORY);

	return fd < 0 ? -1 : fd;
}

long proc_count_fds(int proc, pid_t pid, int folder)
{
	struct stat st;
	char path[32];

	if (folder >= 0)
		return fstat(folder, &st) ? -1 : st.st_size;
	snprintf(path, sizeof(path), "%d/fd", pid);
	return fstatat(proc, path, &st, 0) ? -1 : st.st_size;
}

int proc_pidfd(pid_t pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int proc_take_fd(int pidfd, const struct kvm_fd *want)
{
	int fd = syscall(SYS_pidfd_getfd, pidfd, want->num, 0);
	struct kvm_fd got = { 0 };
	char path[32];

	if (fd < 0)
		return -errno;
	/* Between our look and now, the number may have been used again. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (read_kvm_link(AT_FDCWD, path, &got) == 1 && got.kind == want->kind &&
	    got.id == want->id)
		return fd;
	close(fd);
	return -EBADF;
}

uint64_t proc_fdinfo(int fd, const char *name)
{
	char buf[1024], *line, *next = buf;
	size_t len = strlen(name);
	int info;

	snprintf(buf, sizeof(buf), "/proc/self/fdinfo/%d", fd);
	info = open(buf, O_RDONLY | O_CLOEXEC);
	if (info < 0 || read_and_close(info, buf, sizeof(buf)) < 0)
		return 0;
	while ((line = strsep(&next, "\n"))) {
		if (!strncmp(line, name, len) && line[len] == ':')
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

int proc_rows(int proc, int fd, struct proc_row **rows)
{
	struct proc_row row, *more;
	char path[48], line[128];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "self/fdinfo/%d", fd);
	file = proc_open(proc, path);
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "kvm-stats-vcpu: %" SCNu32 " %d", &row.id, &row.tid) != 2)
			continue;
		/* The array grows when its size is a power of two. */
		more = n & (n - 1) ? *rows : realloc(*rows, (n ? 2 * n : 1) * sizeof(row));
		if (!more) {
			n = -ENOMEM;
			break;
		}
		*rows = more;
		more[n++] = row;
	}
	fclose(file);
	return n;
}

bool proc_comm(int proc, pid_t pid, char *comm, size_t size)
{
	char *newline;

	if (!proc_read(proc, pid, "comm", comm, size))
		return false;
	/* the last one: a process may have others in its name */
	newline = strrchr(comm, '\n');
	if (newline)
		*newline = '\0';
	return true;
}

/* Copy field n of /proc/PID/stat, see proc(5), to text, with the fields after it. */
static bool read_stat(int proc, pid_t pid, int n, char text[512])
{
	char *at;
	int field;

	if (!proc_read(proc, pid, "stat", text, 512))
		return false;
	/* PID (NAME) STATE...: the name may have anything in it. */
	at = strrchr(text, ')');
	for (field = 2; at && field < n; field++)
		at = strchr(at + 1, ' ');
	if (at)
		memmove(text, at + 1, strlen(at));
	return at;
}

/* <linux/sched.h> */
#define KERNEL_THREAD	0x00200000

bool proc_is_user(int proc, pid_t pid)
{
	char state[512], flags[512];

	return read_stat(proc, pid, 3, state) && *state != 'Z' && *state != 'X' &&
	       read_stat(proc, pid, 9, flags) && !(strtoul(flags, NULL, 10) & KERNEL_THREAD);
}

uint64_t proc_started(int proc, pid_t pid)
{
	char text[512];

	return read_stat(proc, pid, 22, text) ?
	       strtoull(text, NULL, 10) * (1000000000ULL / sysconf(_SC_CLK_TCK)) : 0;
}

struct thread_list {
	int proc;
	pid_t pid;
	const struct kvm_fd *list;
	int n;
	bool names;
	pid_t *tid;
	int found, count;
};

/* A sleeping thread shows ioctl(FD, KVM_RUN); nothing is known of a running one. */
static int fd_of_call(const char *text)
{
	unsigned long long fd, request;
	long call;

	if (sscanf(text, "%ld 0x%llx 0x%llx", &call, &fd, &request) != 3 ||
	    call != SYS_ioctl || request != ABI_RUN)
		return -1;
	return fd;
}

/* QEMU with debug-threads=on, Firecracker, cloud-hypervisor, crosvm, kvmtool */
static int id_of_name(const char *comm)
{
	static const char * const names[] = {
		"CPU %u/KVM%n", "fc_vcpu %u%n", "vcpu%u%n", "crosvm_vcpu%u%n",
		"kvm-vcpu-%u%n",
	};
	unsigned int i, id;
	int len;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		len = 0;
		if (sscanf(comm, names[i], &id, &len) == 1 && len &&
		    (!comm[len] || comm[len] == '\n') && id <= INT_MAX)
			return id;
	}
	return -1;
}

static int look_at_thread(void *arg, int dirfd, int tid)
{
	struct thread_list *t = arg;
	int i, num = -1, id = -1;
	char text[256];

	if (t->count++ == PROC_THREADS_MAX)
		return 1;
	if (proc_read(dirfd, tid, "syscall", text, sizeof(text)))
		num = fd_of_call(text);
	if (num < 0 && t->names && proc_read(dirfd, tid, "comm", text, sizeof(text)))
		id = id_of_name(text);
	for (i = 0; i < t->n; i++) {
		if (t->list[i].kind != KVM_FD_VCPU || t->tid[i])
			continue;
		if (num >= 0 ? t->list[i].num == num : t->list[i].id == id) {
			t->tid[i] = tid;
			t->found++;
			break;
		}
	}
	return 0;
}

int proc_vcpu_threads(int proc, pid_t pid, const struct kvm_fd *list, int n,
		      bool names, pid_t *tid)
{
	struct thread_list t = { proc, pid, list, n, names, tid, 0, 0 };
	int dirfd = open_of(proc, pid, "task", O_RDONLY | O_DIRECTORY);
	int ret;

	if (dirfd < 0)
		return dirfd;
	ret = proc_numbers(dirfd, look_at_thread, &t);
	close(dirfd);
	return ret < 0 ? ret : t.found;
}
