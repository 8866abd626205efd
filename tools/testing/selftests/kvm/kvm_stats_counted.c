// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test what the statistics count
 *
 * A guest that exits a known number of times moves the counters by that, as
 * debugfs shows too; a guest that halts moves those of a halt. And counting is
 * all: a vCPU that is in KVM_RUN is not disturbed by who opens its statistics.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/compiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

#define VCPU_ID		0
#define OTHER_VCPU_ID	1

#define NSEC_PER_MSEC	1000000L

/*
 * In a file of debugfs that has the name of a statistic stands its value, for
 * vCPUs the sum of all.
 */
static void test_debugfs(const struct stats_file *file,
			 const struct stats_file *other, const char *when)
{
	char dir[NAME_MAX + 32], path[NAME_MAX + 96], text[32];
	unsigned int same = 0, different = 0;
	uint32_t i;

	if (!debugfs_has_kvm()) {
		ksft_test_result_skip("%s: no debugfs\n", file->label);
		return;
	}
	TEST_ASSERT(debugfs_dir(getpid(), -1, dir, sizeof(dir)),
		    "The VM has no directory in debugfs");
	for (i = 0; i < file->stats.count; i++) {
		const char *name = kvm_stats_desc(&file->stats, i)->name;
		uint64_t value;
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, name);
		f = fopen(path, "r");
		if (!f)
			continue;
		TEST_ASSERT(fgets(text, sizeof(text), f), "%s is empty", path);
		fclose(f);
		value = kvm_stats_value(&file->stats, name);
		if (other)
			value += kvm_stats_value(&other->stats, name);
		if (value == strtoull(text, NULL, 10)) {
			same++;
			continue;
		}
		ksft_print_msg("%s is %llu, but in debugfs %s", name,
			       (unsigned long long)value, text);
		different++;
	}
	/* Not all files have the name of the statistic, a VM may have none. */
	ok(!different && (same || !other),
	   "%s: %u values equal debugfs %s", file->label, same, when);
}

/* N exits increase the counters of their vCPU by the known amounts. */
static void test_guest(struct kvm_vm *vm, struct stats_file *file,
		       const struct stats_file *other)
{
	const struct guest_exit_stat *stat = guest_exit_stats();
	const unsigned int n = 100;
	uint64_t before[16], moved, want;
	int i;

	for (i = 0; stat[i].name; i++)
		before[i] = kvm_stats_value(&file->stats, stat[i].name);
	vcpu_run_exits(vm, VCPU_ID, n);
	for (i = 0; stat[i].name; i++) {
		moved = kvm_stats_value(&file->stats, stat[i].name) - before[i];
		want = (uint64_t)n * stat[i].per_run;
		ok(stat[i].exact ? moved == want : moved >= want,
		   "%s: %u exits moved %s by %llu, expected %s%llu", file->label,
		   n, stat[i].name, (unsigned long long)moved,
		   stat[i].exact ? "" : "at least ", (unsigned long long)want);
	}
	ok(stats_file_unchanged(other), "%s: the exits move nothing of another vCPU", file->label);
}

/* Return the sum of all counters of a vCPU, except for times */
static uint64_t counted(const struct kvm_stats *stats)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < stats->count; i++) {
		const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);

		if (desc->flags == (KVM_STATS_TYPE_CUMULATIVE | KVM_STATS_UNIT_NONE))
			sum += kvm_stats_value(stats, desc->name);
	}
	return sum;
}

/*
 * The time for a vCPU that was kicked to be in the guest again. With one CPU it
 * cannot reenter concurrently, and with a coarse timer this would take long.
 */
static void leave_to_vcpu(void)
{
	static long cpus;

	if (!cpus)
		cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > 1)
		usleep(50);
}

/* How many files are opened in a span, and in how many spans at most */
#define OPENS	100
#define SPANS	100

/* Open, read and close files of statistics; how often that has failed, and how long each took */
static unsigned int open_statistics(int vm_fd, int vcpu_fd, uint64_t took_ns[OPENS])
{
	unsigned int i, failed = 0;
	uint64_t begin;
	char byte;
	int fd;

	for (i = 0; i < OPENS; i++) {
		begin = now_ns();
		fd = ioctl(i % 4 ? vcpu_fd : vm_fd,
			   i % 2 ? KVM_STATS_GETFD : KVM_GET_STATS_FD, 0);
		failed += pread(fd, &byte, 1, 0) != 1 || close(fd);
		took_ns[i] = now_ns() - begin;
		leave_to_vcpu();
	}
	return failed;
}

