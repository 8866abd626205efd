// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test how paravirtual perf events end: with their vCPU's reset, with its memory,
 * with its thread, with the VMM
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "x86_64/pv_perf.h"
#include "test_util.h"

/* Memory that is added and removed */
#define EXTRA_SLOT	10
#define EXTRA_GPA	0x40000000ull

static void test_init(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	struct kvm_pv_perf_slot before;
	struct kvm_sregs sregs;
	struct kvm_regs regs, reset_regs;
	uint64_t nmis;

	pv_forget_nmis(vm);
	pv_open_clock(vm, 0, PERIOD);
	pv_open_stat(vm, 1, "exits");
	pv_run_until(vm, 0, pv_guest_busy, 3);
	vcpu_regs_get(vm, 0, &regs);
	vcpu_sregs_get(vm, 0, &sregs);
	memcpy(&before, pv_slot(vm, 1), sizeof(before));
	pv_init_vcpu(vm);
	vcpu_regs_get(vm, 0, &reset_regs);
	ok(reset_regs.rip == 0xfff0, "INIT: the vCPU is reset");
	ok(!memcmp(pv_slot(vm, 1), &before, sizeof(before)),
	   "INIT: the slots are not written");
	vcpu_sregs_set(vm, 0, &sregs);
	vcpu_regs_set(vm, 0, &regs);
	pv_run_until(vm, 0, pv_guest_cpuid, 1000);
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT &&
	   pv_event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT,
	   "INIT: all events are closed");
	nmis = guest->nmis;
	pv_run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "INIT: NMIs end");
	pv_reset(vm);
}

/* The guest itself sets up kvmclock. */
static void guest_write_clock(struct pv_guest *guest)
{
	wrmsr(MSR_KVM_SYSTEM_TIME_NEW, 0);
}

static void test_restore(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	struct kvm_mp_state mp_state;
	struct kvm_pv_perf_slot before;
	uint64_t nmis, total;

	pv_forget_nmis(vm);
	pv_open_clock(vm, 0, PERIOD);
	pv_open_stat(vm, 1, "hypercalls");
	pv_open_stat(vm, 2, "exits");
	pv_run_until(vm, 0, pv_guest_busy, 3);
	pv_count(vm, 1);
	pv_query(vm);
	pv_query(vm);
	/* get_ucall() has interrupted KVM_RUN already. */
	pv_interrupt(vm);
	total = pv_slot(vm, 1)->count;
	ok(total == 4 + PV_HYPERCALL_COUNTED_AT_END,
	   "save: KVM_RUN with immediate_exit writes the counts");
	memcpy(&before, pv_slot(vm, 0), sizeof(before));
	vcpu_ioctl(vm, 0, KVM_GET_MP_STATE, &mp_state);
	ok(!memcmp(pv_slot(vm, 0), &before, sizeof(before)),
	   "save: KVM_GET_MP_STATE writes no slot");
	vcpu_set_mp_state(vm, 0, &mp_state);
	ok(!pv_event_op(vm, KVM_PV_PERF_READ, 1) &&
	   pv_slot(vm, 1)->count == total + 1,
	   "KVM_SET_MP_STATE closes no event");
	pv_run(vm, 0, guest_write_clock);
	ok(!pv_event_op(vm, KVM_PV_PERF_READ, 1),
	   "the guest closes no event when it writes kvmclock's MSR");

	total = pv_slot(vm, 1)->count;
	memcpy(&before, pv_slot(vm, 1), sizeof(before));
	pv_restore_clock(vcpu_get_fd(vm, 0));
	ok(!memcmp(pv_slot(vm, 1), &before, sizeof(before)),
	   "restore: KVM_SET_MSRS of kvmclock writes no slot");
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 0) == -KVM_ENOENT &&
	   pv_event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT &&
	   pv_event_op(vm, KVM_PV_PERF_READ, 2) == -KVM_ENOENT,
	   "restore: KVM_SET_MSRS of kvmclock closes all events");
	/* NMIs that KVM had queued before were injected first. */
	nmis = guest->nmis;
	pv_run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "restore: NMIs end");

	pv_open_stat(vm, 1, "hypercalls");
	ok(pv_slot(vm, 1)->count == PV_HYPERCALL_COUNTED_AT_END &&
	   pv_count(vm, 1) == 1 + PV_HYPERCALL_COUNTED_AT_END,
	   "restore: an event that is opened again counts from 0, the guest has %lu", total);
	pv_reset(vm);
}

