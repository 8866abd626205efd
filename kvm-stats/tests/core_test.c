// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the core with a source whose VMs have one vCPU each; the tests set their values
 * and the clock. Needs no KVM.
 */
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "probe_vm.h"
#include "tap.h"

#define MS	1000000ULL
#define ARRAY_LEN(x)	(sizeof(x) / sizeof((x)[0]))

static const struct kvmstats_desc vcpu_desc[] = {
	{ .name = "exits", .size = 1, .offset = 0 },
	{ .name = "halt_wait_ns", .size = 1, .offset = 8 },
	{ .name = "halt_poll_fail_ns", .size = 1, .offset = 16 },
	{ .name = "blocking", .type = KVMSTATS_INSTANT, .size = 1, .offset = 24 },
};

static const struct kvmstats_desc vm_desc[] = {
	{ .name = "remote_tlb_flush", .size = 1, .offset = 0 },
};

/* The next sample: keys of VMs in the order of the report, up to 0, and their
 * processes; what all of them have. */
static uint64_t keys[4] = { 1 };
static pid_t pids[4] = { 100, 100, 100, 100 };
static uint64_t clock_ns, tlb_flushes, exits, halt, poll_ns, blocking;
static bool without_vcpu, ended, broken, better_works;
static pid_t tid = 1;
static uint32_t vcpu_id;
static struct thread_times thread = { .has_run = true, .has_ready = true };
/* What a VM has on its own, in the order of the report */
static struct {
	pid_t tid;
	uint64_t exits;
	bool loaded;
} own[4];
static bool by_files;		/* read the thread from the procfs */

static int test_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	struct kvmstats_table *vm = table_make(vm_desc, ARRAY_LEN(vm_desc));
	struct kvmstats_table *vcpu = table_make(vcpu_desc, ARRAY_LEN(vcpu_desc));

	if (!vm || !vcpu)
		return -ENOMEM;
	if (broken) {
		kvmstats_free_table(vm);
		kvmstats_free_table(vcpu);
		return -ENODEV;
	}
	core_set_table(k, KVMSTATS_VM, vm);
	core_set_table(k, KVMSTATS_VCPU, vcpu);
	return 0;
}

static void report(struct kvmstats *k, unsigned int i)
{
	const uint64_t key = keys[i];
	/* what tells them apart is in the first one */
	const uint64_t values[] = { exits + key + own[i].exits, halt, poll_ns, blocking };
	struct core_vcpu *vcpu;
	struct core_vm *vm;

	vm = core_vm(k, key, pids[i]);
	*(uint64_t *)core_vm_values(vm) = tlb_flushes;
	if (ended)
		core_vm_ended(vm);
	if (without_vcpu)
		return;
	vcpu = core_vcpu(k, vm, vcpu_id, own[i].tid ?: tid);
	core_vcpu_set(vcpu, values, sizeof(values));
	thread.time = clock_ns;
	thread.loaded = own[i].loaded;
	if (!by_files)
		core_vcpu_times(vcpu, &thread);
}

static int test_sample(struct kvmstats *k, void *state)
{
	unsigned int i;

	if (broken)
		return core_problem(k, -EIO, "it is broken");
	core_set_time(k, clock_ns);
	for (i = 0; i < ARRAY_LEN(keys) && keys[i]; i++)
		report(k, i);
	return 0;
}

static void test_close(struct kvmstats *k, void *state)
{
}

static const struct source_ops source_test = {
	.name = "test",
	.what = "values that the test sets",
	.open = test_open,
	.sample = test_sample,
	.close = test_close,
};

static int better_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	strcpy(p->why, "it is not there yet");
	return better_works ? test_open(k, state, p) : -ENODEV;
}

static int better_sample(struct kvmstats *k, void *state)
{
	return better_works ? test_sample(k, state) : -EIO;
}

static const struct source_ops source_better = {
	.name = "better",
	.what = "a source that sometimes works",
	.open = better_open,
	.sample = better_sample,
	.close = test_close,
};

const struct source_ops *const source_list[] = { &source_better, &source_test, NULL };

/* A second in which the vCPU ran 300 ms of which it polled 100, waited 200 for a
 * CPU, and halted for the rest, which the kernel has not counted yet. */
static void test_second(struct kvmstats *k, const struct kvmstats_vm *vm)
{
	const struct kvmstats_activity *sum = &vm->sum;
	const uint64_t *mode = sum->times.mode;

	tap_result(vm->first_sample && !vm->elapsed && !(sum->known >> KVMSTATS_EXITS & 1) && !sum->event[KVMSTATS_EXITS] && !mode[KVMSTATS_RUN],
		   "what is fresh has no time and no activity");

	clock_ns += 1000 * MS;
	exits += 50;
	tlb_flushes += 3;
	poll_ns += 100 * MS;
	thread.run += 300 * MS;
	thread.ready += 200 * MS;
	blocking = 1;
	kvmstats_sample(k);
	tap_result(!vm->first_sample && vm->elapsed == 1000 * MS, "then it has what passed");
	tap_result(mode[KVMSTATS_RUN] == 200 * MS && mode[KVMSTATS_POLL] == 100 * MS &&
		   mode[KVMSTATS_READY] == 200 * MS, "the thread's time, polling apart");
	tap_result(mode[KVMSTATS_HALT] == 500 * MS, "an unfinished halt is counted");
	tap_result(sum->event[KVMSTATS_EXITS] == 50 && sum->event[KVMSTATS_TLB_FLUSHES] == 3, "what happened");
	tap_result(kvmstats_rate(sum->event[KVMSTATS_EXITS], vm->elapsed) == 50000 &&
		   kvmstats_permille(mode[KVMSTATS_HALT], vm->elapsed) == 500, "and rates of it");

	clock_ns += 1000 * MS;
	halt += 600 * MS;
	blocking = 0;
	thread.run += 900 * MS;
	kvmstats_sample(k);
	tap_result(mode[KVMSTATS_HALT] == 100 * MS, "a halt that ends is not counted twice");
}

/* Two samples of the same time, on a machine with a coarse clock */
static void test_no_time(struct kvmstats *k, const struct kvmstats_vm *vm)
{
	const struct kvmstats_activity *sum = &vm->sum;
	const uint64_t *mode = sum->times.mode;

	exits += 7;
	tlb_flushes += 2;
	halt += MS;
	poll_ns += MS;
	thread.run += MS;
	thread.ready += MS;
	kvmstats_sample(k);
	tap_result(!vm->first_sample && !vm->elapsed, "no time has passed: it is not fresh");
	tap_result((sum->known >> KVMSTATS_EXITS & 1) && sum->event[KVMSTATS_EXITS] == 7 && vm->vcpu[0]->last.event[KVMSTATS_EXITS] == 7 &&
		   sum->event[KVMSTATS_TLB_FLUSHES] == 2, "what happened is counted");
	tap_result(vm->vcpu[0]->last.times.known & 1 << KVMSTATS_RUN && !sum->times.elapsed &&
		   !mode[KVMSTATS_RUN] && !mode[KVMSTATS_READY] && !mode[KVMSTATS_HALT] &&
		   !mode[KVMSTATS_POLL],
		   "it took none of the time");
	tap_result(!kvmstats_rate(sum->event[KVMSTATS_EXITS], vm->elapsed) &&
		   !kvmstats_permille(1, vm->elapsed), "there is no rate");

	clock_ns += 4 * MS;
	exits += 2;
	thread.run += 3 * MS;
	kvmstats_sample(k);
	tap_result(vm->elapsed == 4 * MS && sum->event[KVMSTATS_EXITS] == 2 && mode[KVMSTATS_RUN] == 3 * MS,
		   "the next sample has its own alone");
}

#define KNOWN	0x3b		/* all but what is throttled */

/* Check how the next ms were assigned: run, ready, halt, other. */
static bool spends(struct kvmstats *k, unsigned int ms, unsigned int r, unsigned int w,
		   unsigned int h, unsigned int o)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	const struct kvmstats_times *t = &vm->sum.times;
	uint64_t before = vm->times.elapsed;

	clock_ns += ms * MS;
	kvmstats_sample(k);
	if (t->mode[KVMSTATS_RUN] == r * MS && t->mode[KVMSTATS_READY] == w * MS &&
	    t->mode[KVMSTATS_HALT] == h * MS && t->mode[KVMSTATS_OTHER] == o * MS &&
	    t->elapsed == ms * MS && r + w + h + o == ms && (t->known & ~KVMSTATS_TURNS_KNOWN) == KNOWN &&
	    vm->times.elapsed == before + ms * MS)
		return true;
	printf("# run %llu ready %llu halt %llu other %llu unknown %llu ns, known %llx\n",
	       (unsigned long long)t->mode[KVMSTATS_RUN],
	       (unsigned long long)t->mode[KVMSTATS_READY],
	       (unsigned long long)t->mode[KVMSTATS_HALT],
	       (unsigned long long)t->mode[KVMSTATS_OTHER],
	       (unsigned long long)t->mode[KVMSTATS_UNKNOWN],
	       (unsigned long long)t->known);
	return false;
}

/* Without the time that lasts, as /proc has it */
static void test_booked(struct kvmstats *k)
{
	blocking = 0;
	thread.state = THREAD_UNKNOWN;
	spends(k, 1000, 0, 0, 0, 1000);
	thread.run += 110 * MS;
	tap_result(spends(k, 100, 100, 0, 0, 0), "more than fits into the time");
	tap_result(spends(k, 100, 10, 0, 0, 90), "the next sample assigns it");
	thread.run += 1100 * MS;
	tap_result(spends(k, 100, 100, 0, 0, 0), "far more is of another time");
	tap_result(spends(k, 100, 20, 0, 0, 80), "it is assigned once");

	thread.state = THREAD_RUNNABLE;
	tap_result(spends(k, 1000, 0, 1000, 0, 0), "who can run, and does not, waits");
	tap_result(spends(k, 9000, 0, 9000, 0, 0), "for 10 s");
	thread.ready += 10000 * MS;
	thread.run += 50 * MS;
	tap_result(spends(k, 100, 50, 50, 0, 0), "a wait that is booked is not told twice");
	thread.ready += 100 * MS;
	thread.state = THREAD_SLEEPS;
	tap_result(spends(k, 100, 0, 50, 0, 50), "a wait assigned in two parts is deducted in full");
	thread.run += 95 * MS;
	thread.state = THREAD_RUNNABLE;
	tap_result(spends(k, 100, 100, 0, 0, 0), "a thread that ran and did not wait is in RUN");
	thread.run += 5 * MS;
	thread.state = THREAD_SLEEPS;
	tap_result(spends(k, 100, 0, 0, 0, 100), "which is booked at the next tick");
}

