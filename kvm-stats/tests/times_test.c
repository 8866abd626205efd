// SPDX-License-Identifier: GPL-2.0-only
/*
 * The modes of running vCPUs add up: times_test [-l] SOURCE VMM, where VMM is the program of
 * vmm.c. Tests more spinning vCPUs than CPUs, a stopped VMM, vCPUs that get no CPU, a cgroup
 * quota, and vCPUs that halt. READY is compared with the scheduler's own account. -l: run for
 * a minute each instead of some seconds. Needs root and /dev/kvm; prints TAP.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "account.h"
#include "cgroup.h"
#include "tap.h"
#include "vm.h"

#define HALTS		(MODE(HALT) | MODE(POLL))

/* vCPUs that halt */
#define HALTING		4

static const char *source;
static char *program;
static bool take_long;
static struct kvmstats *k;

#define result(ok, text, ...)	tap_result(ok, "%s: " text, source, ##__VA_ARGS__)

static void wait_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* VMMs run on two CPUs. */
static bool prepare(const void *cgroup)
{
	cpu_set_t two;

	CPU_ZERO(&two);
	CPU_SET(nth_cpu(0), &two);
	CPU_SET(nth_cpu(1), &two);
	return (!cgroup || cgroup_add(cgroup, 0)) && !sched_setaffinity(0, sizeof(two), &two);
}

static bool threads_known(const struct kvmstats_vm *vm)
{
	unsigned int i;

	for (i = 0; vm && i < vm->vcpus; i++) {
		if (vm->vcpu[i]->tid <= 0)
			return false;
	}
	return vm && vm->vcpus;
}

/*
 * Start a VMM with this many vCPUs, on two CPUs at most; in a cgroup if there is a path. KVM
 * knows the thread of a vCPU only after its first run. The wait before that, which is long on
 * a busy machine, is booked but not reported.
 */
static pid_t start_vmm(char *vcpus, bool busy, const char *cgroup)
{
	char *arguments[] = { program, "-k", busy ? "-b" : "-k", "1", vcpus, NULL };
	pid_t pid = vm_start(arguments, prepare, cgroup);
	int tries = 0;

	if (pid < 0)
		errx(1, "%s does not start", program);
	do {
		if (tries++ == 600)
			errx(1, "%s: vCPUs have not run for a minute", program);
		wait_ms(100);
		kvmstats_sample(k);
	} while (!threads_known(find_vm(k, pid)));
	return pid;
}

static void print_times(const struct kvmstats_vcpu *vcpu, const struct kvmstats_times *t)
{
	unsigned int mode;

	printf("# vCPU %u:", vcpu->id);
	for (mode = 0; mode < KVMSTATS_MODES; mode++)
		printf(" %s %.2f", kvmstats_mode_name(mode), t->mode[mode] / 1e6);
	printf(" ms\n");
}

/*
 * The least part of any vCPU's time in any sample that was spent in one of these modes,
 * in thousandths; 0 also if a sample does not add up or says nothing.
 */
static unsigned int least(pid_t pid, int samples, unsigned int ms, unsigned int modes)
{
	unsigned int permille = 1000, i;
	const struct kvmstats_vm *vm;

	kvmstats_sample(k);
	while (samples--) {
		wait_ms(ms);
		kvmstats_sample(k);
		vm = find_vm(k, pid);
		if (!vm || !vm->vcpus)
			return 0;
		for (i = 0; i < vm->vcpus; i++) {
			const struct kvmstats_times *t = &vm->vcpu[i]->last.times;
			unsigned int part = kvmstats_permille(sum_of(t, modes), t->elapsed);

			if (!t->elapsed || sum_of(t, -1U) != t->elapsed)
				return 0;
			if (part < permille) {
				permille = part;
				print_times(vm->vcpu[i], t);
			}
		}
	}
	return permille;
}

/*
 * Return the smallest share of halts in the time that a vCPU did not wait for a CPU. On a busy
 * machine, this time is short: continue until it is half a second, for a minute at most.
 * Returns 0 if that was not enough.
 */
static unsigned int least_halted(pid_t pid)
{
	struct kvmstats_times before[HALTING] = { 0 };
	const struct kvmstats_vm *vm;
	unsigned int permille = 0, tries, i, part;
	uint64_t least, not_waited;

	for (tries = 0; tries <= 60; tries++) {
		kvmstats_sample(k);
		vm = find_vm(k, pid);
		if (!vm || vm->vcpus != HALTING)
			return 0;
		permille = 1000;
		least = UINT64_MAX;
		for (i = 0; i < HALTING; i++) {
			const struct kvmstats_times *t = &vm->vcpu[i]->times;

			if (!tries)
				before[i] = *t;
			not_waited = sum_of(t, ~WAITS) - sum_of(&before[i], ~WAITS);
			part = kvmstats_permille(sum_of(t, HALTS) - sum_of(&before[i], HALTS),
						 not_waited);
			print_times(vm->vcpu[i], &vm->vcpu[i]->last.times);
			if (part < permille)
				permille = part;
			if (not_waited < least)
				least = not_waited;
		}
		if (least >= 500 * MS)
			return permille;
		wait_ms(1000);
	}
	printf("# a vCPU waited for all but %llu ms\n", (unsigned long long)(least / MS));
	return 0;
}

