// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * How a vCPU spends its time. All of it is given to something, once: what the
 * scheduler has booked for the thread and KVM for halts, as far as it fits into the
 * time that has passed; and what lasts at the instant of the sample, which is booked
 * when it ends. What was told ahead is taken off then. Totals are sums of what was
 * told, so they do not fall, whatever the kernel's counters do.
 */
#include <string.h>

#include "core.h"

/*
 * What the kernel has booked beyond the time that has passed is told at the next
 * sample, up to this: it is a reader that was interrupted between two reads. More
 * comes from clocks that drift apart, and is no time of this vCPU.
 */
#define LATE_MAX	20000000ULL

/* A thread that runs has its time booked at each tick of the kernel, 100 Hz at least. */
#define TICK_MAX	10000000ULL

/* Quotas are for periods of 100 ms, and booked when they end. */
#define PERIOD		100000000ULL

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t take(uint64_t *left, uint64_t amount)
{
	amount = at_most(*left, amount);
	*left -= amount;
	return amount;
}

/* What is booked and was not told */
static uint64_t take_booked(uint64_t *left, uint64_t booked, uint64_t *told, uint64_t late)
{
	uint64_t taken = booked > *told ? take(left, booked - *told) : 0;

	*told += taken;
	if (booked > *told + late)
		*told = booked - late;
	return taken;
}

/*
 * How long a wait that is not booked is taken to last: after others that are, as long as
 * those on average. One is booked, too, when another CPU takes over the thread, which
 * goes on waiting.
 */
static void limit_wait(struct account *a, const struct thread_times *t, uint64_t elapsed)
{
	uint64_t run = grown(t->run, a->thread.run);
	uint64_t ready = grown(t->ready, a->thread.ready);
	uint64_t turns = grown(t->turns, a->thread.turns);

	if (!run && !turns && (!ready || t->turns)) {
		a->wait_max = grown(a->wait_max + elapsed, ready);
		return;
	}
	a->wait_max = grown(elapsed, run);
	if (ready && (turns || !t->turns))
		a->wait_max = at_most(a->wait_max, turns ? ready / turns : ready);
}

/* What lasts: of what is left as much as can be booked later, with what was told ahead */
static uint64_t take_ahead(uint64_t *left, uint64_t booked, uint64_t *told, uint64_t most)
{
	uint64_t taken = take(left, most - at_most(most, grown(*told, booked)));

	*told += taken;
	return taken;
}

/* Waits that are booked now, and were told as running: that much less has run now. */
static void correct_guess(struct account *a, uint64_t booked, struct kvmstats_times *spent)
{
	uint64_t wrong = take(&spent->mode[KVMSTATS_RUN],
			      at_most(a->guessed, grown(booked, a->ready)));

	spent->mode[KVMSTATS_READY] += wrong;
	a->ready += wrong;
	a->guessed -= wrong;
}

/*
 * A thread that is assumed to sleep may have been woken, and wait: that is booked later. Or
 * it was not looked at, and has run. It is told when it is seen, for as long as nobody
 * looked, so that nothing is lost.
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
static void spend_halt(const struct role *role, struct core_vcpu *vcpu, uint64_t *left,
		       struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	bool blocking = role_sum(&role[ROLE_BLOCKING], vcpu->now);
	uint64_t ended = a->ended, lasts = 0, told = at_most(a->halt, ended);

	a->ended = 0;
	if (ended || !blocking)
		a->halt = 0;
	spent->mode[KVMSTATS_HALT] = take(left, ended - told);
	if (!blocking)
		return;
	if (!t->has_run) {
		/* Only of a halt that began before is it known that it took all. */
		if (!ended && !spent->mode[KVMSTATS_POLL] &&
		    role_sum(&role[ROLE_BLOCKING], vcpu->before))
			lasts = take(left, *left);
	} else if (t->up_to_date && t->state == THREAD_SLEEPS) {
		lasts = take(left, t->asleep);
	} else if (t->state == THREAD_RUNNABLE && a->thread.state == THREAD_RUNNABLE &&
		   !ended && !spent->mode[KVMSTATS_RUN]) {
		/* It was woken before the last sample, and waits since then. */
		uint64_t waits = take_ahead(left, t->ready, &a->ready, a->wait_max);

		spent->mode[KVMSTATS_READY] += waits;
		a->halt += waits;
	} else {
		lasts = take(left, *left);
	}
	spent->mode[KVMSTATS_HALT] += lasts;
	a->halt += lasts;
}