/* Who slept, and was not looked at again */
static void test_assumed(struct kvmstats *k)
{
	thread.assumed = true;
	tap_result(spends(k, 1000, 0, 0, 0, 1000) && spends(k, 1000, 0, 0, 0, 1000),
		   "who slept is taken to sleep on");
	thread.assumed = false;
	thread.run += 50 * MS;
	thread.ready += 1900 * MS;
	tap_result(spends(k, 1000, 50, 950, 0, 0), "a wait that was booked late is assigned");
	tap_result(spends(k, 1000, 0, 950, 0, 50), "in full");
	thread.ready += 1900 * MS;
	tap_result(spends(k, 1000, 0, 1000, 0, 0) && spends(k, 1000, 0, 20, 0, 980),
		   "but not what is of another time");
	spends(k, 1000, 0, 0, 0, 1000);
	thread.state = THREAD_RUNNABLE;
	tap_result(spends(k, 1000, 0, 0, 0, 1000), "who slept at the previous sample has slept since");
	tap_result(spends(k, 1000, 0, 1000, 0, 0), "unless it is still runnable at the next one");
	thread.run += 950 * MS;
	thread.ready += 1900 * MS;
	thread.state = THREAD_SLEEPS;
	tap_result(spends(k, 1000, 950, 50, 0, 0) && spends(k, 1000, 0, 850, 0, 150),
		   "all of its wait is assigned after it is booked");
	thread.has_sleeps = true;
	thread.state = THREAD_RUNNABLE;
	spends(k, 1000, 0, 0, 0, 1000);
	thread.sleeps++;
	thread.run += 40 * MS;
	tap_result(spends(k, 1000, 40, 0, 0, 960),
		   "who slept in the interval, and is runnable again, has slept for the rest");
	thread.run += 40 * MS;
	tap_result(spends(k, 1000, 40, 960, 0, 0), "who did not sleep has waited");
	thread.ready += 960 * MS;
	thread.state = THREAD_SLEEPS;
	thread.has_sleeps = false;
	spends(k, 1000, 0, 0, 0, 1000);
}

static void test_turns(struct kvmstats *k)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	uint64_t turns = 1, total;

	thread.turns = 7;
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	total = vm->times.turns;
	thread.turns += 4;
	thread.run += 600 * MS;
	thread.ready += 400 * MS;
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	tap_result(kvmstats_times_turns(&vm->sum.times, &turns) && turns == 4 &&
		   vm->vcpu[0]->times.turns == total + 4 && vm->times.turns == total + 4,
		   "a thread got a CPU 4 times");
	thread.turns = 0;
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	tap_result(!kvmstats_times_turns(&vm->sum.times, &turns) && !turns && vm->times.turns == total + 4,
		   "the source does not report turns: they are unknown, and the total stays");
}

/* With it, as BPF has it */
static void test_up_to_date(struct kvmstats *k)
{
	thread.up_to_date = true;
	thread.state = THREAD_WAITS;
	thread.run += 40 * MS;
	thread.ready += 60 * MS;
	tap_result(spends(k, 100, 40, 60, 0, 0), "a wait that lasts");
	blocking = 1;
	thread.state = THREAD_SLEEPS;
	thread.run += 10 * MS;
	thread.asleep = 50 * MS;
	tap_result(spends(k, 100, 10, 0, 50, 40), "a halt is not longer than the sleep");
	thread.state = THREAD_WAITS;
	thread.ready += 30 * MS;
	tap_result(spends(k, 100, 0, 30, 70, 0), "who is woken and waits has halted until then");
	blocking = 0;
	halt += 150 * MS;
	thread.run += 60 * MS;
	tap_result(spends(k, 100, 60, 0, 30, 10), "only the unassigned rest of a booked wait is assigned");
	thread.cpu = 1;
	thread.state = THREAD_RUNS;
	spends(k, 100, 0, 0, 0, 100);
	thread.run += 98 * MS;
	thread.lost += 3 * MS;
	tap_result(spends(k, 100, 100, 0, 0, 0), "interrupts are of the thread that runs");
	thread.cpu = 2;
	thread.run += 50 * MS;
	thread.ready += 40 * MS;
	thread.has_sleeps = true;
	tap_result(spends(k, 100, 50, 40, 0, 10), "on another CPU they are not known");
	thread.cpu = 1;
	thread.run += 50 * MS;
	thread.ready += 40 * MS;
	tap_result(spends(k, 100, 60, 40, 0, 0), "but of a thread that did not sleep");
	thread.run += 50 * MS;
	thread.sleeps++;
	tap_result(spends(k, 100, 50, 0, 0, 50), "who slept has other time");
	thread.has_sleeps = false;
	thread.cpu = 0;
	thread.lost = 0;
}

static void test_unknown(struct kvmstats *k)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	const struct kvmstats_times *t = &vm->sum.times;

	thread.has_run = false;
	thread.has_ready = false;
	clock_ns += 100 * MS;
	halt += 30 * MS;
	kvmstats_sample(k);
	tap_result(t->mode[KVMSTATS_HALT] == 30 * MS && t->mode[KVMSTATS_UNKNOWN] == 70 * MS &&
		   t->known == (1 << KVMSTATS_HALT | 1 << KVMSTATS_POLL),
		   "without a thread, time outside of halts is UNKNOWN, not OTHER");
	thread.has_run = true;
	thread.has_ready = true;
	clock_ns += 100 * MS;
	kvmstats_sample(k);
	tap_result(t->mode[KVMSTATS_UNKNOWN] == 100 * MS, "until there are two samples of one");
	thread.run += 100 * MS;
	tap_result(spends(k, 100, 100, 0, 0, 0), "then it is known");
	tid = 2;
	thread.run = 5 * MS;
	thread.ready = MS;
	clock_ns += 100 * MS;
	kvmstats_sample(k);
	tap_result(t->mode[KVMSTATS_UNKNOWN] == 100 * MS && t->elapsed == 100 * MS,
		   "another thread: unknown");
	thread.run += 100 * MS;
	tap_result(spends(k, 100, 100, 0, 0, 0), "and known again");
}

/* Return true if the first or the second VM spent the last second like this. */
static bool spent(struct kvmstats *k, unsigned int nth, unsigned int run, unsigned int ready,
		  unsigned int other, unsigned int unknown)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	const uint64_t *mode;

	vm = nth > 1 ? vm->next : vm;
	mode = vm->sum.times.mode;
	if (vm->sum.times.elapsed == 1000 * MS && mode[KVMSTATS_RUN] == run * MS &&
	    mode[KVMSTATS_READY] == ready * MS && mode[KVMSTATS_OTHER] == other * MS &&
	    mode[KVMSTATS_UNKNOWN] == unknown * MS &&
	    ((vm->sum.times.known & ~KVMSTATS_TURNS_KNOWN) == KNOWN) == !unknown)
		return true;
	printf("# VM %u: run %llu ready %llu other %llu unknown %llu ns\n", nth,
	       (unsigned long long)mode[KVMSTATS_RUN], (unsigned long long)mode[KVMSTATS_READY],
	       (unsigned long long)mode[KVMSTATS_OTHER],
	       (unsigned long long)mode[KVMSTATS_UNKNOWN]);
	return false;
}

/* A second in which the thread ran 600 ms and waited for 100 ms */
static void pass_second(struct kvmstats *k, uint64_t exits_of_first, uint64_t exits_of_second)
{
	clock_ns += 1000 * MS;
	thread.run += 600 * MS;
	thread.ready += 100 * MS;
	own[0].exits += exits_of_first;
	own[1].exits += exits_of_second;
	kvmstats_sample(k);
}

/* One thread runs the vCPUs of two VMs. */
static void test_shared_thread(struct kvmstats *k)
{
	keys[1] = 2;
	kvmstats_sample(k);
	thread.state = THREAD_SLEEPS;
	thread.up_to_date = true;
	pass_second(k, 1, 0);
	tap_result(spent(k, 1, 600, 100, 300, 0) && spent(k, 2, 0, 0, 1000, 0),
		   "the time of a thread belongs to the only vCPU that it ran");
	pass_second(k, 1, 1);
	tap_result(spent(k, 1, 0, 0, 0, 1000) && spent(k, 2, 0, 0, 0, 1000),
		   "the time of a thread that ran two vCPUs is unknown");
	pass_second(k, 0, 1);
	tap_result(spent(k, 1, 0, 0, 1000, 0) && spent(k, 2, 600, 100, 300, 0),
		   "the time of a thread can belong to another vCPU later");
	pass_second(k, 0, 0);
	tap_result(spent(k, 1, 0, 0, 1000, 0) && spent(k, 2, 0, 0, 1000, 0),
		   "the time of a thread that ran none of its vCPUs belongs to none of them");
	own[0].loaded = true;
	pass_second(k, 0, 1);
	own[0].loaded = false;
	tap_result(spent(k, 1, 0, 0, 0, 1000) && spent(k, 2, 0, 0, 0, 1000),
		   "a vCPU that is in KVM_RUN was run, even if nothing was counted");
	pass_second(k, 0, 1);
	tap_result(spent(k, 1, 0, 0, 0, 1000) && spent(k, 2, 0, 0, 0, 1000),
		   "a vCPU that was in KVM_RUN at the previous sample was run");
	own[0].tid = 77;
	pass_second(k, 1, 1);
	tap_result(spent(k, 1, 0, 0, 0, 1000) && spent(k, 2, 0, 0, 0, 1000),
		   "a vCPU that another thread runs now may have been run by the previous one");
	pass_second(k, 1, 1);
	tap_result(spent(k, 1, 600, 100, 300, 0) && spent(k, 2, 600, 100, 300, 0),
		   "two threads run two vCPUs");
	own[0].tid = 0;
	pass_second(k, 1, 1);
	pass_second(k, 1, 1);
	keys[0] = 2;
	keys[1] = 0;
	own[0] = own[1];
	pass_second(k, 1, 0);
	tap_result(spent(k, 2, 0, 0, 0, 1000),
		   "the thread may have run a VM that has ended since the previous sample");
	pass_second(k, 1, 0);
	tap_result(spent(k, 1, 600, 100, 300, 0), "the time belongs to the VM that is left");
	memset(own, 0, sizeof(own));
}

