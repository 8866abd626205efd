// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test KVM_STATS_NEXT: the statistics of all VMs of a host, one after another
 *
 * Each VM has a number that no other one gets, and the ioctl on /dev/kvm opens
 * the statistics of the VM with the next greater id: so no VM is returned twice,
 * and none that exists throughout is missed. It requires permission to monitor
 * the whole system, and it pins no VM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/compiler.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

/* The C library's headers may be older than CAP_PERFMON. */
#ifndef CAP_PERFMON
#define CAP_PERFMON	38
#endif

/* tools/arch/x86/include/asm/unistd_64.h, which comes first, has not all. */
#ifndef __NR_capset
#define __NR_capset	126
#endif
#ifndef __NR_clone3
#define __NR_clone3	435
#endif

static int kvm_fd;

/* Return the id of the VM of an fd */
static uint64_t number_of(int vm_fd)
{
	int stats_fd = must_succeed(kvm_stats_getfd(vm_fd, 0));
	uint64_t number;

	number = stats_vm_number(stats_fd);
	TEST_ASSERT(number, "No kvm-stats-vm in the fdinfo");
	close(stats_fd);
	return number;
}

static int next_vm(struct kvm_stats_next *next)
{
	return ioctl(kvm_fd, KVM_STATS_NEXT, next);
}

static void test_numbers(void)
{
	uint64_t last = 0, number;
	const int vms = 100;
	int i, vm_fd;

	for (i = 0; i < vms; i++) {
		vm_fd = create_bare_vm();
		number = number_of(vm_fd);
		close(vm_fd);
		if (number <= last)
			break;
		last = number;
	}
	ok(i == vms, "the numbers of %d VMs, one after another, only grow (last: %llu)",
	   i, (unsigned long long)last);
}

