// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "stalls.h"

#define SLEEP_NS	20000000ULL
/* The charge is the time of the sleep without its wait for a CPU. */
#define TOLERANCE_NS	1000000ULL
/* A switch that the kernel does not report spoils a try. */
#define MAX_TRIES	5

#define fail(p, error, ...) (snprintf((p)->why, sizeof((p)->why), __VA_ARGS__), -(error))

/* Charge of this thread, which is in its VMM, since the sample before */
static int read_charge(struct stalls *s, uint64_t *charge, struct kvmstats_probe *p)
{
	const int error = stalls_sample(s);
	const struct stalls_row *rows;
	size_t i, n;

	if (error)
		return fail(p, -error, "cannot read the charges: %s", strerror(-error));
	rows = stalls_rows(s, &n);
	for (i = 0; i < n; i++) {
		if (rows[i].tid != (uint32_t)gettid())
			continue;
		*charge = rows[i].growth[STALL_WAIT];
		return 0;
	}
	return fail(p, EPROTO, "cannot check itself: this thread is not listed");
}

int stalls_check(struct stalls *s, struct kvmstats_probe *p)
{
	struct kvmstats_vcpu vcpu = { .tid = gettid() }, *vcpus[] = { &vcpu };
	/* An announced thread counts as one of a vCPU. */
	const struct kvmstats_vm own = {
		.identity.pid = getpid(), .vcpus = 1, .vcpu = vcpus,
	};
	const struct timespec time = { .tv_nsec = SLEEP_NS };
	uint64_t start, elapsed, charge = 0;
	int error, tries = MAX_TRIES;

	stalls_enter(s, &own);
	do {
		error = read_charge(s, &charge, p);
		if (error)
			return error;
		start = read_clock(CLOCK_MONOTONIC);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
		elapsed = read_clock(CLOCK_MONOTONIC) - start;
		error = read_charge(s, &charge, p);
		if (error)
			return error;
		if (charge + TOLERANCE_NS >= SLEEP_NS && charge <= elapsed + TOLERANCE_NS)
			return 0;
	} while (--tries);
	return fail(p, EPROTO, "a thread slept for %.1f ms, %.1f ms were charged", SLEEP_NS / 1e6,
		    charge / 1e6);
}
