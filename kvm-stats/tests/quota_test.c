// SPDX-License-Identifier: GPL-2.0-only
/*
 * The time for which quotas keep vCPUs from running: quota_test VMM, where VMM is the program of
 * vmm.c. THROTTLED of the vCPUs is compared with the account of their cgroups: with two VMs in
 * one slice, with vCPUs that may move between CPUs, below many levels of cgroups, and with
 * real-time threads. Needs root, /dev/kvm and the source bpf; prints TAP.
 */
#include <stdlib.h>
#include <sys/syscall.h>

#include "cgroup.h"
#include "clock.h"
#include "core.h"
#include "tap.h"
#include "vm.h"

#define AMPLE_MS	100000
#ifndef SCHED_DEADLINE
#define SCHED_DEADLINE	6
#endif
#define VMS		2
#define ENOUGH		(400 * MS)	/* of throttled time */
#define RESOLUTION	1000		/* of times in cgroups, ns */

static struct kvmstats *k;
static char *program;

/* A VM in a dedicated cgroup */
struct vm {
	char *vcpus;
	int cpu;			/* on which it runs, or -1 */
	bool real_time;
	char cgroup[CGROUP_PATH];
	pid_t pid;
	struct kvmstats_times before;
	uint64_t throttled_before;
};

/*
 * Read at real-time priority, if this host allows it: while the quota is ample, the VMs use all
 * CPUs.
 */
static bool run_first(bool first)
{
	return set_real_time(0, first ? 21 : 0);
}

static bool prepare(const void *arg)
{
	/* above other real-time threads of a build host */
	const struct sched_param priority = { .sched_priority = 20 };
	const struct vm *vm = arg;

	if (vm->cpu >= 0)
		move_thread(0, nth_cpu(vm->cpu));
	return cgroup_add(vm->cgroup, 0) &&
	       (!vm->real_time || !sched_setscheduler(0, SCHED_FIFO, &priority));
}

static void sample(void)
{
	if (kvmstats_sample(k))
		errx(1, "%s", kvmstats_problem(k));
}

static bool has_run(const struct kvmstats_vm *vm)
{
	unsigned int i;

	for (i = 0; vm && i < vm->vcpus; i++) {
		if (!vm->vcpu[i]->tid || vm->vcpu[i]->first_sample)
			return false;
	}
	return vm && vm->vcpus;
}

static void start_vm(struct vm *vm)
{
	char *arguments[] = { program, "-b", "1", vm->vcpus, NULL };
	unsigned int tries;

	vm->pid = vm_start(arguments, prepare, vm);
	if (vm->pid < 0)
		errx(1, "%s does not start", program);
	for (tries = 0; !has_run(find_vm(k, vm->pid)); tries++) {
		if (tries == 600)
			errx(1, "%s: vCPUs have not run for a minute", program);
		usleep(100000);
		sample();
	}
}

/*
 * Wait at normal priority: the kernel removes the process from /proc in a loop that does not end
 * before a preempted thread of it has released its entry. On one CPU, a real-time thread would
 * keep that thread from running (Linux 6.12).
 */
static void end(pid_t pid)
{
	run_first(false);
	end_process(pid);
	run_first(true);
}

/* Create a cgroup of so much weight that a busy host does not keep it from its quota. */
static void create_group(char *cgroup, const char *name)
{
	if (!cgroup_create(cgroup, NULL, name))
		err(1, "%s", cgroup);
	cgroup_set_weight(cgroup, true);
}

static uint64_t growth(const struct vm *vm, enum kvmstats_mode mode)
{
	return find_vm(k, vm->pid)->times.mode[mode] - vm->before.mode[mode];
}

static bool close_to(uint64_t a, uint64_t b)
{
	return a <= b + b / 20 + 20 * MS && b <= a + a / 20 + 20 * MS;
}

/*
 * A CPU that is throttled stops all vCPUs that wait for it, each for that time: all of them if they
 * have one CPU.
 */
static bool fits(unsigned int vcpus, uint64_t told, uint64_t real)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
		return close_to(told, vcpus * real);
	return close_to(told, real) || (told > real && told <= vcpus * (real + RESOLUTION));
}