static uint64_t boot_time_ns(void)
{
	struct timespec now;

	must_succeed(clock_gettime(CLOCK_BOOTTIME, &now));
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Ids that count VMs would show how many VMs other users create. */
static void test_id_is_time(void)
{
	uint64_t before, number;
	bool good = true;
	int i, vm_fd;

	for (i = 0; i < 3; i++) {
		before = boot_time_ns();
		vm_fd = create_bare_vm();
		number = number_of(vm_fd);
		good &= number >= before && number <= boot_time_ns();
		close(vm_fd);
	}
	ok(good == stats_vm_id_is_time, "the id of a VM is %s",
	   stats_vm_id_is_time ? "the boot time at its creation" : "a count of VMs");
}

static void *create_vm_here(void *vm_fd)
{
	*(int *)vm_fd = create_bare_vm();
	return NULL;
}

/* The PID of a VM is the process of the creating thread, not the thread. */
static int create_vm_in_thread(void)
{
	pthread_t thread;
	int vm_fd;

	TEST_ASSERT(!pthread_create(&thread, NULL, create_vm_here, &vm_fd),
		    "pthread_create");
	pthread_join(thread, NULL);
	return vm_fd;
}

/* KVM_STATS_NEXT returns the same file as the ioctl on the VM fd. */
static void test_one(uint32_t scope, const char *link)
{
	struct kvm_stats_next next = { 0 };
	int vm_fd = create_vm_in_thread(), stats_fd;
	int vcpu_fd = ioctl(vm_fd, KVM_CREATE_VCPU, 0);
	const uint64_t number = number_of(vm_fd);
	struct stats_file own, found;
	char path[64], text[64] = "";

	next.vm = number - 1;
	next.scope = scope;
	next.pid = 0xdeadbeef;	/* is for the answer */
	stats_fd = must_succeed(next_vm(&next));
	ok(next.vm == number, "scope %u: the next VM is %llu", scope,
	   (unsigned long long)next.vm);
	ok(next.pid == getpid() && next.scope == scope &&
	   !next.reserved[0] && !next.reserved[1],
	   "scope %u: pid is %u, and nothing else changed", scope, next.pid);
	ok((fcntl(stats_fd, F_GETFL) & O_ACCMODE) == O_RDONLY &&
	   fcntl(stats_fd, F_GETFD) == FD_CLOEXEC,
	   "scope %u: the file is read-only and closed by exec", scope);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", stats_fd);
	readlink(path, text, sizeof(text) - 1);
	ok(!strcmp(text, link), "scope %u: the file is %s", scope, text);
	ok(stats_vm_number(stats_fd) == next.vm, "scope %u: fdinfo has the id of the VM",
	   scope);
	stats_file_open(&own, &abi_getfd, vm_fd, scope, "own");
	stats_file_take(&found, stats_fd, "found");
	ok(own.size == found.size && !memcmp(own.reference, found.reference, own.size),
	   "scope %u: the %zu bytes of the file equal those of the VM fd", scope, own.size);
	stats_file_close(&own);

	close(vcpu_fd);
	close(vm_fd);
	ok(vm_goes_away(getpid(), vm_fd), "scope %u: the file does not pin the VM", scope);
	stats_file_close(&found);
	next.vm = number - 1;
	stats_fd = next_vm(&next);
	ok(stats_fd == -1 ? errno == ENOENT : next.vm > number,
	   "scope %u: a destroyed VM is no longer found", scope);
	close(stats_fd);
}

static void test_order(void)
{
	struct kvm_stats_next next = { 0 };
	/* Enough VMs that the search starts at the newest for several of them */
	uint64_t numbers[12];
	int vm_fd[ARRAY_SIZE(numbers)], stats_fd, i, found = 0;
	bool grows = true;
	uint64_t last = 0;

	for (i = 0; i < ARRAY_SIZE(vm_fd); i++) {
		vm_fd[i] = create_bare_vm();
		numbers[i] = number_of(vm_fd[i]);
	}
	/* A gap: the third VM goes. */
	close(vm_fd[2]);
	numbers[2] = 0;
	while (grows && (stats_fd = next_vm(&next)) >= 0) {
		grows = next.vm > last;
		last = next.vm;
		for (i = 0; i < ARRAY_SIZE(numbers); i++)
			found += numbers[i] == next.vm;
		close(stats_fd);
	}
	ok(errno == ENOENT, "enumeration ends with ENOENT");
	ok(grows, "the returned ids increase");
	ok(found == ARRAY_SIZE(numbers) - 1, "each live VM is returned exactly once");
	next.vm = UINT64_MAX;
	ok(next_vm(&next) == -1 && errno == ENOENT && next.vm == UINT64_MAX,
	   "the greatest id that is possible fails with ENOENT");

	vm_fd[2] = create_bare_vm();
	numbers[2] = number_of(vm_fd[2]);
	next.vm = last;
	/* Other processes may have created VMs. */
	do {
		stats_fd = next_vm(&next);
		close(stats_fd);
	} while (stats_fd >= 0 && next.vm < numbers[2]);
	ok(stats_fd >= 0 && next.vm == numbers[2],
	   "a search from the last id finds a new VM");
	for (i = 0; i < ARRAY_SIZE(vm_fd); i++)
		close(vm_fd[i]);
}

static bool next_says(int error)
{
	struct kvm_stats_next next = { .pid = 0xdeadbeef };
	const struct kvm_stats_next asked = next;
	int stats_fd = next_vm(&next);

	if (!error)
		return stats_fd >= 0;
	return stats_fd == -1 && errno == error && !memcmp(&next, &asked, sizeof(next));
}

/* Keep one capability, or none with -1, as a user who is not root. */
static bool has_only(int capability)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { };

	if (capability >= 0) {
		data[capability / 32].permitted = 1u << capability % 32;
		data[capability / 32].effective = 1u << capability % 32;
	}
	return !syscall(__NR_capset, &header, data);
}

static bool child_nobody(void *arg)
{
	return !setresuid(NOBODY, NOBODY, NOBODY) && next_says(EPERM);
}

static bool child_root_without(void *arg)
{
	return has_only(-1) && next_says(EPERM);
}

static bool child_perfmon(void *arg)
{
	return has_only(CAP_PERFMON) && next_says(0);
}

static bool child_sys_admin(void *arg)
{
	return has_only(CAP_SYS_ADMIN) && next_says(0);
}

