// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the clocks of paravirtual perf events: periods, NMIs, and what a guest that
 * does its worst with them costs its host
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "x86_64/pv_perf.h"
#include "test_util.h"

static void guest_halt(struct pv_guest *guest)
{
	uint64_t rip;

	while (READ_ONCE(guest->hlt_nmis) < guest->until) {
		asm volatile("lea 1f(%%rip), %0\n\t"
			     "mov %0, %1\n\t"
			     "cli\n\t"
			     "hlt\n"
			     "1:"
			     : "=&r" (rip), "=m" (guest->after_hlt) : : "memory");
	}
}

/* Open and close an event again and again */
static void guest_reopen(struct pv_guest *guest)
{
	uint64_t i;

	for (i = 0; i < guest->until && !guest->ret; i++) {
		guest->ret = kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_CLOSE,
					   guest->a2, 0, 0);
		if (!guest->ret)
			guest->ret = kvm_hypercall(KVM_HC_PV_PERF,
						   KVM_PV_PERF_OPEN,
						   guest->a1, 0, 0);
	}
}

/*
 * Close a clock just when its first period ends: wait less if there was an NMI, otherwise
 * more.  In some rounds, the period ends while the host handles CLOSE.  Count the slots
 * with an overflow that no NMI reported.
 */
static void guest_close_at_end(struct pv_guest *guest)
{
	uint64_t wait = 1000, i, start;
	bool close = false;

	for (i = 0; i < guest->until && !guest->ret; i++) {
		WRITE_ONCE(pv_slots[0][0].overflows, 0);
		WRITE_ONCE(guest->seen, 0);
		guest->ret = kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_OPEN,
					   guest->a1, 0, 0);
		start = rdtsc();
		while (rdtsc() - start < wait)
			cpu_relax();
		kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_CLOSE, 0, 0, 0);
		if (READ_ONCE(guest->seen)) {
			close = true;
			wait -= wait / 512;
		} else {
			wait += close ? wait / 512 : wait / 16;
		}
		guest->a2 += READ_ONCE(pv_slots[0][0].overflows) != READ_ONCE(guest->seen);
	}
}

static void test_sampling(struct kvm_vm *vm)
{
	static const char * const names[] = {
		[PERF_COUNT_SW_CPU_CLOCK] = "cpu-clock",
		[PERF_COUNT_SW_TASK_CLOCK] = "task-clock",
	};
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	uint64_t nmis;
	int config[] = { PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK };
	time_t end;
	int i;

	for (i = 0; i < ARRAY_SIZE(config); i++) {
		const char *name = names[config[i]];

		pv_clock_attr(vm, 0, config[i], 0);
		ok(!pv_open_event(vm, 0), "%s: OPEN succeeds without a period", name);
		nmis = pv_count(vm, 0);
		/* The host's clock may stand until its next tick. */
		end = time(NULL) + LIMIT;
		do {
			pv_run_until(vm, 0, pv_guest_cpuid, 1000);
		} while (pv_count(vm, 0) <= nmis && time(NULL) < end);
		ok(pv_count(vm, 0) > nmis, "%s: the clock continues", name);
		pv_event_op(vm, KVM_PV_PERF_DISABLE, 0);
		nmis = pv_count(vm, 0);
		pv_run_until(vm, 0, pv_guest_cpuid, 1000);
		ok(pv_count(vm, 0) == nmis, "%s: the clock stops when disabled", name);
		pv_reset(vm);
		pv_clock_attr(vm, 0, config[i], 0)->flags = 0;
		TEST_ASSERT(!pv_open_event(vm, 0), "OPEN of %s failed", name);
		pv_run_until(vm, 0, pv_guest_cpuid, 1000);
		ok(!pv_count(vm, 0), "%s: the clock is stopped when opened without ENABLED", name);
		pv_reset(vm);

		pv_forget_nmis(vm);
		pv_clock_attr(vm, 0, config[i], PERIOD);
		ok(!pv_open_event(vm, 0), "%s: OPEN succeeds with a period", name);
		pv_run_until(vm, 0, pv_guest_busy, 20);
		ok(!pv_event_op(vm, KVM_PV_PERF_DISABLE, 0), "%s: 20 NMIs arrived",
		   name);
		ok(pv_slot(vm, 0)->overflows >= guest->nmis && !guest->stray,
		   "%s: the slot had each overflow before its NMI", name);
		ok(pv_slot(vm, 0)->count >= 20 * PERIOD,
		   "%s: at least 20 periods were counted", name);
		ok(!guest->nested, "%s: NMIs do not nest", name);
		nmis = guest->nmis;
		pv_run_for(vm, 5 * PERIOD);
		ok(guest->nmis == nmis, "%s: NMIs end after DISABLE", name);
		ok(!pv_event_op(vm, KVM_PV_PERF_ENABLE, 0), "%s: ENABLE succeeds", name);
		pv_run_until(vm, 0, pv_guest_busy, nmis + 3);
		ok(!pv_event_op(vm, KVM_PV_PERF_CLOSE, 0), "%s: NMIs continue", name);
		nmis = guest->nmis;
		pv_run_for(vm, 5 * PERIOD);
		ok(guest->nmis == nmis, "%s: NMIs end after CLOSE", name);
	}
}

