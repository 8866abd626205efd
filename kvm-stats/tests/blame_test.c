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
#include <errno.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* with its maps and links, for events that are lost and maps that are full */
#include "../src/bpf/blame.c"
#include "../src/bpf/stalls.h"
#include "account.h"
#include "cgroup.h"
#include "probe_vm.h"
#include "tap.h"
#include "vm.h"

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

/* VMMs, and hogs, which have no vCPU; the tests stop all of them at both ends. */
static struct process {
	pid_t pid;
	pid_t vcpu;		/* TID of its vCPU, or 0 */
	struct account before;	/* its vCPU or only thread, before the test */
} list[MAX_VMS];
static size_t count;

static void keep_tid(pid_t pid, pid_t tid, void *arg)
{
	*(pid_t *)arg = tid;
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
	return move_thread(0, *(const int *)arg);
}

static struct process *add_vmm(char *threads)
{
	char *arguments[] = { vmm, "-b", "-t", threads, "1", "1", NULL };
	struct process *process = &list[count++];
	int i;

	*process = (struct process){ .pid = vm_start(arguments, pin_to, &cpu) };
	/* the thread gets its name a moment later */
	for (i = 0; i < 1000 && !process->vcpu; i++, usleep(10000))
		each_thread(process->pid, "CPU 0/KVM", keep_tid, &process->vcpu);
	return process;
}

static struct process *add_hog(const char *name, int on)
{
	list[count] = (struct process){ .pid = start_hog(on, name) };
	return &list[count++];
}

static void end_all(void)
{
	while (count)
		end_process(list[--count].pid);
}

static struct account account_of(const struct process *process)
{
	return read_account(process->pid, process->vcpu ?: process->pid);
}

/* Return for how long the thread has waited since it was settled. */
static uint64_t get_waited(const struct process *process)
{
	return account_of(process).waited - process->before.waited;
}

static uint64_t get_ran(const struct process *process)
{
	return account_of(process).ran - process->before.ran;
}

/* A thread can be preempted between its change of state and its last switch. */
static bool is_waiting(uint32_t tid)
{
	const int map = bpf_map__fd(blame->program->maps.vcpus);
	struct threads_vcpu vcpu;

	return !bpf_map_lookup_elem(map, &tid, &vcpu) && vcpu.blame.since;
}

static void check_stopped(pid_t pid, pid_t tid, void *arg)
{
	*(bool *)arg &= is_stopped(pid, tid) && !is_waiting(tid);
}

/*
 * Send with real-time priority, if this host allows it: preempted between two signals, this
 * process would let one of them run alone, and this time would not be charged.
 */
static void signal_all(int signal)
{
	size_t i;

	set_real_time(0, 2);
	for (i = 0; i < count; i++)
		kill(list[i].pid, signal);
	set_real_time(0, 0);
}

/* Stop all of them, and wait until no thread is on a run queue. */
static void stop(void)
{
	bool stopped = false;
	size_t i;

	signal_all(SIGSTOP);
	while (!stopped) {
		usleep(1000);
		stopped = true;
		for (i = 0; i < count; i++)
			each_thread(list[i].pid, "", check_stopped, &stopped);
	}
}

static void proceed(void)
{
	signal_all(SIGCONT);
}

static void stop_and_sample(void)
{
	stop();
	blame_sample(blame);
}

