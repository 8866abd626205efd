// SPDX-License-Identifier: GPL-2.0-only
/*
 * The charges of "blame" equal the kernel's own account of the threads: run_delay of the
 * vCPUs that wait, CPU time of the threads that run in this time. VMMs and hogs are stopped
 * at both ends of each test, so that no wait is open. Needs root and /dev/kvm; prints TAP.
 *
 * With VMS, only the test of so many VMs with 100 vCPUs each runs, which takes long.
 *
 * usage: blame_test VMM [VMS]
 */
#include <dirent.h>
#include <errno.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* with its maps and links, for events that are lost and maps that are full */
#include "../src/bpf/blame.c"
#include "account.h"
#include "cgroup.h"
#include "tap.h"
#include "vm.h"

#define MS		1000000ULL
#define RUN_MS		1000
/* waits of a vCPU whose switches are lost at once */
#define LOST_NS		(25 * MS)
#define MAX_VMS		20
/* in milliseconds of each 100 ms: less than a busy vCPU uses, more than all CPUs have */
#define SCARCE_MS	4
#define AMPLE_MS	1000000

static char *vmm;
static cpu_set_t cpus;		/* that this process may use */
static int cpu, other_cpu;	/* the last two of them */
static struct blame *blame;
/* Other processes of the host may run the same test. */
static char hog_name[16], late_name[16], new_name[16];

/* A VMM, or a hog, which has no vCPU */
struct process {
	pid_t pid;
	pid_t vcpu;		/* TID of its vCPU, or 0 */
};

/* Call visit for each thread whose name begins so. */
static void each_thread(pid_t pid, const char *name, void (*visit)(pid_t pid, pid_t tid, void *arg),
			void *arg)
{
	char path[64], comm[32];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		const pid_t tid = atoi(entry->d_name);
		FILE *f;

		if (!tid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f) && !strncmp(comm, name, strlen(name)))
			visit(pid, tid, arg);
		fclose(f);
	}
	if (dir)
		closedir(dir);
}

static void keep_tid(pid_t pid, pid_t tid, void *arg)
{
	*(pid_t *)arg = tid;
}

static void add_run_time(pid_t pid, pid_t tid, void *arg)
{
	*(uint64_t *)arg += read_account(pid, tid).ran;
}

static uint64_t run_time(pid_t pid, const char *name)
{
	uint64_t ran = 0;

	each_thread(pid, name, add_run_time, &ran);
	return ran;
}

/* Wait until the main thread of a process has run for ns more. */
static void await_run(pid_t pid, uint64_t ns)
{
	const uint64_t began = read_account(pid, pid).ran;

	while (read_account(pid, pid).ran < began + ns)
		usleep(1000);
}

static bool pin_to(const void *arg)
{
	const int *to = arg;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(*to, &cpus);
	return !sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void move_thread(pid_t tid, int to)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(to, &cpus);
	sched_setaffinity(tid, sizeof(cpus), &cpus);
}

static struct process start_vmm(char *threads)
{
	char *arguments[] = { vmm, "-b", "-t", threads, "1", "1", NULL };
	struct process process = { .pid = vm_start(arguments, pin_to, &cpu) };
	int i;

	/* the thread gets its name a moment later */
	for (i = 0; i < 1000 && !process.vcpu; i++, usleep(10000))
		each_thread(process.pid, "CPU 0/KVM", keep_tid, &process.vcpu);
	return process;
}

/* A process that runs all the time */
static struct process start_hog(const char *name, int on)
{
	struct process process = { .pid = fork() };

	if (process.pid)
		return process;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The program stays attached while a process has a copy of its link. */
	closefrom(3);
	pin_to(&on);
	/* Last: with its name it is ready. */
	prctl(PR_SET_NAME, name);
	for (;;)
		;
}

static void end_process(struct process *process)
{
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
}