static struct account booked_of(const struct kvmstats_vm *vm, unsigned int vcpu)
{
	return read_account(vm->identity.pid, vm->vcpu[vcpu]->tid);
}

/* Waiting for a CPU, of all threads that run vCPUs */
static uint64_t booked(const struct kvmstats_vm *vm)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		sum += booked_of(vm, i).waited;
	return sum;
}

static uint64_t booked_turns(const struct kvmstats_vm *vm)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		sum += booked_of(vm, i).turns;
	return sum;
}

/*
 * All waits of a stopped VMM are booked. The VMM is stopped when its last thread has got a CPU
 * to handle the signal, however long that takes; its parent is notified then. The last
 * threads still have to leave their CPUs.
 */
static const struct kvmstats_vm *stop(pid_t pid)
{
	int status;

	kill(pid, SIGSTOP);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		errx(1, "%s does not stop", program);
	wait_ms(300);
	kvmstats_sample(k);
	return find_vm(k, pid);
}

/*
 * Wait until each vCPU has run: idle vCPUs are not read at each sample. Then take a sample: a wait
 * in the interval in which the VMM was stopped is assigned later, when it is booked.
 */
static void go_on(const struct kvmstats_vm *vm)
{
	uint64_t turns[vm->vcpus];
	unsigned int i, tries = 0;

	for (i = 0; i < vm->vcpus; i++)
		turns[i] = booked_of(vm, i).turns;
	kill(vm->identity.pid, SIGCONT);
	for (i = 0; i < vm->vcpus; i++) {
		while (booked_of(vm, i).turns == turns[i]) {
			if (tries++ == 6000)
				errx(1, "vCPU %u has not run for a minute", i);
			wait_ms(10);
		}
	}
	kvmstats_sample(k);
}

static void test_busy(void)
{
	const unsigned int busy = MODE(RUN) | WAITS;
	pid_t pid = start_vmm("8", true, NULL);
	uint64_t told, real, turns, real_turns;
	const struct kvmstats_vm *vm;
	unsigned int part;

	vm = stop(pid);
	told = sum_of(&vm->times, WAITS);
	real = booked(vm);
	turns = vm->times.turns;
	real_turns = booked_turns(vm);
	go_on(vm);
	part = least(pid, take_long ? 50 : 2, 1000, busy);
	result(part >= 995, "8 busy vCPUs, 1 s: each ran or waited for %.1f %% of it", part / 10.0);
	part = least(pid, take_long ? 100 : 15, 100, busy);
	result(part >= 980, "8 busy vCPUs, 0.1 s: each ran or waited for %.1f %% of it", part / 10.0);
	vm = stop(pid);
	told = sum_of(&vm->times, WAITS) - told;
	real = booked(vm) - real;
	/* at least 6 of 8 wait at a time */
	result(told <= real + real / 500 && real <= told + told / 500 &&
	       real > (take_long ? 6 * 60000 : 8000) * MS,
	       "they waited for %llu ms, the scheduler has %llu",
	       (unsigned long long)(told / MS), (unsigned long long)(real / MS));
	turns = vm->times.turns - turns;
	real_turns = booked_turns(vm) - real_turns;
	result(turns == real_turns && real_turns > 100 && vm->times.known & KVMSTATS_TURNS_KNOWN,
	       "they got a CPU %llu times, the scheduler has %llu",
	       (unsigned long long)turns, (unsigned long long)real_turns);
	part = least(pid, take_long ? 60 : 3, take_long ? 1000 : 300, MODE(OTHER));
	result(part >= 995, "a VMM that is stopped: %.1f %% is other", part / 10.0);
	end_process(pid);
}

static void test_halting(void)
{
	pid_t pid = start_vmm("4", false, NULL);
	unsigned int part;

	part = least(pid, take_long ? 60 : 3, 1000, ~(MODE(OTHER) | MODE(UNKNOWN)));
	result(part >= 980, "halting vCPUs: %.1f %% is known", part / 10.0);
	part = least_halted(pid);
	result(part >= 500, "%.1f %% of the time without waits is HALT", part / 10.0);
	end_process(pid);
}

/* ms: quota in each 100 ms, 0 without one. Return false if this host has no such cgroups. */
static bool make_group(char *cgroup, const char *name, bool largest, unsigned int ms)
{
	if (!cgroup_create(cgroup, NULL, name))
		return false;
	if (cgroup_set_weight(cgroup, largest) && (!ms || cgroup_set_quota(cgroup, ms)))
		return true;
	rmdir(cgroup);
	return false;
}

