// SPDX-License-Identifier: GPL-2.0-only
/*
 * The charges of "stalls" equal the time for which VMMs sleep in a known way. Each VMM measures its
 * sleeps itself: time that passes while its thread neither runs nor waits for a CPU. Needs root and
 * /dev/kvm; prints TAP.
 *
 * usage: stalls_test VMM, where VMM is the program of vmm.c
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kvm.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/swap.h>
#include <sys/syscall.h>

/* with its map */
#include "../src/bpf/stalls.c"
#include "abi.h"
#include "account.h"
#include "cgroup.h"
#include "fuse.h"
#include "probe_vm.h"
#include "tap.h"
#include "vm.h"

#define ROUNDS		8
#define ROUND_US	20000
/* How long this process stops a VMM */
#define ACT_US		200000
#define MAX_TRIES	3
#define ROUNDS_MS	(ROUNDS * ROUND_US / 1000)
#define PAGE_SIZE	((size_t)sysconf(_SC_PAGESIZE))

static struct stalls *stalls;
static struct probe_vm own;	/* VM of a VMM */
static int late_file = -1;	/* each page of it arrives after a round */

/* The VMMs and this process share a page. */
static struct shared {
	volatile bool ready, go, runs, release, done, end;
	volatile bool impossible;	/* the host does not have it */
	uint64_t slept, elapsed;
} *shared;

/*
 * In emulation, the clocks by which the kernel keeps the accounts of threads jump, by more than the
 * test tolerates: check for the clock of a processor.
 */
static bool has_exact_accounts(void)
{
	char line[8192];
	bool found = false;
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, " nonstop_tsc ") != NULL;
	if (f)
		fclose(f);
	return found;
}

static uint64_t time_asleep(struct account from, struct account to)
{
	return to.time - from.time - (to.ran - from.ran) - (to.waited - from.waited);
}

/* Of this thread, whose run time is not complete in schedstat */
static struct account read_own_account(void)
{
	struct account account = read_account(getpid(), gettid());

	account.ran = read_clock(CLOCK_THREAD_CPUTIME_ID);
	return account;
}

/* Run the guest. The thread is on its CPU, or waits for one. */
static void run_guest_until(volatile bool *condition)
{
	while (!*condition)
		probe_vm_step(&own);
}

static void start_helper(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		errx(1, "pthread_create");
	pthread_detach(thread);
}

/* Another thread lets go of the lock each time. */
static volatile int lock_word;

static void *release_lock(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		usleep(ROUND_US);
		lock_word = i + 1;
		syscall(SYS_futex, &lock_word, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void lock(void)
{
	int i;

	lock_word = 0;
	start_helper(release_lock, NULL);
	for (i = 0; i < ROUNDS; i++)
		syscall(SYS_futex, &lock_word, FUTEX_WAIT, i, NULL, NULL, 0);
}

static void wait_with_timeout(void)
{
	const struct timespec time = { .tv_nsec = ROUND_US * 1000 };
	static int word;
	int i;

	for (i = 0; i < ROUNDS; i++)
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
}

static void poll_nothing(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		poll(NULL, 0, ROUND_US / 1000);
}

static void sleep_often(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		usleep(ROUND_US);
}

/* Busy processes on the CPU of the VMM, which has to wait for it after each sleep */
static bool start_hogs(void)
{
	const int cpu = sched_getcpu();

	start_hog(cpu, NULL);
	start_hog(cpu, NULL);
	return move_thread(0, cpu) && nice(15) == 15;
}

static void *write_late(void *arg)
{
	const int *out = arg;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		usleep(ROUND_US);
		if (write(*out, "", 1) < 0)
			err(1, "pipe");
	}
	return NULL;
}

static void read_pipe(void)
{
	static int ends[2];
	char c;
	int i;

	if (pipe(ends))
		err(1, "pipe");
	start_helper(write_late, &ends[1]);
	for (i = 0; i < ROUNDS; i++)
		if (read(ends[0], &c, 1) != 1)
			err(1, "pipe");
}

static void *saved_page;	/* contents of the VM's page */

static void *answer_faults(void *arg)
{
	const int uffd = *(int *)arg;
	struct uffd_msg fault;

	while (read(uffd, &fault, sizeof(fault)) == sizeof(fault)) {
		struct uffdio_copy copy = {
			.dst = (uintptr_t)own.code, .src = (uintptr_t)saved_page, .len = PAGE_SIZE,
		};

		usleep(ROUND_US);
		ioctl(uffd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

/* From now on, the VM's page arrives late after each fault. */
static bool open_userfaultfd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)own.code, PAGE_SIZE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	static int uffd;

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range))
		return false;
	start_helper(answer_faults, &uffd);
	return true;
}