/* All throttled time is booked when the quota is ample. */
static void book_time(const char *slice)
{
	cgroup_set_quota(slice, AMPLE_MS);
	usleep(50000);
	sample();
}

/* Take samples until the quota has stopped the VMs for long enough. */
static uint64_t throttle(const char *slice, unsigned int ms, struct vm *vms, unsigned int n)
{
	unsigned int i, tries;
	uint64_t before;

	book_time(slice);
	before = cgroup_throttled(slice, "cpu.stat");
	for (i = 0; i < n; i++) {
		vms[i].before = find_vm(k, vms[i].pid)->times;
		vms[i].throttled_before = cgroup_throttled(vms[i].cgroup, "cpu.stat.local");
	}
	cgroup_set_quota(slice, ms);
	for (tries = 0; tries < 300; tries++) {
		usleep(100000);
		sample();
		if (cgroup_throttled(slice, "cpu.stat") - before >= ENOUGH)
			break;
	}
	book_time(slice);
	return cgroup_throttled(slice, "cpu.stat") - before;
}

static void check_vm(const struct vm *vm, const char *what, unsigned int nth)
{
	const uint64_t real = cgroup_throttled(vm->cgroup, "cpu.stat.local") - vm->throttled_before;
	const uint64_t told = growth(vm, KVMSTATS_THROTTLED);
	char path[CGROUP_PATH + 64];

	snprintf(path, sizeof(path), "%s/cpu.stat.local", vm->cgroup);
	if (access(path, F_OK)) {
		printf("# not run, %s: the kernel lacks cpu.stat.local for VM %u\n", what, nth);
		return;
	}
	tap_result(fits(atoi(vm->vcpus), told, real),
		   "%s: VM %u was throttled for %llu ms, its cgroup for %llu ms; it was ready for %llu ms",
		   what, nth, (unsigned long long)(told / MS), (unsigned long long)(real / MS),
		   (unsigned long long)(growth(vm, KVMSTATS_READY) / MS));
}

/* Each VM has a cgroup, all in a slice with a quota; the hog runs outside of the slice. */
static void test_slice(const char *what, unsigned int ms, struct vm *vms, unsigned int n, bool hog)
{
	char slice[CGROUP_PATH], other[CGROUP_PATH];
	unsigned int i, vcpus = 0;
	uint64_t real, told = 0;
	pid_t pid = 0;

	create_group(slice, "kvm-stats-slice");
	create_group(other, "kvm-stats-other");
	cgroup_set_quota(slice, ms);
	for (i = 0; i < n; i++) {
		if (!cgroup_create(vms[i].cgroup, slice, (char[]){ 'a' + i, '\0' }))
			err(1, "%s", vms[i].cgroup);
		start_vm(&vms[i]);
		/* Each of those that are pinned has a CPU for itself. */
		vcpus = vms[i].cpu < 0 ? vcpus + atoi(vms[i].vcpus) : 1;
	}
	if (hog) {
		pid = start_hog(nth_cpu(1), NULL);
		cgroup_add(other, pid);
	}
	real = throttle(slice, ms, vms, n);
	for (i = 0; i < n; i++) {
		check_vm(&vms[i], what, i + 1);
		told += growth(&vms[i], KVMSTATS_THROTTLED);
	}
	tap_result(real >= ENOUGH && fits(vcpus, told, real),
		   "%s: throttled for %llu ms together, their slice for %llu ms", what,
		   (unsigned long long)(told / MS), (unsigned long long)(real / MS));
	if (pid)
		end(pid);
	for (i = 0; i < n; i++) {
		end(vms[i].pid);
		cgroup_remove(vms[i].cgroup);
	}
	cgroup_remove(other);
	cgroup_remove(slice);
}

#define LEVELS	40