static void *run_elsewhere(void *vm)
{
	return (void *)(long)pv_event_op(vm, KVM_PV_PERF_READ, 1);
}

static void test_thread(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	pthread_t thread;
	uint64_t nmis;
	void *r;

	pv_forget_nmis(vm);
	pv_open_clock(vm, 0, PERIOD);
	pv_open_stat(vm, 1, "hypercalls");
	pv_query(vm);
	pthread_create(&thread, NULL, run_elsewhere, vm);
	pthread_join(thread, &r);
	ok((long)r == -KVM_ENOENT, "another thread in KVM_RUN: events are closed");
	ok(pv_slot(vm, 1)->count == 1 + PV_HYPERCALL_COUNTED_AT_END,
	   "another thread in KVM_RUN: the slot has the last count");
	nmis = guest->nmis;
	pv_run_for(vm, 5 * PERIOD);
	ok(guest->nmis == nmis, "another thread in KVM_RUN: NMIs end");
	pv_reset(vm);
}

static void add_memory(struct kvm_vm *vm)
{
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, EXTRA_GPA,
				    EXTRA_SLOT, 1, 0);
}

static void test_memslot(struct kvm_vm *vm)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	struct kvm_pv_perf_slot *extra;
	uint64_t nmis;

	add_memory(vm);
	pv_forget_nmis(vm);
	pv_stat_attr(vm, 1, "exits")->slot = EXTRA_GPA + 32;
	ok(!pv_open_event(vm, 0), "memory removed: a statistic is open");
	pv_clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD)->slot = EXTRA_GPA;
	ok(!pv_open_event(vm, 0), "memory removed: a clock samples");

	/* None is under way when the memory goes. */
	ok(!pv_event_op(vm, KVM_PV_PERF_DISABLE, 0), "memory removed: the clock is disabled");
	pv_run_until(vm, 0, pv_guest_cpuid, 10);
	nmis = guest->nmis;
	vm_mem_region_delete(vm, EXTRA_SLOT);
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_EFAULT,
	   "memory removed: READ returns EFAULT");
	ok(pv_event_op(vm, KVM_PV_PERF_READ_ALL, 3) == -KVM_EFAULT,
	   "memory removed: READ_ALL returns EFAULT");
	ok(pv_event_op(vm, KVM_PV_PERF_ENABLE, 0) == -KVM_EFAULT,
	   "memory removed: ENABLE returns EFAULT, the clock continues");
	pv_run_for(vm, 10 * PERIOD);
	ok(guest->nmis == nmis, "memory removed: NMIs end without a slot");
	ok(pv_event_op(vm, KVM_PV_PERF_CLOSE, 1) == -KVM_EFAULT &&
	   pv_event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT,
	   "memory removed: CLOSE closes the event and returns EFAULT");

	add_memory(vm);
	extra = addr_gpa2hva(vm, EXTRA_GPA);
	ok(!pv_event_op(vm, KVM_PV_PERF_READ, 0) &&
	   extra->state == KVM_PV_PERF_STATE_ERROR && extra->overflows,
	   "memory restored: READ reports that the clock was stopped");
	ok(!pv_event_op(vm, KVM_PV_PERF_ENABLE, 0) &&
	   extra->state == KVM_PV_PERF_STATE_ON,
	   "memory restored: ENABLE starts the clock again");
	nmis = guest->nmis;
	pv_run_until(vm, 0, pv_guest_busy, nmis + 3);
	ok(!pv_event_op(vm, KVM_PV_PERF_CLOSE, 0), "memory restored: NMIs arrive");
	vm_mem_region_delete(vm, EXTRA_SLOT);
}

