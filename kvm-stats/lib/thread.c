// SPDX-License-Identifier: LGPL-2.1-or-later
/* State of a vCPU's thread from two files of /proc, which are kept open */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

/* A read that took longer was interrupted: again. */
#define READ_PAIR_MAX_NS		50000ULL
#define MAX_RETRIES		3

/* Read threads that do not run in one of so many samples, or if not read for this time. */
#define IDLE_SAMPLE_DIVISOR	4
#define IDLE_ASSUMED_MAX_NS	4000000000ULL

static int open_proc_file(const struct kvmstats *k, pid_t pid, pid_t tid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/task/%d/%s", pid, tid, name);
	return openat(k->proc, path, O_RDONLY | O_CLOEXEC);
}

static bool read_file(int fd, char *text, size_t size)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Return true if a thread has exited, and its process is visible. */
static bool has_exited(const struct kvmstats *k, pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/task/%d", pid, tid);
	if (!tid || !faccessat(k->proc, path, F_OK, 0))
		return false;
	snprintf(path, sizeof(path), "%d/task/%d", pid, pid);
	return !faccessat(k->proc, path, F_OK, 0);
}

static enum thread_state read_state(int fd)
{
	char text[256], *end;

	/* PID (NAME) STATE: the name may have anything in it. */
	if (!read_file(fd, text, sizeof(text)))
		return THREAD_UNKNOWN;
	end = strrchr(text, ')');
	if (!end || end[1] != ' ')
		return THREAD_UNKNOWN;
	return end[2] == 'R' ? THREAD_RUNNABLE : THREAD_SLEEPS;
}

/* Read the number of times that a thread went to sleep; false if the kernel does not report it. */
static bool read_sleeps(const struct kvmstats *k, pid_t pid, pid_t tid, uint64_t *sleeps)
{
	static const char name[] = "\nvoluntary_ctxt_switches:";
	int fd = open_proc_file(k, pid, tid, "status");
	char text[4096], *found;

	found = read_file(fd, text, sizeof(text)) ? strstr(text, name) : NULL;
	if (fd >= 0)
		close(fd);
	if (found)
		*sleeps = strtoull(found + strlen(name), NULL, 10);
	return found;
}

/* Time since the previous sample that is not booked */
static uint64_t unbooked(const struct account *a, const struct thread_times *t)
{
	return growth_of(t->time - a->thread.time,
			 growth_of(t->run, a->run) + growth_of(t->ready, a->ready));
}

/*
 * Skip reading the state of a vCPU that halts and wakes, or that ran or waited for all of the
 * interval: its current state follows from the counters. Reading the state costs as much as all
 * other files of the thread.
 */
static bool wants_state(const struct kvmstats *k, const struct core_vcpu *vcpu,
			const struct thread_times *t)
{
	const struct account *a = &vcpu->account;
	uint64_t elapsed = t->time - a->thread.time, rest = unbooked(a, t);

	if (vcpu->pub.first_sample || !a->thread.has_run)
		return true;
	if (rest < elapsed && stat_group_sum(&k->group[KVMSTATS_VCPU][GROUP_BLOCKING], vcpu->now))
		return false;
	return rest > elapsed / 1024;
}

/*
 * Return true if a thread that slept at the previous sample may still sleep: it was not
 * given a CPU since. Rarely, it was woken and waits: reading it costs more than the rest, so
 * threads are read in turn.
 */
static bool may_assume(struct core_vcpu *vcpu, uint64_t now)
{
	const struct account *a = &vcpu->account;

	if (vcpu->pub.first_sample || !a->thread.turns || a->thread.state != THREAD_SLEEPS ||
	    vcpu->thread_tid != vcpu->pub.tid) {
		vcpu->rested = 0;
		return false;
	}
	return (++vcpu->rested + vcpu->pub.id) % IDLE_SAMPLE_DIVISOR &&
	       a->assumed + now - a->thread.time <= IDLE_ASSUMED_MAX_NS;
}

static bool was_away(const struct thread_times *t, const struct thread_times *before)
{
	return t->turns == before->turns && t->run == before->run && t->ready == before->ready;
}

void thread_read(struct kvmstats *k, const struct core_vm *vm, struct core_vcpu *vcpu)
{
	const struct thread_times *before = &vcpu->account.thread;
	struct thread_times *t = &vcpu->thread;
	char text[64], *end;
	bool assume;
	uint64_t done;
	int i;

	assume = may_assume(vcpu, vm->pub.time);
	/* Nothing was counted for its guest, which has no exits if it does not run. */
	if (assume && unchanged(vcpu)) {
		*t = *before;
		t->time = core_now(k);
		t->assumed = true;
		return;
	}
	memset(t, 0, sizeof(*t));
	t->time = vm->pub.time;
	if (vcpu->files_tid != vcpu->pub.tid) {
		core_vcpu_close(vcpu);
		vcpu->files_tid = vcpu->pub.tid;
		if (vcpu->pub.tid) {
			vcpu->schedstat = open_proc_file(k, vm->pub.identity.pid, vcpu->pub.tid, "schedstat");
			vcpu->stat = open_proc_file(k, vm->pub.identity.pid, vcpu->pub.tid, "stat");
		}
	}
	for (i = 0; i < MAX_RETRIES; i++) {
		t->time = core_now(k);
		if (!read_file(vcpu->schedstat, text, sizeof(text))) {
			if (has_exited(k, vm->pub.identity.pid, vcpu->pub.tid))
				core_vcpu_thread_exited(vcpu, t->time);
			return;
		}
		t->run = strtoull(text, &end, 10);
		t->ready = strtoull(end, &end, 10);
		t->turns = strtoull(end, NULL, 10);
		t->state = THREAD_UNKNOWN;
		if (wants_state(k, vcpu, t)) {
			t->assumed = assume && was_away(t, before);
			t->state = t->assumed ? THREAD_SLEEPS : read_state(vcpu->stat);
		}
		done = core_now(k);
		if (done - t->time < READ_PAIR_MAX_NS)
			break;
	}
	/* Has it waited since, or has it slept outside of halts? */
	if (t->state == THREAD_RUNNABLE && unbooked(&vcpu->account, t) > TICK_MAX_NS)
		t->has_sleeps = read_sleeps(k, vm->pub.identity.pid, vcpu->pub.tid, &t->sleeps);
	/* all 0: a kernel without CONFIG_SCHED_INFO */
	t->has_run = t->has_ready = t->run + t->ready;
}