/* A cgroup far above the VM has the quota. */
static void test_levels(void)
{
	static char cgroups[LEVELS + 1][CGROUP_PATH];
	struct vm vm = { .vcpus = "1", .cpu = -1 };
	uint64_t real, told;
	int i;

	create_group(cgroups[0], "kvm-stats-levels");
	for (i = 1; i <= LEVELS; i++) {
		if (!cgroup_create(cgroups[i], cgroups[i - 1], "level"))
			err(1, "%s", cgroups[i]);
	}
	cgroup_set_quota(cgroups[0], 5);
	strcpy(vm.cgroup, cgroups[LEVELS]);
	start_vm(&vm);
	real = throttle(cgroups[0], 5, &vm, 1);
	told = growth(&vm, KVMSTATS_THROTTLED);
	tap_result(real >= ENOUGH && close_to(told, real),
		   "a quota %d levels above the VM: throttled for %llu ms, the cgroup for %llu ms",
		   LEVELS, (unsigned long long)(told / MS), (unsigned long long)(real / MS));
	end(vm.pid);
	for (i = LEVELS; i >= 0; i--)
		cgroup_remove(cgroups[i]);
}

/* Wait until a process has a CPU, for 10 s at most. */
static void wait_until_it_runs(pid_t pid)
{
	uint64_t before, now;
	unsigned int tries;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock))
		errx(1, "process %d has no clock", pid);
	before = now = read_clock(clock);
	for (tries = 0; now == before && tries < 20000; tries++) {
		usleep(500);
		now = read_clock(clock);
	}
}

/*
 * A thread may run for 10 ms in each 100 ms. Some samples are taken while it runs, some while its
 * quota is used up.
 */
static void check_tenth(struct vm *vm, const char *what)
{
	uint64_t throttled, ready, run, elapsed;
	unsigned int i;

	sample();
	vm->before = find_vm(k, vm->pid)->times;
	for (i = 0; i < 12; i++) {
		usleep(30000);
		if (i % 3)
			wait_until_it_runs(vm->pid);
		sample();
	}
	elapsed = find_vm(k, vm->pid)->times.elapsed - vm->before.elapsed;
	throttled = growth(vm, KVMSTATS_THROTTLED);
	ready = growth(vm, KVMSTATS_READY);
	run = growth(vm, KVMSTATS_RUN);
	tap_result(run <= elapsed / 4 && ready <= elapsed / 20 && throttled >= elapsed * 3 / 4,
		   "%s that may run for 10 %%: run %llu ms, ready %llu ms, throttled %llu ms", what,
		   (unsigned long long)(run / MS), (unsigned long long)(ready / MS),
		   (unsigned long long)(throttled / MS));
}

static void test_real_time(void)
{
	struct vm vm = { .vcpus = "1", .cpu = 0, .real_time = true };

	if (!cgroup_create(vm.cgroup, NULL, "kvm-stats-real-time"))
		err(1, "%s", vm.cgroup);
	if (!cgroup_put(vm.cgroup, "cpu.rt_period_us", "100000") ||
	    !cgroup_put(vm.cgroup, "cpu.rt_runtime_us", "10000")) {
		printf("# not run, real-time threads: the kernel has no quota for them\n");
		cgroup_remove(vm.cgroup);
		return;
	}
	start_vm(&vm);
	check_tenth(&vm, "a real-time vCPU");
	end(vm.pid);
	cgroup_remove(vm.cgroup);
}

static void test_deadline(void)
{
	struct {
		__u32 size, policy;
		__u64 flags;
		__s32 nice;
		__u32 priority;
		__u64 runtime, deadline, period;
	} deadline = {
		.size = sizeof(deadline), .policy = SCHED_DEADLINE,
		.runtime = 10 * MS, .deadline = 100 * MS, .period = 100 * MS,
	};
	struct vm vm = { .vcpus = "1", .cpu = -1 };

	create_group(vm.cgroup, "kvm-stats-deadline");
	start_vm(&vm);
	if (syscall(SYS_sched_setattr, find_vm(k, vm.pid)->vcpu[0]->tid, &deadline, 0))
		printf("# not run, SCHED_DEADLINE: %s\n", strerror(errno));
	else
		check_tenth(&vm, "a vCPU with SCHED_DEADLINE");
	end(vm.pid);
	cgroup_remove(vm.cgroup);
}

