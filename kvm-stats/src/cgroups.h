/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cgroups of this host as this process can reach them: v1, v2 or both, also in a cgroup namespace.
 * Each file is read once. No function waits for a VMM.
 */
#ifndef CGROUPS_H
#define CGROUPS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* v2 is each of these that v1 does not have. */
enum hierarchy {
	HIERARCHY_CPU, HIERARCHY_CPUSET, HIERARCHY_FREEZER, HIERARCHY_MEMORY, HIERARCHY_SYSTEMD, HIERARCHY_V2,
	HIERARCHIES
};

/* Enough for /proc/PID/cgroup: a line for each of 14 hierarchies */
#define PROC_CGROUP_SIZE	(14 * PATH_MAX)

/* cpu.weight of v2, and cpu.shares of v1 */
#define WEIGHT_MIN(v2)		((v2) ? 1U : 2U)
#define WEIGHT_DEFAULT(v2)	((v2) ? 100U : 1024U)
#define WEIGHT_MAX(v2)		((v2) ? 10000U : 262144U)

/* A cgroup; the path begins in the mounted directory, "" is that directory. */
struct cgroup {
	enum hierarchy hierarchy;
	bool v2;
	char path[PATH_MAX];
};

/* The CPU time that a cgroup gets */
struct cgroup_limits {
	unsigned int weight;	/* 0 for the root */
	bool idle;		/* cpu.idle: less than each weight */
	uint64_t quota_us;	/* 0 without a quota */
	uint64_t period_us;
};

struct cgroups;

/*
 * Find the mounted hierarchies. proc: a procfs, which must remain open. The caller passes the result to
 * free_cgroups(). Exits without memory.
 */
struct cgroups *find_cgroups(int proc);
void free_cgroups(struct cgroups *cgroups);

/*
 * Find the cgroup of a thread. In v2, this is the nearest one that has the controller. Return false if
 * it is not known, or not below the root of this process's cgroup namespace.
 */
bool find_thread_cgroup(const struct cgroups *cgroups, pid_t tid, enum hierarchy hierarchy, struct cgroup *cgroup);

/* The last component of a path */
const char *base_name(const char *path);

/* Go to the cgroup above. Return false at the root. */
bool leave_cgroup(struct cgroup *cgroup);

/* Return the text of a cgroup's file, NULL if it cannot be read. Valid until free_cgroups(). */
const char *read_cgroup(struct cgroups *cgroups, const struct cgroup *cgroup, const char *file);

/* Read weight and quota. Return false if a file that the cgroup has cannot be read. */
bool read_cgroup_limits(struct cgroups *cgroups, const struct cgroup *cgroup, struct cgroup_limits *limits);

/* Return true if the cgroup is frozen itself, regardless of those above. */
bool is_cgroup_frozen(struct cgroups *cgroups, const struct cgroup *cgroup);

/* Return true if the cgroup uses as much memory as memory.high of v2, above which the kernel delays it. */
bool is_at_memory_high(struct cgroups *cgroups, const struct cgroup *cgroup);

/* Write the path of a cgroup's file, or of its directory if file is "". Return false if it is too long. */
bool cgroup_file_path(const struct cgroups *cgroups, const struct cgroup *cgroup, const char *file, char path[PATH_MAX]);

/*
 * Two cgroups compete for CPU time where their paths part. Return the length of the common part, and
 * set the lengths up to the two siblings; such a length equals the common one if the path ends there.
 */
size_t find_siblings(const char *a, const char *b, size_t *a_len, size_t *b_len);

/* Return true if the path is the cgroup, or below it. */
bool is_in_cgroup(const char *path, const char *cgroup);

/* Return true if this is the name of a service or a scope, or the path ends with one. */
bool looks_like_unit(const char *path);

/*
 * Name the unit of the host's systemd to which a cgroup belongs: the first one below the slices, or the
 * last slice. rest: set to the part of the path after the unit. Return false if the cgroup has none, or
 * if it only looks like a unit: each directory up to it must belong to root, and a service or a scope
 * must be one that the host's systemd has started.
 */
bool find_host_unit(struct cgroups *cgroups, const struct cgroup *cgroup, char name[NAME_MAX + 1], const char **rest);

/* The program that sets the limits of a cgroup, and would set them back */
enum manager {
	MANAGER_NONE,		/* no other program: files may be written */
	MANAGER_SYSTEMD,	/* the cgroup is a unit of the host's systemd */
	MANAGER_KUBERNETES,
	MANAGER_UNKNOWN,	/* it looks like a unit, but is not proved to be one */
};

/* Find it. unit: set for MANAGER_SYSTEMD. */
enum manager find_manager(struct cgroups *cgroups, const struct cgroup *cgroup, char unit[NAME_MAX + 1]);

#endif /* CGROUPS_H */
