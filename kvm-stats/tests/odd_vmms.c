// SPDX-License-Identifier: GPL-2.0-only
/*
 * VMMs that use KVM in unusual ways: odd_vmms SOURCE. Threads run several vCPUs in turn, and
 * the times of the vCPUs must not exceed those of the threads. Counters must not decrease,
 * whatever happens to /dev/kvm. Needs root and /dev/kvm; prints TAP.
 */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "abi.h"
#include "account.h"
#include "app.h"
#include "probe_vm.h"
#include "tap.h"
#include "vm.h"

#define VMS		5
#define INTERVAL	(50 * MS)	/* between samples of test_woken() */
#define RUNS		(MODE(RUN) | MODE(POLL))

static const char *source;
static struct kvmstats *k;

#define result(ok, text, ...)	tap_result(ok, "%s: " text, source, ##__VA_ARGS__)

/* The processes that the test starts, and this program, share a page. */
static struct shared {
	volatile bool ready, go, done, drop, dropped;
	pid_t tids[2];
} *shared;

static struct probe_vm vms[VMS];

static void open_vm(unsigned int i, int vcpu_id)
{
	char why[200];

	if (probe_vm_open(&vms[i], vcpu_id, why, sizeof(why)))
		errx(1, "%s", why);
	probe_vm_run(&vms[i]);
}

/* Run the VM for some time. A VMM also does other work in the thread of its vCPU. */
static void run_for(struct probe_vm *vm, uint64_t ns)
{
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + ns;

	while (read_clock(CLOCK_MONOTONIC) < end)
		probe_vm_step(vm);
}

static void get_ready(void)
{
	shared->tids[0] = gettid();
	shared->ready = true;
}

/* One thread runs several VMs in turn. */
static void run_vms_in_turn(void)
{
	unsigned int i;

	for (i = 0; i < VMS; i++)
		open_vm(i, 0);
	get_ready();
	for (i = 0;; i++) {
		run_for(&vms[i % VMS], 2 * MS);
		if (i % 16 == 0)
			usleep(3000);
	}
}

/* One thread runs the vCPUs of one VM in turn. */
static void run_vcpus_in_turn(void)
{
	unsigned int i;

	open_vm(0, 0);
	for (i = 1; i < VMS; i++) {
		vms[i] = vms[0];
		vms[i].vcpu = ioctl(vms[0].vm, ABI_CREATE_VCPU, i);
		if (vms[i].vcpu < 0)
			err(1, "KVM_CREATE_VCPU");
		/* for the source files */
		ioctl(vms[i].vcpu, ABI_GET_STATS_FD, 0);
		probe_vm_step(&vms[i]);
	}
	get_ready();
	for (i = 0;; i++)
		run_for(&vms[i % VMS], 2 * MS);
}

/* One thread has run several VMs, and runs one of them now. */
static void run_one_vm(void)
{
	unsigned int i;

	for (i = 0; i < VMS; i++)
		open_vm(i, 0);
	get_ready();
	for (;;)
		run_for(&vms[VMS - 1], 2 * MS);
}

static void *take_every_other(void *arg)
{
	const unsigned int first = arg != NULL;
	unsigned int i;

	shared->tids[first] = gettid();
	/* VMs move from thread to thread. */
	for (i = first;; i += 2)
		run_for(&vms[i % VMS], MS);
	return NULL;
}

/* Two threads run several VMs. */
static void run_vms_in_two_threads(void)
{
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < VMS; i++)
		open_vm(i, 0);
	if (pthread_create(&thread, NULL, take_every_other, &shared))
		errx(1, "pthread_create");
	while (!shared->tids[1])
		usleep(100);
	get_ready();
	take_every_other(NULL);
}

static void run_vm(void)
{
	open_vm(0, 0);
	get_ready();
	for (;;)
		run_for(&vms[0], 2 * MS);
}

