/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's account of threads, for tests */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

struct account {
	uint64_t time;			/* CLOCK_MONOTONIC */
	unsigned long long ran, waited;	/* nanoseconds */
	unsigned long long turns;	/* number of times it got a CPU */
};

/* Return the account as of the last booking; all zeros but the time if the thread has exited. */
static inline struct account read_account(pid_t pid, pid_t tid)
{
	struct account account = { .time = read_clock(CLOCK_MONOTONIC) }, found = account;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%llu %llu %llu", &found.ran, &found.waited, &found.turns) == 3)
			account = found;
		fclose(f);
	}
	return account;
}

static inline bool read_thread_line(pid_t pid, pid_t tid, const char *name, char *text, int size)
{
	char path[64];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	f = fopen(path, "re");
	ok = f && fgets(text, size, f);
	if (f)
		fclose(f);
	return ok;
}

/* Call visit for each thread whose name begins so. */
static inline void each_thread(pid_t pid, const char *name,
			       void (*visit)(pid_t pid, pid_t tid, void *arg), void *arg)
{
	char path[64], comm[32];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		const pid_t tid = atoi(entry->d_name);

		if (tid && read_thread_line(pid, tid, "comm", comm, sizeof(comm)) &&
		    !strncmp(comm, name, strlen(name)))
			visit(pid, tid, arg);
	}
	if (dir)
		closedir(dir);
}

static inline void add_run_time(pid_t pid, pid_t tid, void *arg)
{
	*(uint64_t *)arg += read_account(pid, tid).ran;
}

/* Return the run time of all threads whose name begins so. */
static inline uint64_t run_time(pid_t pid, const char *name)
{
	uint64_t ran = 0;

	each_thread(pid, name, add_run_time, &ran);
	return ran;
}

/* Return true if a thread is stopped or has exited. */
static inline bool is_stopped(pid_t pid, pid_t tid)
{
	char text[256], *state;

	if (!read_thread_line(pid, tid, "stat", text, sizeof(text)))
		return true;
	state = strrchr(text, ')');
	return !state || state[2] == 'T';
}

#endif /* ACCOUNT_H */