/* Open eventfds instead, for the same time each, so that other conditions are equal */
static void open_eventfds(const uint64_t took_ns[OPENS])
{
	unsigned int i;
	uint64_t begin;

	for (i = 0; i < OPENS; i++) {
		begin = now_ns();
		do
			close(eventfd(0, 0));
		while (now_ns() - begin < took_ns[i]);
		leave_to_vcpu();
	}
}

/*
 * A vCPU stays in KVM_RUN while its statistics are opened and read. The host
 * also interrupts the guest for other reasons, and more often if it has other work:
 * so spans with and without statistics, equally busy, alternate
 * until the calmest of each are alike. A vCPU that is kicked would count once for
 * each file in all.
 */
static void test_running(void)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_spins);
	int vm_fd = vm_get_fd(vm), vcpu_fd = vcpu_get_fd(vm, VCPU_ID);
	uint64_t opening = UINT64_MAX, otherwise = UINT64_MAX;
	unsigned int i, failed = 0;
	struct vcpu_thread thread;
	uint64_t took_ns[OPENS];
	struct kvm_stats stats;

	/* If opening waited for the vCPU, it would wait until the alarm. */
	vcpu_thread_start(&thread, vcpu_fd);
	kvm_stats_open_getfd(&stats, vcpu_fd, 0);

	for (i = 0; i < SPANS && (i < 10 || opening >= otherwise + OPENS / 10); i++) {
		uint64_t before = counted(&stats), between, moved;

		failed += open_statistics(vm_fd, vcpu_fd, took_ns);
		between = counted(&stats);
		open_eventfds(took_ns);
		moved = counted(&stats) - between;
		if (between - before < opening)
			opening = between - before;
		if (moved < otherwise)
			otherwise = moved;
		vcpu_thread_goes_on();
	}

	ok(!failed, "the file is opened and read %u times while the vCPU is in KVM_RUN", i * OPENS);
	ok(opening < otherwise + OPENS / 10,
	   "%u opens: the vCPU counted %llu, with eventfds %llu: less than %u more",
	   OPENS, (unsigned long long)opening, (unsigned long long)otherwise, OPENS / 10);
	ok(!READ_ONCE(thread.left), "the vCPU stayed in KVM_RUN");

	vcpu_thread_stop(&thread);
	ok(thread.run_errno == EINTR, "a signal ends KVM_RUN: %s",
	   strerror(thread.run_errno));
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

/* A histogram of times in ns, as it is in the file, and bounds of their sum */
struct histogram {
	uint64_t buckets[32];
	uint64_t count;
	uint64_t least_ns;
	uint64_t most_ns;
};

/* Bucket 0 is for 0, number i for [2^(i-1), 2^i), the last one for the rest. */
static void read_histogram(const struct kvm_stats *stats, const char *name,
			   struct histogram *hist)
{
	const struct kvm_stats_desc *desc = kvm_stats_find(stats, name);
	const int last = ARRAY_SIZE(hist->buckets) - 1;
	int i;

	memset(hist, 0, sizeof(*hist));
	TEST_ASSERT(desc && desc->size == ARRAY_SIZE(hist->buckets),
		    "%s: not a histogram of %d buckets", name, last + 1);
	TEST_ASSERT(pread(stats->fd, hist->buckets, sizeof(hist->buckets),
			  stats->data_offset + desc->offset) ==
		    sizeof(hist->buckets), "Reading %s failed", name);
	for (i = 0; i <= last; i++) {
		uint64_t n = hist->buckets[i];

		hist->count += n;
		if (i)
			hist->least_ns += n << (i - 1);
		if (i == last && n)
			hist->most_ns = UINT64_MAX;
		else if (i != last)
			hist->most_ns += n * ((1ULL << i) - 1);
	}
}

static bool histogram_fits(const struct histogram *hist, uint64_t ns)
{
	return ns >= hist->least_ns && ns <= hist->most_ns;
}