/*
 * What lasts, of a thread whose times have only in them what the kernel has booked. What
 * is left then of one that does not sleep was lost while it ran, see below, if that is
 * not more than it ran; or it waits for longer than others, which is seen when it is
 * booked.
 */
static void spend_lasting(struct core_vcpu *vcpu, uint64_t *left,
			  struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	enum thread_state state = t->state;
	bool runs = state == THREAD_RUNS ||
		    (state == THREAD_RUNNABLE && spent->mode[KVMSTATS_RUN] &&
		     !spent->mode[KVMSTATS_READY] && *left <= TICK_MAX);
	uint64_t lost;

	if (t->up_to_date || state == THREAD_SLEEPS || state == THREAD_UNKNOWN)
		return;
	if (runs)
		spent->mode[KVMSTATS_RUN] += take_ahead(left, t->run, &a->run, TICK_MAX);
	else
		spent->mode[KVMSTATS_READY] +=
			take_ahead(left, t->ready, &a->ready, a->wait_max);
	lost = take(left, grown(t->run, a->thread.run));
	a->guessed += lost;
	spent->mode[KVMSTATS_RUN] += lost;
	spent->mode[KVMSTATS_READY] += take_ahead(left, t->ready, &a->ready, UINT64_MAX);
}

static bool never_slept(const struct thread_times *t, const struct thread_times *before)
{
	return t->has_sleeps && before->has_sleeps && t->sleeps == before->sleeps &&
	       t->state != THREAD_SLEEPS && before->state != THREAD_SLEEPS;
}

/*
 * Interrupts, and what a hypervisor below takes, are not booked as the time of the
 * thread that is on the CPU. It is, though: of who never slept all that it did not
 * wait, whichever CPUs it was on; of others as much as they ran.
 */
static void spend_lost(struct core_vcpu *vcpu, uint64_t *left, struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread, *before = &vcpu->account.thread;
	uint64_t lost;

	if (never_slept(t, before)) {
		spent->mode[KVMSTATS_RUN] += take(left, *left);
		return;
	}
	if (!t->cpu || t->cpu != before->cpu || t->lost <= before->lost)
		return;
	lost = t->lost - before->lost;
	/* More is missing: who was blocked, too, has the part of those who ran. */
	if (*left > lost)
		lost = (double)lost * spent->mode[KVMSTATS_RUN] / spent->elapsed;
	spent->mode[KVMSTATS_RUN] += take(left, lost);
}

static void spend_throttled(struct account *a, const struct thread_times *t,
			    struct kvmstats_times *spent)
{
	if (!t->has_throttled || !a->thread.has_throttled)
		return;
	if (t->throttled > a->thread.throttled && t->throttled_cpus)
		a->throttled += (t->throttled - a->thread.throttled) / t->throttled_cpus;
	spent->mode[KVMSTATS_THROTTLED] = take(&spent->mode[KVMSTATS_READY], a->throttled);
	a->throttled -= spent->mode[KVMSTATS_THROTTLED];
	/* The rest was spent asleep, but for what was told as ready before it was booked. */
	a->throttled = at_most(a->throttled, PERIOD);
}

static void spend(const struct role *role, struct core_vcpu *vcpu, bool ended, uint64_t left,
		  struct kvmstats_times *spent)
{
	const struct thread_times *t = &vcpu->thread;
	struct account *a = &vcpu->account;
	bool thread = t->has_run && a->thread.has_run;
	bool ready = thread && t->has_ready && a->thread.has_ready;