static bool is_stopped(pid_t pid, pid_t tid)
{
	char path[64], text[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return true;
	if (!fgets(text, sizeof(text), f))
		*text = '\0';
	fclose(f);
	state = strrchr(text, ')');
	return !state || state[2] == 'T';
}

struct group {
	struct process *list;
	size_t count;
};

/* A thread can be preempted between its change of state and its last switch. */
static bool is_waiting(uint32_t tid)
{
	const int map = bpf_map__fd(blame->program->maps.vcpus);
	struct blame_vcpu vcpu;

	return !bpf_map_lookup_elem(map, &tid, &vcpu) && vcpu.since;
}

static void check_stopped(pid_t pid, pid_t tid, void *arg)
{
	*(bool *)arg &= is_stopped(pid, tid) && !is_waiting(tid);
}

/*
 * Send with real-time priority, if this host allows it: preempted between two signals, this
 * process would let one of them run alone, and this time would not be charged.
 */
static void signal_all(struct group *group, int signal)
{
	struct sched_param priority = { .sched_priority = 2 }, normal = { 0 };
	size_t i;

	sched_setscheduler(0, SCHED_FIFO, &priority);
	for (i = 0; i < group->count; i++)
		kill(group->list[i].pid, signal);
	sched_setscheduler(0, SCHED_OTHER, &normal);
}

/* Stop all of them, and wait until no thread is on a run queue. */
static void stop(struct group *group)
{
	bool stopped = false;
	size_t i;

	signal_all(group, SIGSTOP);
	while (!stopped) {
		usleep(1000);
		stopped = true;
		for (i = 0; i < group->count; i++)
			each_thread(group->list[i].pid, "", check_stopped, &stopped);
	}
}

static void proceed(struct group *group)
{
	signal_all(group, SIGCONT);
}

static bool is_seen(pid_t tid)
{
	const struct blame_thread *threads;
	size_t i, n;

	threads = blame_threads(blame, &n);
	for (i = 0; i < n; i++)
		if (threads[i].tid == (uint32_t)tid)
			return true;
	return false;
}

static uint64_t unreported;	/* blame_counts() before the test */

/* Run them until the program has seen each vCPU, then stop them. */
static bool settle(struct group *group)
{
	size_t i, seen = 0;
	int round;

	for (round = 0; round < 300 && seen < group->count; round++) {
		usleep(100000);
		if (blame_sample(blame))
			break;
		for (seen = 0, i = 0; i < group->count; i++)
			seen += !group->list[i].vcpu || is_seen(group->list[i].vcpu);
	}
	stop(group);
	unreported = blame_counts(blame).unreported;
	return seen == group->count && !blame_sample(blame);
}

/* Charges since the sample before to the VM of a process, by kind and comm if given */
static uint64_t charged(const struct process *process, uint32_t kind, const char *comm,
			uint32_t tgid)
{
	uint64_t ns = 0;
	size_t i;

	for (i = 0; i < blame->count; i++) {
		const struct blame_row *row = &blame->rows[i];

		if (row->pair.vm.tgid == (uint32_t)process->pid &&
		    (!kind || row->pair.owner.kind == kind) &&
		    (!comm || !strcmp(row->pair.owner.comm, comm)) &&
		    (!tgid || row->pair.owner.tgid == tgid))
			ns += row->growth;
	}
	return ns;
}

/*
 * Charges to the row of a cgroup without names: while more than BLAME_SLOTS processes run on a CPU
 * of this host, new ones get no row.
 */
static uint64_t charged_without_name(const struct process *process)
{
	return charged(process, BLAME_PROCESS, "", 0);
}

/* Charges without an owner, also those while more owners ran than a CPU counts */
static uint64_t charged_unknown(const struct process *process)
{
	return charged(process, BLAME_UNKNOWN, NULL, 0) +
	       charged(process, BLAME_OVERFLOW, NULL, 0);
}

/* Compare with a tolerance of 1 % or 10 ms. */
static bool same(uint64_t a, uint64_t b)
{
	const uint64_t difference = a > b ? a - b : b - a;

	return difference <= 10 * MS || difference <= a / 100 || difference <= b / 100;
}

/* For a failed test: the charges, and how many waits were healed */
static void print_charges(const struct process *process)
{
	const struct blame_counts counts = blame_counts(blame);
	size_t i;

	printf("# %llu waits healed\n", counts.healed);
	for (i = 0; i < blame->count; i++) {
		const struct blame_row *row = &blame->rows[i];

		if (row->pair.vm.tgid == (uint32_t)process->pid && row->growth)
			printf("#   kind %u, process %u, %s: %.2f ms\n", row->pair.owner.kind,
			       row->pair.owner.tgid, row->pair.owner.comm, row->growth / 1e6);
	}
}

static void check_sum(const char *what, const struct process *process, const struct account *before)
{
	const uint64_t waited = read_account(process->pid, process->vcpu).waited - before->waited;
	const uint64_t sum = charged(process, 0, NULL, 0);

	tap_result(same(sum, waited), "%s: charges equal run_delay: %.2f of %.2f ms", what,
		   sum / 1e6, waited / 1e6);
	if (!same(sum, waited))
		print_charges(process);
}

/*
 * Check the charge of an owner that ran for least to most nanoseconds: its CPU time has no
 * steal and interrupts, which the charge may have, and the charge has no time in which the
 * vCPU did not wait.
 */
static void check_range(const char *what, const struct process *process, uint64_t charge,
			uint64_t least, uint64_t most)
{
	const uint64_t steal = charged(process, BLAME_STEAL, NULL, 0);

	tap_result(charge <= most + most / 50 + 10 * MS &&
		   charge + charged_without_name(process) + steal + 10 * MS + least / 50 >= least,
		   "%s: charged %.2f ms, ran %.2f to %.2f ms", what, charge / 1e6, least / 1e6,
		   most / 1e6);
}

static void check_owner(const char *what, const struct process *process, uint64_t charge,
			uint64_t ran)
{
	check_range(what, process, charge, ran, ran);
}

/*
 * The kernel of some hosts does not report when certain threads lose their CPU. blame cannot know
 * the owner of that time.
 */
static void check_unknown(const char *what, const struct process *process)
{
	const uint64_t unknown = charged_unknown(process);
	const uint64_t hidden = blame_counts(blame).unreported - unreported;

	tap_result(unknown < hidden || same(unknown - hidden, 0) ||
		   unknown - hidden < charged(process, 0, NULL, 0) / 100,
		   "%s: less than 1 %% or 10 ms is unknown: %.2f ms, of which the kernel hid %.2f ms",
		   what, unknown / 1e6, hidden / 1e6);
}

static void test_hog(void)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	struct account before;
	uint64_t ran;

	tap_result(settle(&group), "a spinning vCPU and a hog");
	before = read_account(list[0].pid, list[0].vcpu);
	ran = run_time(list[1].pid, hog_name);
	proceed(&group);
	usleep(RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("hog", &list[0], &before);
	check_owner("hog", &list[0], charged(&list[0], BLAME_PROCESS, hog_name, 0),
		    run_time(list[1].pid, hog_name) - ran);
	check_unknown("hog", &list[0]);
	end_process(&list[0]);
	end_process(&list[1]);
}

static void test_two_vms(void)
{
	struct process list[] = { start_vmm("0"), start_vmm("0") };
	struct group group = { list, 2 };
	struct account before[2];
	int i;

	tap_result(settle(&group), "two VMs on one CPU");
	for (i = 0; i < 2; i++)
		before[i] = read_account(list[i].pid, list[i].vcpu);
	proceed(&group);
	usleep(RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	for (i = 0; i < 2; i++) {
		const struct process *other = &list[!i];

		check_sum("two VMs", &list[i], &before[i]);
		check_owner("two VMs: the other one's vCPU", &list[i],
			    charged(&list[i], BLAME_VCPU, NULL, other->pid),
			    read_account(other->pid, other->vcpu).ran - before[!i].ran);
	}
	end_process(&list[0]);
	end_process(&list[1]);
}

/* A thread that is never in KVM_RUN when it is switched out: the sampler found it. */
static void test_entered(void)
{
	struct process list[] = { start_hog("vmm", cpu), start_hog(hog_name, cpu) };
	struct kvmstats_vcpu vcpu = { .tid = list[0].pid }, *vcpus[] = { &vcpu };
	const struct kvmstats_vm vm = { .identity.pid = list[0].pid, .vcpus = 1, .vcpu = vcpus };
	struct group group = { list, 2 };
	struct account before;
	uint64_t ran;

	blame_enter(blame, &vm);
	list[0].vcpu = list[0].pid;
	tap_result(is_seen(list[0].vcpu), "vCPU that is in its VMM: entered by its TID");
	tap_result(settle(&group), "vCPU that is in its VMM, and a hog");
	before = read_account(list[0].pid, list[0].vcpu);
	ran = run_time(list[1].pid, hog_name);
	proceed(&group);
	usleep(RUN_MS / 2 * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("vCPU in its VMM", &list[0], &before);
	check_owner("vCPU in its VMM", &list[0], charged(&list[0], BLAME_PROCESS, hog_name, 0),
		    run_time(list[1].pid, hog_name) - ran);
	end_process(&list[0]);
	blame_sample(blame);
	blame_enter(blame, &vm);
	tap_result(!is_seen(list[0].vcpu), "vCPU in its VMM: no entry after its exit");
	end_process(&list[1]);
}

/* A host with more vCPUs than the program usually has entries for. */
static void test_large_host(void)
{
	const struct kvmstats_vm vm = { .ended = true, .vcpus = BLAME_VCPUS + 1 };
	struct kvmstats_probe probe = { 0 };
	struct blame *large;

	if (blame_open(&large, &vm, &probe)) {
		tap_result(false, "a host with %u vCPUs: %s", vm.vcpus, probe.why);
		return;
	}
	tap_result(bpf_map__max_entries(large->program->maps.vcpus) >= vm.vcpus,
		   "a host with %u vCPUs: %u entries", vm.vcpus,
		   bpf_map__max_entries(large->program->maps.vcpus));
	blame_close(large);
}

static void test_hog_moves(void)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	struct account before;
	uint64_t ran, stays, moved;

	tap_result(settle(&group), "a hog that moves to another CPU");
	before = read_account(list[0].pid, list[0].vcpu);
	ran = run_time(list[1].pid, hog_name);
	proceed(&group);
	usleep(RUN_MS / 2 * 1000);
	/* This thread can be preempted before and after the move, while the hog runs. */
	stays = run_time(list[1].pid, hog_name) - ran;
	move_thread(list[1].pid, other_cpu);
	moved = run_time(list[1].pid, hog_name) - ran;
	usleep(RUN_MS / 2 * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("moved hog", &list[0], &before);
	check_range("moved hog: only what it ran on the vCPU's CPU", &list[0],
		    charged(&list[0], BLAME_PROCESS, hog_name, 0), stays, moved);
	end_process(&list[0]);
	end_process(&list[1]);
}

static void test_vcpu_moves(void)
{
	struct process list[] = { start_vmm("0"), start_hog("hog-1", cpu),
				  start_hog("hog-2", other_cpu) };
	struct group group = { list, 3 };
	struct account before;
	int i;

	tap_result(settle(&group), "a vCPU that moves between CPUs with a hog each");
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	for (i = 0; i < RUN_MS / 7; i++) {
		move_thread(list[0].vcpu, i % 2 ? cpu : other_cpu);
		usleep(7000);
	}
	stop(&group);
	blame_sample(blame);
	check_sum("moved vCPU", &list[0], &before);
	check_unknown("moved vCPU", &list[0]);
	tap_result((charged(&list[0], BLAME_PROCESS, "hog-1", 0) &&
		    charged(&list[0], BLAME_PROCESS, "hog-2", 0)) ||
		   charged_without_name(&list[0]),
		   "moved vCPU: both hogs are charged");
	for (i = 0; i < 3; i++)
		end_process(&list[i]);
}

/* Returns true if the CPU is offline now, which only a test machine allows. */
static bool take_offline(int number)
{
	char path[64];
	FILE *f;

	if (access("/lab/plan", F_OK))
		return false;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", number);
	f = fopen(path, "we");
	if (!f)
		return false;
	fputs("0", f);
	return !fclose(f);
}

/*
 * The kernel moves the threads of a CPU before it goes offline. The last test: KVM may not run
 * guests on an emulated CPU that is online again.
 */
static void test_offline(void)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu),
				  start_hog("hog-2", other_cpu) };
	struct group group = { list, 3 };
	struct account before;
	uint64_t charge;

	tap_result(settle(&group), "a CPU is taken offline");
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	usleep(RUN_MS / 4 * 1000);
	if (take_offline(cpu)) {
		await_run(list[2].pid, 100 * MS);
		stop(&group);
		blame_sample(blame);
		check_sum("CPU offline", &list[0], &before);
		check_unknown("CPU offline", &list[0]);
		charge = charged(&list[0], BLAME_PROCESS, "hog-2", 0);
		tap_result(charge > 50 * MS, "CPU offline: the hog of the other CPU is charged %.2f ms",
			   charge / 1e6);
	} else {
		printf("# not run, a CPU is taken offline: no test machine\n");
		proceed(&group);
	}
	end_process(&list[0]);
	end_process(&list[1]);
	end_process(&list[2]);
}

