// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * How a vCPU spends its time. Each nanosecond is assigned once: first the times that the
 * scheduler has booked for the thread and KVM for halts, as far as they fit into the
 * elapsed time; then the state at the time of the sample, which the kernel books only when
 * it ends. Time assigned in advance is deducted from later bookings. Totals are sums of
 * assigned times, so they never decrease, even if counters of the kernel do.
 */
#include <string.h>

#include "core.h"

/*
 * Time booked beyond the elapsed time is carried to the next sample, up to this limit: the
 * reader was interrupted between two reads. More is caused by clock drift, and is dropped.
 */
#define CLOCK_SKEW_MAX_NS	20000000ULL

/* Quotas are for periods of 100 ms, and booked when they end. */
#define PERIOD		100000000ULL

static uint64_t deduct(uint64_t *left, uint64_t amount)
{
	amount = at_most(*left, amount);
	*left -= amount;
	return amount;
}

/* Booked but not yet assigned */
static uint64_t deduct_booked(uint64_t *left, uint64_t booked, uint64_t *told, uint64_t late)
{
	uint64_t taken = booked > *told ? deduct(left, booked - *told) : 0;

	*told += taken;
	if (booked > *told + late)
		*told = booked - late;
	return taken;
}

/* Return true if the thread slept in this interval, and not only in halts. */
static bool has_slept(const struct stat_group *group, const struct core_vcpu *vcpu)
{
	const struct thread_times *t = &vcpu->thread, *before = &vcpu->account.thread;

	if (vcpu->account.ended || stat_group_sum(&group[GROUP_BLOCKING], vcpu->now) ||
	    stat_group_sum(&group[GROUP_BLOCKING], vcpu->before))
		return false;
	return before->state == THREAD_SLEEPS ||
	       (t->has_sleeps && before->has_sleeps && t->sleeps != before->sleeps);
}

/*
 * Set for how long a wait is expected to last before it is booked: the average of the
 * booked waits. A wait is also booked, and continues, if the thread moves to another CPU.
 */
static void limit_wait(struct account *a, const struct thread_times *t, uint64_t elapsed,
		       bool slept)
{
	uint64_t run = growth_of(t->run, a->thread.run);
	uint64_t ready = growth_of(t->ready, a->thread.ready);
	uint64_t turns = growth_of(t->turns, a->thread.turns);

	if (!slept && !run && !turns && (!ready || t->turns)) {
		a->wait_max = growth_of(a->wait_max + elapsed, ready);
		return;
	}
	a->wait_max = slept ? ready : growth_of(elapsed, run);
	if (ready && (turns || !t->turns))
		a->wait_max = at_most(a->wait_max, turns ? ready / turns : ready);
}

/* Assign the current state: as much of the remaining time as can be booked later. */
static uint64_t deduct_ahead(uint64_t *left, uint64_t booked, uint64_t *told, uint64_t most)
{
	uint64_t taken = deduct(left, most - at_most(most, growth_of(*told, booked)));

	*told += taken;
	return taken;
}

/* Deduct waits that are booked now but were assigned to RUN. */
static void correct_guess(struct account *a, uint64_t booked, struct kvmstats_times *spent)
{
	uint64_t wrong = deduct(&spent->mode[KVMSTATS_RUN],
			      at_most(a->guessed, growth_of(booked, a->ready)));

	spent->mode[KVMSTATS_READY] += wrong;
	a->ready += wrong;
	a->guessed -= wrong;
}

/*
 * A thread that is assumed to sleep may have been woken and wait, which is booked later, or
 * may have run without being read. Assign this time when the thread is read again, for as
 * long as it was not read, so that no time is lost.
 */
static void note_assumed(struct account *a, const struct thread_times *t, uint64_t elapsed)
{
	if (t->assumed)
		a->assumed += elapsed;
	else if (t->state != THREAD_RUNNABLE && a->ready >= t->ready && a->run >= t->run)
		a->assumed = 0;
}

/*
 * The kernel adds a halt to its time when it ends; while one lasts, "blocking" is 1,
 * and the time in which the thread neither ran nor waited belongs to it.
 */
static void spend_halt(const struct stat_group *group, struct core_vcpu *vcpu, uint64_t *left,
		       struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	bool blocking = stat_group_sum(&group[GROUP_BLOCKING], vcpu->now);
	uint64_t ended = a->ended, lasts = 0, told = at_most(a->halt, ended);

	a->ended = 0;
	if (ended || !blocking)
		a->halt = 0;
	spent->mode[KVMSTATS_HALT] = deduct(left, ended - told);
	if (!blocking)
		return;
	if (!t->has_run) {
		/* If the halt began before the previous sample, it took the whole interval. */
		if (!ended && !spent->mode[KVMSTATS_POLL] &&
		    stat_group_sum(&group[GROUP_BLOCKING], vcpu->before))
			lasts = deduct(left, *left);
	} else if (t->up_to_date && t->state == THREAD_SLEEPS) {
		lasts = deduct(left, t->asleep);
	} else if (t->state == THREAD_RUNNABLE && a->thread.state == THREAD_RUNNABLE &&
		   !ended && !spent->mode[KVMSTATS_RUN]) {
		/* The thread was woken before the previous sample and has waited since. */
		uint64_t waits = deduct_ahead(left, t->ready, &a->ready, a->wait_max);

		spent->mode[KVMSTATS_READY] += waits;
		a->halt += waits;
	} else {
		lasts = deduct(left, *left);
	}
	spent->mode[KVMSTATS_HALT] += lasts;
	a->halt += lasts;
}

