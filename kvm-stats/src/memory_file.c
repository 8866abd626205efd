// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory_file.h"
#include "proc.h"
#include "xalloc.h"

#define PATIENCE_MS	500
/* Libraries have smaller mappings. */
#define LEAST_BYTES	(256 * 1024)

struct mapped_file {
	unsigned int major, minor;
	unsigned long long inode, bytes;
	char path[PATH_MAX];
};

/* Copy the mappings to a pipe. No allocation: another thread of the parent may hold a lock. */
static void child_copy(int proc, const char *name, int to)
{
	char buf[4096];
	const int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		if (write(to, buf, n) != n)
			break;
	}
	syscall(SYS_exit_group, 0);
}

static int remaining_ms(const struct timespec *begin)
{
	struct timespec now;
	long long ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = PATIENCE_MS - (now.tv_sec - begin->tv_sec) * 1000 - (now.tv_nsec - begin->tv_nsec) / 1000000;
	return ms > 0 ? ms : 0;
}

/* Read all from a pipe, as far as it comes in time. Return false if that is not all. */
static bool read_in_time(int fd, char **text, size_t *size)
{
	FILE *f = check_alloc(open_memstream(text, size));
	struct timespec begin;
	ssize_t n = -1;
	char buf[4096];

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, remaining_ms(&begin)) > 0 &&
	       (n = read(fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, n, f);
	if (fclose(f))
		check_alloc(NULL);
	return !n;
}

/* Return the text of /proc/PID/maps, which the caller frees; a child reads it, and is killed if it waits. */
static char *read_mappings(int proc, pid_t pid)
{
	char name[32], *text = NULL;
	int fds[2], child;
	bool complete;
	size_t size;

	snprintf(name, sizeof(name), "%d/maps", pid);
	if (pipe2(fds, O_CLOEXEC))
		return NULL;
	/* Without flags it is fork() without SIGCHLD. */
	child = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!child)
		child_copy(proc, name, fds[1]);
	close(fds[1]);
	complete = child > 0 && read_in_time(fds[0], &text, &size);
	close(fds[0]);
	if (child > 0) {
		kill(child, SIGKILL);
		/* The child may never see the signal: don't wait for it. */
		waitpid(child, NULL, __WALL | (complete ? 0 : WNOHANG));
	}
	if (!complete) {
		free(text);
		return NULL;
	}
	return text;
}

/* Add a line of maps: FROM-TO PERMISSIONS OFFSET MAJOR:MINOR INODE PATH */
static void add_mapping(const char *line, struct mapped_file *now, struct mapped_file *most)
{
	unsigned long long from, to, inode;
	unsigned int major, minor;
	char permissions[8];
	int at = 0;

	if (sscanf(line, "%llx-%llx %7s %*x %x:%x %llu %n", &from, &to, permissions, &major, &minor, &inode, &at) != 6 ||
	    !at || !inode || permissions[1] != 'w' || line[at] != '/' || !strncmp(line + at, "/memfd:", 7))
		return;
	if (inode != now->inode || major != now->major || minor != now->minor) {
		*now = (struct mapped_file){ major, minor, inode };
		snprintf(now->path, sizeof(now->path), "%s", line + at);
	}
	now->bytes += to - from;
	if (now->bytes > most->bytes)
		*most = *now;
}

/* Find the file system of a device in mountinfo. Return false if files there are in memory. */
static bool find_device(int proc, pid_t pid, const struct mapped_file *mapped, struct memory_file *file)
{
	char name[32], number[32], type[64], source[PATH_MAX], *line = NULL, *end;
	bool on_disk = true;
	size_t size = 0;
	FILE *f;

	*file->device = '\0';
	snprintf(name, sizeof(name), "%d/mountinfo", pid);
	snprintf(number, sizeof(number), " %u:%u ", mapped->major, mapped->minor);
	f = proc_open(proc, name);
	while (f && !*file->device && getline(&line, &size, f) > 0) {
		end = strstr(line, " - ");
		if (!strstr(line, number) || !end || sscanf(end, " - %63s %4095s", type, source) != 2)
			continue;
		on_disk = strcmp(type, "tmpfs") && strcmp(type, "ramfs") && strcmp(type, "hugetlbfs") &&
			  strcmp(type, "devtmpfs");
		snprintf(file->device, sizeof(file->device), "%s, %s", source, type);
	}
	free(line);
	if (f)
		fclose(f);
	return on_disk;
}

bool find_memory_file(int proc, pid_t pid, struct memory_file *file)
{
	struct mapped_file *mapped = check_alloc(calloc(2, sizeof(*mapped)));
	char *text = read_mappings(proc, pid), *rest = text, *line;
	bool found;

	while ((line = strsep(&rest, "\n")))
		add_mapping(line, &mapped[0], &mapped[1]);
	found = mapped[1].bytes >= LEAST_BYTES && find_device(proc, pid, &mapped[1], file);
	if (found)
		strcpy(file->path, mapped[1].path);
	free(text);
	free(mapped);
	return found;
}