/*
 * A period ends when it has passed: as many overflows as periods were counted, on each
 * CPU. A host that is late by more than a period loses it. So the period is long, and
 * there are several tries.
 */
static void test_period(struct kvm_vm *vm)
{
	const uint64_t period = 100 * PERIOD, wanted = 5;
	uint64_t periods, overflows;
	cpu_set_t all, one;
	time_t end;
	int cpu;

	sched_getaffinity(0, sizeof(all), &all);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		TEST_ASSERT(!sched_setaffinity(0, sizeof(one), &one),
			    "sched_setaffinity, errno: %i", errno);
		end = time(NULL) + LIMIT;
		do {
			pv_forget_nmis(vm);
			pv_open_clock(vm, 0, period);
			pv_run_until(vm, 0, pv_guest_busy, wanted);
			pv_event_op(vm, KVM_PV_PERF_CLOSE, 0);
			periods = pv_slot(vm, 0)->count / period;
			overflows = pv_slot(vm, 0)->overflows;
		} while (overflows + 1 < periods && time(NULL) < end);
		ok(overflows + 1 >= periods && overflows <= periods + 1,
		   "CPU %d causes %lu overflows in %lu periods", cpu, overflows, periods);
	}
	sched_setaffinity(0, sizeof(all), &all);
}

/* Not the id that all others sample with */
static void test_other_id(struct kvm_vm *vm)
{
	pv_forget_nmis(vm);
	pv_open_clock(vm, 1, PERIOD);
	pv_run_until(vm, 0, pv_guest_busy, 3);
	ok(pv_slot(vm, 1)->overflows, "event 1: the NMI finds %lu overflows in the slot",
	   (uint64_t)pv_slot(vm, 1)->overflows);
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 1);
	pv_open_stat(vm, 1, "exits");
	ok(!pv_slot(vm, 1)->overflows, "event 1: an event that is opened again has no overflows");
	pv_reset(vm);
}

/* A slot that is read while it is written */
static struct {
	struct kvm_pv_perf_slot *slot;
	bool stop;
	bool odd;
} watcher;

static void *watch_seq(void *arg)
{
	while (!READ_ONCE(watcher.odd) && !READ_ONCE(watcher.stop))
		WRITE_ONCE(watcher.odd, READ_ONCE(watcher.slot->seq) & 1);
	return NULL;
}

static void test_seq(struct kvm_vm *vm)
{
	const time_t end = time(NULL) + LIMIT;
	unsigned long reads = 0;
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_ONLN) == 1) {
		ksft_test_result_skip("one CPU: no reader runs while a slot is written\n");
		return;
	}
	pv_open_stat(vm, 0, "hypercalls");
	watcher.slot = pv_slot(vm, 0);
	pthread_create(&thread, NULL, watch_seq, NULL);
	for (; !READ_ONCE(watcher.odd) && time(NULL) < end; reads++)
		pv_count(vm, 0);
	WRITE_ONCE(watcher.stop, true);
	pthread_join(thread, NULL);
	ok(watcher.odd && !(pv_slot(vm, 0)->seq & 1),
	   "seq was odd while the slot was written (%lu READs), now it is even", reads);
	pv_reset(vm);
}

static void test_close(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	const uint64_t rounds = 400;

	pv_forget_nmis(vm);
	pv_clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD);
	guest->a1 = gpa_of(vm, pv_attrs[0]);
	guest->a2 = 0;
	guest->ret = 0;
	pv_run_until(vm, 0, guest_close_at_end, rounds);
	ok(!guest->ret && !guest->a2,
	   "CLOSE at the end of a period: %lu of %lu slots have an overflow without an NMI",
	   guest->a2, rounds);
}