/*
 * Assign the current state of a thread for which only booked times are known. The remaining
 * time of a thread that has not slept was lost while it ran, see below, unless it is more
 * than it ran; otherwise the thread waits longer than others, until this is booked.
 */
static void spend_lasting(struct core_vcpu *vcpu, bool slept, uint64_t *left,
			  struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	enum thread_state state = t->state;
	bool runs = state == THREAD_RUNS ||
		    (state == THREAD_RUNNABLE && spent->mode[KVMSTATS_RUN] &&
		     !spent->mode[KVMSTATS_READY] && *left <= TICK_MAX_NS);
	uint64_t lost;

	if (t->up_to_date || state == THREAD_SLEEPS || state == THREAD_UNKNOWN)
		return;
	if (runs)
		spent->mode[KVMSTATS_RUN] += deduct_ahead(left, t->run, &a->run, TICK_MAX_NS);
	else
		spent->mode[KVMSTATS_READY] +=
			deduct_ahead(left, t->ready, &a->ready, a->wait_max);
	if (slept) {
		/* If it was woken early, the rest of its wait is assigned when it is booked. */
		a->assumed += *left;
		return;
	}
	lost = deduct(left, growth_of(t->run, a->thread.run));
	a->guessed += lost;
	spent->mode[KVMSTATS_RUN] += lost;
	spent->mode[KVMSTATS_READY] += deduct_ahead(left, t->ready, &a->ready, UINT64_MAX);
}

static bool never_slept(const struct thread_times *t, const struct thread_times *before)
{
	return t->has_sleeps && before->has_sleeps && t->sleeps == before->sleeps &&
	       t->state != THREAD_SLEEPS && before->state != THREAD_SLEEPS;
}

/*
 * The kernel does not book interrupts, and time that a hypervisor below takes, for the thread on
 * the CPU. Count this lost time as run time: all unbooked time of a thread that never slept, on
 * whichever CPUs; for other threads, in proportion to their run time.
 */
static void spend_lost(struct core_vcpu *vcpu, uint64_t *left, struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread, *before = &vcpu->account.thread;
	uint64_t lost;

	if (never_slept(t, before)) {
		spent->mode[KVMSTATS_RUN] += deduct(left, *left);
		return;
	}
	if (!t->cpu || t->cpu != before->cpu || t->lost <= before->lost)
		return;
	lost = t->lost - before->lost;
	/* More is missing: a thread that was also blocked gets its share. */
	if (*left > lost)
		lost = (double)lost * spent->mode[KVMSTATS_RUN] / spent->elapsed;
	spent->mode[KVMSTATS_RUN] += deduct(left, lost);
}

static void spend_throttled(struct account *a, const struct thread_times *t,
			    struct kvmstats_times *spent)
{
	if (!t->has_throttled || !a->thread.has_throttled)
		return;
	a->throttled += growth_of(t->throttled, a->thread.throttled);
	spent->mode[KVMSTATS_THROTTLED] = deduct(&spent->mode[KVMSTATS_READY], a->throttled);
	a->throttled -= spent->mode[KVMSTATS_THROTTLED];
	/* Assign the rest to sleep, except for READY that was assigned in advance. */
	a->throttled = at_most(a->throttled, PERIOD);
}

static void spend(const struct stat_group *group, struct core_vcpu *vcpu, bool ended, uint64_t left,
		  struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	bool thread = t->has_run && a->thread.has_run;
	bool ready = thread && t->has_ready && a->thread.has_ready;
	bool slept = has_slept(group, vcpu);

	spent->known = thread << KVMSTATS_RUN | ready << KVMSTATS_READY |
		       (ready && t->has_throttled) << KVMSTATS_THROTTLED |
		       (group[GROUP_HALT].count > 0) << KVMSTATS_HALT |
		       (group[GROUP_POLL].count > 0) << KVMSTATS_POLL;
	if (ready && group[GROUP_HALT].count)
		spent->known |= 1 << KVMSTATS_OTHER;

	if (thread) {
		spent->mode[KVMSTATS_RUN] = deduct_booked(&left, t->run, &a->run,
							 CLOCK_SKEW_MAX_NS + a->assumed);
		/* Polling is running, for the scheduler, and booked after it. */
		spent->mode[KVMSTATS_POLL] = deduct(&spent->mode[KVMSTATS_RUN], a->poll);
	} else {
		spent->mode[KVMSTATS_POLL] = deduct(&left, a->poll);
	}
	a->poll = at_most(a->poll - spent->mode[KVMSTATS_POLL], CLOCK_SKEW_MAX_NS);
	if (ready) {
		spent->turns = growth_of(t->turns, a->thread.turns);
		spent->known |= t->turns || !t->run ? KVMSTATS_TURNS_KNOWN : 0;
		limit_wait(a, t, spent->elapsed, slept);
		spent->mode[KVMSTATS_READY] =
			deduct_booked(&left, t->ready, &a->ready,
				    CLOCK_SKEW_MAX_NS + a->guessed + a->assumed);
		correct_guess(a, t->ready, spent);
		note_assumed(a, t, spent->elapsed);
	}
	if (group[GROUP_HALT].count)
		spend_halt(group, vcpu, &left, spent);
	if (ready) {
		spend_lasting(vcpu, slept, &left, spent);
		spend_lost(vcpu, &left, spent);
		spend_throttled(a, t, spent);
	}
	/* If the VM has ended, the rest is mostly time after its end. */
	if (ended)
		spent->elapsed -= left;
	else
		spent->mode[spent->known & 1 << KVMSTATS_OTHER ? KVMSTATS_OTHER :
			    KVMSTATS_UNKNOWN] = left;
}