static void test_own_threads(void)
{
	struct process list[] = { start_vmm("2") };
	struct group group = { list, 1 };
	struct account before;
	uint64_t ran;

	tap_result(settle(&group), "a VMM with two busy threads");
	before = read_account(list[0].pid, list[0].vcpu);
	ran = run_time(list[0].pid, "busy");
	proceed(&group);
	usleep(RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("own threads", &list[0], &before);
	check_owner("own threads, by name", &list[0],
		    charged(&list[0], BLAME_VMM, "busy", list[0].pid),
		    run_time(list[0].pid, "busy") - ran);
	end_process(&list[0]);
}

static void test_many(void)
{
	struct process list[MAX_VMS];
	struct group group = { list, MAX_VMS };
	struct account before[MAX_VMS];
	double worst = 0;
	int i, right = 0;

	for (i = 0; i < MAX_VMS; i++)
		list[i] = start_vmm("0");
	tap_result(settle(&group), "%d VMs on one CPU", MAX_VMS);
	for (i = 0; i < MAX_VMS; i++)
		before[i] = read_account(list[i].pid, list[i].vcpu);
	proceed(&group);
	usleep(RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	for (i = 0; i < MAX_VMS; i++) {
		const uint64_t waited = read_account(list[i].pid, list[i].vcpu).waited -
					before[i].waited;
		const uint64_t sum = charged(&list[i], 0, NULL, 0);
		const double difference = sum / 1e6 - waited / 1e6;

		right += same(sum, waited);
		if (difference > worst || -difference > worst)
			worst = difference > 0 ? difference : -difference;
	}
	tap_result(right == MAX_VMS, "%d VMs: charges equal run_delay of %d, %.2f ms off at most",
		   MAX_VMS, right, worst);
	for (i = 0; i < MAX_VMS; i++)
		end_process(&list[i]);
}

/* With all entries for vCPUs taken, other vCPUs are counted; later they are charged. */
static void test_full_vcpus(void)
{
	const int map = bpf_map__fd(blame->program->maps.vcpus);
	const uint64_t before = blame_counts(blame).no_vcpu;
	const struct blame_vcpu none = { 0 };
	struct process list[] = { { 0 }, start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	uint32_t first = 0x40000000, tid = first;
	struct account account;
	uint64_t missed = 0;
	int i;

	while (!bpf_map_update_elem(map, &tid, &none, BPF_NOEXIST))
		tid++;
	list[0] = start_vmm("0");
	for (i = 0; i < 300 && !missed; i++, usleep(100000))
		missed = blame_counts(blame).no_vcpu - before;
	tap_result(tid - first <= BLAME_VCPUS && missed && !is_seen(list[0].vcpu),
		   "%u entries for vCPUs are taken: another vCPU is missed at %lu switches",
		   tid - first, missed);
	while (tid > first) {
		tid--;
		bpf_map_delete_elem(map, &tid);
	}
	tap_result(settle(&group), "entries are free again: the vCPU is seen");
	account = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	usleep(RUN_MS / 2 * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("entries are free again", &list[0], &account);
	end_process(&list[0]);
	end_process(&list[1]);
}

/* The waits of all vCPUs of a process that have an entry */
static uint64_t read_waits(pid_t pid)
{
	const struct blame_thread *threads;
	uint64_t waited = 0;
	size_t i, n;

	threads = blame_threads(blame, &n);
	for (i = 0; i < n; i++)
		if (threads[i].vm.tgid == (uint32_t)pid)
			waited += read_account(pid, threads[i].tid).waited;
	return waited;
}

/* Thousands of busy threads leave little of a CPU to others. */
static bool pin_with_low_priority(const void *arg)
{
	return !setpriority(PRIO_PROCESS, 0, 19) && pin_to(arg);
}

/* More vCPUs wait than there are entries: those with an entry are charged. */
static void test_waiting(char *vms)
{
	char *arguments[] = { vmm, "-b", "-p", vms, "100", NULL };
	const struct rlimit files = { 2 * BLAME_VCPUS, 2 * BLAME_VCPUS };
	const uint64_t missed = blame_counts(blame).no_vcpu;
	const size_t all = 100 * strtoul(vms, NULL, 10);
	const size_t expected = all < BLAME_VCPUS ? all : BLAME_VCPUS;
	struct process list[1] = { 0 };
	struct group group = { list, 1 };
	uint64_t waited, sum;
	size_t n = 0;

	setrlimit(RLIMIT_NOFILE, &files);
	setpriority(PRIO_PROCESS, 0, -20);
	list[0].pid = vm_start(arguments, pin_with_low_priority, &cpu);
	tap_result(list[0].pid > 0, "%s VMs with 100 vCPUs each", vms);
	if (list[0].pid < 0)
		return;
	kill(list[0].pid, SIGUSR2);
	/* Each vCPU has to run once. */
	while (n < expected && !waitpid(list[0].pid, NULL, WNOHANG) && !blame_sample(blame)) {
		blame_threads(blame, &n);
		printf("# %zu of %zu vCPUs have an entry\n", n, expected);
		sleep(1);
	}
	stop(&group);
	blame_sample(blame);
	waited = read_waits(list[0].pid);
	proceed(&group);
	usleep(4 * RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	waited = read_waits(list[0].pid) - waited;
	sum = charged(&list[0], 0, NULL, 0);
	tap_result(n >= expected && waited && same(sum, waited),
		   "%zu vCPUs wait: charges equal run_delay of %zu: %.2f of %.2f s", all, n, sum / 1e9,
		   waited / 1e9);
	tap_result(all <= n || blame_counts(blame).no_vcpu > missed,
		   "%zu vCPUs wait: those without an entry are counted", all);
	end_process(&list[0]);
}

/* With many names, the time of a new one belongs to its cgroup. */
static void test_many_names(void)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	struct account before;
	uint64_t ran, named;

	tap_result(settle(&group), "a VM before many names are taken");
	blame->program->bss->pairs = BLAME_NAMED;
	/* The name that the hog had before has a pair. */
	end_process(&list[1]);
	list[1] = start_hog(new_name, cpu);
	/* Its time counts from when it is stopped: until then, no vCPU waits for it. */
	while (!run_time(list[1].pid, new_name))
		usleep(1000);
	stop(&group);
	before = read_account(list[0].pid, list[0].vcpu);
	ran = run_time(list[1].pid, new_name);
	proceed(&group);
	await_run(list[1].pid, 100 * MS);
	stop(&group);
	blame_sample(blame);
	named = charged(&list[0], BLAME_PROCESS, new_name, 0);
	check_sum("many names", &list[0], &before);
	ran = run_time(list[1].pid, new_name) - ran;
	/* Other processes of the host are new as well. */
	tap_result(charged_without_name(&list[0]) + 10 * MS > ran,
		   "many names: the cgroup is charged");
	tap_result(!named, "many names: the new one has no pair");
	end_process(&list[0]);
	end_process(&list[1]);
}

/* A cgroup whose name was replaced by others gets it again. */
static void test_many_cgroups(void)
{
	const int map = bpf_map__fd(blame->program->maps.cgroups);
	const struct blame_cgroup none = { 0 };
	struct blame_cgroup cgroup;
	__u64 id, first = 1ULL << 40;

	blame->program->bss->named[0] = first;
	for (id = first; id < first + 4 * BLAME_CGROUPS; id++)
		bpf_map_update_elem(map, &id, &none, BPF_ANY);
	id--;
	tap_result(blame_cgroup(blame, id, &cgroup), "the last one of many cgroups has a name");
	tap_result(!blame_cgroup(blame, first, &cgroup) && !blame->program->bss->named[0],
		   "a cgroup without a name will get it again");
}

static void take_all_pairs(void)
{
	const int map = bpf_map__fd(blame->program->maps.charges);
	struct blame_pair pair = { .owner.kind = BLAME_PROCESS };
	const struct blame_charge none = { 0 };

	while (!bpf_map_update_elem(map, &pair, &none, BPF_NOEXIST))
		pair.owner.id++;
}

/* Return true if the map has the pair of the VM for time that is not named. */
static bool has_unknown_pair(const struct process *process)
{
	struct blame_pair pair = { .owner.kind = BLAME_UNKNOWN };
	struct blame_charge charge;
	size_t i;

	for (i = 0; i < blame->threads.count; i++)
		if (blame->threads.list[i].vm.tgid == (uint32_t)process->pid)
			pair.vm = blame->threads.list[i].vm;
	return !bpf_map_lookup_elem(bpf_map__fd(blame->program->maps.charges), &pair, &charge);
}

/* With all pairs taken, the time of a new owner is unknown. */
static void test_full_charges(void)
{
	struct process list[] = { start_vmm("0"), { 0 } };
	struct group group = { list, 1 };
	struct account before;
	uint64_t no_pair, unknown;

	tap_result(settle(&group), "a VM before all pairs are taken");
	/* Samples of a full map remove pairs, but not the one for the VM's unknown time. */
	take_all_pairs();
	blame_sample(blame);
	tap_result(has_unknown_pair(&list[0]), "a sample of a full map keeps the pair for unknown time");
	blame_sample(blame);
	take_all_pairs();
	no_pair = blame_counts(blame).no_pair;
	before = read_account(list[0].pid, list[0].vcpu);
	list[1] = start_hog(late_name, cpu);
	proceed(&group);
	await_run(list[1].pid, 100 * MS);
	group.count = 2;
	stop(&group);
	blame_sample(blame);
	unknown = charged(&list[0], BLAME_UNKNOWN, NULL, 0);
	check_sum("all pairs are taken", &list[0], &before);
	tap_result((unknown > 50 * MS && blame_counts(blame).no_pair > no_pair) ||
		   charged_without_name(&list[0]) > 50 * MS,
		   "all pairs are taken: %.2f ms of a new owner are unknown, %llu charges are counted",
		   unknown / 1e6, blame_counts(blame).no_pair - no_pair);
	/* Pairs that do not grow between two samples are removed, as the map is nearly full. */
	blame_sample(blame);
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	await_run(list[1].pid, 100 * MS);
	stop(&group);
	blame_sample(blame);
	check_sum("pairs are free again", &list[0], &before);
	tap_result(blame->program->bss->pairs < BLAME_NAMED &&
		   charged(&list[0], BLAME_PROCESS, late_name, 0) +
		   charged_without_name(&list[0]) > 50 * MS,
		   "pairs are free again: the owner is charged");
	end_process(&list[0]);
	end_process(&list[1]);
}

/* Wait for the end of the vCPU's current wait, and then of other waits of ns in total. */
static void await_waits(const struct process *process, uint64_t ns)
{
	uint64_t waited = read_account(process->pid, process->vcpu).waited, began = waited;

	while (waited == began) {
		usleep(1000);
		began = read_account(process->pid, process->vcpu).waited;
	}
	while (waited < began + ns) {
		usleep(1000);
		waited = read_account(process->pid, process->vcpu).waited;
	}
}

/*
 * For a part of the test the program misses all switches. on: CPU of this process. On the
 * vCPU's CPU, the first switch that the program sees is from this process, which waited itself
 * in the time that was lost.
 */
static void test_lost(const char *what, int on)
{
	const int rounds = 10;
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct bpf_link **link = &blame->program->links.blame_switch;
	struct group group = { list, 2 };
	struct account before;
	uint64_t unknown;
	int i, attached = 0;

	move_thread(0, on);
	tap_result(settle(&group), "%s", what);
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	for (i = 0; i < rounds; i++) {
		usleep(RUN_MS / 20 * 1000);
		bpf_link__destroy(*link);
		await_waits(&list[0], LOST_NS);
		*link = bpf_program__attach(blame->program->progs.blame_switch);
		attached += *link != NULL;
	}
	tap_result(attached == rounds, "%s: the program is attached again", what);
	usleep(RUN_MS / 20 * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum(what, &list[0], &before);
	unknown = charged_unknown(&list[0]);
	tap_result(unknown + 10 * MS >= rounds * LOST_NS,
		   "%s: at least %.2f ms are unknown: %.2f ms", what, rounds * LOST_NS / 1e6,
		   unknown / 1e6);
	if (unknown + 10 * MS < rounds * LOST_NS)
		print_charges(&list[0]);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	end_process(&list[0]);
	end_process(&list[1]);
}

/* A sample charges the part of a wait that has passed. */
static void test_open_wait(void)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	struct sched_param priority = { .sched_priority = 1 };
	struct account before;
	uint64_t first, second, sum, waited;

	tap_result(settle(&group), "a wait that does not end");
	if (sched_setscheduler(list[1].pid, SCHED_FIFO, &priority)) {
		printf("# not run, a wait that does not end: no real-time priority: %s\n",
		       strerror(errno));
		proceed(&group);
		goto out;
	}
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	await_run(list[1].pid, 150 * MS);
	blame_sample(blame);
	first = charged(&list[0], BLAME_PROCESS, hog_name, 0) + charged_without_name(&list[0]);
	sum = charged(&list[0], 0, NULL, 0);
	await_run(list[1].pid, 150 * MS);
	blame_sample(blame);
	second = charged(&list[0], BLAME_PROCESS, hog_name, 0) + charged_without_name(&list[0]);
	sum += charged(&list[0], 0, NULL, 0);
	tap_result(first > 100 * MS && second > 100 * MS,
		   "open wait: each sample has its part: %.2f and %.2f ms", first / 1e6, second / 1e6);
	stop(&group);
	blame_sample(blame);
	sum += charged(&list[0], 0, NULL, 0);
	waited = read_account(list[0].pid, list[0].vcpu).waited - before.waited;
	tap_result(same(sum, waited), "open wait: no part is charged twice: %.2f of %.2f ms",
		   sum / 1e6, waited / 1e6);
out:
	end_process(&list[0]);
	end_process(&list[1]);
}

#ifdef __x86_64__
#define PAGE_SIZE	4096UL

/* Let the page fault of the main thread last for 10 ms. */
static void *delay_fault(void *arg)
{
	const int uffd = *(int *)arg;
	struct uffdio_zeropage zero = { .range.len = PAGE_SIZE };
	struct uffd_msg fault;

	if (read(uffd, &fault, sizeof(fault)) == sizeof(fault)) {
		usleep(10000);
		zero.range.start = fault.arg.pagefault.address & -PAGE_SIZE;
		ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
	}
	return NULL;
}

/* Sleep in an ioctl of a vCPU that does not run. Returns false without userfaultfd. */
static bool sleep_with_vcpu(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range.len = PAGE_SIZE, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int kvm, vcpu, uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	pthread_t thread;
	void *page;

	page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)page;
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &range) ||
	    pthread_create(&thread, NULL, delay_fault, &uffd))
		return false;
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	vcpu = ioctl(ioctl(kvm, KVM_CREATE_VM, 0), KVM_CREATE_VCPU, 0);
	if (ioctl(vcpu, KVM_SET_CPUID2, page))
		return false;
	pthread_join(thread, NULL);
	return true;
}

/* A thread that sets up a vCPU, like the main thread of a VMM, does not run it. */
static void test_main_thread(void)
{
	struct process list[] = { { .pid = 0 }, start_hog(hog_name, cpu) };
	struct account account;
	int ready[2];
	char ok = 0;

	if (pipe(ready))
		return;
	list[0].pid = fork();
	if (!list[0].pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 3);
		closefrom(4);
		pin_to(&cpu);
		ok = sleep_with_vcpu();
		if (write(3, &ok, 1) != 1)
			_exit(1);
		for (;;)
			;
	}
	close(ready[1]);
	if (read(ready[0], &ok, 1) != 1 || !ok) {
		printf("# not run, the main thread of a VMM: no userfaultfd\n");
		goto out;
	}
	list[0].vcpu = list[0].pid;
	await_waits(&list[0], 100 * MS);
	blame_sample(blame);
	account = read_account(list[0].pid, list[0].pid);
	tap_result(account.waited > 100 * MS && !is_seen(list[0].pid) &&
		   !charged(&list[0], 0, NULL, 0),
		   "main thread that sets up a vCPU: none of the %.2f ms that it waited are charged",
		   account.waited / 1e6);
out:
	close(ready[0]);
	end_process(&list[0]);
	end_process(&list[1]);
}
#else
static void test_main_thread(void)
{
}
#endif