/* One halt, from which a signal wakes the vCPU, and what is counted of it */
static void test_halt(unsigned int ms)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_halts);
	struct vcpu_thread thread;
	struct histogram waits;
	struct kvm_stats stats;
	uint64_t blocking, wait;
	int i;

	kvm_stats_open_getfd(&stats, vcpu_get_fd(vm, VCPU_ID), 0);
	ok(!kvm_stats_value(&stats, "blocking"), "a new vCPU does not block");
	vcpu_thread_start(&thread, vcpu_get_fd(vm, VCPU_ID));
	for (i = 0; i < 1000 && !kvm_stats_value(&stats, "blocking"); i++)
		usleep(10000);
	blocking = kvm_stats_value(&stats, "blocking");
	ok(blocking == 1, "blocking is %llu when it has halted",
	   (unsigned long long)blocking);
	usleep(ms * 1000);
	vcpu_thread_stop(&thread);
	ok(!kvm_stats_value(&stats, "blocking"), "blocking is 0 after a signal");

	wait = kvm_stats_value(&stats, "halt_wait_ns");
	ok(wait >= (uint64_t)ms * NSEC_PER_MSEC,
	   "halt_wait_ns is %llu after at least %u ms", (unsigned long long)wait, ms);
	read_histogram(&stats, "halt_wait_hist", &waits);
	ok(waits.count == 1 && histogram_fits(&waits, wait),
	   "halt_wait_hist has one halt, of %llu to %llu ns",
	   (unsigned long long)waits.least_ns, (unsigned long long)waits.most_ns);
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

static void on_alarm(int sig)
{
}

/* A vCPU that halts in each KVM_RUN, until a timer's signal ends it */
struct halting {
	struct kvm_vm *vm;
	struct kvm_stats stats;
	timer_t timer;
	struct itimerspec spec;
};

static void halting_start(struct halting *halting, uint64_t max_poll_ns, long halt_ns)
{
	struct kvm_enable_cap max_poll = {
		.cap = KVM_CAP_HALT_POLL,
		.args[0] = max_poll_ns,
	};
	struct sigaction action = { .sa_handler = on_alarm };
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGUSR2,
	};

	*halting = (struct halting) {
		.vm = vm_create_guest(VCPU_ID, guest_halts),
		.spec = {
			.it_value.tv_nsec = halt_ns,
			/* Should it come before KVM_RUN, it comes again. */
			.it_interval.tv_nsec = 10 * NSEC_PER_MSEC,
		},
	};
	vm_enable_cap(halting->vm, &max_poll);
	kvm_stats_open_getfd(&halting->stats, vcpu_get_fd(halting->vm, VCPU_ID), 0);
	sigaction(SIGUSR2, &action, NULL);
	must_succeed(timer_create(CLOCK_MONOTONIC, &event, &halting->timer));
}

static void halting_stop(struct halting *halting)
{
	timer_delete(halting->timer);
	kvm_stats_close(&halting->stats);
	kvm_vm_free(halting->vm);
}

/* One KVM_RUN; returns how many ns it took. */
static uint64_t halt_once(struct halting *halting)
{
	const struct itimerspec never = { };
	uint64_t start, end;

	timer_settime(halting->timer, 0, &halting->spec, NULL);
	start = now_ns();
	TEST_ASSERT(ioctl(vcpu_get_fd(halting->vm, VCPU_ID), KVM_RUN, NULL) == -1 &&
		    errno == EINTR, "KVM_RUN, errno: %i", errno);
	end = now_ns();
	timer_settime(halting->timer, 0, &never, NULL);
	return end - start;
}

/*
 * Halts that end so soon that the host polls for longer and longer: the first
 * ones end after the polling, later ones while it polls.
 */