static void test_slow_handler(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);

	pv_forget_nmis(vm);
	guest->slow = 10;
	pv_open_clock(vm, 0, PERIOD);
	pv_run_until(vm, 0, pv_guest_busy, 20);
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 0);
	ok(!guest->slow && pv_slot(vm, 0)->overflows >= 30,
	   "handler longer than the period: the guest continues after 10 of them");
	ok(!guest->nested && !guest->stray,
	   "handler longer than the period: NMIs do not nest, each has a reason");
}

/* What wakes a halted vCPU now and then */
static struct {
	struct kvm_vm *vm;
	bool stop;
} waker;

static void *wake_now_and_then(void *arg)
{
	/* To local APIC 0, delivery mode NMI */
	struct kvm_msi msi = { .address_lo = 0xfee00000, .data = 4 << 8 };
	struct pv_guest *guest = in_guest(waker.vm, pv_guests[0]);

	while (!READ_ONCE(waker.stop)) {
		usleep(20000);
		__atomic_add_fetch(&guest->woken, 1, __ATOMIC_SEQ_CST);
		ioctl(vm_get_fd(waker.vm), KVM_SIGNAL_MSI, &msi);
		__atomic_add_fetch(&guest->woken, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void set_halt_poll(struct kvm_vm *vm, uint64_t ns)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HALT_POLL,
		.args[0] = ns,
	};

	vm_enable_cap(vm, &cap);
}

/*
 * A clock continues while the host polls for the end of a halt, so that a period
 * can end in it. How long it polls grows with each halt that ends soon enough:
 * something has to end the first ones.
 */
static void test_halt(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	pthread_t thread;

	set_halt_poll(vm, 100 * PERIOD);
	pv_forget_nmis(vm);
	pv_open_clock(vm, 0, PERIOD);
	waker.vm = vm;
	waker.stop = false;
	pthread_create(&thread, NULL, wake_now_and_then, NULL);
	pv_run_until(vm, 0, guest_halt, 20);
	WRITE_ONCE(waker.stop, true);
	pthread_join(thread, NULL);
	pv_event_op(vm, KVM_PV_PERF_CLOSE, 0);
	ok(guest->hlt_nmis >= 20, "cli; hlt: %lu overflows ended the halt",
	   guest->hlt_nmis);
	ok(!guest->nested, "cli; hlt: NMIs do not nest");
	set_halt_poll(vm, 0);
}

/* Open and close a clock; what the last hypercall returned */
static int64_t reopen(struct kvm_vm *vm, int times)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);

	pv_open_clock(vm, 1, PERIOD);
	guest->a1 = gpa_of(vm, pv_attrs[0]);
	guest->a2 = 1;
	guest->ret = 0;
	/* In portions: a slow machine needs a minute for all of them. */
	for (; times > 0 && !guest->ret; times -= 100)
		pv_run_until(vm, 0, guest_reopen, 100);
	return guest->ret;
}

static void test_reopen(struct kvm_vm *vm)
{
	pv_forget_nmis(vm);
	pv_open_clock(vm, 0, PERIOD);
	ok(!reopen(vm, 2000),
	   "OPEN and CLOSE succeed 2000 times while another event samples");
	pv_reset(vm);
}

/* What happens in the host while a guest does its worst on CPU 0 */
struct cost {
	uint64_t vcpu;		/* CPU time of this thread, in ns */
	uint64_t others;	/* CPU time of the other CPUs, in ticks */
	uint64_t ipis;		/* calls of functions on other CPUs */
	time_t seconds;
};

/* Return the sum of the columns of all CPUs except 0, in lines that begin with @begin */
static uint64_t of_other_cpus(const char *file, const char *begin)
{
	char line[4096], *values;
	FILE *lines = fopen(file, "r");
	bool row = !strcmp(file, "/proc/interrupts");
	uint64_t sum = 0;
	int i;

	TEST_ASSERT(lines, "No %s", file);
	while (fgets(line, sizeof(line), lines)) {
		char *word, *next = line + strspn(line, " ");

		if (strncmp(next, begin, strlen(begin)))
			continue;
		next += strlen(begin);
		if (row) {
			/* CAL: a number for each CPU */
			values = next + 1;
			for (i = 0; (word = strtok(i ? NULL : values, " ")) &&
			     isdigit(*word); i++)
				sum += i ? strtoull(word, NULL, 10) : 0;
		} else if (isdigit(*next) && strtoul(next, &values, 10)) {
			/* cpuN user nice system idle iowait irq softirq */
			for (i = 0; i < 7; i++) {
				uint64_t ticks = strtoull(values, &values, 10);

				sum += i == 3 || i == 4 ? 0 : ticks;
			}
		}
	}
	fclose(lines);
	return sum;
}