/* A helper inherits the files of the VM. */
static void run_vm_with_helper(void)
{
	const pid_t test = getppid();
	pid_t helper;

	open_vm(0, 0);
	helper = fork();
	if (!helper) {
		while (!kill(test, 0))
			usleep(100000);
		_exit(0);
	}
	shared->tids[1] = helper;
	get_ready();
	for (;;)
		run_for(&vms[0], 2 * MS);
}

/* A VMM that sleeps outside of halts until it is woken */
static void run_vm_when_woken(void)
{
	sigset_t woken;
	int signal;

	sigemptyset(&woken);
	sigaddset(&woken, SIGUSR1);
	sigprocmask(SIG_BLOCK, &woken, NULL);
	open_vm(0, 0);
	prctl(PR_SET_NAME, "CPU 0/KVM");
	get_ready();
	for (;;) {
		run_for(&vms[0], MS);
		sigwait(&woken, &signal);
	}
}

static void *run_second_vcpu(void *arg)
{
	/* The source files finds a thread that does not sleep by its name. */
	prctl(PR_SET_NAME, "CPU 1/KVM");
	while (!shared->done)
		run_for(&vms[1], 2 * MS);
	return NULL;
}

/* A VMM unplugs and plugs a vCPU, whose file it keeps. */
static void run_vm_with_unplugged_vcpu(void)
{
	pthread_t thread;

	open_vm(0, 0);
	vms[1] = vms[0];
	vms[1].vcpu = ioctl(vms[0].vm, ABI_CREATE_VCPU, 1);
	ioctl(vms[1].vcpu, ABI_GET_STATS_FD, 0);
	prctl(PR_SET_NAME, "CPU 0/KVM");
	get_ready();
	for (;; shared->done = false) {
		if (pthread_create(&thread, NULL, run_second_vcpu, NULL))
			errx(1, "pthread_create");
		pthread_join(thread, NULL);
		shared->go = false;
		while (!shared->go)
			run_for(&vms[0], 2 * MS);
	}
}

static void *run_until_killed(void *arg)
{
	probe_vm_step(&vms[0]);
	return NULL;
}

/* Create a VM whose guest does not leave KVM_RUN. */
static void spin_guest(void)
{
	static const unsigned char spin[] = { 0x90, 0xeb, 0xfe, 0x90 };	/* nop; jmp to itself */
	const long page = sysconf(_SC_PAGESIZE);
	long i;

	open_vm(0, 0);
	for (i = 0; i < page; i += sizeof(spin))
		memcpy((char *)vms[0].code + i, spin, sizeof(spin));
}

/* The VMM closes all files of a VM, while its guest runs. */
static void run_vm_without_files(void)
{
	pthread_t thread;

	spin_guest();
	if (pthread_create(&thread, NULL, run_until_killed, NULL))
		errx(1, "pthread_create");
	get_ready();
	while (!shared->go)
		usleep(1000);
	close(vms[0].vm_stats);
	close(vms[0].vcpu_stats);
	close(vms[0].vm);
	close(vms[0].vcpu);
	shared->done = true;
	for (;;)
		pause();
}

static int hidden[2];		/* a message in these sockets has the files */

static void hide_files(const int *files, size_t count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	struct iovec byte = { .iov_base = (char[]){ 0 }, .iov_len = 1 };
	const struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), files, count * sizeof(int));
	need(sendmsg(hidden[0], &message, 0), "sendmsg");
	while (count)
		close(files[--count]);
}

/* Return the file of the vCPU, and leave a copy in the message. */
static int take_vcpu(void)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control;
	char data;
	struct iovec byte = { .iov_base = &data, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control),
	};
	int files[2], vcpu;

	need(recvmsg(hidden[1], &message, 0), "recvmsg");
	memcpy(files, CMSG_DATA(&control.header), sizeof(files));
	vcpu = need(dup(files[1]), "dup");
	hide_files(files, 2);
	return vcpu;
}

static volatile int hidden_vcpu;	/* its file, while it is in the table */