static void put(const char *folder, const char *name, const char *format, ...)
{
	va_list args;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (!f)
		return;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

/*
 * Simulate a minute of a thread that is busy with this many other threads, with turns of 1 to
 * 8 ms, and lose the given thousandths of its time. The thread is read from files of a
 * procfs, which the kernel updates so: a wait is booked when it ends or the thread moves to
 * another CPU; running time at ticks of 4 ms and at the end of a turn; lost time never.
 */
static void test_lost(struct kvmstats *k, const char *proc, unsigned int others,
		      unsigned int permille, unsigned int sample_ms)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	unsigned int seed = 1, turn = 0, turns = 0, ran = 0, waited = 0, ms, wrong = 0;
	uint64_t run = 5 * MS, ready = MS, told = 0, before = 0;
	bool waits = true, stopped = false;
	char folder[64];

	by_files = true;
	clock_ns += MS;
	/* a new thread each time */
	snprintf(folder, sizeof(folder), "%s/%d/task/%d", proc, pids[0], ++tid);
	mkdir(folder, 0700);
	for (ms = 0; !stopped; ms++) {
		if (!turn--) {
			waits = others && !waits;
			turn = rand_r(&seed) % 8 * (waits ? others : 1);
			/* it comes to an end when all is booked */
			stopped = ms > 60000 && !waits;
			turns += !waits;
			ready += waited * MS;
			waited = 0;
		}
		if (!waits && (!turn || ms % 4 == 0)) {
			run += ran * MS;
			ran = 0;
		}
		if (stopped || ms % sample_ms == 0) {
			const struct kvmstats_times *t = &vm->sum.times;

			put(folder, "schedstat", "%llu %llu %u\n", (unsigned long long)run,
			    (unsigned long long)ready, turns);
			put(folder, "stat", "1 (CPU 0/KVM) %c 1\n", stopped ? 'T' : 'R');
			clock_ns += stopped ? 500 * MS : 0;
			kvmstats_sample(k);
			if (!ms)
				before = vm->times.mode[KVMSTATS_READY];
			wrong += ms > sample_ms && !stopped &&
				t->mode[KVMSTATS_RUN] + t->mode[KVMSTATS_READY] < t->elapsed / 1000 * 999;
		}
		clock_ns += MS;
		waited += waits;
		if (waits && rand_r(&seed) % 64 == 0) {
			ready += waited * MS;
			waited = 0;
		}
		ran += !waits && (unsigned int)rand_r(&seed) % 1000 >= permille;
	}
	told = vm->times.mode[KVMSTATS_READY] - before;
	ready -= MS;
	/* of who never waits, that much of the time */
	run = (others ? ready : 60000 * MS) / 500;
	tap_result(!wrong && told <= ready + run && ready <= told + run,
		   "with %u others, %u of 1,000 lost, each %u ms: waited for %llu ms, assigned %llu, "
		   "%u samples do not add up", others, permille, sample_ms,
		   (unsigned long long)(ready / MS), (unsigned long long)(told / MS), wrong);
	by_files = false;
}

/*
 * A thread that sleeps, from files of a procfs: if no statistic of its vCPU changed, the files
 * are not read at each sample. The time in between is assigned when they are read.
 */
static void test_resting(struct kvmstats *k, const char *proc)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	const uint64_t *mode = vm->times.mode;
	uint64_t run, ready = 0, other, before;
	unsigned int i, missed = 0;
	char folder[64];

	by_files = true;
	snprintf(folder, sizeof(folder), "%s/%d/task/%d", proc, pids[0], ++tid);
	mkdir(folder, 0700);
	put(folder, "schedstat", "5000000 1000000 3\n");
	put(folder, "stat", "1 (CPU 0/KVM) S 1\n");
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	tap_result(spends(k, 1000, 0, 0, 0, 1000), "who sleeps does not run");
	run = mode[KVMSTATS_RUN];
	other = mode[KVMSTATS_OTHER];
	put(folder, "schedstat", "2505000000 1000000 4\n");
	for (i = 0; i < 8; i++) {
		clock_ns += 1000 * MS;
		kvmstats_sample(k);
		missed += !vm->sum.times.mode[KVMSTATS_RUN] && mode[KVMSTATS_RUN] == run;
	}
	tap_result(missed && missed < 4, "it did, and nothing else happened: %u samples later",
		   missed);
	tap_result(mode[KVMSTATS_RUN] == run + 2500 * MS &&
		   mode[KVMSTATS_OTHER] == other + 5500 * MS, "all of its time is assigned");
	put(folder, "schedstat", "2905000000 101000000 5\n");
	exits++;
	tap_result(spends(k, 1000, 400, 100, 0, 500), "a changed statistic causes a read at once");
	put(folder, "stat", "1 (CPU 0/KVM) R 1\n");
	before = mode[KVMSTATS_READY];
	for (i = 0; i < 5; i++) {
		clock_ns += 1000 * MS;
		kvmstats_sample(k);
		ready += vm->sum.times.mode[KVMSTATS_READY] == 1000 * MS;
	}
	tap_result(ready, "a thread that was woken waits if it is runnable in two samples");
	for (run = i = 0; i < 4; i++)
		run += spends(k, 1000, 0, 1000, 0, 0);
	tap_result(run == 4, "it waits in each of the next four samples");
	put(folder, "schedstat", "2905000000 9101000000 6\n");
	put(folder, "stat", "1 (CPU 0/KVM) S 1\n");
	exits++;
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	exits++;
	clock_ns += 4000 * MS;
	kvmstats_sample(k);
	tap_result(mode[KVMSTATS_READY] - before == 9000 * MS,
		   "all of its wait is assigned after it is booked: %llu of 9000 ms",
		   (unsigned long long)((mode[KVMSTATS_READY] - before) / MS));
	by_files = false;
}

static void test_totals(struct kvmstats *k)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	uint64_t elapsed = vm->times.elapsed, of_vcpu = vm->vcpu[0]->times.elapsed;
	const uint64_t *total = vm->vcpu_total, *own = vm->total, *sum = vm->vcpu_sum;
	uint64_t exits_before = total[0], flushes = own[0];

	exits = 7;		/* cleared through debugfs, and counted on */
	tlb_flushes = 1;
	spends(k, 100, 0, 0, 0, 100);
	tap_result(total[0] == exits_before && own[0] == flushes, "cleared: the total stays");
	tap_result(sum[0] == exits + keys[0], "and the sum is less");
	exits += 10;
	tlb_flushes += 2;
	spends(k, 100, 0, 0, 0, 100);
	tap_result(total[0] == exits_before + 10 && own[0] == flushes + 2, "it continues to count");
	spends(k, 100, 0, 0, 0, 100);
	tap_result(sum[0] == exits + keys[0], "the sum is current, even if nothing changes");
	blocking = 1;
	spends(k, 100, 0, 0, 100, 0);
	tap_result(total[3] == 1 && ((const uint64_t *)vm->vcpu[0]->total)[3] == 1,
		   "what does not count is what it is");
	blocking = 0;
	elapsed += 200 * MS;
	of_vcpu += 200 * MS;
	without_vcpu = true;
	clock_ns += 100 * MS;
	kvmstats_sample(k);
	tap_result(!vm->vcpus && total[0] == exits_before + 10 &&
		   vm->times.elapsed == elapsed + 200 * MS, "a vCPU goes: the totals stay");
	tap_result(!sum[0], "but not the sum");
	without_vcpu = false;
	exits += 5;
	clock_ns += 100 * MS;
	kvmstats_sample(k);
	tap_result(total[0] == exits_before + 15 && vm->vcpu[0]->first_sample &&
		   vm->vcpu[0]->times.elapsed == of_vcpu + 200 * MS &&
		   *(const uint64_t *)vm->vcpu[0]->total == exits_before + 15,
		   "a vCPU that is added again continues its totals");
	tap_result(sum[0] == exits + keys[0], "and is in the sum");
}

/* A VM ended within this second: its state in the rest of it is unknown. */
static void test_end(struct kvmstats *k)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	const struct kvmstats_times *t = &vm->sum.times;
	uint64_t elapsed = vm->times.elapsed;

	thread.run += 200 * MS;
	halt += 300 * MS;
	ended = true;
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	ended = false;
	tap_result(vm->ended && vm->elapsed == 1000 * MS && t->elapsed == 500 * MS &&
		   t->mode[KVMSTATS_RUN] == 200 * MS && t->mode[KVMSTATS_HALT] == 300 * MS &&
		   !t->mode[KVMSTATS_OTHER] && vm->times.elapsed == elapsed + 500 * MS,
		   "time after the end of a VM is not counted as OTHER");
}

/* A sample of one vCPU, in milliseconds: its thread before and now, and the values of KVM */
#define THREAD(...)	{ .has_run = true, .has_ready = true, __VA_ARGS__ }
#define BEFORE(...)	.before = THREAD(__VA_ARGS__)
#define NOW(...)	.now = THREAD(__VA_ARGS__)

struct times_case {
	const char *what;
	const char *result;		/* times and, after ";", what the account keeps */
	struct thread_times before, now;
	struct account account;		/* run and ready: what was reported ahead */
	struct {
		uint64_t halt, poll, blocking;
	} from, to;
	bool without_halt, without_poll, ended, first, no_time;
	enum thread_time whose;
	pid_t tid;			/* thread at the previous sample */
	unsigned int ms, ns;		/* elapsed, 100 by default; more of run */
};

