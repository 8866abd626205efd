/* SPDX-License-Identifier: GPL-2.0-only */
/* Cgroups with the controller cpu, of v1 or v2, for tests */
#ifndef CGROUP_H
#define CGROUP_H

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CGROUP_PATH	2048
#define CGROUP_V1	"/sys/fs/cgroup/cpu"
#define CGROUP_V2	"/sys/fs/cgroup"

/* Write to a file of a cgroup. */
static inline bool cgroup_put(const char *cgroup, const char *file, const char *text)
{
	char path[CGROUP_PATH + 64];
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", cgroup, file) >= (int)sizeof(path))
		return false;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : write(fd, text, strlen(text));
	if (fd >= 0)
		close(fd);
	return n > 0;
}

/* Limit the sum of the run times of a cgroup's threads in each period of 100 ms. */
static inline bool cgroup_set_quota(const char *cgroup, unsigned int ms)
{
	char us[16], max[32];

	snprintf(us, sizeof(us), "%u", ms * 1000);
	snprintf(max, sizeof(max), "%u 100000", ms * 1000);
	return cgroup_put(cgroup, "cpu.cfs_quota_us", us) || cgroup_put(cgroup, "cpu.max", max);
}

/* Give a cgroup the largest weight or the smallest one. */
static inline bool cgroup_set_weight(const char *cgroup, bool largest)
{
	return cgroup_put(cgroup, "cpu.shares", largest ? "262144" : "2") ||
	       cgroup_put(cgroup, "cpu.weight", largest ? "10000" : "1");
}

/*
 * Create a cgroup below another one, or below the root if parent is NULL: then its name has the
 * PID, because several tests can run at a time.
 */
static inline bool cgroup_create(char *cgroup, const char *parent, const char *name)
{
	struct statfs mounted;
	char pid[16] = "";
	int len;

	if (!parent) {
		/* The lab mounts no cgroups. */
		if (!statfs(CGROUP_V2, &mounted) && mounted.f_type == SYSFS_MAGIC)
			mount("cgroup2", CGROUP_V2, "cgroup2", 0, NULL);
		parent = access(CGROUP_V1 "/cpu.shares", F_OK) ? CGROUP_V2 : CGROUP_V1;
		snprintf(pid, sizeof(pid), "-%d", getpid());
	}
	cgroup_put(parent, "cgroup.subtree_control", "+cpu");
	len = snprintf(cgroup, CGROUP_PATH, "%s/%s%s", parent, name, pid);
	return len < CGROUP_PATH && !mkdir(cgroup, 0755);
}

/* Remove a cgroup, whose last process may be exiting. */
static inline void cgroup_remove(const char *cgroup)
{
	while (rmdir(cgroup) && errno == EBUSY)
		usleep(10000);
}

/* Move a process, or this one if pid is 0, and those that it starts. */
static inline bool cgroup_add(const char *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return cgroup_put(cgroup, "cgroup.procs", text);
}

/*
 * Return for how long a quota stopped the CPUs of a cgroup, in nanoseconds: the sum over all
 * CPUs. "cpu.stat" has the time of the cgroup's own quota, "cpu.stat.local" (Linux 6.6 or
 * later) also that of cgroups above, while a thread of the cgroup itself wanted to run.
 */
static inline uint64_t cgroup_throttled(const char *cgroup, const char *file)
{
	unsigned long long value, found = 0;
	char path[CGROUP_PATH + 64], line[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "throttled_time %llu", &value) == 1)
			found = value;
		if (sscanf(line, "throttled_usec %llu", &value) == 1)
			found = value * 1000;
	}
	if (f)
		fclose(f);
	return found;
}

#endif /* CGROUP_H */