/* Enter the guest while the test allows it. */
static void *run_hidden_vcpu(void *arg)
{
	shared->tids[0] = gettid();
	for (;;) {
		while (!shared->go)
			usleep(1000);
		hidden_vcpu = take_vcpu();
		ioctl(hidden_vcpu, ABI_RUN, 0);
		shared->done = false;
	}
	return NULL;
}

static void ignore(int signal)
{
}

/*
 * The files of a VM are in a message to the VMM, except at the moment when it enters the guest, and it
 * rests when the test takes a sample.
 */
static void run_hidden_vm(void)
{
	const struct sigaction interrupt = { .sa_handler = ignore };
	pthread_t thread;

	spin_guest();
	sigaction(SIGUSR1, &interrupt, NULL);
	need(socketpair(AF_UNIX, SOCK_DGRAM, 0, hidden), "socketpair");
	close(vms[0].vm_stats);
	close(vms[0].vcpu_stats);
	hide_files((int[]){ vms[0].vm, vms[0].vcpu }, 2);
	if (pthread_create(&thread, NULL, run_hidden_vcpu, NULL))
		errx(1, "pthread_create");
	get_ready();
	for (;;) {
		while (!hidden_vcpu)
			usleep(1000);
		/* The thread is in the guest. */
		usleep(5000);
		close(hidden_vcpu);
		hidden_vcpu = 0;
		shared->done = true;
		while (shared->go)
			usleep(1000);
		while (shared->done) {
			pthread_kill(thread, SIGUSR1);
			usleep(1000);
		}
		if (!shared->drop)
			continue;
		/* Another VM, perhaps in the same memory */
		close(hidden[0]);
		close(hidden[1]);
		need(ioctl(need(open("/dev/kvm", O_RDWR), "/dev/kvm"), ABI_CREATE_VM, 0), "KVM_CREATE_VM");
		shared->dropped = true;
	}
}

static pid_t start(void (*vmm)(void))
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork_child();
	if (!pid) {
		prctl(PR_SET_NAME, "odd-vmm");
		/* the source's files of other VMs */
		closefrom(3);
		vmm();
		_exit(0);
	}
	while (!shared->ready) {
		if (waitpid(pid, NULL, WNOHANG))
			errx(1, "a VMM does not start");
		usleep(1000);
	}
	return pid;
}

static void sample(void)
{
	if (kvmstats_sample(k))
		errx(1, "%s: %s", source, kvmstats_problem(k));
}

static void sample_for(unsigned int samples, unsigned int ms)
{
	while (samples--) {
		usleep(ms * 1000);
		sample();
	}
}

/* Times since the VMs were first seen: of all VMs of a process, and of its threads */
struct totals {
	uint64_t run, wait, unknown;
	uint64_t thread_run, thread_wait;
	uint64_t time;
};

static struct totals read_totals(pid_t pid)
{
	struct totals totals = { .time = read_clock(CLOCK_MONOTONIC) };
	const struct kvmstats_vm *vm;
	struct account account;
	unsigned int i;

	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (vm->identity.pid != pid)
			continue;
		totals.run += sum_of(&vm->times, RUNS);
		totals.wait += sum_of(&vm->times, WAITS);
		totals.unknown += sum_of(&vm->times, MODE(UNKNOWN));
	}
	for (i = 0; i < 2; i++) {
		account = read_account(pid, shared->tids[i]);
		totals.thread_run += account.ran;
		totals.thread_wait += account.waited;
	}
	return totals;
}

/* Stop a VMM and return its totals: a wait is booked when it ends. */
static struct totals stop(pid_t pid)
{
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	usleep(20000);
	return read_totals(pid);
}

/*
 * Start a VMM, and return its totals of half a second. The threads' times are read before the
 * first sample and after the last one, so they are longer by at least as much as a sample takes.
 */
static struct totals observe(void (*vmm)(void))
{
	const pid_t pid = start(vmm);
	struct totals before = read_totals(pid), first, after;