static const struct times_case times_cases[] = {
	/* Booked times */
	{ "ran and waited", "100 ms, 3b: run 30 ready 20 other 50; wait 20",
	  NOW(.run = 30, .ready = 20), BEFORE() },
	{ "a time reported ahead is deducted", "100 ms, 3b: run 20 ready 15 other 65; wait 20",
	  NOW(.run = 30, .ready = 20), BEFORE(), .account = { .run = 10, .ready = 5 } },
	{ "more reported ahead than booked", "100 ms, 3b: other 100; run 1 ready 5 wait 20",
	  NOW(.run = 30, .ready = 20), BEFORE(), .account = { .run = 31, .ready = 25 } },
	{ "20 ms more than fit are assigned later", "100 ms, 3b: run 100; run -20 ready -20",
	  NOW(.run = 120, .ready = 20), BEFORE() },
	{ "1 ns more than these is not", "100 ms, 3b: run 100; run -20",
	  NOW(.run = 120), BEFORE(), .ns = 1 },
	{ "20 ms more of READY", "100 ms, 3b: run 90 ready 10; ready -20 wait 10",
	  NOW(.run = 90, .ready = 30), BEFORE() },
	{ "21 ms more of READY", "100 ms, 3b: run 90 ready 10; ready -20 wait 10",
	  NOW(.run = 90, .ready = 31), BEFORE() },
	{ "times since the state was known are assigned later", "100 ms, 3b: run 100; run -20 ready -30 assumed 10",
	  NOW(.run = 120, .ready = 30), BEFORE(), .account = { .assumed = 10 } },
	{ "more than these is not", "100 ms, 3b: run 100; run -30 ready -30 assumed 10",
	  NOW(.run = 131, .ready = 31), BEFORE(), .account = { .assumed = 10 } },
	/* A wait that was assigned to RUN */
	{ "a guess is corrected as far as was guessed", "100 ms, 3b: run 60 ready 40; ready -10 wait 10",
	  NOW(.run = 90, .ready = 50), BEFORE(), .account = { .guessed = 30 } },
	{ "a guess is corrected as far as was booked", "100 ms, 3b: run 50 ready 50; wait 10 guessed 20",
	  NOW(.run = 90, .ready = 50), BEFORE(), .account = { .guessed = 60 } },
	{ "a guess is corrected as far as it ran", "100 ms, 3b: ready 100; ready -30 wait 90 guessed 20",
	  NOW(.run = 10, .ready = 130), BEFORE(), .account = { .guessed = 30 } },
	{ "a wrong guess of another time is dropped", "100 ms, 3b: run 60 ready 40; ready -20 wait 10",
	  NOW(.run = 90, .ready = 61), BEFORE(), .account = { .guessed = 30 } },
	/* The longest wait that is not booked yet */
	{ "a wait continues", "100 ms, 3bt: other 100; wait 105",
	  NOW(.turns = 7), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "a wait continues after a part is booked", "100 ms, 3bt: ready 20 other 80; wait 85",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "a booked wait of an unknown number of turns", "100 ms, 3b: ready 20 other 80; wait 20",
	  NOW(.ready = 20), BEFORE(), .account = { .wait_max = 5 } },
	{ "no booked wait, unknown turns", "100 ms, 3b: other 100; wait 105",
	  NOW(), BEFORE(), .account = { .wait_max = 5 } },
	{ "a thread that ran", "100 ms, 3bt: run 30 other 70; wait 70",
	  NOW(.run = 30, .turns = 7), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "a thread that ran and waited without a turn", "100 ms, 3bt: run 30 ready 20 other 50; wait 70",
	  NOW(.run = 30, .ready = 20, .turns = 7), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "two turns", "100 ms, 3bt: ready 20 other 80 turns 2; wait 10",
	  NOW(.ready = 20, .turns = 9), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "two turns without a wait", "100 ms, 3bt: other 100 turns 2; wait 100",
	  NOW(.turns = 9), BEFORE(.turns = 7), .account = { .wait_max = 5 } },
	{ "a thread that slept", "100 ms, 3bt: ready 20 other 80; wait 20",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7, .state = THREAD_SLEEPS), .account = { .wait_max = 5 } },
	{ "a thread that slept, and had four turns", "100 ms, 3bt: ready 20 other 80 turns 4; wait 5",
	  NOW(.ready = 20, .turns = 11), BEFORE(.turns = 7, .state = THREAD_SLEEPS),
	  .account = { .wait_max = 5 } },
	{ "a thread that slept in a halt that ended", "100 ms, 3bt: ready 20 halt 1 other 79; wait 80",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7, .state = THREAD_SLEEPS), .account = { .ended = 1 } },
	{ "a thread that sleeps in a halt", "100 ms, 3bt: ready 20 halt 80; wait 80 halt 80",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7, .state = THREAD_SLEEPS), .to.blocking = 1 },
	{ "a thread that slept in a halt before", "100 ms, 3bt: ready 20 other 80; wait 80",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7, .state = THREAD_SLEEPS), .from.blocking = 1 },
	{ "a count of sleeps that grew", "100 ms, 3bt: ready 20 other 80; wait 20",
	  NOW(.ready = 20, .turns = 7, .has_sleeps = true, .sleeps = 4), BEFORE(.turns = 7, .has_sleeps = true,
	  .sleeps = 3) },
	{ "a count of sleeps that did not grow", "100 ms, 3bt: run 80 ready 20; wait 80",
	  NOW(.ready = 20, .turns = 7, .has_sleeps = true, .sleeps = 3), BEFORE(.turns = 7, .has_sleeps = true,
	  .sleeps = 3) },
	{ "a count of sleeps that begins", "100 ms, 3bt: ready 20 other 80; wait 80",
	  NOW(.ready = 20, .turns = 7, .has_sleeps = true, .sleeps = 4), BEFORE(.turns = 7) },
	{ "a count of sleeps that ends", "100 ms, 3bt: ready 20 other 80; wait 80",
	  NOW(.ready = 20, .turns = 7), BEFORE(.turns = 7, .has_sleeps = true, .sleeps = 3) },
	/* Time without a known state */
	{ "an assumed state", "100 ms, 3b: other 100; wait 100 assumed 105",
	  NOW(.state = THREAD_SLEEPS, .assumed = true), BEFORE(), .account = { .assumed = 5 } },
	{ "a thread that is known to sleep", "100 ms, 3b: other 100; wait 100",
	  NOW(.state = THREAD_SLEEPS), BEFORE(), .account = { .assumed = 5 } },
	{ "a thread that may be woken", "100 ms, 3bt: ready 100 turns 1; ready 100 wait 100 assumed 5",
	  NOW(.state = THREAD_RUNNABLE, .turns = 1), BEFORE(), .account = { .assumed = 5 } },
	{ "a wait is not assigned in full yet", "100 ms, 3b: run 90 ready 10; ready -2 wait 10 assumed 5",
	  NOW(.run = 90, .ready = 12, .state = THREAD_SLEEPS), BEFORE(), .account = { .assumed = 5 } },
	{ "run time is not assigned in full yet", "100 ms, 3b: run 100; run -2 assumed 5",
	  NOW(.run = 102, .state = THREAD_SLEEPS), BEFORE(), .account = { .assumed = 5 } },
	{ "more is reported than booked", "100 ms, 3b: other 100; run 1 ready 1 wait 1",
	  NOW(.run = 1, .ready = 1, .state = THREAD_SLEEPS), BEFORE(), .account = { .run = 2, .ready = 2,
	  .assumed = 5 } },
	/* Halts */
	{ "a halt that ended", "100 ms, 3b: run 30 halt 50 other 20; wait 70",
	  NOW(.run = 30), BEFORE(), .from.halt = 7, .to.halt = 57 },
	{ "a halt that was reported in part", "100 ms, 3b: run 30 halt 30 other 40; wait 70",
	  NOW(.run = 30), BEFORE(), .to.halt = 50, .account = { .halt = 20 } },
	{ "a halt that was reported in full", "100 ms, 3b: run 30 other 70; wait 70",
	  NOW(.run = 30), BEFORE(), .to.halt = 20, .account = { .halt = 20 } },
	{ "a halt that was shorter than reported", "100 ms, 3b: run 30 other 70; wait 70",
	  NOW(.run = 30), BEFORE(), .to.halt = 20, .account = { .halt = 50 } },
	{ "a halt that ended before", "100 ms, 3b: run 30 other 70; wait 70",
	  NOW(.run = 30), BEFORE(), .account = { .halt = 20 } },
	{ "a halt longer than the time", "100 ms, 3b: run 30 halt 70; wait 70",
	  NOW(.run = 30), BEFORE(), .to.halt = 200 },
	{ "a halt lasts", "100 ms, 3b: run 30 halt 70; wait 70 halt 77",
	  NOW(.run = 30, .state = THREAD_SLEEPS), BEFORE(), .to.blocking = 1, .account = { .halt = 7 } },
	{ "a halt lasts after another one", "100 ms, 3b: run 30 halt 70; wait 70 halt 57",
	  NOW(.run = 30, .state = THREAD_SLEEPS), BEFORE(), .to = { .halt = 20, .blocking = 1 },
	  .account = { .halt = 7 } },
	{ "a halt is not longer than the sleep", "100 ms, 3b: run 30 halt 40 other 30; wait 70 halt 47",
	  NOW(.run = 30, .state = THREAD_SLEEPS, .up_to_date = true, .asleep = 40), BEFORE(), .to.blocking = 1,
	  .account = { .halt = 7 } },
	{ "a sleep that is longer than the time", "100 ms, 3b: run 30 halt 70; wait 70 halt 70",
	  NOW(.run = 30, .state = THREAD_SLEEPS, .up_to_date = true, .asleep = 400), BEFORE(), .to.blocking = 1 },
	{ "a halted thread that waits", "100 ms, 3b: run 30 halt 70; wait 70 halt 70",
	  NOW(.run = 30, .state = THREAD_WAITS, .up_to_date = true, .asleep = 40), BEFORE(), .to.blocking = 1 },
	{ "the time asleep is unknown", "100 ms, 3b: run 30 halt 70; wait 70 halt 70",
	  NOW(.run = 30, .state = THREAD_SLEEPS, .asleep = 40), BEFORE(), .to.blocking = 1 },
	{ "a woken thread waits in two samples", "100 ms, 3bt: ready 100; ready 100 wait 100 halt 107",
	  NOW(.state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_RUNNABLE, .turns = 7),
	  .to.blocking = 1, .account = { .halt = 7 } },
	{ "a woken thread waits no longer than others", "100 ms, 3bt: ready 100 turns 2; ready 88 wait 6 halt 13",
	  NOW(.ready = 12, .state = THREAD_RUNNABLE, .turns = 9), BEFORE(.state = THREAD_RUNNABLE, .turns = 7),
	  .to.blocking = 1, .account = { .halt = 7 } },
	{ "a thread that was woken now", "100 ms, 3bt: halt 100; wait 100 halt 100",
	  NOW(.state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7),
	  .to.blocking = 1 },
	{ "a thread that was woken before", "100 ms, 3bt: halt 100; wait 100 halt 100",
	  NOW(.state = THREAD_SLEEPS, .turns = 7), BEFORE(.state = THREAD_RUNNABLE, .turns = 7),
	  .to.blocking = 1 },
	{ "a woken thread after a halt", "100 ms, 3bt: halt 100; wait 100 halt 80",
	  NOW(.state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_RUNNABLE, .turns = 7),
	  .to = { .halt = 20, .blocking = 1 } },
	{ "a woken thread that ran", "100 ms, 3bt: run 30 halt 70; wait 70 halt 70",
	  NOW(.run = 30, .state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_RUNNABLE, .turns = 7),
	  .to.blocking = 1 },
	{ "a halt without a thread", "100 ms, 18: halt 100; halt 107",
	  .now = { 0 }, .from.blocking = 1, .to.blocking = 1, .account = { .halt = 7 } },
	{ "a halt without a thread that began now", "100 ms, 18: unknown 100;",
	  .now = { 0 }, .to.blocking = 1 },
	{ "a halt without a thread after another one", "100 ms, 18: halt 20 unknown 80;",
	  .now = { 0 }, .from.blocking = 1, .to = { .halt = 20, .blocking = 1 } },
	{ "a halt without a thread after polling", "100 ms, 18: poll 20 unknown 80;",
	  .now = { 0 }, .from.blocking = 1, .to = { .poll = 20, .blocking = 1 } },
	/* The current state */
	{ "a thread that runs: a tick", "100 ms, 3bt: run 40 other 60; run 10 assumed 60",
	  NOW(.run = 30, .state = THREAD_RUNS, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7) },
	{ "a thread that runs: a part of a tick is reported", "100 ms, 3bt: run 6 other 94; run 10 assumed 94",
	  NOW(.run = 30, .state = THREAD_RUNS, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7),
	  .account = { .run = 34 } },
	{ "a thread that runs: a tick is reported", "100 ms, 3bt: other 100; run 12 assumed 100",
	  NOW(.run = 30, .state = THREAD_RUNS, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7),
	  .account = { .run = 42 } },
	{ "a thread that runs and did not sleep", "100 ms, 3bt: run 70 ready 30; run 10 ready 30 wait 70 guessed 30",
	  NOW(.run = 30, .state = THREAD_RUNS, .turns = 7), BEFORE(.turns = 7) },
	{ "a thread that runs and did not sleep, most of the time", "100 ms, 3bt: run 100; run 10 wait 40 guessed 30",
	  NOW(.run = 60, .state = THREAD_RUNS, .turns = 7), BEFORE(.turns = 7) },
	{ "guesses add up", "100 ms, 3bt: run 100; run 10 wait 40 guessed 33",
	  NOW(.run = 60, .state = THREAD_RUNS, .turns = 7), BEFORE(.turns = 7), .account = { .guessed = 3 } },
	{ "a thread that can run, and did not wait", "100 ms, 3bt: run 100; run 10",
	  NOW(.run = 90, .state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7) },
	{ "more than a tick is missing", "100 ms, 3bt: run 89 other 11; assumed 11",
	  NOW(.run = 89, .state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_SLEEPS, .turns = 7) },
	{ "more than a tick is missing, and waits are known", "100 ms, 3bt: run 60 ready 6 other 34 turns 2; ready 2 wait 2 assumed 34",
	  NOW(.run = 60, .ready = 4, .state = THREAD_RUNNABLE, .turns = 9), BEFORE(.state = THREAD_SLEEPS,
	  .turns = 7) },
	{ "a thread that can run, and waited", "100 ms, 3bt: run 90 ready 6 other 4 turns 2; ready 2 wait 2 assumed 4",
	  NOW(.run = 90, .ready = 4, .state = THREAD_RUNNABLE, .turns = 9), BEFORE(.state = THREAD_SLEEPS,
	  .turns = 7) },
	{ "a thread that can run, and did not", "8 ms, 3bt: ready 8; ready 8 wait 8",
	  NOW(.state = THREAD_RUNNABLE, .turns = 7), BEFORE(.state = THREAD_RUNNABLE, .turns = 7), .ms = 8 },
	{ "a thread that waits", "100 ms, 3bt: run 90 ready 10; ready 10 wait 10",
	  NOW(.run = 90, .state = THREAD_WAITS, .turns = 7), BEFORE(.turns = 7) },
	{ "a part of a wait is reported", "100 ms, 3bt: run 80 ready 20 turns 4; ready 22 wait 5 guessed 40",
	  NOW(.run = 40, .ready = 20, .state = THREAD_WAITS, .turns = 11), BEFORE(.turns = 7),
	  .account = { .ready = 22 } },
	{ "a wait longer than others", "100 ms, 3bt: run 40 ready 60 turns 4; ready 40 wait 5 guessed 20",
	  NOW(.run = 20, .ready = 20, .state = THREAD_WAITS, .turns = 11), BEFORE(.turns = 7) },
	{ "an unknown state", "100 ms, 3b: run 40 other 60; wait 60",
	  NOW(.run = 40, .state = THREAD_UNKNOWN), BEFORE() },
	{ "a state that the times include", "100 ms, 3b: run 40 other 60; wait 60",
	  NOW(.run = 40, .state = THREAD_WAITS, .up_to_date = true), BEFORE() },
	/* Lost time */
	{ "a thread that never slept", "100 ms, 3b: run 100; wait 50",
	  NOW(.run = 50, .state = THREAD_RUNS, .up_to_date = true, .has_sleeps = true),
	  BEFORE(.state = THREAD_RUNS, .has_sleeps = true) },
	{ "the count of sleeps begins", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .state = THREAD_RUNS, .up_to_date = true, .has_sleeps = true),
	  BEFORE(.state = THREAD_RUNS) },
	{ "the count of sleeps ends", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .state = THREAD_RUNS, .up_to_date = true), BEFORE(.state = THREAD_RUNS,
	  .has_sleeps = true) },
	{ "a sleep was counted", "100 ms, 3b: run 50 other 50;",
	  NOW(.run = 50, .state = THREAD_RUNS, .up_to_date = true, .has_sleeps = true, .sleeps = 1),
	  BEFORE(.state = THREAD_RUNS, .has_sleeps = true) },
	{ "a thread that sleeps", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .state = THREAD_SLEEPS, .up_to_date = true, .has_sleeps = true),
	  BEFORE(.state = THREAD_RUNS, .has_sleeps = true) },
	{ "a thread that slept before", "100 ms, 3b: run 50 other 50;",
	  NOW(.run = 50, .state = THREAD_RUNS, .up_to_date = true, .has_sleeps = true),
	  BEFORE(.state = THREAD_SLEEPS, .has_sleeps = true) },
	{ "the CPU lost a part of the time", "100 ms, 3b: run 60 other 40; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 27), BEFORE(.cpu = 1, .lost = 7) },
	{ "the CPU lost 1 ms less than all of it", "100 ms, 3b: run 74.5 other 25.5; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 56), BEFORE(.cpu = 1, .lost = 7) },
	{ "the CPU lost all of it", "100 ms, 3b: run 100; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 57), BEFORE(.cpu = 1, .lost = 7) },
	{ "the CPU lost more", "100 ms, 3b: run 100; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 90), BEFORE(.cpu = 1, .lost = 7) },
	{ "the CPU lost nothing", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 7), BEFORE(.cpu = 1, .lost = 7) },
	{ "the CPU was reset", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .cpu = 1, .lost = 6), BEFORE(.cpu = 1, .lost = 7) },
	{ "an unknown CPU", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .lost = 27), BEFORE(.lost = 7) },
	{ "another CPU", "100 ms, 3b: run 50 other 50; wait 50",
	  NOW(.run = 50, .cpu = 2, .lost = 27), BEFORE(.cpu = 1, .lost = 7) },
	/* Quotas */
	{ "a quota took a part of READY", "100 ms, 3f: ready 20 throttled 30 other 50; wait 50",
	  NOW(.ready = 50, .has_throttled = true, .throttled = 37), BEFORE(.has_throttled = true,
	  .throttled = 7) },
	{ "the rest of a quota's time is assigned later", "100 ms, 3f: throttled 20 other 80; wait 20 throttled 15",
	  NOW(.ready = 20, .has_throttled = true, .throttled = 30), BEFORE(.has_throttled = true),
	  .account = { .throttled = 5 } },
	{ "up to the period of a quota", "100 ms, 3f: throttled 20 other 80; wait 20 throttled 100",
	  NOW(.ready = 20, .has_throttled = true, .throttled = 120), BEFORE(.has_throttled = true) },
	{ "more is dropped", "100 ms, 3f: throttled 20 other 80; wait 20 throttled 100",
	  NOW(.ready = 20, .has_throttled = true, .throttled = 121), BEFORE(.has_throttled = true) },
	{ "quotas become known", "100 ms, 3f: ready 50 other 50; wait 50",
	  NOW(.ready = 50, .has_throttled = true, .throttled = 30), BEFORE() },
	{ "quotas are no longer known", "100 ms, 3b: ready 50 other 50; wait 50",
	  NOW(.ready = 50, .throttled = 30), BEFORE(.has_throttled = true) },
	/* Polling */
	{ "polling is running", "100 ms, 3b: run 20 poll 30 other 50; wait 50",
	  NOW(.run = 50), BEFORE(), .from.poll = 7, .to.poll = 37 },
	{ "polling of an earlier time", "100 ms, 3b: run 10 poll 40 other 50; wait 50",
	  NOW(.run = 50), BEFORE(), .to.poll = 30, .account = { .poll = 10 } },
	{ "20 ms more of polling are assigned later", "100 ms, 3b: poll 50 other 50; wait 50 poll 20",
	  NOW(.run = 50), BEFORE(), .to.poll = 70 },
	{ "more polling is dropped", "100 ms, 3b: poll 50 other 50; wait 50 poll 20",
	  NOW(.run = 50), BEFORE(), .to.poll = 71 },
	{ "polling without a thread", "100 ms, 18: poll 30 unknown 70;",
	  .now = { 0 }, .to.poll = 30 },
	{ "polling without a thread, longer than the time", "100 ms, 18: poll 100; poll 20",
	  .now = { 0 }, .to.poll = 130 },
	/* Known times */
	{ "no times of halts", "100 ms, 13: run 50 unknown 50; wait 50",
	  NOW(.run = 50), BEFORE(), .without_halt = true },
	{ "no times of polling", "100 ms, 2b: run 50 other 50; wait 50",
	  NOW(.run = 50), BEFORE(), .without_poll = true },
	{ "no times of waits", "100 ms, 19: run 50 unknown 50; ready -20",
	  .now = { .has_run = true, .run = 50, .ready = 20 }, BEFORE() },
	{ "no times of waits before", "100 ms, 19: run 50 unknown 50; ready -20",
	  NOW(.run = 50, .ready = 20), .before = { .has_run = true } },
	{ "no times of a thread before", "100 ms, 18: unknown 100;",
	  NOW(.run = 50, .ready = 20), .before = { .has_ready = true } },
	{ "no times of a thread", "100 ms, 18: unknown 100; run -50 ready -20",
	  .now = { .has_ready = true, .run = 50, .ready = 20 }, BEFORE() },
	{ "a thread that has not run", "100 ms, 3bt: other 100; wait 100",
	  NOW(.run = -1000), BEFORE(.run = -1000) },
	{ "turns", "100 ms, 3bt: run 50 other 50 turns 4; wait 50",
	  NOW(.run = 50, .turns = 9), BEFORE(.turns = 5) },
	{ "the VM ended", "30 ms, 3b: run 30; wait 70",
	  NOW(.run = 30), BEFORE(), .ended = true },
	{ "another thread", "100 ms, 18: unknown 100;",
	  NOW(.run = 50), BEFORE(), .tid = 2, .account = { .wait_max = 1, .guessed = 1, .assumed = 1,
	  .throttled = 1 } },
	{ "the thread ran another vCPU", "100 ms, 3f: ready 20 other 80;",
	  NOW(.run = 50, .ready = 20, .turns = 9, .cpu = 1, .lost = 5, .has_throttled = true, .throttled = 10,
	  .state = THREAD_RUNS), BEFORE(.cpu = 1, .has_throttled = true), .account = { .ready = -20 }, .whose = THREAD_TIME_OTHER },
	{ "the thread ran another vCPU, during a halt", "100 ms, 3b: other 100;",
	  NOW(.run = 50, .state = THREAD_RUNS, .asleep = 40), BEFORE(), .to.blocking = 1,
	  .whose = THREAD_TIME_OTHER },
	{ "the first sample", "0 ms, 0:;",
	  NOW(.run = 50), BEFORE(), .from.halt = 7, .to.halt = 57, .first = true, .account = { .run = 7,
	  .ready = 7, .wait_max = 7, .guessed = 7, .assumed = 7, .throttled = 7, .poll = 7, .ended = 7, .halt = 7 } },
	{ "the thread ran several vCPUs", "100 ms, 18: unknown 100;",
	  NOW(.run = 50), BEFORE(), .whose = THREAD_TIME_UNKNOWN },
	{ "no time passed: all is assigned by the next sample", "0 ms, 0:; wait 5 poll 40 ended 50",
	  NOW(.run = 50, .ready = 30), BEFORE(), .to = { .halt = 50, .poll = 40 }, .account.wait_max = 5, .no_time = true },
};