static struct cost cost_now(void)
{
	struct timespec cpu, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct cost){
		.vcpu = cpu.tv_sec * 1000000000ull + cpu.tv_nsec,
		.others = of_other_cpus("/proc/stat", "cpu"),
		.ipis = of_other_cpus("/proc/interrupts", "CAL"),
		.seconds = now.tv_sec,
	};
}

/*
 * What an attack cost since @before: no more interrupts to other CPUs than perf
 * makes at its host's first event and after its last, and no line in the log for
 * an event.
 */
static void judge_attack(const char *what, const struct cost *before, int log)
{
	struct cost now = cost_now();
	uint64_t ipis = now.ipis - before->ipis;
	uint64_t seconds = now.seconds - before->seconds + 1;
	unsigned int lines = 0;
	char record[8192];

	while (read(log, record, sizeof(record)) > 0)
		lines++;
	close(log);
	printf("# %s: vCPU %lu ms, other CPUs %lu ms, %lu calls on them, %u lines in the log\n",
	       what, (now.vcpu - before->vcpu) / 1000000,
	       (now.others - before->others) * 1000 / sysconf(_SC_CLK_TCK), ipis,
	       lines);
	/* Enabling and disabling perf causes 60, about once a second. */
	ok(ipis <= 500 + 60 * seconds, "%s: other CPUs get no interrupt for each", what);
	ok(lines < 10, "%s: nothing is logged of each", what);
}

static int begin_attack(struct cost *before)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);

	TEST_ASSERT(log >= 0 && !lseek(log, 0, SEEK_END), "No /dev/kmsg");
	*before = cost_now();
	return log;
}

static void test_attacks(struct kvm_vm *vm)
{
	const int turns = 2000;
	struct cost before;
	cpu_set_t all, first;
	uint32_t id, good = 0;
	int i, log;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(first), &first),
		    "sched_setaffinity, errno: %i", errno);

	pv_forget_nmis(vm);
	log = begin_attack(&before);
	ok(!reopen(vm, turns), "attack: OPEN and CLOSE succeed %d times", turns);
	pv_reset(vm);
	judge_attack("attack: open and close", &before, log);

	pv_forget_nmis(vm);
	log = begin_attack(&before);
	for (id = 0; id < NR_EVENTS; id++)
		pv_open_clock(vm, id, PERIOD);
	for (i = 0; i < turns && pv_slot(vm, NR_EVENTS - 1)->overflows < 100; i++)
		pv_run_until(vm, 0, pv_guest_cpuid, 1000);
	for (id = 0; id < NR_EVENTS; id++)
		good += !pv_event_op(vm, KVM_PV_PERF_CLOSE, id) &&
			pv_slot(vm, id)->overflows > 10;
	ok(good == NR_EVENTS, "attack: %u clocks sample with the shortest period", good);
	judge_attack("attack: all slots sample", &before, log);

	log = begin_attack(&before);
	for (good = i = 0; i < turns; i++) {
		pv_clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD)->slot =
			NOWHERE + i * 0x10000003fe0ull;
		good += pv_open_event(vm, 0) == -KVM_EFAULT;
	}
	ok(good == turns, "attack: OPEN fails for slots at %d addresses without memory", good);
	judge_attack("attack: slots everywhere", &before, log);
	sched_setaffinity(0, sizeof(all), &all);
}

int main(void)
{
	struct kvm_vm *vm;

	pv_begin();
	vm = pv_create_vm();
	test_sampling(vm);
	test_period(vm);
	test_other_id(vm);
	test_seq(vm);
	test_close(vm);
	test_slow_handler(vm);
	test_halt(vm);
	test_reopen(vm);
	test_attacks(vm);

	/* Every test must pass if the VM is destroyed with open events. */
	pv_open_clock(vm, 0, PERIOD);
	kvm_vm_free(vm);
	pv_end();
}