	sample();
	first = read_totals(pid);
	sample_for(5, 100);
	after = stop(pid);
	end_process(pid);
	sample();
	sample();
	after.run -= first.run;
	after.wait -= first.wait;
	after.unknown -= first.unknown;
	after.thread_run -= before.thread_run;
	after.thread_wait -= before.thread_wait;
	after.time -= before.time;
	return after;
}

static void test_shared(const char *what, void (*vmm)(void))
{
	const struct totals a = observe(vmm);

	result(a.thread_run && a.run <= a.thread_run && a.wait <= a.thread_wait && a.unknown,
	       "%s: ran for %llu ms and waited for %llu ms, their threads %llu and %llu ms; "
	       "%llu ms are unknown", what, (unsigned long long)(a.run / MS),
	       (unsigned long long)(a.wait / MS), (unsigned long long)(a.thread_run / MS),
	       (unsigned long long)(a.thread_wait / MS), (unsigned long long)(a.unknown / MS));
}

/*
 * On its CPU, this program runs first: in some samples, the VMM was woken and has not run yet.
 * This last wait can have been counted in advance, for one interval at most.
 */
static void test_woken(unsigned int samples)
{
	struct totals before, after;
	cpu_set_t all;
	unsigned int i;
	pid_t pid;

	sched_getaffinity(0, sizeof(all), &all);
	move_thread(0, nth_cpu(0));
	pid = start(run_vm_when_woken);
	if (!set_real_time(0, 1))
		printf("# no real-time priority: %s\n", strerror(errno));
	sample();
	before = read_totals(pid);
	for (i = 0; i < 12; i++) {
		usleep(INTERVAL / 1000);
		if (i % samples == 0)
			kill(pid, SIGUSR1);
		sample();
	}
	set_real_time(0, 0);
	after = stop(pid);
	sched_setaffinity(0, sizeof(all), &all);
	end_process(pid);
	sample_for(2, 20);
	result(after.wait - before.wait <= after.thread_wait - before.thread_wait + INTERVAL,
	       "a thread that sleeps in the VMM, and is woken at one of %u samples: waited for %llu ms, "
	       "the scheduler has %llu ms", samples,
	       (unsigned long long)((after.wait - before.wait) / MS),
	       (unsigned long long)((after.thread_wait - before.thread_wait) / MS));
}

static void test_one_vm(void)
{
	const struct totals a = observe(run_one_vm);
	const bool known = !strcmp(source, "bpf");

	/* RUN also has interrupts, which the kernel does not book for the thread. */
	result(a.run + a.wait <= a.time && (!known || (!a.unknown && a.run >= a.thread_run / 2)),
	       "a thread that runs one of its %u VMs: the VM ran for %llu ms, the thread for "
	       "%llu ms", VMS, (unsigned long long)(a.run / MS),
	       (unsigned long long)(a.thread_run / MS));
}

static uint64_t total_of(const struct kvmstats_vm *vm, const char *name)
{
	const struct kvmstats_table *table = kvmstats_table(k, KVMSTATS_VCPU);
	const struct kvmstats_desc *desc = table ? kvmstats_find(table, name) : NULL;

	return desc && vm && vm->vcpu_total ? kvmstats_value(desc, vm->vcpu_total, 0) : 0;
}

/* Put another node of KVM's device in place of /dev/kvm, in this mount namespace. */
static void replace_device(const char *folder, const char *name)
{
	struct stat device;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (stat("/dev/kvm", &device) || mknod(path, S_IFCHR | 0600, device.st_rdev) ||
	    mount(path, "/dev/kvm", NULL, MS_BIND, NULL))
		err(1, "%s", path);
}

/* Set the counters of all VMs of a process to 0. */
static unsigned int reset_counters(pid_t pid)
{
	char pattern[64];
	unsigned int n = 0;
	glob_t found;
	size_t i;
	int fd;

	snprintf(pattern, sizeof(pattern), "/sys/kernel/debug/kvm/%d-*/exits", pid);
	if (glob(pattern, 0, NULL, &found))
		return 0;
	for (i = 0; i < found.gl_pathc; i++) {
		fd = open(found.gl_pathv[i], O_WRONLY | O_CLOEXEC);
		n += fd >= 0 && write(fd, "0", 1) == 1;
		close(fd);
	}
	globfree(&found);
	return n;
}