/* A thread that is worth next to nothing waits for as long as others want its CPUs. */
static void test_starved(void)
{
	const int seconds = take_long ? 10 : 2;
	struct kvmstats_times before;
	char ours[CGROUP_PATH], theirs[CGROUP_PATH];
	const struct kvmstats_vm *vm;
	uint64_t told, real;
	unsigned int part;
	pid_t pid, hogs[2];
	int i;

	if (!make_group(ours, "kvm-stats-little", false, 0)) {
		tap_result(true, "%s: no CPU # SKIP no cgroup of CPUs", source);
		return;
	}
	if (!make_group(theirs, "kvm-stats-much", true, 0))
		err(1, "%s", theirs);
	/* one: two could wait for each other, which have no CPU to let go of a lock */
	pid = start_vmm("1", true, ours);
	vm = stop(pid);
	told = sum_of(&vm->times, WAITS);
	real = booked(vm);
	go_on(vm);
	for (i = 0; i < 2; i++) {
		hogs[i] = start_hog(nth_cpu(i), NULL);
		cgroup_add(theirs, hogs[i]);
	}
	wait_ms(1000);
	kvmstats_sample(k);
	before = find_vm(k, pid)->times;
	part = least(pid, seconds, 1000, MODE(RUN) | MODE(READY));
	result(part >= 995, "a vCPU that gets no CPU for %d s: it ran or waited for %.1f %% of each",
	       seconds, part / 10.0);
	vm = find_vm(k, pid);
	/* a slice of the scheduler's may be among it */
	part = kvmstats_permille(vm->times.mode[KVMSTATS_READY] - before.mode[KVMSTATS_READY],
				 vm->times.elapsed - before.elapsed);
	result(part >= 980, "and waited for %.1f %% of them all", part / 10.0);
	for (i = 0; i < 2; i++)
		end_process(hogs[i]);
	vm = stop(pid);
	told = sum_of(&vm->times, WAITS) - told;
	real = booked(vm) - real;
	result(told <= real + real / 500 && real <= told + told / 500 &&
	       real >= seconds * 995 * MS,
	       "it waited for %llu ms, the scheduler has %llu",
	       (unsigned long long)(told / MS), (unsigned long long)(real / MS));
	end_process(pid);
	cgroup_remove(ours);
	cgroup_remove(theirs);
}

static void test_quota(void)
{
	const struct kvmstats_vm *vm;
	struct kvmstats_times before;
	char cgroup[CGROUP_PATH];
	unsigned int part, tries;
	uint64_t real;
	pid_t pid;

	/* Largest weight, or a busy host leaves it less CPU time. */
	if (!make_group(cgroup, "kvm-stats-quota", true, 5)) {
		tap_result(true, "%s: a quota # SKIP no cgroup with one", source);
		return;
	}
	pid = start_vmm("2", true, cgroup);
	before = find_vm(k, pid)->times;
	real = cgroup_throttled(cgroup, "cpu.stat");
	part = least(pid, take_long ? 60 : 3, 1000, MODE(RUN) | WAITS);
	result(part >= 995, "vCPUs with a quota: %.1f %% ran, waited or were throttled",
	       part / 10.0);
	/* On a busy host, the VM needs more time to use its quota up. */
	for (tries = 0; tries < 60 && cgroup_throttled(cgroup, "cpu.stat") - real < 1000 * MS; tries++)
		least(pid, 1, 1000, MODE(RUN) | WAITS);
	real = cgroup_throttled(cgroup, "cpu.stat") - real;
	vm = find_vm(k, pid);
	if (vm && vm->times.known & MODE(THROTTLED)) {
		const uint64_t told = vm->times.mode[KVMSTATS_THROTTLED] -
				      before.mode[KVMSTATS_THROTTLED];
		const uint64_t ran = vm->times.mode[KVMSTATS_RUN] - before.mode[KVMSTATS_RUN];

		/* A CPU that is throttled stops one vCPU or both. */
		result(real >= 1000 * MS && told + told / 5 >= real && told <= 2 * (real + real / 5) &&
		       ran <= (vm->times.elapsed - before.elapsed) / 10,
		       "a twentieth of a CPU for two: throttled for %llu ms, their CPUs for %llu ms, run %llu ms",
		       (unsigned long long)(told / MS), (unsigned long long)(real / MS),
		       (unsigned long long)(ran / MS));
	} else {
		result(strcmp(source, "bpf"), "what is throttled is not known");
	}
	end_process(pid);
	cgroup_remove(cgroup);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "-l")) {
		take_long = true;
		argv++;
		argc--;
	}
	if (argc != 3)
		errx(2, "usage: times_test [-l] SOURCE VMM");
	source = argv[1];
	program = argv[2];
	/* Preempted between two reads of a sample, this process would mix values of two times. */
	if (!set_real_time(0, 2))
		printf("# no real-time priority: %s\n", strerror(errno));
	if (kvmstats_open(&k, source, NULL, 0))
		errx(1, "%s does not work here", source);
	test_busy();
	test_starved();
	test_halting();
	test_quota();
	kvmstats_close(k);
	return tap_end();
}