static void run_for(unsigned int ms)
{
	proceed();
	usleep(ms * 1000);
	stop_and_sample();
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

static void read_accounts(void)
{
	size_t i;

	for (i = 0; i < count; i++)
		list[i].before = account_of(&list[i]);
}

/* Run them until the program has seen each vCPU, then stop them. */
static void settle(const char *what)
{
	size_t i, seen = 0;
	int round;

	for (round = 0; round < 3000 && seen < count; round++) {
		usleep(10000);
		if (blame_sample(blame))
			break;
		for (seen = 0, i = 0; i < count; i++)
			seen += !list[i].vcpu || is_seen(list[i].vcpu);
	}
	stop();
	unreported = blame_counts(blame).unreported;
	tap_result(seen == count && !blame_sample(blame), "%s", what);
	read_accounts();
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

static void check_sum(const char *what, const struct process *process)
{
	const uint64_t waited = get_waited(process), sum = charged(process, 0, NULL, 0);

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

static void check_hog(const char *what, const struct process *vm, const struct process *hog)
{
	check_owner(what, vm, charged(vm, BLAME_PROCESS, hog_name, 0), get_ran(hog));
}

static void test_hog(void)
{
	const struct process *vm = add_vmm("0"), *hog = add_hog(hog_name, cpu);

	settle("a spinning vCPU and a hog");
	run_for(RUN_MS);
	check_sum("hog", vm);
	check_hog("hog", vm, hog);
	check_unknown("hog", vm);
	end_all();
}

static void test_two_vms(void)
{
	int i;

	add_vmm("0");
	add_vmm("0");
	settle("two VMs on one CPU");
	run_for(RUN_MS);
	for (i = 0; i < 2; i++) {
		const struct process *other = &list[!i];

		check_sum("two VMs", &list[i]);
		check_owner("two VMs: the other one's vCPU", &list[i],
			    charged(&list[i], BLAME_VCPU, NULL, other->pid), get_ran(other));
	}
	end_all();
}

/* A thread that is never in KVM_RUN when it is switched out: the sampler found it. */
static void test_entered(void)
{
	struct process *own = add_hog("vmm", cpu), *hog = add_hog(hog_name, cpu);
	struct kvmstats_vcpu vcpu = { .tid = own->pid }, *vcpus[] = { &vcpu };
	const struct kvmstats_vm vm = { .identity.pid = own->pid, .vcpus = 1, .vcpu = vcpus };

	blame_enter(blame, &vm);
	own->vcpu = own->pid;
	tap_result(is_seen(own->vcpu), "vCPU that is in its VMM: entered by its TID");
	settle("vCPU that is in its VMM, and a hog");
	run_for(RUN_MS / 2);
	check_sum("vCPU in its VMM", own);
	check_hog("vCPU in its VMM", own, hog);
	end_all();
	blame_sample(blame);
	blame_enter(blame, &vm);
	tap_result(!is_seen(own->vcpu), "vCPU in its VMM: no entry after its exit");
}

/* A host with more vCPUs than the program usually has entries for. */
static void test_large_host(void)
{
	const struct kvmstats_vm vm = { .ended = true, .vcpus = THREADS_VCPUS + 1 };
	struct kvmstats_probe probe = { 0 };
	struct blame *large;

	if (blame_open(&large, NULL, &vm, &probe)) {
		tap_result(false, "a host with %u vCPUs: %s", vm.vcpus, probe.why);
		return;
	}
	tap_result(bpf_map__max_entries(large->program->maps.vcpus) >= vm.vcpus,
		   "a host with %u vCPUs: %u entries", vm.vcpus,
		   bpf_map__max_entries(large->program->maps.vcpus));
	blame_close(large);
}

/* The nanoseconds for which a thread was stopped since the previous sample; -1 if it is not listed */
static int64_t read_stopped(struct stalls *stalls, pid_t tid)
{
	const struct stalls_row *rows;
	size_t i, n;

	stalls_sample(stalls);
	rows = stalls_rows(stalls, &n);
	for (i = 0; i < n; i++)
		if (rows[i].tid == (uint32_t)tid)
			return rows[i].growth[STALL_STOPPED];
	return -1;
}

static bool has_entry(const struct threads *threads, uint32_t tid)
{
	struct threads_vcpu vcpu;

	return !bpf_map_lookup_elem(bpf_map__fd(threads->program->maps.vcpus), &tid, &vcpu);
}

/* One program counts waits and stalls, as each one does on its own; threads that exit lose their entries. */
static void test_with_stalls(void)
{
	struct blame *alone = blame;
	struct kvmstats_probe probe = { 0 };
	struct threads *threads;
	struct stalls *stalls;
	const struct process *vm;
	uint64_t earliest, elapsed, stopped;
	unsigned int turn;
	pid_t tid;

	if (threads_open(&threads, THREADS_WAITS | THREADS_STALLS, NULL, &probe) ||
	    blame_open(&blame, threads, NULL, &probe) || stalls_open(&stalls, threads, NULL, &probe)) {
		tap_result(false, "blame with stalls: %s", probe.why);
		exit(tap_end());
	}
	tap_result(threads->users == 3, "blame and stalls use one program");
	threads_close(threads);
	vm = add_vmm("0");
	add_hog(hog_name, cpu);
	tid = vm->vcpu;
	settle("blame with stalls");
	run_for(RUN_MS);
	check_sum("blame with stalls", vm);
	turn = threads->program->bss->turn;
	stalls_sample(stalls);
	tap_result(threads->program->bss->turn == turn, "blame with stalls: stalls are read as of the sample of blame");
	stalls_sample(stalls);
	blame_sample(blame);
	tap_result(threads->program->bss->turn == turn + 2,
		   "blame with stalls: blame charges open waits at its own samples, whenever stalls are read");
	/* of the sample that blame took */
	read_stopped(stalls, tid);
	earliest = read_clock(CLOCK_MONOTONIC);
	read_stopped(stalls, tid);
	usleep(RUN_MS / 4 * 1000);
	stopped = read_stopped(stalls, tid);
	elapsed = read_clock(CLOCK_MONOTONIC) - earliest;
	tap_result(stopped >= RUN_MS / 4 * MS && stopped <= elapsed,
		   "blame with stalls: its VMM was stopped for %.2f of %.2f ms", stopped / 1e6, elapsed / 1e6);
	end_all();
	tap_result(read_stopped(stalls, tid) >= 0 && threads->exited.count == 0,
		   "blame with stalls: a thread that has exited keeps its stalls until they are read");
	blame_sample(blame);
	tap_result(read_stopped(stalls, tid) < 0 && !is_seen(tid) && !has_entry(threads, tid),
		   "blame with stalls: then its entry is free");
	stalls_close(stalls);
	tid = add_vmm("0")->vcpu;
	settle("blame without stalls, which were closed");
	end_all();
	blame_sample(blame);
	tap_result(!threads->exited.count && !has_entry(threads, tid),
		   "blame without stalls: nothing is kept of a thread that has exited");
	blame_close(blame);
	blame = alone;
}

static void test_hog_moves(void)
{
	const struct process *vm = add_vmm("0"), *hog = add_hog(hog_name, cpu);
	uint64_t stays, moved;

	settle("a hog that moves to another CPU");
	proceed();
	usleep(RUN_MS / 2 * 1000);
	/* This thread can be preempted before and after the move, while the hog runs. */
	stays = get_ran(hog);
	move_thread(hog->pid, other_cpu);
	moved = get_ran(hog);
	usleep(RUN_MS / 2 * 1000);
	stop_and_sample();
	check_sum("moved hog", vm);
	check_range("moved hog: only what it ran on the vCPU's CPU", vm,
		    charged(vm, BLAME_PROCESS, hog_name, 0), stays, moved);
	end_all();
}

static void test_vcpu_moves(void)
{
	const struct process *vm = add_vmm("0");
	int i;

	add_hog("hog-1", cpu);
	add_hog("hog-2", other_cpu);
	settle("a vCPU that moves between CPUs with a hog each");
	proceed();
	for (i = 0; i < RUN_MS / 7; i++) {
		move_thread(vm->vcpu, i % 2 ? cpu : other_cpu);
		usleep(7000);
	}
	stop_and_sample();
	check_sum("moved vCPU", vm);
	check_unknown("moved vCPU", vm);
	tap_result((charged(vm, BLAME_PROCESS, "hog-1", 0) && charged(vm, BLAME_PROCESS, "hog-2", 0)) ||
		   charged_without_name(vm),
		   "moved vCPU: both hogs are charged");
	end_all();
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
	const struct process *vm = add_vmm("0"), *hog;
	uint64_t charge;

	add_hog(hog_name, cpu);
	hog = add_hog("hog-2", other_cpu);
	settle("a CPU is taken offline");
	proceed();
	usleep(RUN_MS / 4 * 1000);
	if (take_offline(cpu)) {
		await_run(hog->pid, 100 * MS);
		stop_and_sample();
		check_sum("CPU offline", vm);
		check_unknown("CPU offline", vm);
		charge = charged(vm, BLAME_PROCESS, "hog-2", 0);
		tap_result(charge > 50 * MS, "CPU offline: the hog of the other CPU is charged %.2f ms",
			   charge / 1e6);
	} else {
		printf("# not run, a CPU is taken offline: no test machine\n");
	}
	end_all();
}

static void test_own_threads(void)
{
	const struct process *vm = add_vmm("2");
	uint64_t ran;

	settle("a VMM with two busy threads");
	ran = run_time(vm->pid, "busy");
	run_for(RUN_MS);
	check_sum("own threads", vm);
	check_owner("own threads, by name", vm, charged(vm, BLAME_VMM, "busy", vm->pid),
		    run_time(vm->pid, "busy") - ran);
	end_all();
}

static void test_many(void)
{
	double worst = 0;
	int i, right = 0;

	for (i = 0; i < MAX_VMS; i++)
		add_vmm("0");
	settle("many VMs on one CPU");
	run_for(RUN_MS);
	for (i = 0; i < MAX_VMS; i++) {
		const uint64_t waited = get_waited(&list[i]), sum = charged(&list[i], 0, NULL, 0);
		const double difference = sum / 1e6 - waited / 1e6;

		right += same(sum, waited);
		if (difference > worst || -difference > worst)
			worst = difference > 0 ? difference : -difference;
	}
	tap_result(right == MAX_VMS, "%d VMs: charges equal run_delay of %d, %.2f ms off at most",
		   MAX_VMS, right, worst);
	end_all();
}

/* With all entries for vCPUs taken, other vCPUs are counted; later they are charged. */
static void test_full_vcpus(void)
{
	const int map = bpf_map__fd(blame->program->maps.vcpus);
	const uint64_t before = blame_counts(blame).no_vcpu;
	const struct threads_vcpu none = { 0 };
	uint32_t first = 0x40000000, tid = first;
	const struct process *vm;
	uint64_t missed = 0;
	int i;

	add_hog(hog_name, cpu);
	while (!bpf_map_update_elem(map, &tid, &none, BPF_NOEXIST))
		tid++;
	vm = add_vmm("0");
	for (i = 0; i < 300 && !missed; i++, usleep(100000))
		missed = blame_counts(blame).no_vcpu - before;
	tap_result(tid - first <= THREADS_VCPUS && missed && !is_seen(vm->vcpu),
		   "%u entries for vCPUs are taken: another vCPU is missed at %lu switches",
		   tid - first, missed);
	while (tid > first) {
		tid--;
		bpf_map_delete_elem(map, &tid);
	}
	settle("entries are free again: the vCPU is seen");
	run_for(RUN_MS / 2);
	check_sum("entries are free again", vm);
	end_all();
}

/* A user's VMs, and entries for the waits of all VMs: the user gets three quarters. */
#define USER		65534
#define USER_VMS	18
#define WAITS_MAX	16

/* Charge the vCPUs of VMMs, which are stopped, to a user. */
static void give_to_user(void)
{
	const int map = bpf_map__fd(blame->program->maps.vcpus);
	struct shares *shares = &blame->program->bss->thread_counts;
	struct threads_vcpu vcpu;
	size_t i;

	for (i = 0; i < count; i++) {
		const uint32_t tid = list[i].vcpu;

		if (bpf_map_lookup_elem(map, &tid, &vcpu))
			continue;
		--*user_count(shares, vcpu.uid);
		++*user_count(shares, USER);
		vcpu.uid = USER;
		bpf_map_update_elem(map, &tid, &vcpu, BPF_EXIST);
	}
}

/* VMs of one user do not take the entries of others for waits that end between two samples. */
static void test_wait_shares(void)
{
	struct shares *shares = &blame->program->bss->wait_shares;
	const struct blame_waits *waits;
	const struct blame_vm *vms;
	const struct process *vm;
	size_t i, j, n, users = 0, found = 0;

	for (i = 0; i < USER_VMS; i++)
		add_vmm("0");
	settle("many VMs of a user");
	give_to_user();
	shares->max = WAITS_MAX;
	proceed();
	usleep(RUN_MS / 2 * 1000);
	stop();
	vm = add_vmm("0");
	run_for(RUN_MS / 2);
	n = blame_ended_waits(blame, &vms, &waits);
	for (i = 0; i < n; i++) {
		found += vms[i].tgid == (uint32_t)vm->pid && waits[i].ns;
		for (j = 0; j < USER_VMS; j++)
			users += vms[i].tgid == (uint32_t)list[j].pid;
	}
	tap_result(found && users > WAITS_MAX / 2 && users <= WAITS_MAX / 4 * 3,
		   "%d VMs of a user have %zu of %d entries for waits, and the VM of another user has %zu",
		   USER_VMS, users, WAITS_MAX, found);
	shares->max = BLAME_VMS;
	end_all();
}

#ifdef __x86_64__
#define ENTERED	4300	/* threads, more than there are entries */

static int shared_vcpu;

struct entry {
	pthread_t thread;
	sem_t ended;
	pid_t tid;	/* 0: the thread has not begun */
};

static void ignore(int signal)
{
}

/* A vCPU that waits for another one to start it sleeps in KVM_RUN until a signal arrives. */
static void *enter_once(void *arg)
{
	struct entry *entry = arg;

	__atomic_store_n(&entry->tid, gettid(), __ATOMIC_RELEASE);
	ioctl(shared_vcpu, KVM_RUN, 0);
	sem_post(&entry->ended);
	for (;;)
		pause();
	return NULL;
}

/*
 * Wait until the thread sleeps with the vCPU. Before Linux 6.12, it sleeps earlier as well, while
 * it replaces the vCPU's previous thread.
 */
static void await_entry(const struct entry *entry)
{
	char wchan[32] = "";
	pid_t tid;

	while (!(tid = __atomic_load_n(&entry->tid, __ATOMIC_ACQUIRE)) ||
	       !read_thread_line(getpid(), tid, "wchan", wchan, sizeof(wchan)) ||
	       strcmp(wchan, "kvm_vcpu_block"))
		usleep(50);
}

/* A user enters a vCPU with many threads, one after the other, which remain. */
static void be_crowd(int from, int to)
{
	const struct sigaction action = { .sa_handler = ignore };
	int vm = need(ioctl(need(open("/dev/kvm", O_RDWR), "/dev/kvm"), KVM_CREATE_VM, 0), "VM"), i;
	struct entry entry;
	pthread_attr_t attr;

	need(ioctl(vm, KVM_CREATE_IRQCHIP, 0), "interrupt controllers");
	need(ioctl(vm, KVM_CREATE_VCPU, 0), "vCPU");
	shared_vcpu = need(ioctl(vm, KVM_CREATE_VCPU, 1), "second vCPU");
	need(setuid(USER), "setuid");
	sigaction(SIGUSR1, &action, NULL);
	sem_init(&entry.ended, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (i = 0; i < ENTERED; i++) {
		entry.tid = 0;
		if (pthread_create(&entry.thread, &attr, enter_once, &entry))
			break;
		await_entry(&entry);
		pthread_kill(entry.thread, SIGUSR1);
		sem_wait(&entry.ended);
	}
	need(write(to, &i, sizeof(i)), "write");
	for (;;)
		pause();
}

/* One user's threads do not take the entries of others, and lose their own by and by. */
static void test_crowd(void)
{
	struct peer peer = start_peer(be_crowd);
	const struct process *vm;
	int threads = 0, i;
	__u32 taken;

	if (read(peer.from, &threads, sizeof(threads)) < 0)
		threads = 0;
	taken = blame->program->bss->thread_counts.all;
	add_hog(hog_name, cpu);
	vm = add_vmm("0");
	settle("a VM beside a user's threads that have entered a vCPU");
	tap_result(threads == ENTERED && taken > THREADS_VCPUS / 2 && taken <= THREADS_VCPUS / 4 * 3 + 8,
		   "%d threads of a user have entered a vCPU: %u of %u entries", threads, taken,
		   THREADS_VCPUS);
	run_for(RUN_MS);
	check_sum("beside a user's threads", vm);
	for (i = 0; i < 4; i++)
		blame_sample(blame);
	taken = blame->program->bss->thread_counts.all;
	tap_result(taken <= THREADS_VCPUS / 2, "later, they have %u", taken);
	end_peer(&peer);
	end_all();
}
#endif

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
	const struct rlimit files = { 2 * THREADS_VCPUS, 2 * THREADS_VCPUS };
	const uint64_t missed = blame_counts(blame).no_vcpu;
	const size_t all = 100 * strtoul(vms, NULL, 10);
	/* the share of a user, less those of other VMs */
	const size_t share = THREADS_VCPUS / 4 * 3, expected = all < share ? all : share;
	uint64_t waited, sum;
	size_t n = 0;

	setrlimit(RLIMIT_NOFILE, &files);
	setpriority(PRIO_PROCESS, 0, -20);
	list[0].pid = vm_start(arguments, pin_with_low_priority, &cpu);
	tap_result(list[0].pid > 0, "%s VMs with 100 vCPUs each", vms);
	if (list[0].pid < 0)
		return;
	count = 1;
	kill(list[0].pid, SIGUSR2);
	/* Each vCPU has to run once. */
	while (n < expected && !waitpid(list[0].pid, NULL, WNOHANG) && !blame_sample(blame)) {
		blame_threads(blame, &n);
		printf("# %zu of %zu vCPUs have an entry\n", n, expected);
		sleep(1);
	}
	stop_and_sample();
	waited = read_waits(list[0].pid);
	run_for(4 * RUN_MS);
	waited = read_waits(list[0].pid) - waited;
	sum = charged(&list[0], 0, NULL, 0);
	tap_result(n >= expected && waited && same(sum, waited),
		   "%zu vCPUs wait: charges equal run_delay of %zu: %.2f of %.2f s", all, n, sum / 1e9,
		   waited / 1e9);
	tap_result(all <= n || blame_counts(blame).no_vcpu > missed,
		   "%zu vCPUs wait: those without an entry are counted", all);
	end_all();
}

/* A VMM with a thread that has another name each time it gets a CPU, and a vCPU that has not run */
static void be_renamer(int from, int to)
{
	struct probe_vm vm;
	char text[200];
	unsigned int i;
	uint64_t end;

	if (probe_vm_open(&vm, 0, text, sizeof(text)))
		errx(1, "%s", text);
	move_thread(0, cpu);
	need(write(to, "", 1), "write");
	for (i = 0;; i++) {
		snprintf(text, sizeof(text), "name-%u", i);
		prctl(PR_SET_NAME, text);
		usleep(1);
		end = read_clock(CLOCK_MONOTONIC) + MS / 20;
		while (read_clock(CLOCK_MONOTONIC) < end)
			;
	}
}

/* Return how many pairs with names the cgroup of a process has. */
static __u32 count_pairs(const char *comm)
{
	const __u32 seed = blame->program->bss->thread_counts.seed;
	size_t i;

	for (i = 0; i < blame->count; i++) {
		const struct blame_owner *owner = &blame->rows[i].pair.owner;

		if (owner->kind == BLAME_PROCESS && !strcmp(owner->comm, comm))
			return blame->program->bss->named_pairs[hash_group(owner, seed) % BLAME_GROUPS];
	}
	return 0;
}

/* A VMM whose thread changes its names is charged, and others keep their names. */
static void test_renamer(void)
{
	struct peer peer = start_peer(be_renamer);
	const struct kvmstats_vm sampled = { .identity.pid = peer.pid };
	const struct process *vm, *hog, *renamer;
	char ready;

	if (read(peer.from, &ready, 1) != 1)
		errx(1, "a VMM does not start");
	close_peer(&peer);
	blame_enter(blame, &sampled);
	vm = add_vmm("0");
	hog = add_hog(hog_name, cpu);
	renamer = &list[count];
	list[count++] = (struct process){ .pid = peer.pid };
	/* It waits for so long that the thread has more names than there are slots. */
	setpriority(PRIO_PROCESS, vm->vcpu, 19);
	settle("a VMM whose thread changes its name");
	proceed();
	await_run(renamer->pid, 100 * MS);
	stop_and_sample();
	check_sum("changing names", vm);
	check_owner("changing names: their thread", vm, charged(vm, BLAME_VMM, NULL, renamer->pid),
		    get_ran(renamer));
	check_unknown("changing names", vm);
	/* Few pairs are left before another owner begins: half of them are more than its group has. */
	blame->program->bss->pairs = BLAME_NAMED - 2 * (count_pairs(hog_name) + 50);
	proceed();
	await_run(renamer->pid, 100 * MS);
	stop();
	hog = add_hog(new_name, cpu);
	while (!run_time(hog->pid, new_name))
		usleep(1000);
	stop();
	read_accounts();
	proceed();
	await_run(hog->pid, 100 * MS);
	stop_and_sample();
	tap_result(charged(vm, BLAME_PROCESS, new_name, 0) + 10 * MS >= get_ran(hog),
		   "changing names: a new hog keeps its name: %.2f of %.2f ms",
		   charged(vm, BLAME_PROCESS, new_name, 0) / 1e6, get_ran(hog) / 1e6);
	end_all();
}

/* With many names, the time of a new one belongs to its cgroup. */
static void test_many_names(void)
{
	const struct process *vm = add_vmm("0"), *hog = add_hog(hog_name, cpu);
	uint64_t ran, named;

	settle("a VM before many names are taken");
	blame->program->bss->pairs = BLAME_NAMED;
	/* The name that the hog had before has a pair. */
	end_process(list[--count].pid);
	add_hog(new_name, cpu);
	/* Its time counts from when it is stopped: until then, no vCPU waits for it. */
	while (!run_time(hog->pid, new_name))
		usleep(1000);
	stop();
	read_accounts();
	proceed();
	await_run(hog->pid, 100 * MS);
	stop_and_sample();
	named = charged(vm, BLAME_PROCESS, new_name, 0);
	check_sum("many names", vm);
	ran = get_ran(hog);
	/* Other processes of the host are new as well. */
	tap_result(charged_without_name(vm) + 10 * MS > ran,
		   "many names: the cgroup is charged");
	tap_result(!named, "many names: the new one has no pair");
	end_all();
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

	for (i = 0; i < blame->threads->live.count; i++)
		if (blame->threads->live.list[i].vm.tgid == (uint32_t)process->pid)
			pair.vm = blame->threads->live.list[i].vm;
	return !bpf_map_lookup_elem(bpf_map__fd(blame->program->maps.charges), &pair, &charge);
}

/* With all pairs taken, the time of a new owner is unknown. */
static void test_full_charges(void)
{
	const struct process *vm = add_vmm("0"), *late;
	uint64_t no_pair, unknown;

	settle("a VM before all pairs are taken");
	/* Samples of a full map remove pairs, but not the one for the VM's unknown time. */
	take_all_pairs();
	blame_sample(blame);
	tap_result(has_unknown_pair(vm), "a sample of a full map keeps the pair for unknown time");
	blame_sample(blame);
	take_all_pairs();
	no_pair = blame_counts(blame).no_pair;
	late = add_hog(late_name, cpu);
	proceed();
	await_run(late->pid, 100 * MS);
	stop_and_sample();
	unknown = charged(vm, BLAME_UNKNOWN, NULL, 0);
	check_sum("all pairs are taken", vm);
	tap_result((unknown > 50 * MS && blame_counts(blame).no_pair > no_pair) ||
		   charged_without_name(vm) > 50 * MS,
		   "all pairs are taken: %.2f ms of a new owner are unknown, %llu charges are counted",
		   unknown / 1e6, blame_counts(blame).no_pair - no_pair);
	/* Pairs that do not grow between two samples are removed, as the map is nearly full. */
	blame_sample(blame);
	read_accounts();
	proceed();
	await_run(late->pid, 100 * MS);
	stop_and_sample();
	check_sum("pairs are free again", vm);
	tap_result(blame->program->bss->pairs < BLAME_NAMED &&
		   charged(vm, BLAME_PROCESS, late_name, 0) + charged_without_name(vm) > 50 * MS,
		   "pairs are free again: the owner is charged");
	end_all();
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
	const struct process *vm = add_vmm("0");
	struct bpf_link **link = &blame->program->links.threads_switch;
	uint64_t unknown;
	int i, attached = 0;

	add_hog(hog_name, cpu);
	move_thread(0, on);
	settle(what);
	proceed();
	for (i = 0; i < rounds; i++) {
		usleep(RUN_MS / 20 * 1000);
		bpf_link__destroy(*link);
		await_waits(vm, LOST_NS);
		*link = bpf_program__attach(blame->program->progs.threads_switch);
		attached += *link != NULL;
	}
	tap_result(attached == rounds, "%s: the program is attached again", what);
	usleep(RUN_MS / 20 * 1000);
	stop_and_sample();
	check_sum(what, vm);
	unknown = charged_unknown(vm);
	tap_result(unknown + 10 * MS >= rounds * LOST_NS,
		   "%s: at least %.2f ms are unknown: %.2f ms", what, rounds * LOST_NS / 1e6,
		   unknown / 1e6);
	if (unknown + 10 * MS < rounds * LOST_NS)
		print_charges(vm);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	end_all();
}

/* A sample charges the part of a wait that has passed. */
static void test_open_wait(void)
{
	const struct process *vm = add_vmm("0"), *hog = add_hog(hog_name, cpu);
	uint64_t part[2], sum = 0;
	int i;

	settle("a wait that does not end");
	if (!set_real_time(hog->pid, 1)) {
		printf("# not run, a wait that does not end: no real-time priority: %s\n",
		       strerror(errno));
		end_all();
		return;
	}
	proceed();
	for (i = 0; i < 2; i++) {
		await_run(hog->pid, 150 * MS);
		blame_sample(blame);
		part[i] = charged(vm, BLAME_PROCESS, hog_name, 0) + charged_without_name(vm);
		sum += charged(vm, 0, NULL, 0);
	}
	tap_result(part[0] > 100 * MS && part[1] > 100 * MS,
		   "open wait: each sample has its part: %.2f and %.2f ms", part[0] / 1e6, part[1] / 1e6);
	stop_and_sample();
	sum += charged(vm, 0, NULL, 0);
	tap_result(same(sum, get_waited(vm)), "open wait: no part is charged twice: %.2f of %.2f ms",
		   sum / 1e6, get_waited(vm) / 1e6);
	end_all();
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

static void set_up_vcpu(int from, int to)
{
	char ok;

	pin_to(&cpu);
	ok = sleep_with_vcpu();
	if (write(to, &ok, 1) == 1)
		for (;;)
			;
}

/* A thread that sets up a vCPU, like the main thread of a VMM, does not run it. */
static void test_main_thread(void)
{
	const struct peer peer = start_peer(set_up_vcpu);
	const struct process main = { .pid = peer.pid, .vcpu = peer.pid };
	const pid_t hog = start_hog(cpu, hog_name);
	char ok = 0;

	if (read(peer.from, &ok, 1) == 1 && ok) {
		await_waits(&main, 100 * MS);
		blame_sample(blame);
		tap_result(get_waited(&main) > 100 * MS && !is_seen(main.pid) && !charged(&main, 0, NULL, 0),
			   "main thread that sets up a vCPU: none of the %.2f ms that it waited are charged",
			   get_waited(&main) / 1e6);
	} else {
		printf("# not run, the main thread of a VMM: no userfaultfd\n");
	}
	close_peer(&peer);
	end_process(peer.pid);
	end_process(hog);
}
#else
static void test_main_thread(void)
{
}
#endif

/* nested: both have a quota, and a sibling of the VM uses up that of the parent */
static void test_quota(const char *what, bool nested)
{
	const struct process *vm = add_vmm("0");
	struct blame_cgroup cgroup;
	char path[CGROUP_PATH], child[CGROUP_PATH], sibling[CGROUP_PATH];
	char local[CGROUP_PATH + 64];
	pid_t hog = 0;
	uint64_t quota, throttled, own, reference, named = 0;
	const char *group_of = path, *file = "cpu.stat";
	size_t i;

	if (!cgroup_create(path, NULL, "blame-test") || !cgroup_set_quota(path, AMPLE_MS)) {
		printf("# not run, a quota: no cgroup with a cpu controller\n");
		rmdir(path);
		end_all();
		return;
	}
	strcpy(child, path);
	if (nested) {
		cgroup_create(child, path, "below");
		cgroup_create(sibling, path, "sibling");
		hog = start_hog(cpu, hog_name);
		cgroup_add(sibling, hog);
	}
	/* Only this has exactly the time in which the VM wanted to run. */
	snprintf(local, sizeof(local), "%s/cpu.stat.local", child);
	if (!access(local, F_OK)) {
		group_of = child;
		file = "cpu.stat.local";
	}
	cgroup_add(child, vm->pid);
	settle(what);
	throttled = cgroup_throttled(path, "cpu.stat");
	own = nested ? cgroup_throttled(child, "cpu.stat") : 0;
	reference = cgroup_throttled(group_of, file);
	/* Cgroup v1 limits the quota of a child to that of its parent. */
	if (nested)
		cgroup_set_quota(child, SCARCE_MS);
	cgroup_set_quota(path, SCARCE_MS);
	proceed();
	/* on a busy host, it takes longer to use the quota up */
	for (i = 0; i < 300 && cgroup_throttled(path, "cpu.stat") - throttled < 200 * MS; i++)
		usleep(100000);
	/* Otherwise the main thread could be throttled when the vCPU has stopped. */
	cgroup_set_quota(path, AMPLE_MS);
	stop_and_sample();
	throttled = cgroup_throttled(path, "cpu.stat") - throttled;
	own = nested ? cgroup_throttled(child, "cpu.stat") - own : 0;
	reference = cgroup_throttled(group_of, file) - reference;
	quota = charged(vm, BLAME_QUOTA, NULL, 0);
	check_sum(what, vm);
	/* The parent's cpu.stat lacks the time for which only the VM's own quota was used up. */
	tap_result(throttled >= 200 * MS &&
		   (same(quota, reference) || (group_of == path && quota > reference &&
					       quota - reference <= own)),
		   "%s: charged %.2f ms, %s %.2f ms, own quota %.2f ms", what, quota / 1e6, file,
		   reference / 1e6, own / 1e6);
	for (i = 0; i < blame->count; i++) {
		const struct blame_row *row = &blame->rows[i];

		if (row->pair.owner.kind == BLAME_QUOTA &&
		    row->pair.vm.tgid == (uint32_t)vm->pid &&
		    blame_cgroup(blame, row->pair.owner.id, &cgroup) &&
		    !strcmp(cgroup.name, strrchr(path, '/') + 1))
			named += row->growth;
	}
	/* Nested, the VM's own quota may be the reason for some waits. */
	tap_result(same(named, reference) ||
		   (named < reference && (named + own > reference || same(named + own, reference))),
		   "%s: %.2f ms have the cgroup's name, %s %.2f ms, own quota %.2f ms", what,
		   named / 1e6, file, reference / 1e6, own / 1e6);
	end_all();
	if (nested) {
		end_process(hog);
		cgroup_remove(child);
		cgroup_remove(sibling);
	}
	cgroup_remove(path);
}

/*
 * A vCPU waits because its cgroup's quota of real-time threads is used up, not for the hogs, one of
 * which has a real-time priority below that of the vCPU.
 */
static void test_real_time_quota(const char *path)
{
	const struct process *vm = add_vmm("0");
	const struct process *hog;
	uint64_t quota;

	add_hog(hog_name, cpu);
	hog = add_hog("below", cpu);
	cgroup_add(path, vm->pid);
	/* above other real-time threads of the host */
	if (!set_real_time(vm->vcpu, 90))
		printf("# the vCPU has no real-time priority: %s\n", strerror(errno));
	settle("a real-time vCPU with a quota, and hogs");
	/* This process needs another CPU. */
	if (CPU_COUNT(&cpus) > 1 && !set_real_time(hog->pid, 89))
		printf("# the hog has no real-time priority: %s\n", strerror(errno));
	proceed();
	usleep(RUN_MS * 1000 / 2);
	/* before all real-time threads of the host have used up their quota */
	set_real_time(hog->pid, 0);
	usleep(RUN_MS * 1000 / 2);
	stop_and_sample();
	check_sum("real-time quota", vm);
	quota = charged(vm, BLAME_QUOTA, NULL, 0) + blame_counts(blame).unreported - unreported;
	tap_result(get_waited(vm) > RUN_MS * MS / 2 &&
		   quota + get_waited(vm) / 100 + 10 * MS >= get_waited(vm),
		   "real-time quota: charged %.2f of %.2f ms", quota / 1e6, get_waited(vm) / 1e6);
	end_all();
}

/* A real-time vCPU waits for another real-time thread, not for the quota that others use up. */
static void test_real_time_hog(const char *path)
{
	struct process *vm = add_vmm("0"), *hog = add_hog(hog_name, cpu);
	const pid_t other = start_hog(cpu, "other");

	cgroup_add(path, vm->pid);
	cgroup_add(path, other);
	/* first, so that the vCPU does not use up a quota of real-time threads */
	if (!set_real_time(hog->pid, 91) || !set_real_time(vm->vcpu, 90)) {
		printf("# not run, a real-time hog: %s\n", strerror(errno));
		goto out;
	}
	settle("a real-time vCPU, and a hog of a higher priority");
	cgroup_put(path, "cpu.cfs_period_us", "1000000");
	cgroup_put(path, "cpu.cfs_quota_us", "1000");
	cgroup_put(path, "cpu.max", "1000 1000000");
	/* until the quota is used up */
	usleep(100000);
	read_accounts();
	kill(vm->pid, SIGCONT);
	/* The hog takes the CPU from it. */
	while (get_ran(vm) < MS)
		usleep(1000);
	proceed();
	usleep(300000);
	/* Otherwise the main thread could be throttled when it is to stop the vCPU. */
	cgroup_set_quota(path, AMPLE_MS);
	stop_and_sample();
	check_hog("real-time hog", vm, hog);
out:
	end_all();
	end_process(other);
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

	if (argc != 2 && argc != 3)
		errx(2, "usage: blame_test VMM [VMS]");
	setlinebuf(stdout);
	snprintf(hog_name, sizeof(hog_name), "hog-%d", getpid());
	snprintf(late_name, sizeof(late_name), "late-%d", getpid());
	snprintf(new_name, sizeof(new_name), "new-%d", getpid());
	vmm = argv[1];
	sched_getaffinity(0, sizeof(cpus), &cpus);
	cpu = nth_cpu(CPU_COUNT(&cpus) - 1);
	if (CPU_COUNT(&cpus) > 1)
		other_cpu = nth_cpu(CPU_COUNT(&cpus) - 2);
	if (blame_open(&blame, NULL, NULL, &probe)) {
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
	test_with_stalls();
	test_own_threads();
	test_main_thread();
	test_many();
	test_lost("lost switches", cpu);
	if (CPU_COUNT(&cpus) > 1)
		test_lost("lost switches, seen from another CPU", other_cpu);
	test_full_vcpus();
	test_wait_shares();
#ifdef __x86_64__
	test_crowd();
#else
	printf("# not run, a user's threads that have entered a vCPU: x86 has one that waits for another\n");
#endif
	test_renamer();
	/* Few names are left after this. */
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