/* A new CPUID lacks the feature, or the whole leaf. */
static void test_taken_away(bool leaf)
{
	const char *what = leaf ? "CPUID without the leaf" : "CPUID without the bit";
	struct kvm_vm *vm = pv_create_vm();
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	struct kvm_stats stats;
	uint64_t nmis;

	kvm_stats_open_stats_fd(&stats, vcpu_get_fd(vm, 0));
	pv_open_clock(vm, 0, PERIOD);
	pv_open_stat(vm, 1, "hypercalls");
	pv_run_until(vm, 0, pv_guest_busy, 3);
	pv_query(vm);
	pv_set_features(vm, 0, pv_features());
	ok(kvm_stats_value(&stats, "pv_perf_events") == 2,
	   "%s: a CPUID with the bit leaves two events open", what);
	if (leaf)
		pv_remove_features(vm, 0);
	else
		pv_set_features(vm, 0, pv_features() & ~FEATURE);
	ok(!kvm_stats_value(&stats, "pv_perf_events"), "%s: all events are closed", what);
	ok(pv_slot(vm, 1)->count == 1 + PV_HYPERCALL_COUNTED_AT_END,
	   "%s: the slot has the last count", what);
	ok(pv_query(vm) == -KVM_ENOSYS &&
	   pv_event_op(vm, KVM_PV_PERF_CLOSE, 0) == -KVM_ENOSYS &&
	   pv_event_op(vm, KVM_PV_PERF_READ_ALL, 3) == -KVM_ENOSYS &&
	   pv_event_op(vm, KVM_PV_PERF_RESET, 0) == -KVM_ENOSYS,
	   "%s: all hypercalls return ENOSYS", what);
	nmis = guest->nmis;
	usleep(20000);
	pv_run_until(vm, 0, pv_guest_cpuid, 20000);
	ok(guest->nmis == nmis, "%s: NMIs end", what);
	pv_set_features(vm, 0, pv_features());
	ok(pv_event_op(vm, KVM_PV_PERF_READ, 1) == -KVM_ENOENT,
	   "%s: events stay closed when the bit is set again", what);
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

/* Enough clocks that some period ends while the others are closed */
#define MANY	4

/* Open clocks and close them with one RESET. No NMI may come that no slot explains. */
static void guest_resets(struct pv_guest *guest)
{
	uint64_t attr = guest->a1;
	uint64_t i, id, wait;

	for (i = 0; i < guest->until && !guest->ret; i++) {
		for (id = 0; id < MANY; id++)
			WRITE_ONCE(pv_slots[0][id].overflows, 0);
		WRITE_ONCE(guest->nmis, 0);
		for (id = 0; id < MANY && !guest->ret; id++) {
			WRITE_ONCE(pv_attrs[0].id, id);
			WRITE_ONCE(pv_attrs[0].slot, guest->a2 + id * sizeof(pv_slots[0][0]));
			guest->ret = kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_OPEN,
						   attr, 0, 0);
		}
		/* Somewhere in a period, another place each time */
		for (wait = i * 7919 % 10000; wait; wait--)
			cpu_relax();
		kvm_hypercall(KVM_HC_PV_PERF, KVM_PV_PERF_RESET, 0, 0, 0);
		for (wait = 100; wait; wait--)
			cpu_relax();
	}
}

/* Use CPU time of the vCPU's thread outside KVM_RUN: its clocks continue. */
static void burn(uint64_t ns)
{
	struct timespec now;
	uint64_t end = 0, at;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		at = now.tv_sec * 1000000000ull + now.tv_nsec;
		end = end ?: at + ns;
	} while (at < end);
}

/* As QEMU resets a vCPU: no NMI is pending, and then this; @inited: an INIT */
static void reset_at_once(struct kvm_vm *vm, bool inited)
{
	struct kvm_vcpu_events events;
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	vcpu_regs_get(vm, 0, &regs);
	vcpu_sregs_get(vm, 0, &sregs);
	vcpu_events_get(vm, 0, &events);
	events.nmi.injected = 0;
	events.nmi.pending = 0;
	events.flags = KVM_VCPUEVENT_VALID_NMI_PENDING;
	vcpu_events_set(vm, 0, &events);
	burn(PERIOD + PERIOD / 4);
	if (inited)
		pv_init_vcpu(vm);
	else
		pv_restore_clock(vcpu_get_fd(vm, 0));
	vcpu_sregs_set(vm, 0, &sregs);
	vcpu_regs_set(vm, 0, &regs);
}