static void enter_cgroup(const char *path, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	cgroup_put(path, "cgroup.procs", text);
}

/* nested: both have a quota, and a sibling of the VM uses up that of the parent */
static void test_quota(const char *what, bool nested)
{
	struct process list[] = { start_vmm("0") };
	struct group group = { list, 1 };
	struct blame_cgroup cgroup;
	struct account before;
	char path[CGROUP_PATH], child[CGROUP_PATH], sibling[CGROUP_PATH];
	char local[CGROUP_PATH + 64];
	struct process hog = { 0 };
	uint64_t quota, throttled, own, reference, named = 0;
	const char *group_of = path, *file = "cpu.stat";
	size_t i;

	if (!cgroup_create(path, NULL, "blame-test") || !cgroup_set_quota(path, AMPLE_MS)) {
		printf("# not run, a quota: no cgroup with a cpu controller\n");
		rmdir(path);
		end_process(&list[0]);
		return;
	}
	strcpy(child, path);
	if (nested) {
		cgroup_create(child, path, "below");
		cgroup_create(sibling, path, "sibling");
		hog = start_hog(hog_name, cpu);
		enter_cgroup(sibling, hog.pid);
	}
	/* Only this has exactly the time in which the VM wanted to run. */
	snprintf(local, sizeof(local), "%s/cpu.stat.local", child);
	if (!access(local, F_OK)) {
		group_of = child;
		file = "cpu.stat.local";
	}
	enter_cgroup(child, list[0].pid);
	tap_result(settle(&group), "%s: a VM in a cgroup", what);
	before = read_account(list[0].pid, list[0].vcpu);
	throttled = cgroup_throttled(path, "cpu.stat");
	own = nested ? cgroup_throttled(child, "cpu.stat") : 0;
	reference = cgroup_throttled(group_of, file);
	/* Cgroup v1 limits the quota of a child to that of its parent. */
	if (nested)
		cgroup_set_quota(child, SCARCE_MS);
	cgroup_set_quota(path, SCARCE_MS);
	proceed(&group);
	/* on a busy host, it takes longer to use the quota up */
	for (i = 0; i < 300 && cgroup_throttled(path, "cpu.stat") - throttled < 200 * MS; i++)
		usleep(100000);
	/* Otherwise the main thread could be throttled when the vCPU has stopped. */
	cgroup_set_quota(path, AMPLE_MS);
	stop(&group);
	blame_sample(blame);
	throttled = cgroup_throttled(path, "cpu.stat") - throttled;
	own = nested ? cgroup_throttled(child, "cpu.stat") - own : 0;
	reference = cgroup_throttled(group_of, file) - reference;
	quota = charged(&list[0], BLAME_QUOTA, NULL, 0);
	check_sum(what, &list[0], &before);
	/* The parent's cpu.stat lacks the time for which only the VM's own quota was used up. */
	tap_result(throttled >= 200 * MS &&
		   (same(quota, reference) || (group_of == path && quota > reference &&
					       quota - reference <= own)),
		   "%s: charged %.2f ms, %s %.2f ms, own quota %.2f ms", what, quota / 1e6, file,
		   reference / 1e6, own / 1e6);
	for (i = 0; i < blame->count; i++) {
		const struct blame_row *row = &blame->rows[i];

		if (row->pair.owner.kind == BLAME_QUOTA &&
		    row->pair.vm.tgid == (uint32_t)list[0].pid &&
		    blame_cgroup(blame, row->pair.owner.id, &cgroup) &&
		    !strcmp(cgroup.name, strrchr(path, '/') + 1))
			named += row->growth;
	}
	/* Nested, the VM's own quota may be the reason for some waits. */
	tap_result(same(named, reference) ||
		   (named < reference && (named + own > reference || same(named + own, reference))),
		   "%s: %.2f ms have the cgroup's name, %s %.2f ms, own quota %.2f ms", what,
		   named / 1e6, file, reference / 1e6, own / 1e6);
	end_process(&list[0]);
	if (nested) {
		end_process(&hog);
		cgroup_remove(child);
		cgroup_remove(sibling);
	}
	cgroup_remove(path);
}