/* Check the counter of exits after a change, and remember it. */
static void check_counter(pid_t pid, uint64_t *exits, const char *change)
{
	const uint64_t before = *exits;
	unsigned int tries = 0;

	do {
		sample_for(1, 20);
		*exits = total_of(find_vm(k, pid), "exits");
	} while (*exits == before && tries++ < 500);
	result(*exits > before && !kvmstats_source_changes(k),
	       "counters never decrease, after %s: %llu exits, then %llu", change,
	       (unsigned long long)before, (unsigned long long)*exits);
}

static void test_counters(void)
{
	const pid_t pid = start(run_vm);
	char folder[] = "/tmp/odd_vmms-XXXXXX";
	uint64_t exits = 0;

	if (!mkdtemp(folder) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", folder, "tmpfs", 0, NULL))
		err(1, "mount namespace");
	/* This fails if debugfs is mounted, or unavailable: see reset_counters(). */
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	replace_device(folder, "first");
	kvmstats_close(k);
	k = NULL;
	if (kvmstats_open(&k, source, NULL, 0))
		errx(1, "%s does not work any longer", source);
	sample();
	check_counter(pid, &exits, "no change");
	chmod("/dev/kvm", 0666);
	check_counter(pid, &exits, "chmod /dev/kvm");
	if (chown("/dev/kvm", 0, 1))
		err(1, "chown");
	check_counter(pid, &exits, "chgrp /dev/kvm");
	replace_device(folder, "second");
	check_counter(pid, &exits, "a new node /dev/kvm");
	if (reset_counters(pid))
		check_counter(pid, &exits, "a reset through debugfs");
	else
		printf("# not run, a reset through debugfs: the kernel is locked down, or has none\n");
	end_process(pid);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
}

static void test_outlived(void)
{
	const pid_t pid = start(run_vm_with_helper), helper = shared->tids[1];
	/* KVM_STATS_NEXT has the process that created the VM. */
	const pid_t owner = strcmp(source, "next") ? helper : pid;
	const struct kvmstats_vm *vm;
	char label[sizeof(vm->identity.label)];
	uint64_t exits, started;

	sample_for(3, 20);
	vm = find_vm(k, pid);
	if (!vm)
		errx(1, "no VM");
	exits = total_of(vm, "exits");
	started = vm->identity.started;
	strcpy(label, vm->identity.label);
	result(!find_vm(k, helper), "a VM whose files two processes have is counted once");
	end_process(pid);
	sample();
	vm = find_vm(k, owner);
	result(vm && !vm->ended && !vm->first_sample && (owner == pid || !find_vm(k, pid)) &&
	       !strcmp(label, vm->identity.label) && vm->identity.started == started &&
	       total_of(vm, "exits") >= exits && total_of(vm, "exits") < 2 * exits,
	       "a VM that outlives its maker is the same VM: %llu exits, then %llu",
	       (unsigned long long)exits,
	       (unsigned long long)(vm ? total_of(vm, "exits") : 0));
	kill(helper, SIGKILL);
	while (vm && !vm->ended) {
		sample_for(1, 10);
		vm = find_vm(k, owner);
	}
	sample();
}

#ifdef __x86_64__
static void test_without_files(void)
{
	const pid_t pid = start(run_vm_without_files);
	const struct kvmstats_vm *vm;
	unsigned int i, found = 0;
	uint64_t run;

	sample_for(2, 50);
	vm = find_vm(k, pid);
	run = vm ? sum_of(&vm->times, RUNS | WAITS) : 0;
	result(vm && run, "a VM has files");
	shared->go = true;
	while (!shared->done)
		usleep(1000);
	for (i = 0; i < 5; i++) {
		sample_for(1, 50);
		vm = find_vm(k, pid);
		found += vm && !vm->ended && vm->vcpus == 1 && vm->values &&
			 sum_of(&vm->times, RUNS | WAITS) >= run + i * 40 * MS;
	}
	result(found == 5, "a VM whose files were closed while its guest runs: in %u of 5 samples",
	       found);
	end_process(pid);
	for (i = 0; i < 500 && vm && !vm->ended; i++) {
		sample_for(1, 10);
		vm = find_vm(k, pid);
	}
	result(!vm || vm->ended, "it ends with its process");
}

/* Wait until a hidden vCPU runs or rests. */
static void set_hidden_vm(bool runs)
{
	shared->go = runs;
	while (shared->done != runs)
		usleep(1000);
}

#define HIDDEN_ROUNDS	5

static void test_hidden(void)
{
	const pid_t pid = start(run_hidden_vm);
	const struct kvmstats_vm *vm = NULL;
	uint64_t run, all, exits = 0, next = app_now();
	unsigned int i, vcpus, found = 0;
	struct account account;
	bool ended;

	for (i = 0; i < HIDDEN_ROUNDS; i++) {
		set_hidden_vm(true);
		app_wait(k, &next, 50 * MS);
		set_hidden_vm(false);
		sample();
		vm = find_vm(k, pid);
		found += vm && !vm->ended && vm->vcpus == 1 && total_of(vm, "exits") > exits;
		exits = total_of(vm, "exits");
	}
	/* A wait is booked when it ends. */
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	sample_for(1, 20);
	kill(pid, SIGCONT);
	run = vm ? sum_of(&vm->times, RUNS | WAITS) : 0;
	account = read_account(pid, shared->tids[0]);
	all = account.ran + account.waited;
	result(found == HIDDEN_ROUNDS && all && (run >= all || same(run, all)),
	       "a VM that hides its files, and rests at samples: in %u of %u samples, with %llu of %llu ms",
	       found, HIDDEN_ROUNDS, (unsigned long long)(run / MS), (unsigned long long)(all / MS));
	set_hidden_vm(true);
	shared->drop = true;
	set_hidden_vm(false);
	while (!shared->dropped)
		usleep(1000);
	sample();
	/* The next one has the values of the new VM, which may be a probe as far as is known. */
	sample();
	vm = find_vm(k, pid);
	vcpus = vm && !vm->ended ? vm->vcpus : 0;
	result(!vcpus, "it is destroyed: another VM of its process has %u of its vCPUs", vcpus);
	end_process(pid);
	sample();
	vm = find_vm(k, pid);
	ended = !vm || vm->ended;
	sample();
	result(ended && !find_vm(k, pid), "it ends with its process");
}
#endif

#define THREADS	6000
#define CROWD_VCPUS	60
#define SHORT	20

static void *run_once(void *arg)
{
	probe_vm_step(arg);
	return NULL;
}

/* Many threads of a user enter one of many vCPUs each, and exit. */
static void run_many_threads(void)
{
	static struct probe_vm crowd[CROWD_VCPUS];
	pthread_t thread;
	unsigned int i;

	open_vm(0, 0);
	crowd[0] = vms[0];
	for (i = 1; i < CROWD_VCPUS; i++) {
		crowd[i] = vms[0];
		crowd[i].vcpu = need(ioctl(vms[0].vm, ABI_CREATE_VCPU, i), "KVM_CREATE_VCPU");
	}
	need(setuid(65534), "setuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	get_ready();
	while (!shared->go)
		usleep(1000);
	for (i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, run_once, &crowd[i % CROWD_VCPUS]))
			errx(1, "pthread_create");
		pthread_join(thread, NULL);
	}
	shared->done = true;
	for (;;)
		pause();
}