static void fault_in_guest(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		madvise(own.code, PAGE_SIZE, MADV_DONTNEED);
		probe_vm_step(&own);
	}
}

static void fault_in_vmm(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		madvise(own.code, PAGE_SIZE, MADV_DONTNEED);
		(void)*(volatile char *)own.code;
	}
}

/* A file each page of which arrives late; in a mount namespace of this process */
static bool open_late_file(void)
{
	char folder[] = "/tmp/stalls_test-XXXXXX", path[64];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fuse < 0 || !mkdtemp(folder) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    fuse_mount(fuse, folder, 3 * ROUNDS, saved_page, ROUND_US))
		return false;
	snprintf(path, sizeof(path), "%s/file", folder);
	late_file = open(path, O_RDONLY | O_CLOEXEC);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
	return late_file >= 0;
}

static void read_late_file(void)
{
	char page[FUSE_PAGE_SIZE];
	int i;

	/* page by page */
	posix_fadvise(late_file, 0, 0, POSIX_FADV_RANDOM);
	for (i = 0; i < ROUNDS; i++)
		if (read(late_file, page, sizeof(page)) != sizeof(page))
			err(1, "FUSE");
}

/* Past the page cache, a thread sleeps for FUSE as for a pipe, which has no pread(). */
static void pread_late_file(void)
{
	char page[FUSE_PAGE_SIZE];
	int i;

	fcntl(late_file, F_SETFL, O_DIRECT);
	for (i = 0; i < ROUNDS; i++)
		if (pread(late_file, page, sizeof(page), i * sizeof(page)) != sizeof(page))
			err(1, "FUSE");
}

/* Replace the VM's page by one that arrives late, as a page in the swap space does. */
static void map_late_page(int i)
{
	if (mmap(own.code, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, late_file,
		 i * FUSE_PAGE_SIZE) != own.code)
		err(1, "mmap");
}

static void read_in_guest(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		map_late_page(i);
		probe_vm_step(&own);
	}
}

static void read_in_vmm(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		map_late_page(i);
		(void)*(volatile char *)own.code;
	}
}

/* Use more memory than memory.high of the cgroup, page by page. */
static char limited[CGROUP_PATH];

static bool enter_limited(void)
{
	return cgroup_add(limited, 0);
}

static void use_memory(void)
{
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + ROUNDS * ROUND_US * 1000ULL;
	const size_t size = 1 << 30, step = 1 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t used;

	if (memory == MAP_FAILED)
		err(1, "mmap");
	for (used = 0; used < size && read_clock(CLOCK_MONOTONIC) < end; used += step)
		memset(memory + used, 1, step);
	/* Later sleeps would not be in the VMM's account. */
	munmap(memory, size);
}

/* A swap device on which each I/O takes a round: null_blk(5), if its module is loaded */
#define SWAP_CONFIG	"/sys/kernel/config/nullb/nullb1"
#define SWAP_DEVICE	"/dev/nullb1"