/* CAP_SYS_ADMIN would have files beyond the limit. */
static bool child_perfmon_without_files(void *arg)
{
	int next = next_fd();

	return has_only(CAP_PERFMON) && next_says(ENFILE) && next_fd() == next;
}

/* In a new user namespace, a user has all capabilities, but not over the host. */
static bool child_user_namespace(void *arg)
{
	return !unshare(CLONE_NEWUSER) && next_says(EPERM);
}

static bool child_nobody_user_namespace(void *arg)
{
	return !setresuid(NOBODY, NOBODY, NOBODY) && child_user_namespace(arg);
}

static void test_permission(void)
{
	int vm_fd = create_bare_vm();

	ok(child_says(child_perfmon, NULL), "CAP_PERFMON is enough");
	ok(child_says(child_sys_admin, NULL), "CAP_SYS_ADMIN is enough");
	ok(child_says(child_root_without, NULL), "root without capabilities gets EPERM");
	ok(child_says(child_nobody, NULL), "another user gets EPERM");
	if (others_use_kvm())
		ksft_test_result_skip("another process uses KVM: it would have no files\n");
	else
		ok(child_says_without_files(child_perfmon_without_files, NULL),
		   "KVM_STATS_NEXT fails with ENFILE without a free file");
	if (access("/proc/self/ns/user", F_OK)) {
		ksft_test_result_skip("no user namespaces\n");
	} else {
		ok(child_says(child_user_namespace, NULL),
		   "root in a new user namespace gets EPERM");
		ok(child_says(child_nobody_user_namespace, NULL),
		   "another user in a new user namespace gets EPERM");
	}
	close(vm_fd);
}

/*
 * Return the number at the end of the link @path in /proc; /proc was mounted in the
 * initial PID namespace.
 */
static pid_t number_in_proc(const char *path)
{
	char link[64] = "", *slash;

	TEST_ASSERT(readlink(path, link, sizeof(link) - 1) > 0, "%s, errno: %i", path,
		    errno);
	slash = strrchr(link, '/');
	return atoi(slash ? slash + 1 : link);
}

/* The process in the id of a statistics file */
static pid_t id_process(int stats_fd)
{
	char id[STATS_NAME_SIZE];

	if (pread(stats_fd, id, sizeof(id), abi_getfd.id_offset) != sizeof(id) ||
	    strncmp(id, "kvm-", 4))
		return -1;
	return atoi(id + 4);
}

/* The process that KVM_STATS_NEXT says created a VM, -1 unless it finds that VM */
static pid_t next_process(uint64_t number, pid_t *in_id)
{
	struct kvm_stats_next next = { .vm = number - 1, .pid = 0xdeadbeef };
	int stats_fd = next_vm(&next);

	*in_id = id_process(stats_fd);
	close(stats_fd);
	return stats_fd >= 0 && next.vm == number ? (pid_t)next.pid : -1;
}

/* The thread in the row of a VM's only vCPU */
static pid_t vcpu_thread(int vm_fd)
{
	struct kvm_stats_row row = { 0 };
	struct kvm_stats stats;

	kvm_stats_open_getfd(&stats, vm_fd, KVM_STATS_SCOPE_VCPUS);
	TEST_ASSERT(kvm_stats_read_rows(&stats, &row, 1) == 1, "The VM has no row");
	kvm_stats_close(&stats);
	return row.tid;
}

struct run {
	int vm_fd, vcpu_fd;
	pid_t tid, seen;	/* the thread's, and the row's after KVM_RUN */
};

/* Call KVM_RUN in a separate thread; its result does not matter. */
static void *run_here(void *arg)
{
	struct run *run = arg;

	ioctl(run->vcpu_fd, KVM_RUN, NULL);
	run->tid = number_in_proc("/proc/thread-self");
	run->seen = vcpu_thread(run->vm_fd);
	return NULL;
}

static struct run run_in_thread(int vm_fd)
{
	const int size = ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct run run = { .vm_fd = vm_fd, .vcpu_fd = create_bare_vcpu(vm_fd, 0) };
	struct kvm_run *state;
	pthread_t thread;