/* The VM of another user, which exits at once */
static void run_short_vm(void)
{
	const pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_NAME, "odd-short");
		open_vm(0, 0);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void test_many_threads(void)
{
	const pid_t pid = start(run_many_threads);
	const struct kvmstats_vm *vm;
	unsigned int i, ended = 0;

	sample();
	shared->go = true;
	while (!shared->done)
		usleep(1000);
	for (i = 0; i < SHORT; i++)
		run_short_vm();
	for (i = 0; i < 2; i++) {
		sample();
		for (vm = kvmstats_first(k); vm; vm = vm->next)
			ended += vm->ended && !strcmp(vm->identity.name, "odd-short") &&
				 total_of(vm, "exits");
	}
	/* Linux 7.0 and later can skip the program for a thread. */
	result(ended >= SHORT - 2 && ended <= SHORT,
	       "%u of %u short VMs have values, next to %u threads of another user that enter %u vCPUs",
	       ended, SHORT, THREADS, CROWD_VCPUS);
	end_process(pid);
	sample_for(2, 20);
}

/* Return a VM when it has this many vCPUs, and the thread of each is known. */
static const struct kvmstats_vm *await_vcpus(pid_t pid, unsigned int vcpus)
{
	const struct kvmstats_vm *vm;
	unsigned int tries, known;

	for (tries = 0; tries < 500; tries++) {
		sample_for(1, 10);
		vm = find_vm(k, pid);
		for (known = 0; vm && known < vm->vcpus && vm->vcpu[known]->tid > 0; known++)
			;
		if (known == vcpus && vm->vcpus == vcpus)
			return vm;
	}
	return NULL;
}