static bool set_real_time(pid_t tid, int priority)
{
	const struct sched_param parameter = { .sched_priority = priority };

	if (!sched_setscheduler(tid, SCHED_FIFO, &parameter))
		return true;
	printf("# thread %d has no real-time priority: %s\n", tid, strerror(errno));
	return false;
}

/* A vCPU waits because its cgroup's quota of real-time threads is used up, not for the hog. */
static void test_real_time_quota(const char *path)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct group group = { list, 2 };
	struct account before;
	uint64_t quota, waited;

	enter_cgroup(path, list[0].pid);
	/* above other real-time threads of the host, for which it would also wait */
	set_real_time(list[0].vcpu, 90);
	tap_result(settle(&group), "a real-time vCPU with a quota, and a hog");
	before = read_account(list[0].pid, list[0].vcpu);
	proceed(&group);
	usleep(RUN_MS * 1000);
	stop(&group);
	blame_sample(blame);
	check_sum("real-time quota", &list[0], &before);
	quota = charged(&list[0], BLAME_QUOTA, NULL, 0) + blame_counts(blame).unreported - unreported;
	waited = read_account(list[0].pid, list[0].vcpu).waited - before.waited;
	tap_result(waited > RUN_MS * MS / 2 && quota + waited / 100 + 10 * MS >= waited,
		   "real-time quota: charged %.2f of %.2f ms", quota / 1e6, waited / 1e6);
	end_process(&list[0]);
	end_process(&list[1]);
}

