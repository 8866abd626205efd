// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "blame.h"
#include "clock.h"
#include "probe_vm.h"

/* CPU time of the thread for which the vCPU waits; how long to wait for it at most */
#define HOG_NS		(20 * 1000000ULL)
#define MAX_NS		(10 * 1000000000ULL)
/* A switch that the kernel does not report, or a long preemption, spoils a try. */
#define MAX_TRIES	5
/* Charges are wall time: CPU time has no interrupts, and may lack a tick. */
#define TOLERANCE_NS	3000000ULL
#define HOG_NAME	"kvm-stats-check"

struct check {
	struct blame *blame;
	struct kvmstats_probe *p;
	struct probe_vm own;
	int error;
	volatile bool stop;	/* the hog ends */
	bool hogging;
	pthread_t hog;
	clockid_t hog_clock;
};

#define fail(check, error, ...) \
	(snprintf((check)->p->why, sizeof((check)->p->why), __VA_ARGS__), -(error))

/* Times at a moment at which the vCPU's thread runs */
struct times {
	uint64_t waited, charged;	/* both read by the BPF program at that moment */
	/* The hog; this thread can be preempted before and after the charges are read. */
	uint64_t ran, ran_later, charged_hog;
	uint64_t taken;
};

/* Find the entry of this thread; NULL if there is none. */
static const struct blame_thread *find_own(const struct blame *b)
{
	const uint32_t tid = syscall(SYS_gettid);
	const struct blame_thread *threads;
	size_t i, n;

	threads = blame_threads(b, &n);
	for (i = 0; i < n; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	return NULL;
}

static int read_times(struct check *c, struct times *t)
{
	const struct blame_thread *own;
	const struct blame_row *rows;
	size_t i, n;
	int error;

	*t = (struct times){ .ran = read_clock(c->hog_clock) };
	error = blame_sample(c->blame);
	t->ran_later = read_clock(c->hog_clock);
	own = find_own(c->blame);
	if (error || !own)
		return fail(c, EIO, "cannot read the charges: %s", strerror(-error));
	t->waited = own->waited;
	t->charged = own->charged;
	rows = blame_rows(c->blame, &n);
	for (i = 0; i < n; i++) {
		const struct blame_owner *owner = &rows[i].pair.owner;

		if (rows[i].pair.vm.tgid != (uint32_t)getpid())
			continue;
		/* Another kvm-stats that checks itself has a thread with the same name. */
		if (owner->kind == BLAME_VMM && owner->tgid == (uint32_t)getpid() &&
		    !strcmp(owner->comm, HOG_NAME))
			t->charged_hog += rows[i].ns;
		if (owner->kind == BLAME_STEAL)
			t->taken += rows[i].ns;
	}
	return 0;
}

static bool is_known(struct blame *b)
{
	return !blame_sample(b) && find_own(b);
}

static void *run_hog(void *arg)
{
	struct check *c = arg;

	prctl(PR_SET_NAME, HOG_NAME);
	while (!c->stop)
		;
	return NULL;
}

/* Run the guest until the hog has had so much CPU time. */
static void run_guest(struct check *c, uint64_t hog_ns)
{
	const uint64_t end = read_clock(c->hog_clock) + hog_ns;

	while (read_clock(c->hog_clock) < end && probe_vm_step(&c->own))
		;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static int compare_charges(struct check *c, const struct times *a, const struct times *b)
{
	const uint64_t waited = b->waited - a->waited, charged = b->charged - a->charged;
	const uint64_t hog = b->charged_hog - a->charged_hog, taken = b->taken - a->taken;
	const uint64_t least = b->ran > a->ran_later ? b->ran - a->ran_later : 0;
	const uint64_t most = b->ran_later - a->ran;

	if (distance(waited, charged) > TOLERANCE_NS + waited / 10)
		return fail(c, EPROTO, "a thread waited %.1f ms for a CPU, %.1f ms were charged",
			    waited / 1e6, charged / 1e6);
	if (hog + TOLERANCE_NS + taken + least / 10 < least || hog > most + TOLERANCE_NS + most / 10)
		return fail(c, EPROTO, "another thread ran %.1f ms in that time, %.1f ms were charged to it",
			    least / 1e6, hog / 1e6);
	return 0;
}

static int check_times(struct check *c)
{
	const uint64_t start = read_clock(CLOCK_MONOTONIC);
	struct times before, after;
	int error, tries = MAX_TRIES;

	while (!is_known(c->blame)) {
		if (read_clock(CLOCK_MONOTONIC) - start > MAX_NS)
			return fail(c, EPROTO, "the BPF program does not see a vCPU that is switched out");
		run_guest(c, HOG_NS / 4);
	}
	/* registered at this switch: the first wait that counts is the next one */
	run_guest(c, HOG_NS / 4);
	do {
		error = read_times(c, &before);
		run_guest(c, HOG_NS);
		error = error ?: read_times(c, &after) ?: compare_charges(c, &before, &after);
	} while (error && --tries);
	return error;
}

static void *run_check(void *arg)
{
	struct check *c = arg;
	cpu_set_t cpus;

	/* Threads with the real-time priority of their process would not take turns on a CPU. */
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		c->error = fail(c, errno, "cannot pin a thread to a CPU: %s", strerror(errno));
		return NULL;
	}
	/* The VM has one thread, so that other programs know how little CPU time it has used. */
	probe_vm_run(&c->own);
	if (!c->own.halts) {
		c->error = fail(c, EOPNOTSUPP, "cannot check itself: a vCPU does not run here");
		return NULL;
	}
	c->error = pthread_create(&c->hog, NULL, run_hog, c);
	if (c->error) {
		c->error = fail(c, c->error, "cannot create a thread: %s", strerror(c->error));
		return NULL;
	}
	pthread_getcpuclockid(c->hog, &c->hog_clock);
	c->error = check_times(c);
	c->stop = true;
	pthread_join(c->hog, NULL);
	return NULL;
}

int blame_check(struct blame *blame, struct kvmstats_probe *p)
{
	struct check c = { .blame = blame, .p = p };
	char why[200];
	pthread_t thread;
	int error = probe_vm_open(&c.own, PROBE_VCPU_ID, why, sizeof(why));

	if (error) {
		snprintf(p->why, sizeof(p->why), "cannot check itself with a VM: %s", why);
		return error;
	}
	error = pthread_create(&thread, NULL, run_check, &c);
	if (error) {
		error = fail(&c, error, "cannot create a thread: %s", strerror(error));
		goto out;
	}
	pthread_join(thread, NULL);
	error = c.error;
out:
	probe_vm_close(&c.own);
	return error;
}