static void test_unplugged(void)
{
	const pid_t pid = start(run_vm_with_unplugged_vcpu);
	const struct kvmstats_vm *vm = await_vcpus(pid, 2);
	uint64_t elapsed, exits;
	unsigned int i;

	result(vm, "a VM has two vCPUs");
	shared->done = true;
	vm = await_vcpus(pid, 1);
	sample_for(1, 10);
	elapsed = vm ? vm->times.elapsed : 0;
	exits = total_of(vm, "exits");
	for (i = 0; i < 500 && vm && total_of(vm, "exits") <= exits; i++)
		sample_for(1, 10);
	result(vm && vm->vcpus == 1 && vm->vcpu[0]->id == 0 && exits &&
	       total_of(vm, "exits") > exits && vm->sum.times.elapsed &&
	       vm->sum.times.elapsed == vm->vcpu[0]->last.times.elapsed &&
	       vm->times.elapsed > elapsed,
	       "an unplugged vCPU whose file exists does not count as a vCPU");
	exits = total_of(vm, "exits");
	shared->go = true;
	vm = await_vcpus(pid, 2);
	/* until the new thread is found, and has run between two samples */
	for (i = 0; i < 500 && vm && vm->vcpus == 2 &&
	     !vm->vcpu[1]->last.times.mode[KVMSTATS_RUN]; i++)
		sample_for(1, 10);
	result(vm && vm->vcpus == 2 && total_of(vm, "exits") > exits &&
	       vm->vcpu[1]->last.times.mode[KVMSTATS_RUN] &&
	       kvmstats_value(kvmstats_find(kvmstats_table(k, KVMSTATS_VCPU), "exits"),
			      vm->vcpu[1]->total, 0) > 0,
	       "the totals of a vCPU that is plugged in again continue");
	end_process(pid);
	sample_for(2, 20);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "usage: odd_vmms SOURCE");
	source = argv[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED || kvmstats_open(&k, source, NULL, 0))
		errx(1, "%s does not work here", source);
	sample();
	test_shared("VMs that one thread runs in turn", run_vms_in_turn);
	test_shared("vCPUs that one thread runs in turn", run_vcpus_in_turn);
	test_shared("VMs that two threads run", run_vms_in_two_threads);
	test_one_vm();
	test_woken(1);
	test_woken(3);
	test_outlived();
	if (!strcmp(source, "bpf")) {
		test_many_threads();
#ifdef __x86_64__
		test_without_files();
		test_hidden();
#endif
	}
	test_unplugged();
	test_counters();
	kvmstats_close(k);
	return tap_end();
}