static void test_polling(void)
{
	uint64_t attempted = 0, successful = 0, waited = 0, success_ns, fail_ns;
	struct histogram success, fail, waits;
	unsigned int halts, wrong = 0;
	struct halting halting;

	/*
	 * A halt that takes longer than the most that a vCPU may poll for starts
	 * it from nothing again. Under emulation, on a busy machine, the host may
	 * stand still for tens of milliseconds. And on a slow one the signal may come
	 * before the guest halts.
	 */
	halting_start(&halting, 1000 * NSEC_PER_MSEC, 50000);
	for (halts = 0; halts < 2000 && (attempted < 20 || !successful ||
					 successful == attempted); halts++) {
		const uint64_t failed = attempted - successful, before = attempted;

		halt_once(&halting);
		attempted = kvm_stats_value(&halting.stats, "halt_attempted_poll");
		successful = kvm_stats_value(&halting.stats, "halt_successful_poll");
		read_histogram(&halting.stats, "halt_wait_hist", &waits);
		wrong += attempted > before && attempted - successful == failed &&
			 waits.count > waited;
		waited = waits.count;
	}
	ok(successful && successful < attempted,
	   "%u short halts: polled in %llu, with success in %llu", halts,
	   (unsigned long long)attempted, (unsigned long long)successful);
	ok(!wrong, "a halt that ends during the poll is not a wait: %u are counted", wrong);
	/* What KVM itself wants of a vCPU, to update its clock, may wake it up. */
	ok(kvm_stats_value(&halting.stats, "halt_wakeup") < attempted / 2,
	   "signals ended the halts: halt_wakeup is %llu",
	   (unsigned long long)kvm_stats_value(&halting.stats, "halt_wakeup"));

	read_histogram(&halting.stats, "halt_poll_success_hist", &success);
	read_histogram(&halting.stats, "halt_poll_fail_hist", &fail);
	ok(success.count + fail.count == attempted && success.count >= successful,
	   "the histograms have %llu polls with success and %llu without",
	   (unsigned long long)success.count, (unsigned long long)fail.count);
	success_ns = kvm_stats_value(&halting.stats, "halt_poll_success_ns");
	ok(histogram_fits(&success, success_ns),
	   "successful polls took %llu ns, the histogram says %llu to %llu",
	   (unsigned long long)success_ns, (unsigned long long)success.least_ns,
	   (unsigned long long)success.most_ns);
	fail_ns = kvm_stats_value(&halting.stats, "halt_poll_fail_ns");
	ok(histogram_fits(&fail, fail_ns),
	   "failed polls took %llu ns, the histogram says %llu to %llu",
	   (unsigned long long)fail_ns, (unsigned long long)fail.least_ns,
	   (unsigned long long)fail.most_ns);
	halting_stop(&halting);
}

/* Halts for which the host must not poll */
static void test_not_polling(void)
{
	static const char * const none[] = {
		"halt_attempted_poll", "halt_successful_poll",
		"halt_poll_success_ns", "halt_poll_fail_ns",
	};
	const unsigned int n = 10;
	struct histogram success, fail, waits;
	uint64_t polls = 0, wall = 0, wait;
	struct halting halting;
	unsigned int i;

	halting_start(&halting, 0, 5 * NSEC_PER_MSEC);
	for (i = 0; i < n; i++)
		wall += halt_once(&halting);
	for (i = 0; i < ARRAY_SIZE(none); i++)
		polls += kvm_stats_value(&halting.stats, none[i]);
	read_histogram(&halting.stats, "halt_poll_success_hist", &success);
	read_histogram(&halting.stats, "halt_poll_fail_hist", &fail);
	ok(!polls && !success.count && !fail.count, "halt_poll_ns 0 counts no poll");
	read_histogram(&halting.stats, "halt_wait_hist", &waits);
	wait = kvm_stats_value(&halting.stats, "halt_wait_ns");
	/* On a very busy host a signal may come before the vCPU has halted. */
	ok(waits.count && waits.count <= n && wait <= wall && histogram_fits(&waits, wait),
	   "%u halts of %llu ns waited %llu times, for %llu ns", n,
	   (unsigned long long)wall, (unsigned long long)waits.count,
	   (unsigned long long)wait);
	halting_stop(&halting);
}

/* Who looks all the time whether a vCPU blocks, and the last halt in which it did */
struct watcher {
	const struct kvm_stats *stats;
	unsigned int halt;
	unsigned int blocked;
	bool end;
};

static void *watch(void *arg)
{
	struct watcher *watcher = arg;

	while (!READ_ONCE(watcher->end)) {
		unsigned int halt = READ_ONCE(watcher->halt);

		/* The value belongs to this halt if the halt is still the same. */
		if (kvm_stats_value(watcher->stats, "blocking") &&
		    READ_ONCE(watcher->halt) == halt)
			WRITE_ONCE(watcher->blocked, halt);
	}
	return NULL;
}

/*
 * Longer halts: the times spent polling and waiting have to find room in each, and
 * a vCPU does not block while the host polls. The host polls only while the CPU has
 * nothing else to do: on a host that never polls, the test is skipped. With one CPU,
 * no other thread can run while it polls.
 *
 * It polls for twice as long each time, until halts end during a poll; for longer than
 * most_ns never, a halt of more lets it begin again. So do the halts here: there is
 * always a next one that it polls for and then waits in.
 */