static bool add_swap(void)
{
	struct {
		char boot[1024];
		uint32_t version, last_page, rest[1024 - 256 - 2];
	} header = { .version = 1, .last_page = (1 << 20) / sizeof(header) - 1 };
	bool done;
	int fd;

	memcpy((char *)(&header + 1) - strlen("SWAPSPACE2"), "SWAPSPACE2", strlen("SWAPSPACE2"));
	mount("configfs", "/sys/kernel/config", "configfs", 0, NULL);
	if (mkdir(SWAP_CONFIG, 0755))
		return false;
	done = cgroup_put(SWAP_CONFIG, "size", "1") && cgroup_put(SWAP_CONFIG, "memory_backed", "1") &&
	       cgroup_put(SWAP_CONFIG, "irqmode", "2") && cgroup_put(SWAP_CONFIG, "completion_nsec", "20000000") &&
	       cgroup_put(SWAP_CONFIG, "power", "1");
	fd = open(SWAP_DEVICE, O_RDWR | O_SYNC | O_CLOEXEC);
	done &= write(fd, &header, sizeof(header)) == sizeof(header);
	close(fd);
	return done && !swapon(SWAP_DEVICE, 0);
}

static void remove_swap(void)
{
	swapoff(SWAP_DEVICE);
	cgroup_put(SWAP_CONFIG, "power", "0");
	rmdir(SWAP_CONFIG);
}

static void *swap_out(void *arg)
{
	for (;; usleep(1000)) {
		madvise(own.code, PAGE_SIZE, MADV_PAGEOUT);
		/* After it has been written, it is in memory until it is reclaimed. */
		cgroup_put(limited, "memory.reclaim", "1M");
	}
	return NULL;
}

static bool has_swap;

/* A new page, in the cgroup */
static bool start_swapping(void)
{
	if (!has_swap || !enter_limited() ||
	    mmap(own.code, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	    own.code)
		return false;
	memcpy(own.code, saved_page, PAGE_SIZE);
	start_helper(swap_out, NULL);
	return true;
}

static void wait_until_swapped(void)
{
	unsigned char resident;

	while (mincore(own.code, PAGE_SIZE, &resident) || resident & 1)
		;
}

static void swap_into_guest(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wait_until_swapped();
		probe_vm_step(&own);
	}
}

static void swap_into_vmm(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wait_until_swapped();
		(void)*(volatile char *)own.code;
	}
}

/* Memory that moves between two nodes */
#define MOVING_SIZE	(8UL << 20)
static char *moving;

static bool move(unsigned int node)
{
	const unsigned long nodes = 1 << node;

	return !syscall(SYS_mbind, moving, MOVING_SIZE, MPOL_BIND, &nodes, 8 * sizeof(nodes), MPOL_MF_MOVE);
}

static void *move_often(void *arg)
{
	unsigned int node = 0;

	while (move(node ^= 1))
		;
	return NULL;
}

static bool start_moving(void)
{
	moving = mmap(NULL, MOVING_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (moving == MAP_FAILED || madvise(moving, MOVING_SIZE, MADV_NOHUGEPAGE) || !move(1))
		return false;
	memset(moving, 1, MOVING_SIZE);
	start_helper(move_often, NULL);
	return true;
}

static void use_moving(void)
{
	const uint64_t end = read_clock(CLOCK_MONOTONIC) + 1000 * MS;
	size_t i;

	while (read_clock(CLOCK_MONOTONIC) < end)
		for (i = 0; i < MOVING_SIZE; i += PAGE_SIZE)
			((volatile char *)moving)[i]++;
}

/* State D: a parent sleeps until its child ends. */
static void wait_for_children(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		const pid_t child = vfork();

		if (!child) {
			usleep(ROUND_US);
			_exit(0);
		}
	}
}

/* A second vCPU whose guest runs until a signal; meanwhile its other ioctls wait. */
static struct probe_vm second;
static volatile bool second_runs, second_ends;

static void *run_second(void *arg)
{
	static const unsigned char spin[] = { 0x90, 0xeb, 0xfe, 0x90 };	/* nop; jmp to itself */
	size_t i;

	for (i = 0; i < PAGE_SIZE; i += sizeof(spin))
		memcpy((char *)second.code + i, spin, sizeof(spin));
	while (!second_ends) {
		second_runs = true;
		probe_vm_step(&second);
	}
	return NULL;
}

static void do_nothing(int signal)
{
}

static pthread_t second_thread;

static void *kick_second(void *arg)
{
	while (!second_ends) {
		usleep(ROUND_US);
		pthread_kill(second_thread, SIGUSR1);
	}
	return NULL;
}