	state = must_succeed(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				  run.vcpu_fd, 0));
	state->immediate_exit = 1;
	TEST_ASSERT(!pthread_create(&thread, NULL, run_here, &run), "pthread_create");
	pthread_join(thread, NULL);
	munmap(state, size);
	close(run.vcpu_fd);
	return run;
}

struct outside {
	uint64_t number;
	pid_t pid;
};

/* PIDs and TIDs belong to the initial namespace, whichever process calls. */
static bool child_pid_namespace(void *arg)
{
	const struct outside *outside = arg;
	struct run run;
	pid_t pid, in_id;
	bool good;
	int status, vm_fd;

	if (unshare(CLONE_NEWPID))
		return false;
	pid = fork();
	if (pid)
		return waitpid(pid, &status, 0) == pid && !status;

	good = getpid() == 1 &&
	       next_process(outside->number, &in_id) == outside->pid &&
	       in_id == outside->pid;
	vm_fd = create_bare_vm();
	pid = number_in_proc("/proc/self");
	good &= pid != 1 && next_process(number_of(vm_fd), &in_id) == pid && in_id == pid;
	run = run_in_thread(vm_fd);
	good &= run.tid > 0 && run.tid != pid && run.seen == run.tid;
	_exit(!good);
}

static void test_pid_namespace(void)
{
	int vm_fd = create_bare_vm();
	struct outside outside = { number_of(vm_fd), getpid() };

	if (access("/proc/self/ns/pid", F_OK))
		ksft_test_result_skip("no PID namespaces\n");
	else
		ok(child_says(child_pid_namespace, &outside),
		   "in a new PID namespace, PIDs and TIDs belong to the initial one");
	close(vm_fd);
}

/* A process with this number, which does nothing */
static pid_t start_process(pid_t number)
{
	pid_t set_tid[] = { number };
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
		uint64_t stack, stack_size, tls, set_tid, set_tid_size;
	} args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)set_tid,
		.set_tid_size = ARRAY_SIZE(set_tid),
	};
	pid_t pid;

	fflush(stdout);
	pid = syscall(__NR_clone3, &args, sizeof(args));
	while (!pid)
		pause();
	return pid;
}

/* The creator of a VM that others keep has ended, and its number is used again. */
static void test_number_again(void)
{
	pid_t pid, before, ended, again, in_id, stranger, thread;
	int sock[2], vm_fd;
	uint64_t number;

	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fflush(stdout);
	pid = must_succeed(fork());
	if (!pid) {
		vm_fd = create_bare_vm();
		run_in_thread(vm_fd);
		send_fd(sock[1], vm_fd);
		for (;;)
			pause();
	}
	vm_fd = receive_fd(sock[0]);
	number = number_of(vm_fd);
	before = next_process(number, &in_id);
	thread = vcpu_thread(vm_fd);
	kill(pid, SIGKILL);
	must_succeed(waitpid(pid, NULL, 0));
	ended = next_process(number, &in_id);
	ok(before == pid && !ended, "the process of a VM is %d, and %d after its end",
	   before, ended);

	stranger = start_process(pid);
	TEST_ASSERT(stranger == pid, "No other process %d, errno: %i", pid, errno);
	again = next_process(number, &in_id);
	ok(!again && in_id == pid,
	   "reuse of the PID changes pid to %d, and not the id of the VM", again);
	ok(stats_rows_in_fdinfo ? !vcpu_thread(vm_fd) :
				  thread > 0 && vcpu_thread(vm_fd) == thread,
	   "reuse of the PID changes the thread of the vCPU to %d", vcpu_thread(vm_fd));
	kill(stranger, SIGKILL);
	waitpid(stranger, NULL, 0);
	close(vm_fd);
	close(sock[0]);
	close(sock[1]);
}

/* VMs that exist throughout, while others are created and destroyed */
static int permanent_fd[3];
static uint64_t permanent[3];
static bool stop;