static void scale_thread(struct thread_times *t)
{
	t->run = (t->run + 1000) * MS;
	t->ready = (t->ready + 1000) * MS;
	t->throttled *= MS;
	t->lost *= MS;
	t->asleep *= MS;
}

/* Write the values that are not 0, in milliseconds. */
static const char *list_times(const struct core_vcpu *vcpu)
{
	static const char *const modes[] = { "run", "ready", "throttled", "halt", "poll", "other", "unknown" };
	const struct kvmstats_times *t = &vcpu->pub.last.times;
	const struct account *a = &vcpu->account;
	const struct {
		const char *name;
		uint64_t ns;
	} kept[] = {
		{ "run", a->run - a->thread.run }, { "ready", a->ready - a->thread.ready }, { "wait", a->wait_max },
		{ "guessed", a->guessed }, { "assumed", a->assumed }, { "throttled", a->throttled },
		{ "poll", a->poll }, { "ended", a->ended }, { "halt", a->halt },
	};
	static char text[512];
	unsigned int i;
	size_t n;

	n = snprintf(text, sizeof(text), "%g ms, %x%s:", t->elapsed / 1e6, (unsigned int)t->known,
		     t->known & KVMSTATS_TURNS_KNOWN ? "t" : "");
	for (i = 0; i < KVMSTATS_MODES; i++)
		if (t->mode[i])
			n += snprintf(text + n, sizeof(text) - n, " %s %.8g", modes[i], t->mode[i] / 1e6);
	if (t->turns)
		n += snprintf(text + n, sizeof(text) - n, " turns %u", (unsigned int)t->turns);
	if (vcpu->pub.times.known != t->known || vcpu->pub.times.elapsed != t->elapsed + 1)
		n += snprintf(text + n, sizeof(text) - n, " and another total");
	n += snprintf(text + n, sizeof(text) - n, ";");
	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i].ns)
			n += snprintf(text + n, sizeof(text) - n, " %s %.8g", kept[i].name, (int64_t)kept[i].ns / 1e6);
	return text;
}