/* A real-time vCPU waits for another real-time thread, not for the quota that others use up. */
static void test_real_time_hog(const char *path)
{
	struct process list[] = { start_vmm("0"), start_hog(hog_name, cpu) };
	struct process other = start_hog("other", cpu);
	struct group group = { list, 2 };
	struct account vcpu;
	uint64_t ran;

	enter_cgroup(path, list[0].pid);
	enter_cgroup(path, other.pid);
	/* first, so that the vCPU does not use up a quota of real-time threads */
	if (!set_real_time(list[1].pid, 91) || !set_real_time(list[0].vcpu, 90))
		goto out;
	tap_result(settle(&group), "a real-time vCPU, and a hog of a higher priority");
	cgroup_put(path, "cpu.cfs_period_us", "1000000");
	cgroup_put(path, "cpu.cfs_quota_us", "1000");
	cgroup_put(path, "cpu.max", "1000 1000000");
	/* until the quota is used up */
	usleep(100000);
	ran = run_time(list[1].pid, hog_name);
	vcpu = read_account(list[0].pid, list[0].vcpu);
	kill(list[0].pid, SIGCONT);
	/* The hog takes the CPU from it. */
	while (read_account(list[0].pid, list[0].vcpu).ran < vcpu.ran + MS)
		usleep(1000);
	proceed(&group);
	usleep(300000);
	/* Otherwise the main thread could be throttled when it is to stop the vCPU. */
	cgroup_set_quota(path, AMPLE_MS);
	stop(&group);
	blame_sample(blame);
	check_owner("real-time hog", &list[0], charged(&list[0], BLAME_PROCESS, hog_name, 0),
		    run_time(list[1].pid, hog_name) - ran);
out:
	end_process(&list[0]);
	end_process(&list[1]);
	end_process(&other);
}

