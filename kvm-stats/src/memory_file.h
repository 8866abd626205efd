/* SPDX-License-Identifier: GPL-2.0-only */
/* The file on a disk from which a VMM's memory comes, as that of a snapshot */
#ifndef MEMORY_FILE_H
#define MEMORY_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct memory_file {
	char path[PATH_MAX];
	char device[PATH_MAX + 80];	/* source and type of its file system, "" if unknown */
};

/*
 * Find the largest file that a process has mapped writable, and that is not in memory itself. Return false
 * if it has none, or if its mappings cannot be read in time: the lock that they need can be held for long.
 */
bool find_memory_file(int proc, pid_t pid, struct memory_file *file);

#endif /* MEMORY_FILE_H */