/*
 * An NMI of a life that is over would kill the next one: none may come that the
 * slots do not explain, however close the end is to the end of a period.
 */
static void test_unexplained(struct kvm_vm *vm, unsigned int rounds)
{
	struct pv_guest *guest = in_guest(vm, pv_guests[0]);
	unsigned int i, way, came;
	uint64_t portion, done;

	pv_forget_nmis(vm);
	pv_clock_attr(vm, 0, PERF_COUNT_SW_CPU_CLOCK, PERIOD);
	for (done = 0; done < rounds; done += portion) {
		/* In portions: a slow machine needs minutes for all of them. */
		portion = rounds - done < 50 ? rounds - done : 50;
		guest->a1 = gpa_of(vm, pv_attrs[0]);
		guest->a2 = gpa_of(vm, pv_slots[0]);
		guest->ret = 0;
		pv_run_until(vm, 0, guest_resets, portion);
		TEST_ASSERT(!guest->ret, "OPEN returned %ld", guest->ret);
	}
	ok(!guest->stray, "RESET: %u resets cause %lu NMIs without a reason", rounds,
	   guest->stray);

	for (way = 0; way < 2; way++) {
		for (i = came = 0; i < rounds; i++) {
			pv_forget_nmis(vm);
			pv_open_clock(vm, 0, PERIOD);
			reset_at_once(vm, way);
			pv_forget_nmis(vm);
			pv_run_until(vm, 0, pv_guest_cpuid, 10);
			came += guest->nmis;
		}
		ok(!came, "%s: %u resets are followed by %u NMIs of events before the reset",
		   way ? "INIT" : "KVM_SET_MSRS of kvmclock", rounds, came);
	}
	pv_reset(vm);
}

/* A VMM whose guest has every slot sample, until it is killed */
static void sample_forever(int started)
{
	struct kvm_vm *vm = pv_create_vm();
	uint32_t id;

	for (id = 0; id < NR_EVENTS; id++)
		pv_open_clock(vm, id, PERIOD);
	pv_run_until(vm, 0, pv_guest_busy, 3);
	if (write(started, "", 1) != 1)
		_exit(1);
	for (;;)
		pv_run_until(vm, 0, pv_guest_cpuid, 100000);
}

static void test_kill(void)
{
	int fds[2], status;
	struct pollfd end;
	pid_t pid;
	char byte;

	TEST_ASSERT(!pipe(fds), "pipe, errno: %i", errno);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		sample_forever(fds[1]);
	}
	close(fds[1]);
	ok(read(fds[0], &byte, 1) == 1 && debugfs_dir(pid, -1, NULL, 0),
	   "kill -9: %u events sample", NR_EVENTS);
	usleep(100000);
	kill(pid, SIGKILL);
	end = (struct pollfd){ .fd = fds[0] };
	ok(poll(&end, 1, LIMIT * 1000) == 1 && waitpid(pid, &status, 0) == pid &&
	   WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	   "kill -9: the process ends");
	ok(vm_goes_away(pid, -1), "kill -9: the VM is destroyed");
	close(fds[0]);
}

int main(int argc, char **argv)
{
	/* How often to try what may go wrong by chance: pv_perf_ends [TIMES] */
	unsigned int rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	struct kvm_vm *vm;

	pv_begin();
	if (PV_CPUID_CAN_CHANGE) {
		test_taken_away(false);
		test_taken_away(true);
	}
	vm = pv_create_vm();
	test_init(vm);
	test_restore(vm);
	test_thread(vm);
	test_memslot(vm);
	test_unexplained(vm, rounds);
	test_kill();

	/* Every test must pass if the VM is destroyed with open events. */
	pv_open_clock(vm, 0, PERIOD);
	kvm_vm_free(vm);
	pv_end();
}