static void *come_and_go(void *arg)
{
	unsigned long vms = 0;

	for (; !READ_ONCE(stop); vms++) {
		int vm_fd = create_bare_vm();

		if (vms % 2)
			close(ioctl(vm_fd, KVM_CREATE_VCPU, 0));
		close(vm_fd);
	}
	return (void *)vms;
}

struct enumeration {
	pthread_t thread;
	unsigned long rounds;
	unsigned long found;
	const char *error;
};

static void *enumerate(void *arg)
{
	struct enumeration *mine = arg;

	while (!READ_ONCE(stop) && !mine->error) {
		struct kvm_stats_next next = { .scope = mine->rounds % 2 };
		int stats_fd, i, seen = 0;
		uint64_t last = 0;

		while (!mine->error && (stats_fd = next_vm(&next)) >= 0) {
			if (next.vm <= last)
				mine->error = "a VM came twice or out of order";
			if (stats_vm_number(stats_fd) != next.vm)
				mine->error = "the file is another VM's";
			/* Others may have VMs, the creator of one may have ended. */
			if (next.pid && !stats_id_has_tid &&
			    id_process(stats_fd) != (pid_t)next.pid)
				mine->error = "the id names another process";
			last = next.vm;
			for (i = 0; i < ARRAY_SIZE(permanent); i++)
				seen += permanent[i] == last &&
					(pid_t)next.pid == getpid();
			mine->found++;
			close(stats_fd);
		}
		if (!mine->error && errno != ENOENT)
			mine->error = "it ended with another error than ENOENT";
		if (!mine->error && seen != ARRAY_SIZE(permanent))
			mine->error = "a VM that exists throughout was missed";
		mine->rounds++;
	}
	return NULL;
}

static void test_threads(void)
{
	struct enumeration each[4] = { };
	unsigned long rounds = 0, found = 0, vms = 0;
	const char *error = NULL;
	pthread_t makers[2];
	void *made;
	int i;

	for (i = 0; i < ARRAY_SIZE(permanent); i++) {
		permanent_fd[i] = create_bare_vm();
		permanent[i] = number_of(permanent_fd[i]);
	}
	for (i = 0; i < ARRAY_SIZE(makers); i++)
		TEST_ASSERT(!pthread_create(&makers[i], NULL, come_and_go, NULL),
			    "pthread_create");
	for (i = 0; i < ARRAY_SIZE(each); i++)
		TEST_ASSERT(!pthread_create(&each[i].thread, NULL, enumerate, &each[i]),
			    "pthread_create");
	sleep(3);
	WRITE_ONCE(stop, true);
	for (i = 0; i < ARRAY_SIZE(makers); i++) {
		pthread_join(makers[i], &made);
		vms += (unsigned long)made;
	}
	for (i = 0; i < ARRAY_SIZE(each); i++) {
		pthread_join(each[i].thread, NULL);
		rounds += each[i].rounds;
		found += each[i].found;
		error = error ?: each[i].error;
	}
	ok(!error && rounds && vms,
	   "%lu enumerations by %zu threads found %lu files while %lu VMs came and went: %s",
	   rounds, ARRAY_SIZE(each), found, vms, error ?: "all right");
	for (i = 0; i < ARRAY_SIZE(permanent); i++)
		close(permanent_fd[i]);
	ok(vm_goes_away(getpid(), -1), "all VMs of the threads are destroyed");
}

#ifdef __x86_64__
/* Whether a 32-bit program finds the VM behind @vm_fd */
static bool finds_compat(struct kvm_stats_next *next, int vm_fd, uint32_t scope)
{
	const uint64_t number = number_of(vm_fd);
	int stats_fd;
	bool found;

	*next = (struct kvm_stats_next) { .vm = number - 1, .scope = scope };
	stats_fd = compat_ioctl(kvm_fd, KVM_STATS_NEXT, (uintptr_t)next);
	found = stats_fd >= 0 && stats_vm_number(stats_fd) == number &&
		next->vm == number && next->pid == getpid() && next->scope == scope;
	close(stats_fd);
	return found;
}