/* Return how a vCPU spent its time in a case. */
static const char *sample_times(const struct times_case *c)
{
	static struct kvmstats core;
	struct stat_group *group = core.group[KVMSTATS_VCPU];
	uint64_t from[] = { c->from.halt * MS, c->from.poll * MS, c->from.blocking };
	uint64_t to[] = { c->to.halt * MS, c->to.poll * MS, c->to.blocking };
	struct core_vcpu vcpu = {
		.pub = { .tid = 1, .first_sample = c->first }, .thread_tid = c->tid, .thread_time = c->whose, .before = from, .now = to,
		.thread = c->now, .account = c->account,
	};
	struct account *a = &vcpu.account;

	/* of the previous sample */
	memset(&vcpu.pub.last.times, 0xff, sizeof(vcpu.pub.last.times));
	vcpu.pub.times.elapsed = 1;
	group[GROUP_HALT] = (struct stat_group){ !c->without_halt, { 0 } };
	group[GROUP_POLL] = (struct stat_group){ !c->without_poll, { 1 } };
	group[GROUP_BLOCKING] = (struct stat_group){ 1, { 2 } };
	a->thread = c->before;
	scale_thread(&vcpu.thread);
	scale_thread(&a->thread);
	vcpu.thread.time = c->no_time ? 0 : (c->ms ?: 100) * MS;
	vcpu.thread.run += c->ns;
	a->run = a->run * MS + a->thread.run;
	a->ready = a->ready * MS + a->thread.ready;
	a->wait_max *= MS;
	a->guessed *= MS;
	a->assumed *= MS;
	a->throttled *= MS;
	a->poll *= MS;
	a->ended *= MS;
	a->halt *= MS;
	times_update(&core, &vcpu, c->ended);
	return list_times(&vcpu);
}

static void test_times(void)
{
	const char *result;
	unsigned int i;

	for (i = 0; i < ARRAY_LEN(times_cases); i++) {
		result = sample_times(&times_cases[i]);
		tap_result(!strcmp(result, times_cases[i].result), "%s: %s", times_cases[i].what, result);
	}
}

/* VMs of a sample, and the labels of all of them: "!" ended, "-" without a label, "." forgotten */
enum { HIDDEN = 1, ENDED = 2, ENDED_BEFORE = 4, PENDING = 8, AMBIGUOUS = 16, LABELLED = 32 };

struct labelled_vm {
	const char *name;
	pid_t pid;
	uint64_t started;
	unsigned int flags;
	uint64_t id;
	const char *label;	/* of the previous sample */
};

static const struct {
	const char *what;
	struct labelled_vm vms[4];
	const char *labels;
} label_cases[] = {
	{ "the older process has the plain name", { { "web", 100, 9 }, { "web", 200, 5 } }, "web@100 web" },
	{ "of two that started at the same time, the first one", { { "web", 100, 5 }, { "web", 200, 5 } }, "web web@200" },
	{ "a process whose start is unknown is the youngest", { { "web", 100, 0 }, { "web", 200, 5 } }, "web@100 web" },
	{ "no start of the second one", { { "web", 100, 5 }, { "web", 200, 0 } }, "web web@200" },
	{ "the VMs of a process by their ids", { { "web", 100, 5, 0, 9 }, { "web", 100, 5, 0, 5 }, { "web", 100, 5, 0, 3 },
						 { "db", 200, 5 } }, "web web#2 web#3 db" },
	{ "a PID that is used again", { { "web", 100, 5 }, { "web", 100, 7 } }, "web web@100#2" },
	{ "a process that hides", { { "qemu", 100, 5, HIDDEN }, { "qemu", 200, 7, HIDDEN }, { "qemu", 300, 7 } },
	  "qemu? qemu?@200 qemu" },
	{ "no name", { { "", 100, 5 }, { "", 200, 5, HIDDEN } }, "@100 @200" },
	{ "vCPUs of which it is unknown whose they are", { { "web", 100, 5, AMBIGUOUS }, { "web", 100, 5, AMBIGUOUS } },
	  "web#? web#2~2" },
	{ "a process with the label of another one", { { "web#2", 100, 1 }, { "web", 200, 5 }, { "web", 200, 5 } },
	  "web#2 web web#2~2" },
	{ "two such processes", { { "web#2", 100, 1 }, { "web#2~2", 110, 1 }, { "web", 200, 5 }, { "web", 200, 5 } },
	  "web#2 web#2~2 web web#2~3" },
	{ "a process with the label of a younger one", { { "web@200", 100, 1 }, { "web", 110, 1 }, { "web", 200, 5 } },
	  "web@200 web web@200#1~2" },
	{ "VMs that are not reported have no number", { { "web", 100, 5, PENDING }, { "web", 100, 5 } }, "- web" },
	{ "nor have VMs that ended", { { "web", 100, 5, ENDED | LABELLED, 0, "old" }, { "web", 100, 5 } }, "old! web" },
	{ "a VM that ended before it had a label has that of its process",
	  { { "web", 100, 5, ENDED }, { "web", 100, 5 }, { "web", 200, 1 } }, "web@100! web@100 web" },
	{ "a process after others", { { "db", 90, 5 }, { "cache", 95, 5 }, { "web", 100, 5, ENDED, 1 }, { "web", 100, 5, 0, 2 } },
	  "db cache web! web" },
	{ "the label of a live VM of its process", { { "web", 100, 5, ENDED | LABELLED, 1, "old" }, { "web", 100, 5, ENDED, 2 },
						     { "web", 100, 5, 0, 3 } }, "old! web! web" },
	{ "the label of one that ended", { { "web", 100, 5, ENDED | LABELLED, 1, "old" }, { "web", 100, 5, ENDED, 2 } },
	  "old! old!" },
	{ "of two that ended, the first one", { { "web", 100, 5, ENDED | LABELLED, 1, "old" },
						{ "web", 100, 5, ENDED | LABELLED, 2, "new" }, { "web", 100, 5, ENDED, 3 } },
	  "old! new! old!" },
	{ "not that of another process", { { "db", 90, 5 }, { "web", 100, 6, ENDED }, { "web", 100, 5, 0, 2 }, { "cache", 110, 5 } },
	  "db web@100! web cache" },
	{ "its own label without a process that is left", { { "db", 90, 5 }, { "web", 100, 6, ENDED }, { "cache", 110, 5 } },
	  "db web! cache" },
	{ "not even if it is not reported", { { "web", 100, 5, ENDED | PENDING }, { "web", 100, 5 } }, "-! web" },
	{ "a VM that ended before gives its label to another one",
	  { { "web", 100, 5, ENDED_BEFORE | LABELLED, 0, "web" }, { "web", 200, 7 } }, ". web" },
	{ "unless it ended in this sample", { { "web", 100, 5, ENDED | LABELLED, 0, "web" }, { "web", 200, 7 } }, "web! web" },
	{ "or another label is needed", { { "web", 100, 5, ENDED_BEFORE | LABELLED, 0, "web" }, { "db", 200, 7 } }, "web! db" },
	{ "two labels are needed", { { "a", 100, 5, ENDED_BEFORE | LABELLED, 0, "a" }, { "b", 110, 5, ENDED_BEFORE | LABELLED, 0, "b" },
				     { "a", 200, 7 }, { "b", 210, 7 } }, ". . a b" },
};

static struct core_vm *make_labelled_vm(const struct labelled_vm *from, unsigned int nth)
{
	struct core_vm *vm = calloc(1, sizeof(*vm));

	vm->pub.identity.pid = from->pid;
	vm->pub.identity.vm_id = from->id;
	/* of the previous sample */
	vm->pub.nth = from->flags & (ENDED | ENDED_BEFORE) ? 0 : 7;
	strcpy(vm->pub.identity.name, from->name);
	strcpy(vm->pub.identity.label, from->label ?: "");
	vm->process_started = from->started;
	vm->hidden = from->flags & HIDDEN;
	vm->is_pending = from->flags & PENDING;
	vm->labelled = from->flags & LABELLED;
	vm->pub.ended = from->flags & (ENDED | ENDED_BEFORE);
	vm->pub.ended_at = from->flags & ENDED ? 1000 : from->flags & ENDED_BEFORE ? 999 : 0;
	vm->pub.vcpus_ambiguous = from->flags & AMBIGUOUS;
	vm->seen = true;
	vm->reported = nth;
	return vm;
}

/* Return the labels, and "." for each VM before those that are left. */
static const char *list_labels(const struct kvmstats *k, unsigned int vms)
{
	static char text[1024];
	unsigned int i;
	size_t n = 0;

	for (i = k->vms; i < vms; i++)
		n += sprintf(text + n, "%s.", n ? " " : "");
	for (i = 0; i < k->vms; i++)
		n += sprintf(text + n, "%s%s%s", n ? " " : "", k->vm[i]->labelled ? k->vm[i]->pub.identity.label : "-",
			     k->vm[i]->pub.ended ? "!" : "");
	return text;
}

/* VMs of a process are in the order of their ids. */
static bool are_ordered(const struct kvmstats *k)
{
	unsigned int i;

	for (i = 1; i < k->vms; i++) {
		if (k->vm[i]->pub.identity.pid == k->vm[i - 1]->pub.identity.pid &&
		    k->vm[i]->pub.identity.vm_id < k->vm[i - 1]->pub.identity.vm_id)
			return false;
	}
	return true;
}

static void test_label_cases(void)
{
	struct core_vm *vms[4];
	const char *labels;
	unsigned int i, n;

	for (i = 0; i < ARRAY_LEN(label_cases); i++) {
		struct kvmstats core = { .vm = vms, .sampled = 1000 };

		for (n = 0; n < 4 && label_cases[i].vms[n].name; n++)
			vms[n] = make_labelled_vm(&label_cases[i].vms[n], n);
		core.vms = n;
		labels = label_vms(&core) && are_ordered(&core) ? list_labels(&core, n) : "failed";
		tap_result(!strcmp(labels, label_cases[i].labels), "%s: %s", label_cases[i].what, labels);
		while (core.vms)
			core_forget(&core, 0);
	}
}