	spent->known = thread << KVMSTATS_RUN | ready << KVMSTATS_READY |
		       (ready && t->has_throttled) << KVMSTATS_THROTTLED |
		       (role[ROLE_HALT].count > 0) << KVMSTATS_HALT |
		       (role[ROLE_POLL].count > 0) << KVMSTATS_POLL;
	if (ready && role[ROLE_HALT].count)
		spent->known |= 1 << KVMSTATS_OTHER;

	if (thread) {
		spent->mode[KVMSTATS_RUN] = take_booked(&left, t->run, &a->run,
							 LATE_MAX + a->assumed);
		/* Polling is running, for the scheduler, and booked after it. */
		spent->mode[KVMSTATS_POLL] = take(&spent->mode[KVMSTATS_RUN], a->poll);
	} else {
		spent->mode[KVMSTATS_POLL] = take(&left, a->poll);
	}
	a->poll = at_most(a->poll - spent->mode[KVMSTATS_POLL], LATE_MAX);
	if (ready) {
		limit_wait(a, t, spent->elapsed);
		spent->mode[KVMSTATS_READY] =
			take_booked(&left, t->ready, &a->ready,
				    LATE_MAX + a->guessed + a->assumed);
		correct_guess(a, t->ready, spent);
		note_assumed(a, t, spent->elapsed);
	}
	if (role[ROLE_HALT].count)
		spend_halt(role, vcpu, &left, spent);
	if (ready) {
		spend_lasting(vcpu, &left, spent);
		spend_lost(vcpu, &left, spent);
		spend_throttled(a, t, spent);
	}
	/* Of one that has ended the rest is mostly time in which it was not there. */
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
}

/* What passed is what is told: of a first sample, and after a change of threads, nothing. */
static void begin(struct account *a, const struct thread_times *t)
{
	a->run = t->run;
	a->ready = t->ready;
	a->wait_max = a->guessed = a->assumed = 0;
	a->throttled = 0;
	a->thread = *t;
}

void times_update(struct kvmstats *k, struct core_vcpu *vcpu, bool ended)
{
	const struct role *role = k->role[KVMSTATS_VCPU];
	struct kvmstats_times *spent = &vcpu->pub.last.times;
	struct kvmstats_times *total = &vcpu->pub.times;
	struct account *a = &vcpu->account;
	struct thread_times *t = &vcpu->thread;

	memset(spent, 0, sizeof(*spent));
	if (vcpu->pub.fresh) {
		a->halt = a->poll = a->ended = 0;
		begin(a, t);
		vcpu->thread_tid = vcpu->pub.tid;
		return;
	}
	if (!unchanged(vcpu)) {
		a->poll += role_growth(&role[ROLE_POLL], vcpu->now, vcpu->before);
		a->ended += role_growth(&role[ROLE_HALT], vcpu->now, vcpu->before);
	}
	/* The clock may have a timer's resolution: all is told with the next sample. */
	if (t->time <= a->thread.time) {
		spent->known = total->known;
		return;
	}
	if (vcpu->thread_tid && vcpu->thread_tid != vcpu->pub.tid)
		a->thread.has_run = false;
	vcpu->thread_tid = vcpu->pub.tid;
	spent->elapsed = t->time - a->thread.time;
	spend(role, vcpu, ended, spent->elapsed, spent);
	times_add(total, spent);
	total->known = spent->known;
	if (a->thread.has_run)
		a->thread = *t;
	else
		begin(a, t);
}

const char *kvmstats_mode_name(enum kvmstats_mode mode)
{
	static const char *const names[KVMSTATS_MODES] = {
		[KVMSTATS_RUN] = "run",
		[KVMSTATS_READY] = "ready",
		[KVMSTATS_THROTTLED] = "throttled",
		[KVMSTATS_HALT] = "halt",
		[KVMSTATS_POLL] = "poll",
		[KVMSTATS_OTHER] = "other",
		[KVMSTATS_UNKNOWN] = "unknown",
	};

	return (unsigned int)mode < KVMSTATS_MODES ? names[mode] : NULL;
}