/* Whether the call fails for a 32-bit program as well */
static bool fails_compat(struct kvm_stats_next *at, struct kvm_stats_next next,
			 int error)
{
	*at = next;
	return compat_ioctl(kvm_fd, KVM_STATS_NEXT, (uintptr_t)at) == -error;
}

/* The structure is the same for 32-bit programs; here it has to be where they see it. */
static void test_compat(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	int vm_fd = create_bare_vm();
	struct kvm_stats_next *next;

	next = must_succeed(mmap(NULL, page, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
	if (compat_ioctl(-1, 0, 0) != -EBADF) {
		ksft_test_result_skip("no 32-bit programs\n");
		return;
	}
	ok(finds_compat(next, vm_fd, 0) && finds_compat(next, vm_fd, KVM_STATS_SCOPE_VCPUS),
	   "a 32-bit ioctl finds a VM, in both scopes");
	ok(fails_compat(next, (struct kvm_stats_next) { .scope = 2 }, EINVAL) &&
	   fails_compat(next, (struct kvm_stats_next) { .reserved = { 0, 1 } }, EINVAL) &&
	   fails_compat(next, (struct kvm_stats_next) { .vm = UINT64_MAX }, ENOENT),
	   "a 32-bit ioctl has the same errors");
	munmap(next, page);
	ok(compat_ioctl(kvm_fd, KVM_STATS_NEXT, (uintptr_t)next) == -EFAULT,
	   "a 32-bit ioctl fails with EFAULT for unmapped memory");
	close(vm_fd);
}
#else
static void test_compat(void)
{
}
#endif

#define NR_CREATED	10

static void *create_vms(void *arg)
{
	int *vm_fd = arg, i;

	for (i = 0; i < NR_CREATED; i++)
		vm_fd[i] = create_bare_vm();
	return NULL;
}

/* Ids that calls with the last id returned; other processes may create VMs as well. */
static struct {
	uint64_t ids[1000];
	unsigned int count;
	bool stop;
} followed;

static void *follow(void *arg)
{
	struct kvm_stats_next next = { 0 };
	bool last_round = false;
	int stats_fd;

	while (!last_round) {
		last_round = READ_ONCE(followed.stop);
		while ((stats_fd = next_vm(&next)) >= 0) {
			if (followed.count < ARRAY_SIZE(followed.ids))
				followed.ids[followed.count++] = next.vm;
			close(stats_fd);
		}
	}
	return NULL;
}

/* VMs that several threads create at the same time can be found in the order of their ids. */
static void test_concurrent_creation(void)
{
	pthread_t threads[4], follower;
	int vm_fd[ARRAY_SIZE(threads)][NR_CREATED], i, j;
	unsigned int found = 0;
	uint64_t number;

	TEST_ASSERT(!pthread_create(&follower, NULL, follow, NULL), "pthread_create");
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		TEST_ASSERT(!pthread_create(&threads[i], NULL, create_vms, vm_fd[i]),
			    "pthread_create");
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	WRITE_ONCE(followed.stop, true);
	pthread_join(follower, NULL);
	for (i = 0; i < ARRAY_SIZE(threads) * NR_CREATED; i++) {
		number = number_of(vm_fd[i / NR_CREATED][i % NR_CREATED]);
		for (j = 0; j < followed.count; j++)
			found += followed.ids[j] == number;
		close(vm_fd[i / NR_CREATED][i % NR_CREATED]);
	}
	ok(found == ARRAY_SIZE(threads) * NR_CREATED,
	   "calls with the last id return each of %zu VMs that %zu threads create: %u",
	   ARRAY_SIZE(threads) * NR_CREATED, ARRAY_SIZE(threads), found);
}

int main(int argc, char *argv[])
{
	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();
	kvm_fd = must_succeed(open("/dev/kvm", O_RDWR));

	test_numbers();
	test_id_is_time();
	test_one(0, "anon_inode:kvm-vm-stats");
	test_one(KVM_STATS_SCOPE_VCPUS, "anon_inode:kvm-vcpus-stats");
	test_order();
	test_permission();
	test_compat();
	test_pid_namespace();
	test_number_again();
	test_threads();
	test_concurrent_creation();

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