/* VMs get other labels when what decides about these changes. */
static void test_label_changes(void)
{
	const struct labelled_vm from[] = { { "web", 100, 5 }, { "web", 200, 7 }, { "web", 200, 7, ENDED | LABELLED, 0, "old" } };
	struct core_vm *vms[3];
	struct kvmstats core = { .vm = vms, .vms = 3, .sampled = 1000 };
	unsigned int i;

	for (i = 0; i < 3; i++)
		vms[i] = make_labelled_vm(&from[i], i);
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "web web@200 old!"), "labels: %s", list_labels(&core, 3));
	tap_result(!vms[0]->pub.nth && !vms[1]->pub.nth, "the only VM of a process has no number");
	strcpy(vms[0]->pub.identity.label, "kept");
	tap_result(label_vms(&core) && !strcmp(list_labels(&core, 3), "kept web@200 old!"), "they are kept if nothing changes: %s", list_labels(&core, 3));
	strcpy(vms[0]->pub.identity.name, "db");
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "db web old!"), "another name: %s", list_labels(&core, 3));
	vms[1]->hidden = true;
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "db web? old!"), "a process that hides: %s", list_labels(&core, 3));
	vms[1]->pub.vcpus_ambiguous = true;
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "db web?#? old!"), "unknown vCPUs: %s", list_labels(&core, 3));
	strcpy(vms[0]->pub.identity.name, "web");
	vms[1]->hidden = vms[1]->pub.vcpus_ambiguous = false;
	vms[1]->process_started = 3;
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "web@100 web old!"), "another start: %s", list_labels(&core, 3));
	vms[0]->is_pending = true;
	label_vms(&core);
	vms[0]->process_started = 1;
	vms[0]->is_pending = false;
	core.recorded = true;
	tap_result(label_vms(&core) && !strcmp(list_labels(&core, 3), "web@100 web old!"), "labels of a recording stay: %s", list_labels(&core, 3));
	core.recorded = false;
	label_vms(&core);
	tap_result(!strcmp(list_labels(&core, 3), "web web@200 old!"), "a VM that is reported again: %s", list_labels(&core, 3));
	vms[0]->pub.identity.pid = 200;
	label_vms(&core);
	tap_result(vms[0]->pub.nth == 1 && vms[1]->pub.nth == 2, "two VMs of a process have numbers");
	while (core.vms)
		core_forget(&core, 0);
}

/* Labels that have just enough space, and longer ones, which are cut off at a character before the suffix */
static void test_long_labels(void)
{
	static const struct {
		unsigned int before, characters, after;	/* of the name: "a", characters of two bytes, "a" */
		unsigned int vms;
		size_t left;	/* of the name in the label of the last VM */
		const char *end;
	} cases[] = {
		{ 126, 0, 0, 1, 126, "?" },
		{ 127, 0, 0, 1, 123, "\u2026?" },
		{ 1, 63, 0, 1, 123, "\u2026?" },
		{ 0, 63, 1, 1, 122, "\u2026?" },
		{ 124, 0, 0, 2, 124, "?#2" },
		{ 125, 0, 0, 2, 122, "\u2026#2" },
	};
	char name[128];
	unsigned int i, n;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		struct core_vm *vms[2];
		struct kvmstats core = { .vm = vms, .vms = cases[i].vms, .sampled = 1000 };
		const char *label;

		memset(name, 'a', sizeof(name));
		name[cases[i].before] = '\0';
		for (n = 0; n < cases[i].characters; n++)
			strcat(name, "\u00e4");
		strcat(name, cases[i].after ? "a" : "");
		for (n = 0; n < core.vms; n++)
			vms[n] = make_labelled_vm(&(struct labelled_vm){ name, 100, 5, HIDDEN }, n);
		label_vms(&core);
		label = vms[n - 1]->pub.identity.label;
		tap_result(!strncmp(label, name, cases[i].left) && !strcmp(label + cases[i].left, cases[i].end),
			   "label of %zu characters: %s", strlen(label), label);
		while (core.vms)
			core_forget(&core, 0);
	}
}

/* Names of many processes, with their labels in a table that is filled for the most part */
static void test_many_labels(void)
{
	struct kvmstats core = { .vms = 300, .sampled = 1000 };
	unsigned int i, n, right;
	char name[32];

	for (n = 1; n <= 300; n++) {
		core.vm = calloc(n, sizeof(*core.vm));
		core.vms = n;
		core.labels_hash = 0;
		for (i = 0; i < n; i++) {
			sprintf(name, "vm-%u", i / 2);
			core.vm[i] = make_labelled_vm(&(struct labelled_vm){ name, 100 + i, 5 + i }, i);
		}
		label_vms(&core);
		for (right = i = 0; i < n; i++) {
			sprintf(name, i % 2 ? "vm-%u@%u" : "vm-%u", i / 2, 100 + i);
			right += !strcmp(core.vm[i]->pub.identity.label, name);
		}
		while (core.vms)
			core_forget(&core, core.vms - 1);
		free(core.vm);
		if (right < n)
			break;
	}
	tap_result(n > 300, "labels of up to %u VMs", n - 1);
}

/* The labels of all VMs after a sample of these, with blanks between */
static const char *labels(struct kvmstats *k, const uint64_t *key, const pid_t *pid)
{
	static char text[512];
	const struct kvmstats_vm *vm;

	memcpy(keys, key, sizeof(keys));
	memcpy(pids, pid, sizeof(pids));
	clock_ns += 1000 * MS;
	kvmstats_sample(k);
	*text = '\0';
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		sprintf(text + strlen(text), "%s%s ", vm->identity.label, vm->ended ? "!" : "");
	return text;
}

/* A VM whose thread started between two samples */
static void test_birth(struct kvmstats *k)
{
	const struct kvmstats_vm *vm;

	labels(k, (uint64_t[4]){ 500 }, (pid_t[4]){ 100 });
	thread.born = clock_ns + 700 * MS;
	labels(k, (uint64_t[4]){ 500, 501 }, (pid_t[4]){ 100, 200 });
	vm = kvmstats_first(k)->next;
	tap_result(vm && !vm->first_sample && vm->elapsed == 300 * MS &&
		   vm->sum.times.elapsed == 300 * MS,
		   "the first sample of a new VM covers the time since its start: %llu ms",
		   vm ? (unsigned long long)(vm->elapsed / MS) : 0);
	thread.born = 0;
}

static bool has_labels(const char *expected, const char *labels)
{
	if (!strcmp(labels, expected))
		return true;
	printf("# %s\n", labels);
	return false;
}

#define LABELS(expected, k, key, pid) \
	has_labels(expected, labels(k, (uint64_t[4])key, (pid_t[4])pid))
#define LIST(...)	{ __VA_ARGS__ }

static bool same_labels(const struct kvmstats *a, const struct kvmstats *b)
{
	const struct kvmstats_vm *vm = kvmstats_first(a), *other = kvmstats_first(b);

	for (; vm && other; vm = vm->next, other = other->next) {
		if (strcmp(vm->identity.label, other->identity.label))
			return false;
	}
	return !vm && !other;
}

static void test_labels(struct kvmstats *k, const char *proc)
{
	struct kvmstats *opened;
	uint64_t counted;
	unsigned int i;

	vcpu_id = PROBE_VCPU_ID;
	tap_result(LABELS("", k, LIST(99), LIST(400)), "the probe VM of another process is not reported");
	own[0].exits = 2000;
	tap_result(LABELS("young ", k, LIST(94), LIST(400)), "such a VM is reported when its guest has run");
	labels(k, (uint64_t[4]){ 0 }, (pid_t[4]){ 0 });
	thread.born = clock_ns + 50 * MS;
	thread.run = 40 * MS;
	tap_result(LABELS("", k, LIST(93), LIST(400)), "the VM of a check with many exits is not reported");
	thread.run = 400 * MS;
	tap_result(LABELS("young ", k, LIST(93), LIST(400)), "such a VM is reported when its guest has used a CPU");
	thread.born = thread.run = 0;
	own[0].exits = 0;
	labels(k, (uint64_t[4]){ 0 }, (pid_t[4]){ 0 });
	for (i = 0; i < 10; i++)
		labels(k, (uint64_t[4]){ 95 }, (pid_t[4]){ 400 });
	tap_result(LABELS("young ", k, LIST(95), LIST(400)),
		   "such a VM is reported when it is old, although its process is always young");
	labels(k, (uint64_t[4]){ 0 }, (pid_t[4]){ 0 });
	tap_result(LABELS("web ", k, LIST(96), LIST(100)),
		   "a VM that looks like a probe is reported if its process is not young");
	tap_result(LABELS("web ", k, LIST(96), LIST(200)) && kvmstats_first(k)->identity.pid == 200 &&
		   !kvmstats_first(k)->first_sample,
		   "a VM that another process holds now is still the same");
	vcpu_id = 0;
	labels(k, (uint64_t[4]){ 0 }, (pid_t[4]){ 0 });
	without_vcpu = true;
	tap_result(LABELS("", k, LIST(98), LIST(100)), "nor is a VM that has no vCPU yet");
	tap_result(LABELS("", k, LIST(0), LIST(0)), "nor its end");
	labels(k, (uint64_t[4]){ 97 }, (pid_t[4]){ 100 });
	tap_result(LABELS("web ", k, LIST(97), LIST(100)), "a VM that has none for a second is reported");
	without_vcpu = false;
	labels(k, (uint64_t[4]){ 0 }, (pid_t[4]){ 0 });
	tap_result(LABELS("web ", k, LIST(100), LIST(100)), "a VM has its name");
	tap_result(LABELS("web web#2 ", k, LIST(100, 101), LIST(100, 100)),
		   "a VM keeps its name when its process creates another one");
	tap_result(LABELS("web web#2 web@200 ", k, LIST(100, 101, 200), LIST(100, 100, 200)),
		   "a VM of a younger process with that name has another label");
	tap_result(LABELS("web! web#2! web ", k, LIST(200), LIST(200)),
		   "a VM has the plain name when the older process has ended");
	tap_result(LABELS("web web@300 ", k, LIST(200, 300), LIST(200, 300)),
		   "a new VM never takes the label of an older one");
	tap_result(LABELS("web! web@300! ", k, LIST(0), LIST(0)), "VMs that end keep their labels");
	tap_result(LABELS("web web@300 ", k, LIST(301, 201), LIST(300, 200)),
		   "the VM of the older process has the plain name");
	tap_result(LABELS("web! web@300! ", k, LIST(0), LIST(0)), "all VMs end");
	kvmstats_set_keep(k, 3000 * MS);
	tap_result(LABELS("web! web@300! ", k, LIST(0), LIST(0)), "ended VMs are kept");
	tap_result(LABELS("web web@300! ", k, LIST(102), LIST(100)),
		   "an ended VM is removed when another one needs its label");
	tap_result(kvmstats_first(k)->next->ended_at == clock_ns - 2000 * MS,
		   "an ended VM has the time of its end");
	/* The test's clock advances after the check. */
	labels(k, keys, pids);
	tap_result(LABELS("web ", k, LIST(102), LIST(100)), "an ended VM is kept for the time set");
	kvmstats_set_keep(k, 0);
	counted = *(const uint64_t *)kvmstats_first(k)->vcpu_total;
	tap_result(LABELS("web! web ", k, LIST(103), LIST(300)),
		   "a successor has the plain name immediately");
	tap_result(*(const uint64_t *)kvmstats_first(k)->vcpu_total == counted,
		   "a VM that has ended keeps its totals");
	tap_result(LABELS("web! web ", k, LIST(104), LIST(300)),
		   "a guest that reboots in its process keeps its label");
	for (i = 0; i < 3; i++)
		labels(k, (uint64_t[4]){ 105 + i }, (pid_t[4]){ 300 });
	tap_result(!strcmp(kvmstats_first(k)->next->identity.label, "web"),
		   "a guest that reboots in each sample keeps its label");
	tap_result(LABELS("web web#2 web! ", k, LIST(201, 202), LIST(200, 200)),
		   "two VMs of a process succeed one");
	tap_result(LABELS("web web#2 web@300 ", k, LIST(201, 202, 104), LIST(200, 200, 300)),
		   "a VM of a younger process has another label than both");
	tap_result(LABELS("web web#2! web@300 ", k, LIST(201, 104), LIST(200, 300)),
		   "the first VM of a process keeps its label when the second one ends");
	labels(k, keys, pids);
	if (kvmstats_open(&opened, NULL, proc, 0) || kvmstats_sample(opened))
		return;
	tap_result(opened && same_labels(k, opened), "a process that starts later has the same labels");
	kvmstats_close(opened);
	labels(k, (uint64_t[4]){ 102 }, (pid_t[4]){ 100 });
}

