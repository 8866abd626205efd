/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's account of a thread, for tests */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdint.h>
#include <stdio.h>
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

#endif /* ACCOUNT_H */