/* Use the CPU, for 2 s at most. */
static void hog_for_a_while(int from, int to)
{
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + 2000 * MS;

	move_thread(0, nth_cpu(0));
	if (write(to, "", 1) == 1) {
		while (read_clock(CLOCK_MONOTONIC) < end)
			;
	}
}

/* A process for a higher priority than that of real-time vCPUs */
static pid_t start_real_time_hog(void)
{
	const struct peer peer = start_peer(hog_for_a_while);
	char ready;

	/* Until then, it may be on another CPU. */
	if (read(peer.from, &ready, 1) != 1)
		errx(1, "a hog does not start");
	close_peer(&peer);
	return peer.pid;
}

/* A real-time vCPU waits for another real-time thread, while a quota stops others of its cgroup. */
static void test_real_time_hog(void)
{
	struct vm vm = { .vcpus = "1", .cpu = 0 };
	uint64_t throttled, ready;
	pid_t sibling, hog;
	bool works;

	create_group(vm.cgroup, "kvm-stats-hog");
	cgroup_put(vm.cgroup, "cpu.rt_period_us", "10000");
	cgroup_put(vm.cgroup, "cpu.rt_runtime_us", "3000");
	start_vm(&vm);
	sibling = start_hog(nth_cpu(0), NULL);
	cgroup_add(vm.cgroup, sibling);
	cgroup_put(vm.cgroup, "cpu.cfs_period_us", "1000000");
	cgroup_put(vm.cgroup, "cpu.cfs_quota_us", "1000");
	cgroup_put(vm.cgroup, "cpu.max", "1000 1000000");
	/* until the quota is used up */
	usleep(100000);
	hog = start_real_time_hog();
	works = set_real_time(hog, 2) && set_real_time(find_vm(k, vm.pid)->vcpu[0]->tid, 1);
	sample();
	vm.before = find_vm(k, vm.pid)->times;
	usleep(200000);
	sample();
	end(hog);
	throttled = growth(&vm, KVMSTATS_THROTTLED);
	ready = growth(&vm, KVMSTATS_READY);
	if (works)
		tap_result(throttled < 10 * MS && ready > 150 * MS,
			   "a real-time vCPU below a used up quota waits for a thread: ready %llu ms, throttled %llu ms",
			   (unsigned long long)(ready / MS), (unsigned long long)(throttled / MS));
	else
		printf("# not run, a real-time hog: %s\n", strerror(errno));
	/* Otherwise, the VMM would exit in milliseconds that the quota allows per second. */
	cgroup_set_quota(vm.cgroup, AMPLE_MS);
	end(sibling);
	end(vm.pid);
	cgroup_remove(vm.cgroup);
}

int main(int argc, char **argv)
{
	const bool two = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	struct vm pinned[VMS] = { { .vcpus = "1", .cpu = 0 }, { .vcpus = "1", .cpu = 1 } };
	struct vm moving[VMS] = { { .vcpus = "1", .cpu = -1 }, { .vcpus = "1", .cpu = -1 } };
	struct vm large = { .vcpus = "3", .cpu = -1 };
	char slice[CGROUP_PATH];
	bool works;

	if (argc != 2)
		errx(2, "usage: quota_test VMM");
	program = argv[1];
	if (!run_first(true))
		printf("# no real-time priority: %s\n", strerror(errno));
	if (kvmstats_open(&k, "bpf", NULL, 0))
		errx(1, "the source bpf does not work here");
	works = cgroup_create(slice, NULL, "kvm-stats-check") && cgroup_set_quota(slice, AMPLE_MS);
	rmdir(slice);
	if (works) {
		if (two)
			test_slice("two VMs on two CPUs, one of which is busy", 50, pinned, VMS,
				   true);
		test_slice("two VMs that may move between CPUs", 10, moving, VMS, false);
		test_slice("three vCPUs of one VM", 10, &large, 1, false);
		test_levels();
		test_real_time();
		test_deadline();
		test_real_time_hog();
	} else {
		tap_result(true, "quotas # SKIP no cgroup with one");
	}
	kvmstats_close(k);
	return tap_end();
}