static bool uses(struct kvmstats *k, const char *source, unsigned int changes)
{
	return !strcmp(kvmstats_source(k), source) && kvmstats_source_changes(k) == changes;
}

static void test_sources(const char *proc)
{
	struct kvmstats *k;

	if (kvmstats_open(&k, NULL, proc, 0))
		return;
	kvmstats_sample(k);
	tap_result(uses(k, "test", 0) && !strcmp(kvmstats_source_why(k),
						 "better: it is not there yet"),
		   "the first source that works, and why not the one before it");
	better_works = true;
	clock_ns += 30000 * MS;
	kvmstats_sample(k);
	tap_result(uses(k, "test", 0), "a better one is not looked for all the time");
	clock_ns += 61000 * MS;
	kvmstats_sample(k);
	kvmstats_sample(k);
	tap_result(uses(k, "better", 1) && !*kvmstats_source_why(k) && kvmstats_first(k),
		   "but in a minute");
	better_works = false;
	tap_result(!kvmstats_sample(k) && uses(k, "test", 2) && kvmstats_first(k)->first_sample,
		   "one that dies is replaced at once");
	broken = true;
	tap_result(kvmstats_sample(k) == -ENODEV && uses(k, "none", 3) &&
		   !kvmstats_first(k), "none is left: an error");
	tap_result(kvmstats_sample(k) == -ENODEV && *kvmstats_problem(k), "which lasts");
	broken = false;
	tap_result(!kvmstats_sample(k) && uses(k, "test", 4), "the library uses a source again once one works");
	kvmstats_close(k);

	broken = true;
	tap_result(kvmstats_open(&k, NULL, proc, 0) == -ENODEV, "no source works: no handle");
	tap_result(!kvmstats_open(&k, NULL, proc, KVMSTATS_WAIT) && uses(k, "none", 0) && !kvmstats_sample(k),
		   "the option wait opens without a source");
	broken = false;
	tap_result(!kvmstats_sample(k) && uses(k, "test", 1) && kvmstats_first(k),
		   "a waiting handle uses a source once it works");
	kvmstats_close(k);
}

/* The host's clock differs from the right time by this much. */
static int64_t clock_error;

uint64_t __real_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock)
{
	return __real_read_clock(clock) + (clock == CLOCK_REALTIME ? clock_error : 0);
}

/* The clock is years behind until NTP sets it. */
static void test_start_time(const char *proc)
{
	const int64_t years = 27 * 365 * 86400 * 1000LL * MS;
	const struct kvmstats_vm *vm;
	uint64_t started, right;
	struct kvmstats *k;

	clock_error = -years;
	if (kvmstats_open(&k, NULL, proc, 0))
		return;
	kvmstats_sample(k);
	vm = kvmstats_first(k);
	started = vm->identity.started;
	clock_error += 100 * MS;
	kvmstats_sample(k);
	tap_result(started && vm->identity.started == started,
		   "the start time of a VM does not follow the drift of the clock");
	clock_error = 0;
	kvmstats_sample(k);
	/* Process 100 started 1 s after the boot. */
	right = __real_read_clock(CLOCK_REALTIME) - __real_read_clock(CLOCK_BOOTTIME) + 1000 * MS;
	tap_result(vm->identity.started + 1000 * MS > right &&
		   vm->identity.started < right + 1000 * MS,
		   "the start time of a VM follows a step of the clock");
	clock_error = -3600 * 1000LL * MS;
	kvmstats_sample(k);
	tap_result(vm->identity.started + 3599 * 1000 * MS < right,
		   "the start time of a VM follows a step back");
	clock_error = 0;
	kvmstats_close(k);
}

/* Write the files of a VMM in a cgroup, or of one that exits: it has no command line any longer. */
static void put_vmm(const char *proc, pid_t pid, const char *cgroup, bool exits)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%d", proc, pid);
	put(path, "cgroup", "0::%s\n", cgroup);
	put(path, "cmdline", exits ? "" : "qemu-system-x86_64%c-name%cvm-%d%c", 0, 0, pid, 0);
}

/* A VMM that exits is moved to the root of cgroup v1 long before its VM is destroyed. */
static void test_exiting(const char *proc)
{
	const struct kvmstats_vm *vm;
	struct kvmstats *k;
	uint64_t end;

	put_vmm(proc, 100, "/a", false);
	put_vmm(proc, 200, "/b", false);
	keys[1] = 2;
	pids[1] = 200;
	if (kvmstats_open(&k, NULL, proc, 0))
		return;
	kvmstats_sample(k);
	put_vmm(proc, 100, "/moved", false);
	put_vmm(proc, 200, "/", true);
	/* Identities are read again after a second. */
	for (end = read_clock(CLOCK_MONOTONIC) + 1200 * MS; read_clock(CLOCK_MONOTONIC) < end;) {
		usleep(50000);
		kvmstats_sample(k);
	}
	vm = kvmstats_first(k);
	tap_result(!strcmp(vm->identity.label, "vm-100") && !strcmp(identity_cgroup(&vm->identity), "/moved"),
		   "the cgroup of a VM follows its process: %s in %s", vm->identity.label,
		   identity_cgroup(&vm->identity));
	vm = vm->next;
	tap_result(!strcmp(vm->identity.label, "vm-200") && !strcmp(identity_cgroup(&vm->identity), "/b"),
		   "a VM keeps name and cgroup while its process exits: %s in %s",
		   vm->identity.label, identity_cgroup(&vm->identity));
	kvmstats_close(k);
}

/* A procfs with three processes of one name; the second is older than the third */
static const char *make_proc(void)
{
	static char folder[] = "/tmp/core_test-XXXXXX";
	char path[64];
	int pid;

	if (!mkdtemp(folder))
		return "/proc";
	for (pid = 100; pid <= 300; pid += 100) {
		snprintf(path, sizeof(path), "%s/%d", folder, pid);
		mkdir(path, 0700);
		put(path, "comm", "web\n");
		put(path, "stat", "%d (w) e) b) R 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %d 23",
		    pid, pid);
		strcat(path, "/task");
		mkdir(path, 0700);
	}
	/* a process that has just started */
	snprintf(path, sizeof(path), "%s/400", folder);
	mkdir(path, 0700);
	put(path, "comm", "young\n");
	put(path, "stat", "400 (young) R 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %llu 23",
	    (unsigned long long)read_clock(CLOCK_BOOTTIME) * sysconf(_SC_CLK_TCK) / 1000000000);
	return folder;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/* Return two digits for each VM after a sample with these keys: the key, and its number
 * among the VMs of the process. */
static unsigned int number(struct kvmstats *k, uint64_t a, uint64_t b, uint64_t c)
{
	const struct kvmstats_vm *vm;
	unsigned int said = 0;

	keys[0] = a;
	keys[1] = b;
	keys[2] = c;
	kvmstats_sample(k);
	for (vm = kvmstats_first(k); vm; vm = vm->next)
		said = 100 * said + vm->nth +
		       10 * (*(const uint64_t *)vm->vcpu[0]->values - exits);
	return said;
}

static void test_numbers(struct kvmstats *k)
{
	tap_result(number(k, 1, 0, 0) == 10, "the only VM of a process has no number");
	tap_result(number(k, 9, 1, 8) == 911283, "VMs are numbered in the order of the report");
	tap_result(number(k, 8, 9, 1) == 819213, "another order of descriptors changes the numbers");
	tap_result(number(k, 9, 1, 0) == 819112 && kvmstats_first(k)->ended,
		   "a VM that has ended keeps its number");
	tap_result(number(k, 9, 1, 0) == 9112, "the others have the numbers of two VMs");
	tap_result(number(k, 9, 0, 0) == 9012, "a VM that is left alone has no number");
}

int main(void)
{
	const char *proc = make_proc();
	struct kvmstats *k;

	test_times();
	test_label_cases();
	test_label_changes();
	test_long_labels();
	test_many_labels();
	clock_ns = 1000 * MS;
	if (kvmstats_open(&k, NULL, proc, 0) || kvmstats_sample(k)) {
		printf("Bail out! the source of the test does not work\n");
		return 1;
	}
	test_second(k, kvmstats_first(k));
	test_no_time(k, kvmstats_first(k));
	test_booked(k);
	test_assumed(k);
	test_turns(k);
	test_up_to_date(k);
	test_unknown(k);
	test_totals(k);
	test_numbers(k);
	number(k, 9, 0, 0);
	number(k, 9, 0, 0);
	test_end(k);
	kvmstats_close(k);
	keys[0] = 1;
	if (!kvmstats_open(&k, NULL, proc, 0)) {
		kvmstats_sample(k);
		test_shared_thread(k);
	}
	kvmstats_close(k);
	thread.up_to_date = false;
	if (!kvmstats_open(&k, NULL, proc, 0)) {
		test_labels(k, proc);
		test_birth(k);
	}
	kvmstats_close(k);
	keys[0] = 1;
	keys[1] = 0;
	if (!kvmstats_open(&k, NULL, proc, 0)) {
		kvmstats_sample(k);
		test_lost(k, proc, 3, 100, 1000);
		test_lost(k, proc, 3, 10, 1000);
		test_lost(k, proc, 3, 50, 100);
		test_lost(k, proc, 7, 100, 200);
		test_lost(k, proc, 20, 10, 100);
		test_lost(k, proc, 30, 10, 500);
		test_lost(k, proc, 1, 50, 100);
		test_lost(k, proc, 0, 10, 100);
		test_lost(k, proc, 0, 50, 1000);
		test_resting(k, proc);
	}
	kvmstats_close(k);
	tid = 1;
	test_start_time(proc);
	test_sources(proc);
	test_exiting(proc);
	nftw(proc, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return tap_end();
}