static bool start_second(void)
{
#ifdef __x86_64__
	char why[200];

	signal(SIGUSR1, do_nothing);
	if (probe_vm_open(&second, 0, why, sizeof(why)))
		errx(1, "%s", why);
	probe_vm_run(&second);
	return !pthread_create(&second_thread, NULL, run_second, NULL);
#else
	return false;
#endif
}

static void wait_for_second(void)
{
	struct kvm_mp_state state;
	uint64_t start, waited = 0;

	start_helper(kick_second, NULL);
	while (waited < ROUNDS_MS * MS) {
		second_runs = false;
		start = read_clock(CLOCK_MONOTONIC);
		ioctl(second.vcpu, KVM_GET_MP_STATE, &state);
		waited += read_clock(CLOCK_MONOTONIC) - start;
		run_guest_until(&second_runs);
	}
	second_ends = true;
}

/* This process stops the VMM in the meantime. */
static void run_until_released(void)
{
	run_guest_until(&shared->release);
}

static void lock_for_long(void)
{
	int word = 0;

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* A VMM whose thread does something; prepare returns false where the host does not allow it. */
struct behaviour {
	const char *name;
	enum stall reason;
	bool (*prepare)(void);
	void (*run)(void);
	unsigned int least_ms;	/* that it sleeps for */
};

static void run_vmm(const struct behaviour *b)
{
	struct account before, after;
	char why[200];

	if (probe_vm_open(&own, 0, why, sizeof(why)))
		errx(1, "%s", why);
	probe_vm_run(&own);
	saved_page = malloc(PAGE_SIZE);
	memcpy(saved_page, own.code, PAGE_SIZE);
	shared->impossible = b->prepare && !b->prepare();
	shared->ready = true;
	run_guest_until(&shared->go);
	before = read_own_account();
	shared->runs = true;
	b->run();
	after = read_own_account();
	shared->slept = time_asleep(before, after);
	shared->elapsed = after.time - before.time;
	shared->done = true;
	run_guest_until(&shared->end);
	_exit(0);
}

static pid_t start(const struct behaviour *b)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork_child();
	if (!pid) {
		/* The program stays attached while a process has a copy of its link. */
		closefrom(3);
		run_vmm(b);
	}
	while (!shared->ready) {
		if (waitpid(pid, NULL, WNOHANG))
			errx(1, "%s: the VMM does not start", b->name);
		usleep(1000);
	}
	return pid;
}

/* As after a sample of the VMs that has this one */
static void announce(pid_t pid, pid_t tid)
{
	struct kvmstats_vcpu vcpu = { .tid = tid }, *vcpus[] = { &vcpu };
	const struct kvmstats_vm vm = { .identity.pid = pid, .vcpus = 1, .vcpu = vcpus };

	stalls_enter(stalls, &vm);
}

static void sample(void)
{
	const int error = stalls_sample(stalls);

	if (error)
		errx(1, "cannot read the charges: %s", strerror(-error));
}

/* Charges since the previous sample to a thread for a reason, or for all of them */
static uint64_t charged(pid_t tid, enum stall reason)
{
	uint64_t ns = 0;
	size_t i;
	int r;

	for (i = 0; i < stalls->count; i++)
		for (r = STALL_STOPPED; r < STALLS; r++)
			if (stalls->rows[i].tid == (uint32_t)tid && (!reason || r == (int)reason))
				ns += stalls->rows[i].growth[r];
	return ns;
}

/*
 * Compare with the VMM's own account. Without one, its sleeps last for a known time at least. Unless
 * this is the last try, return false without a result if they differ.
 */
static bool check(const struct behaviour *b, pid_t pid, bool last)
{
	const uint64_t charge = charged(pid, b->reason), all = charged(pid, 0);
	const bool right = charge > 50 * MS && same(charge, all) &&
		(has_exact_accounts() ? same(charge, shared->slept) :
		 charge + 10 * MS >= b->least_ms * MS && charge <= shared->elapsed + 10 * MS);

	char figures[128];

	snprintf(figures, sizeof(figures), "charged %.2f ms to this reason, %.2f ms to all, slept %.2f of %.2f ms",
		 charge / 1e6, all / 1e6, shared->slept / 1e6, shared->elapsed / 1e6);
	if (right || last)
		tap_result(right, "%s: %s", b->name, figures);
	else
		printf("# %s, once more: %s\n", b->name, figures);
	return right;
}