static void test_real_time(void)
{
	char path[CGROUP_PATH];

	if (!cgroup_create(path, NULL, "blame-real-time") || !cgroup_set_quota(path, AMPLE_MS)) {
		printf("# not run, real-time vCPUs: no cgroup with a cpu controller\n");
		rmdir(path);
		return;
	}
	if (cgroup_put(path, "cpu.rt_period_us", "10000") &&
	    cgroup_put(path, "cpu.rt_runtime_us", "1000"))
		test_real_time_quota(path);
	else
		printf("# not run, quotas of real-time threads: the kernel has none\n");
	cgroup_put(path, "cpu.rt_runtime_us", "3000");
	/* The hog would keep this process from running. */
	if (CPU_COUNT(&cpus) > 1)
		test_real_time_hog(path);
	cgroup_remove(path);
}

int main(int argc, char **argv)
{
	struct kvmstats_probe probe = { 0 };
	int i;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: blame_test VMM [VMS]\n");
		return 2;
	}
	setlinebuf(stdout);
	snprintf(hog_name, sizeof(hog_name), "hog-%d", getpid());
	snprintf(late_name, sizeof(late_name), "late-%d", getpid());
	snprintf(new_name, sizeof(new_name), "new-%d", getpid());
	vmm = argv[1];
	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus)) {
			other_cpu = cpu;
			cpu = i;
		}
	if (blame_open(&blame, NULL, &probe)) {
		tap_result(false, "blame_open: %s; %s", probe.why, probe.help);
		return tap_end();
	}
	if (argc == 3) {
		test_waiting(argv[2]);
		blame_close(blame);
		return tap_end();
	}
	test_hog();
	test_two_vms();
	if (CPU_COUNT(&cpus) > 1) {
		test_hog_moves();
		test_vcpu_moves();
	} else {
		printf("# not run, threads that move: one CPU\n");
	}
	test_entered();
	test_large_host();
	test_own_threads();
	test_main_thread();
	test_many();
	test_lost("lost switches", cpu);
	if (CPU_COUNT(&cpus) > 1)
		test_lost("lost switches, seen from another CPU", other_cpu);
	test_full_vcpus();
	test_full_charges();
	test_many_names();
	test_many_cgroups();
	test_open_wait();
	test_quota("quota", false);
	test_quota("quota of the parent", true);
	test_real_time();
	if (CPU_COUNT(&cpus) > 1)
		test_offline();
	blame_close(blame);
	return tap_end();
}