static void test_poll_and_wait(void)
{
	const long most_ns = 500 * NSEC_PER_MSEC, first_ns = 6 * NSEC_PER_MSEC;
	unsigned int halts, both = 0, polled = 0, too_long = 0, blocked = 0;
	const bool can_watch = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	struct halting halting;
	struct watcher watcher;
	pthread_t thread;
	bool watching = false;

	halting_start(&halting, most_ns, first_ns);
	watcher = (struct watcher) { .stats = &halting.stats };
	for (halts = 0; halts < 400 && (both < 2 || (can_watch && polled < 10)); halts++) {
		const uint64_t before[] = {
			kvm_stats_value(&halting.stats, "halt_successful_poll"),
			kvm_stats_value(&halting.stats, "halt_poll_success_ns"),
			kvm_stats_value(&halting.stats, "halt_poll_fail_ns"),
			kvm_stats_value(&halting.stats, "halt_wait_ns"),
		};
		uint64_t successful, success_ns, fail_ns, wait_ns, wall;

		/* The watcher takes a CPU: not while times are compared. */
		if (can_watch && !watching && (both == 2 || halts == 200)) {
			TEST_ASSERT(!pthread_create(&thread, NULL, watch, &watcher),
				    "pthread_create");
			watching = true;
			halting.spec.it_value.tv_nsec = first_ns;
		}
		WRITE_ONCE(watcher.halt, halts + 1);
		wall = halt_once(&halting);
		successful = kvm_stats_value(&halting.stats, "halt_successful_poll") - before[0];
		success_ns = kvm_stats_value(&halting.stats, "halt_poll_success_ns") - before[1];
		fail_ns = kvm_stats_value(&halting.stats, "halt_poll_fail_ns") - before[2];
		wait_ns = kvm_stats_value(&halting.stats, "halt_wait_ns") - before[3];
		if (success_ns + fail_ns + wait_ns > wall)
			too_long++;
		if (fail_ns > NSEC_PER_MSEC && wait_ns)
			both++;
		/* Not those whose wakeup came just after the polling. */
		if (watching && successful && !fail_ns && !wait_ns) {
			polled++;
			if (READ_ONCE(watcher.blocked) == halts + 1)
				blocked++;
		}
		if (halting.spec.it_value.tv_nsec > most_ns)
			halting.spec.it_value.tv_nsec = first_ns;
		else if (successful && !watching)
			halting.spec.it_value.tv_nsec *= 2;
	}
	if (watching) {
		WRITE_ONCE(watcher.end, true);
		pthread_join(thread, NULL);
	}
	if (both)
		ok(!too_long,
		   "the time of a halt is counted once: %u halts, %u with a poll and a wait",
		   halts, both);
	else
		ksft_test_result_skip("none of %u halts was polled and then waited in\n", halts);
	if (!can_watch)
		ksft_print_msg("One CPU: cannot check whether the vCPU blocks while it polls\n");
	else if (polled)
		ok(!blocked, "the vCPU blocked in none of %u that ended in polling", polled);
	else
		ksft_test_result_skip("none of %u halts ended in polling\n", halts);
	halting_stop(&halting);
}

int main(int argc, char *argv[])
{
	struct stats_file of_vm, of_vcpu, of_other;
	struct kvm_vm *vm;

	setbuf(stdout, NULL);
	ksft_print_header();
	if (kvm_check_cap(KVM_CAP_STATS_BINARY_FD) == 0) {
		print_skip("KVM_CAP_STATS_BINARY_FD is not available");
		exit(KSFT_SKIP);
	}

	vm = vm_create_guest(VCPU_ID, guest_exits);
	vm_vcpu_add_default(vm, OTHER_VCPU_ID, guest_exits);
	stats_file_open(&of_vm, &abi_getfd, vm_get_fd(vm), 0, "VM");
	stats_file_open(&of_vcpu, &abi_getfd, vcpu_get_fd(vm, VCPU_ID), 0, "vCPU");
	stats_file_open(&of_other, &abi_getfd, vcpu_get_fd(vm, OTHER_VCPU_ID), 0,
			"other vCPU");

	test_debugfs(&of_vm, NULL, "before the guest runs");
	if (guest_exit_stats()) {
		test_guest(vm, &of_vcpu, &of_other);
		test_debugfs(&of_vm, NULL, "after it");
		test_debugfs(&of_vcpu, &of_other, "after it");
	}
	stats_file_close(&of_vm);
	stats_file_close(&of_vcpu);
	stats_file_close(&of_other);
	kvm_vm_free(vm);

	if (guest_exit_stats()) {
		test_running();
		test_halt(100);
		/* More than 2^31 ns, beyond the lower bound of the last bucket */
		test_halt(2200);
		test_polling();
		test_not_polling();
		test_poll_and_wait();
	} else {
		ksft_test_result_skip("no guest can run here\n");
	}

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