void times_add(struct kvmstats_times *sum, const struct kvmstats_times *times)
{
	unsigned int i;

	if (!times->elapsed)
		return;
	sum->known = sum->elapsed ? sum->known & times->known : times->known;
	sum->elapsed += times->elapsed;
	for (i = 0; i < KVMSTATS_MODES; i++)
		sum->mode[i] += times->mode[i];
	sum->turns += times->turns;
}

/* No time is assigned for a first sample or after a change of threads. */
static void begin(struct account *a, const struct thread_times *t)
{
	a->run = t->run;
	a->ready = t->ready;
	a->wait_max = a->guessed = a->assumed = 0;
	a->throttled = 0;
	a->thread = *t;
}

void times_begin_at_birth(struct core_vcpu *vcpu)
{
	const struct thread_times *t = &vcpu->thread;

	vcpu->account = (struct account){
		.thread = {
			.time = t->born ? t->born : t->time,
			.has_run = t->has_run, .has_ready = t->has_ready,
			.has_throttled = t->has_throttled, .throttled = t->throttled,
			.has_sleeps = t->has_sleeps, .up_to_date = t->up_to_date, .state = THREAD_SLEEPS,
		},
	};
	vcpu->thread_tid = vcpu->pub.tid;
}

/* The thread ran another vCPU: for this one, it did not run. */
static void pause_thread(struct core_vcpu *vcpu)
{
	const struct thread_times *before = &vcpu->account.thread;
	struct thread_times *t = &vcpu->thread;

	t->run = before->run;
	t->ready = before->ready;
	t->turns = before->turns;
	t->throttled = before->throttled;
	t->lost = before->lost;
	t->up_to_date = true;
	t->state = THREAD_SLEEPS;
	t->asleep = 0;
}

void times_update(struct kvmstats *k, struct core_vcpu *vcpu, bool ended)
{
	const struct stat_group *group = k->group[KVMSTATS_VCPU];
	struct kvmstats_times *spent = &vcpu->pub.last.times;
	struct kvmstats_times *total = &vcpu->pub.times;
	struct account *a = &vcpu->account;
	struct thread_times *t = &vcpu->thread;
	const struct thread_times read = *t;

	memset(spent, 0, sizeof(*spent));
	if (vcpu->pub.first_sample) {
		a->halt = a->poll = a->ended = 0;
		begin(a, t);
		vcpu->thread_tid = vcpu->pub.tid;
		return;
	}
	if (!unchanged(vcpu)) {
		a->poll += stat_group_growth(&group[GROUP_POLL], vcpu->now, vcpu->before);
		a->ended += stat_group_growth(&group[GROUP_HALT], vcpu->now, vcpu->before);
	}
	/* The clock may have a coarse resolution: the next sample assigns the time. */
	if (t->time <= a->thread.time) {
		spent->known = total->known;
		return;
	}
	if ((vcpu->thread_tid && vcpu->thread_tid != vcpu->pub.tid) ||
	    vcpu->thread_time == THREAD_TIME_UNKNOWN)
		a->thread.has_run = false;
	vcpu->thread_tid = vcpu->pub.tid;
	spent->elapsed = t->time - a->thread.time;
	if (vcpu->thread_time == THREAD_TIME_OTHER)
		pause_thread(vcpu);
	spend(group, vcpu, ended, spent->elapsed, spent);
	*t = read;
	times_add(total, spent);
	total->known = spent->known;
	if (a->thread.has_run && vcpu->thread_time == THREAD_TIME_OWN)
		a->thread = *t;
	else
		begin(a, t);
}

DEFINE_NAMES(mode, KVMSTATS_MODES,
	[KVMSTATS_RUN] = "run",
	[KVMSTATS_READY] = "ready",
	[KVMSTATS_THROTTLED] = "throttled",
	[KVMSTATS_HALT] = "halt",
	[KVMSTATS_POLL] = "poll",
	[KVMSTATS_OTHER] = "other",
	[KVMSTATS_UNKNOWN] = "unknown")
