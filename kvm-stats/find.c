// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "find.h"

/* Those that end in ':' are followed by the id of the vCPU. */
static const char * const links[] = {
	[KVM_FD_VM]		= "anon_inode:kvm-vm",
	[KVM_FD_VCPU]		= "anon_inode:kvm-vcpu:",
	[KVM_FD_VM_STATS]	= "anon_inode:kvm-vm-stats",
	[KVM_FD_VCPU_STATS]	= "anon_inode:kvm-vcpu-stats:",
};

/* A number as /proc writes them, or -1. */
static int parse_number(const char *s)
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

	for (kind = KVM_FD_VM; kind <= KVM_FD_VCPU_STATS; kind++) {
		size_t len = strlen(links[kind]);

		fd->kind = kind;
		fd->id = 0;
		if (!strcmp(link, links[kind]))
			return links[kind][len - 1] != ':';
		if (links[kind][len - 1] == ':' &&
		    !strncmp(link, links[kind], len)) {
			fd->id = parse_number(link + len);
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

static int compare_fds(const void *a, const void *b)
{
	const struct kvm_fd *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->num > y->num) - (x->num < y->num);
}

int find_fds(pid_t pid, struct kvm_fd **list)
{
	struct kvm_fd fd, *fds = NULL;
	struct dirent *entry;
	int ret = 0, n = 0;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;

	while ((entry = readdir(dir))) {
		fd.num = parse_number(entry->d_name);
		if (fd.num < 0)
			continue;
		ret = read_kvm_link(dirfd(dir), entry->d_name, &fd);
		if (ret < 0)
			break;
		if (!ret)
			continue;
		/* room for 16 more, each time 16 are full */
		if (n % 16 == 0) {
			struct kvm_fd *more;

			more = realloc(fds, (n + 16) * sizeof(*fds));
			if (!more) {
				ret = -ENOMEM;
				break;
			}
			fds = more;
		}
		fds[n++] = fd;
	}
	closedir(dir);

	if (ret < 0) {
		free(fds);
		return ret;
	}
	if (n)
		qsort(fds, n, sizeof(*fds), compare_fds);
	*list = fds;
	return n;
}

int count_fds(const struct kvm_fd *list, int n, enum kvm_fd_kind kind)
{
	int i, count = 0;

	for (i = 0; i < n; i++)
		count += list[i].kind == kind;
	return count;
}

int find_vmms(void (*found)(pid_t pid, const struct kvm_fd *list, int n))
{
	struct dirent *entry;
	struct kvm_fd *fds;
	int denied = 0;
	DIR *dir;

	dir = opendir("/proc");
	if (!dir)
		return -errno;

	while ((entry = readdir(dir))) {
		pid_t pid = parse_number(entry->d_name);
		int n;

		if (pid < 0)
			continue;
		n = find_fds(pid, &fds);
		denied += n == -EACCES || n == -EPERM;
		/* other errors: it has ended since */
		if (n < 0)
			continue;
		if (count_fds(fds, n, KVM_FD_VM))
			found(pid, fds, n);
		free(fds);
	}
	closedir(dir);
	return denied;
}

void find_comm(pid_t pid, char *buf, size_t size)
{
	char path[32], *c;
	FILE *f;

	snprintf(buf, size, "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(buf, size, f))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(f);
	/* a process names itself: with control characters, if it likes */
	for (c = buf; *c; c++) {
		if (!isgraph((unsigned char)*c))
			*c = '?';
	}
}

int open_pidfd(pid_t pid)
{
	int fd = syscall(__NR_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int take_fd(int pidfd, const struct kvm_fd *want)
{
	int fd = syscall(__NR_pidfd_getfd, pidfd, want->num, 0);
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
