/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Read files of /proc/PID that wait for locks of the process, in child processes. A process can
 * hold these locks as long as it likes, for example while a page fault waits for a network or
 * FUSE file system. A child that waits is killed, and if it cannot be killed, it is left behind
 * and does not delay the exit of this process, as a thread would.
 */
#ifndef KVMSTATS_IDENTITY_READER_H
#define KVMSTATS_IDENTITY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Children at the same time, including those that were killed and still wait */
#define READERS_MAX	4

/* Time until a child that waits for a lock is killed, and until any child is */
#define READER_BLOCKED_NS	100000000ULL
#define READER_DEADLINE_NS	1000000000ULL

/* Processes that one child reads */
#define READER_PIDS	128

/* What exceeds this limit is cut off: a message to the parent has at most 200 KiB. */
#define CMDLINE_MAX	131072

/* Each text ends with '\0'; "" if the file could not be read. */
struct proc_texts {
	pid_t pid;
	bool complete;		/* false: sent before cmdline is read, which may block */
	uint32_t size;		/* of cmdline, which contains a '\0' after each argument */
	char comm[32];
	uint64_t cgroups_hash;	/* of the whole file */
	char cgroups[3 * 4200];	/* the lines that identify the VM, see identity_from_proc() */
	char cmdline[CMDLINE_MAX];	/* last: only size bytes are sent */
};

struct identity_reader {
	pid_t process;		/* 0 if unused */
	int fd;
	pid_t pids[READER_PIDS];
	unsigned int count, next;	/* texts of pids[next] are awaited */
	uint64_t progress;	/* start, or time of the last texts: CLOCK_MONOTONIC */
	bool killed;
};

struct identity_readers {
	int proc;		/* the procfs */
	int64_t patience;	/* time to wait for blocked children, ns */
	uint64_t refilled;
	struct identity_reader reader[READERS_MAX];
	struct proc_texts texts;	/* that were received */
};

/* Called by readers_take() */
struct reader_results {
	void *arg;
	void (*read)(void *arg, const struct proc_texts *texts);	/* maybe incomplete ones first */
	void (*blocked)(void *arg, pid_t pid);	/* the process did not let it be read */
	void (*returned)(void *arg, pid_t pid);	/* not tried */
};

void readers_open(struct identity_readers *r, int proc);

/* Kill the children, and wait for those that can be killed. */
void readers_close(struct identity_readers *r);

/* Start to read the texts of processes. Return false if all children are in use. */
bool readers_start(struct identity_readers *r, const pid_t *pids, unsigned int count);

/* Report texts that were read, and processes that block their reader, which is killed. */
void readers_take(struct identity_readers *r, const struct reader_results *results);

/*
 * Wait for results, 10 ms at most. Return false if there is nothing to wait for, or if
 * patience, which is a tenth of the time, has ended.
 */
bool readers_wait(struct identity_readers *r);

/* Read the texts of a process. Return false if the process blocks its reader. */
bool reader_read_one(int proc, pid_t pid, struct proc_texts *texts);

#endif /* KVMSTATS_IDENTITY_READER_H */