/* Return true if there is a result, and the next try is not needed. */
static bool try(const struct behaviour *b, bool (*act)(pid_t pid), bool last)
{
	const pid_t pid = start(b);
	bool possible = !shared->impossible, done = true;

	if (possible) {
		announce(pid, pid);
		sample();
		shared->go = true;
		while (!shared->runs)
			usleep(1000);
		if (act)
			possible = act(pid);
		shared->release = true;
		while (!shared->done)
			usleep(1000);
		sample();
	}
	if (possible)
		done = check(b, pid, last);
	else
		tap_result(true, "%s # SKIP impossible on this host", b->name);
	end_process(pid);
	return done;
}

/*
 * act, if there is one, is done with the VMM while it runs. The kernel of some hosts does not report
 * when a thread loses its CPU: one in a thousand times on Linux 6.18. Then, its sleep is not charged.
 * On a host that is a VM itself, the VMM's own account has the time that the hypervisor takes.
 */
static void test(const struct behaviour *b, bool (*act)(pid_t pid))
{
	int tries = MAX_TRIES;

	while (!try(b, act, --tries == 0) && tries)
		;
}

static bool stop(pid_t pid)
{
	kill(pid, SIGSTOP);
	usleep(ACT_US);
	return !kill(pid, SIGCONT);
}

static bool trace(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
		return false;
	waitpid(pid, NULL, 0);
	usleep(ACT_US);
	return !ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

/* Directories with the freezer: of cgroup v1, if this host has it there */
static char frozen[CGROUP_PATH];
static const char *root = "/sys/fs/cgroup/freezer";

static bool create_freezer(void)
{
	if (!access(root, F_OK)) {
		snprintf(frozen, sizeof(frozen), "%s/stalls_test-%d", root, getpid());
		return !mkdir(frozen, 0755);
	}
	root = CGROUP_V2;
	return cgroup_create(frozen, NULL, "stalls_test");
}

static bool set_frozen(pid_t pid)
{
	cgroup_add(frozen, pid);
	return cgroup_put(frozen, "cgroup.freeze", "1") || cgroup_put(frozen, "freezer.state", "FROZEN");
}

static void thaw(void)
{
	cgroup_put(frozen, "cgroup.freeze", "0");
	cgroup_put(frozen, "freezer.state", "THAWED");
}

static bool freeze(pid_t pid)
{
	const bool done = set_frozen(pid);

	usleep(ACT_US);
	thaw();
	cgroup_add(root, pid);
	return done;
}

static bool is_asleep(pid_t pid)
{
	const struct account before = read_account(pid, pid);
	struct account after;

	usleep(50000);
	after = read_account(pid, pid);
	return time_asleep(before, after) == after.time - before.time;
}

static void open_stalls(void)
{
	struct kvmstats_probe probe = { 0 };

	if (stalls_open(&stalls, NULL, NULL, &probe)) {
		tap_result(false, "stalls_open: %s; %s", probe.why, probe.help);
		exit(tap_end());
	}
}

/*
 * A VMM that sleeps already when the program is loaded, or whose sleep changes its reason in the
 * meantime: from then on, it is charged up to each sample. act puts it to sleep.
 */
static void test_asleep(const struct behaviour *b, bool announced, bool (*act)(pid_t pid))
{
	const pid_t pid = start(b);
	uint64_t earliest, begin, end_time, latest, charge;

	if (announced)
		announce(pid, pid);
	shared->go = true;
	while (!shared->runs)
		usleep(1000);
	if (act && !act(pid)) {
		tap_result(true, "%s # SKIP impossible on this host", b->name);
		end_process(pid);
		return;
	}
	while (!is_asleep(pid))
		;
	if (!announced) {
		stalls_close(stalls);
		open_stalls();
		announce(pid, pid);
	}
	earliest = read_clock(CLOCK_MONOTONIC);
	sample();
	begin = read_clock(CLOCK_MONOTONIC);
	usleep(ACT_US);
	end_time = read_clock(CLOCK_MONOTONIC);
	sample();
	latest = read_clock(CLOCK_MONOTONIC);
	charge = charged(pid, b->reason);
	tap_result(charge >= end_time - begin && charge <= latest - earliest && charged(pid, 0) == charge,
		   "%s: charged %.2f of %.2f ms", b->name, charge / 1e6, (end_time - begin) / 1e6);
	kill(pid, SIGKILL);
	if (b->reason == STALL_FROZEN)
		thaw();
	waitpid(pid, NULL, 0);
}

/* The program misses that a VMM gets its CPU after a sleep; the thread's next switch ends the sleep. */
static bool lose_end(pid_t pid)
{
	struct bpf_link **link = &stalls->threads->program->links.threads_switch;

	while (!is_asleep(pid))
		;
	bpf_link__destroy(*link);
	usleep(2 * ACT_US);
	*link = bpf_program__attach(stalls->threads->program->progs.threads_switch);
	return *link;
}

static void sleep_and_run(void)
{
	const struct timespec time = { .tv_nsec = ACT_US * 1000 };
	static int word;

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
	run_guest_until(&shared->release);
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
}

static bool send_stop(pid_t pid)
{
	return !kill(pid, SIGSTOP);
}

static void wait_and_exit(void)
{
	wait_with_timeout();
	_exit(0);
}

/* A thread that exits keeps its charges until they have been read. */
static void test_exit(void)
{
	static const struct behaviour exits = { "exit", STALL_TIMED, NULL, wait_and_exit, 0 };
	const pid_t pid = start(&exits);
	const int map = bpf_map__fd(stalls->threads->program->maps.vcpus);
	struct threads_vcpu vcpu;
	__u32 tid = pid;

	announce(pid, pid);
	sample();
	shared->go = true;
	waitpid(pid, NULL, 0);
	sample();
	tap_result(charged(pid, STALL_TIMED) >= ROUNDS_MS / 2 * MS &&
		   bpf_map_lookup_elem(map, &tid, &vcpu),
		   "a thread that has exited: charged %.2f ms, slept %d ms; its entry is free",
		   charged(pid, STALL_TIMED) / 1e6, ROUNDS_MS);
	sample();
	tap_result(!charged(pid, 0), "a thread that has exited: charged once");
}

/* A vCPU that halts is charged nothing while it does. */
static void test_halts(char *vmm)
{
#ifdef __x86_64__
	char *arguments[] = { vmm, "1", "1", NULL };
	const pid_t pid = vm_start(arguments, NULL, NULL);
	struct account before, after;
	const struct kvmstats_vm *vm = NULL;
	struct kvmstats *k;
	pid_t tid = 0;
	int i;

	if (kvmstats_open(&k, "bpf", NULL, 0))
		errx(1, "the source bpf does not work");
	for (i = 0; i < 1000 && !tid; i++, usleep(10000)) {
		kvmstats_sample(k);
		vm = find_vm(k, pid);
		tid = vm && vm->vcpus ? vm->vcpu[0]->tid : 0;
	}
	stalls_enter(stalls, kvmstats_first(k));
	sample();
	before = read_account(pid, tid);
	sleep(1);
	sample();
	after = read_account(pid, tid);
	tap_result(time_asleep(before, after) > 500 * MS && same(charged(tid, 0), 0),
		   "a vCPU that halts: charged %.2f ms, slept %.2f ms", charged(tid, 0) / 1e6,
		   time_asleep(before, after) / 1e6);
	kvmstats_close(k);
	end_process(pid);
#endif
}

static void limit_memory(void)
{
	char cgroup[CGROUP_PATH];

	/* mounts cgroup v2 in the lab */
	if (cgroup_create(cgroup, NULL, "stalls_test-mount"))
		cgroup_remove(cgroup);
	cgroup_put(CGROUP_V2, "cgroup.subtree_control", "+memory");
	snprintf(limited, sizeof(limited), CGROUP_V2 "/stalls_test-high-%d", getpid());
	mkdir(limited, 0755);
	cgroup_put(limited, "memory.high", "4M");
}

int main(int argc, char **argv)
{
	static const struct behaviour behaviours[] = {
		{ "lock", STALL_LOCK, NULL, lock, ROUNDS_MS },
		{ "condition with a timeout", STALL_TIMED, NULL, wait_with_timeout, ROUNDS_MS },
		{ "poll", STALL_WAIT, NULL, poll_nothing, ROUNDS_MS },
		{ "sleep", STALL_WAIT, NULL, sleep_often, ROUNDS_MS },
		{ "sleep next to busy processes", STALL_WAIT, start_hogs, sleep_often, ROUNDS_MS },
		{ "pipe", STALL_WAIT, NULL, read_pipe, ROUNDS_MS },
		{ "userfaultfd in KVM_RUN", STALL_MEMORY, open_userfaultfd, fault_in_guest, ROUNDS_MS },
		{ "userfaultfd in the VMM", STALL_MEMORY, open_userfaultfd, fault_in_vmm, ROUNDS_MS },
		{ "late page in KVM_RUN", STALL_MEMORY, open_late_file, read_in_guest, ROUNDS_MS },
		{ "late page in the VMM", STALL_MEMORY, open_late_file, read_in_vmm, ROUNDS_MS },
		{ "memory.high", STALL_MEMORY, enter_limited, use_memory, 50 },
		{ "swap in KVM_RUN", STALL_MEMORY, start_swapping, swap_into_guest, ROUNDS_MS },
		{ "swap in the VMM", STALL_MEMORY, start_swapping, swap_into_vmm, ROUNDS_MS },
		{ "migration between NUMA nodes", STALL_MEMORY, start_moving, use_moving, 50 },
		{ "vfork", STALL_WAIT, NULL, wait_for_children, ROUNDS_MS },
		{ "read of a file", STALL_DISK, open_late_file, read_late_file, ROUNDS_MS },
		{ "pread of a file", STALL_DISK, open_late_file, pread_late_file, ROUNDS_MS },
		{ "lock of KVM", STALL_KVM, start_second, wait_for_second, 50 },
	};
	static const struct behaviour lost = {
		"lost end of a sleep", STALL_TIMED, NULL, sleep_and_run, 300 };
	static const struct behaviour stopped = {
		"stopped", STALL_STOPPED, NULL, run_until_released, ACT_US / 1000 };
	static const struct behaviour traced = {
		"traced", STALL_STOPPED, NULL, run_until_released, ACT_US / 1000 };
	static const struct behaviour freezes = {
		"frozen", STALL_FROZEN, NULL, run_until_released, ACT_US / 1000 };
	static const struct behaviour already_stopped = {
		"already stopped", STALL_STOPPED, NULL, run_until_released, 0 };
	static const struct behaviour already_locked = {
		"already in a lock", STALL_LOCK, NULL, lock_for_long, 0 };
	static const struct behaviour frozen_asleep = {
		"frozen while it sleeps", STALL_FROZEN, NULL, lock_for_long, 0 };
	size_t i;

	if (argc != 2)
		errx(2, "usage: stalls_test VMM");
	setlinebuf(stdout);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	open_stalls();
	limit_memory();
	has_swap = add_swap();
	for (i = 0; i < sizeof(behaviours) / sizeof(*behaviours); i++)
		test(&behaviours[i], NULL);
	test(&lost, lose_end);
	test(&stopped, stop);
	test(&traced, trace);
	test_asleep(&already_stopped, false, send_stop);
	test_asleep(&already_locked, false, NULL);
	if (create_freezer()) {
		test(&freezes, freeze);
		test_asleep(&frozen_asleep, true, set_frozen);
		cgroup_remove(frozen);
	} else {
		tap_result(true, "frozen # SKIP no freezer");
	}
	test_exit();
	test_halts(argv[1]);
	if (has_swap)
		remove_swap();
	if (*limited)
		cgroup_remove(limited);
	stalls_close(stalls);
	return tap_end();
}
