// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test what is left behind when opening or reading statistics fails half way
 *
 * With fault injection the kernel fails the Nth of the allocations and copies
 * from and to user space that a thread makes (/proc/thread-self/fail-nth). Each
 * operation is done with N = 1, 2, 3 ... until it needed fewer: whenever it
 * fails, it fails with an error that is documented, and leaves no fd, no
 * reference of the module and no VM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

/* More faults than one operation can have: a run without one has to come */
#define MAX_FAULTS	1000

/* The fd table of a process has room for as many before it grows */
#define FDS_BEFORE_GROWTH	((int)sizeof(long) * 8)

static int kvm_fd, vm_fd, vcpu_fd, fail_nth_fd;
static struct stats_file vcpu_file, vcpus_file;

/* Let the Nth possible failure from now on occur, none if 0. */
static void fail_nth(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	/* A number that is still set may fail this write. */
	while (pwrite(fail_nth_fd, text, len, 0) != len)
		TEST_ASSERT(errno == EFAULT, "fail-nth, errno: %i", errno);
}

/* Whether it did fail. Reading can be what it fails: then it did not before. */
static bool has_failed(void)
{
	char text[16] = "";
	ssize_t r = pread(fail_nth_fd, text, sizeof(text) - 1, 0);
	bool failed = r > 0 && !atoi(text);

	fail_nth(0);
	return failed;
}

/* The operations return what the system call does, or -errno. */
static int result(long r)
{
	return r < 0 ? -errno : r;
}

static int getfd_of_vm(void)
{
	return result(kvm_stats_getfd(vm_fd, 0));
}

static int getfd_of_vcpu(void)
{
	return result(kvm_stats_getfd(vcpu_fd, 0));
}

static int getfd_of_vcpus(void)
{
	return result(kvm_stats_getfd(vm_fd, KVM_STATS_SCOPE_VCPUS));
}

static int stats_fd_of_vm(void)
{
	return result(ioctl(vm_fd, KVM_GET_STATS_FD, 0));
}

static int stats_fd_of_vcpu(void)
{
	return result(ioctl(vcpu_fd, KVM_GET_STATS_FD, 0));
}

static int next_scope(uint32_t scope)
{
	struct kvm_stats_next next = { .scope = scope, .pid = 0xdeadbeef };
	const struct kvm_stats_next asked = next;
	int r = result(ioctl(kvm_fd, KVM_STATS_NEXT, &next));

	/* What fails changes nothing. */
	return r < 0 && memcmp(&next, &asked, sizeof(next)) ? -EIO : r;
}

static int next_vm(void)
{
	return next_scope(0);
}

static int next_vcpus(void)
{
	return next_scope(KVM_STATS_SCOPE_VCPUS);
}

static int read_all(struct stats_file *file, size_t offset)
{
	static char buf[65536];
	struct iovec iov[] = { { buf, 100 }, { buf + 100, sizeof(buf) - 100 } };
	int r = result(offset ? pread(file->stats.fd, buf, sizeof(buf), offset) :
		       preadv(file->stats.fd, iov, 2, 0));

	/* Fewer bytes may come than there are, but no wrong ones. */
	if (r > 0 && memcmp(buf, file->reference + offset, r))
		return -EIO;
	return r;
}

static int read_vcpu(void)
{
	return read_all(&vcpu_file, 0);
}

static int read_vcpu_values(void)
{
	return read_all(&vcpu_file, vcpu_file.stats.data_offset);
}

static int read_vcpus(void)
{
	return read_all(&vcpus_file, 0);
}

static int read_vcpus_values(void)
{
	return read_all(&vcpus_file, vcpus_file.stats.data_offset);
}

/* From within the first row: what is left of it is copied by itself. */
static int read_vcpus_from_within(void)
{
	return read_all(&vcpus_file, vcpus_file.stats.data_offset + sizeof(uint64_t));
}

/* Opens without a fault, and closes with one. */
static int to_close;

static int close_file(void)
{
	return result(close(to_close));
}

struct operation {
	const char *name;
	int (*call)(void);
	bool opens;
	int error;	/* that it may end with, besides ENOMEM */
};

static const struct operation operations[] = {
	/* The argument is a structure on most kernels, and copying it can fail. */
	{ "KVM_STATS_GETFD on a VM", getfd_of_vm, true, EFAULT },
	{ "KVM_STATS_GETFD on a vCPU", getfd_of_vcpu, true, EFAULT },
	{ "KVM_STATS_GETFD with KVM_STATS_SCOPE_VCPUS", getfd_of_vcpus, true, EFAULT },
	{ "KVM_GET_STATS_FD on a VM", stats_fd_of_vm, true },
	{ "KVM_GET_STATS_FD on a vCPU", stats_fd_of_vcpu, true },
	{ "KVM_STATS_NEXT", next_vm, true, EFAULT },
	{ "KVM_STATS_NEXT with KVM_STATS_SCOPE_VCPUS", next_vcpus, true, EFAULT },
	{ "reading all of a vCPU", read_vcpu, false, EFAULT },
	{ "reading the values of a vCPU", read_vcpu_values, false, EFAULT },
	{ "reading all of all vCPUs", read_vcpus, false, EFAULT },
	{ "reading the values of all vCPUs", read_vcpus_values, false, EFAULT },
	{ "reading them from within a row", read_vcpus_from_within, false, EFAULT },
};

enum verdict { FAULT_SURVIVED, NO_FAULT, WRONG };

/* One call with one fault */
static enum verdict call_with_fault(const struct operation *op, unsigned int n)
{
	int next = next_fd(), r;
	bool failed;

	fail_nth(n);
	r = op->call();
	failed = has_failed();

	if (r < 0 && (!failed || (r != -ENOMEM && r != -op->error))) {
		ksft_print_msg("%s: fault %u: %s\n", op->name, n, strerror(-r));
		return WRONG;
	}
	if (r >= 0 && op->opens)
		close(r);
	if (next_fd() != next) {
		ksft_print_msg("%s: fault %u: fd %d is not free\n", op->name, n, next);
		return WRONG;
	}
	return failed ? FAULT_SURVIVED : NO_FAULT;
}

/*
 * The same in a child with a full fd table, which has to grow: it grows once.
 * For operations that need no fd nothing is different.
 */
static enum verdict child_call_with_fault(const struct operation *op, unsigned int n)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = must_succeed(fork());
	if (!pid) {
		int r;

		close(fail_nth_fd);
		fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
		while (dup(STDOUT_FILENO) < FDS_BEFORE_GROWTH - 1)
			;
		fail_nth(n);
		r = op->call();
		if (!has_failed())
			_exit(r >= FDS_BEFORE_GROWTH ? NO_FAULT : WRONG);
		if (r < 0)
			_exit(r == -ENOMEM || r == -op->error ?
			      (next_fd() == FDS_BEFORE_GROWTH ? FAULT_SURVIVED : WRONG) :
			      WRONG);
		_exit(FAULT_SURVIVED);
	}
	TEST_ASSERT(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
		    "The child with fault %u did not end", n);
	return WEXITSTATUS(status);
}

static void test_operation(const struct operation *op, bool in_child)
{
	long references = module_references();
	enum verdict verdict = FAULT_SURVIVED;
	unsigned int n = 0;

	while (verdict == FAULT_SURVIVED && n < MAX_FAULTS)
		verdict = in_child ? child_call_with_fault(op, ++n) :
				     call_with_fault(op, ++n);
	/* The last call had no fault; without any nothing would be tested. */
	ok(verdict == NO_FAULT && n > 1, "%s%s handles each of %u faults", op->name,
	   in_child ? " when the fd table grows" : "", n - 1);
	if (references >= 0)
		ok_alone(module_references() == references,
			 "%s leaves references to the modules unchanged", op->name);
}

static void test_close(void)
{
	static const struct operation op = { "close()", close_file };
	unsigned int n;
	bool failed;
	int next;

	for (n = 1; n < MAX_FAULTS; n++) {
		next = next_fd();
		to_close = getfd_of_vcpus();
		TEST_ASSERT(to_close >= 0, "KVM_STATS_GETFD: %s", strerror(-to_close));
		fail_nth(n);
		if (op.call() < 0)
			break;
		failed = has_failed();
		if (!failed || next_fd() != next)
			break;
	}
	fail_nth(0);
	ok(!failed && next_fd() == next, "%s handles each of %u faults", op.name, n - 1);
}

/* How many VMs are not made because of a signal, and how many tries at most */
#define INTERRUPTED	20
#define CREATIONS	20000

static void handle_signal(int signal)
{
}

/*
 * A signal ends the creation of a VM if it comes before the VM's MMU notifier is
 * registered (mm_take_all_locks()). Everything allocated until then must be freed;
 * kmemleak reports leaks, see Documentation/dev-tools/kmemleak.rst.
 */
static void test_interrupted_creation(void)
{
	const struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { 0 };
	int next = next_fd(), fd, interrupted = 0, wrong = 0, i;

	signal(SIGALRM, handle_signal);
	setitimer(ITIMER_REAL, &every, NULL);
	for (i = 0; i < CREATIONS && interrupted < INTERRUPTED; i++) {
		fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
		if (fd >= 0)
			close(fd);
		else if (errno == EINTR)
			interrupted++;
		else
			wrong++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	ok(interrupted == INTERRUPTED && !wrong && next_fd() == next,
	   "KVM_CREATE_VM fails with EINTR if a signal arrives: %d of %d", interrupted, i);
}

/*
 * By default, only allocations that may not sleep fail, and each failure prints a
 * stack. Restore the settings at the end.
 */
static struct setting {
	const char *path;
	const char *value;
	char before[16];
} settings[] = {
	{ "/sys/kernel/debug/failslab/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/failslab/verbose", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/min-order", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/verbose", "0" },
	{ "/sys/kernel/debug/fail_usercopy/verbose", "0" },
};

static void restore_settings(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].before[0])
			write_file(settings[i].path, settings[i].before);
}

static bool change_settings(void)
{
	int i, fd;

	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		struct setting *setting = &settings[i];

		fd = open(setting->path, O_RDONLY);
		if (fd < 0 || read(fd, setting->before, sizeof(setting->before) - 1) <= 0)
			return false;
		close(fd);
		if (!write_file(setting->path, setting->value))
			return false;
	}
	return true;
}

int main(int argc, char *argv[])
{
	long references = module_references();
	int i;

	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();
	fail_nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	atexit(restore_settings);
	if (fail_nth_fd < 0 || !change_settings()) {
		print_skip("the kernel has no fault injection in slab, pages and usercopy");
		exit(KSFT_SKIP);
	}

	kvm_fd = open("/dev/kvm", O_RDWR);
	vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	vcpu_fd = must_succeed(ioctl(vm_fd, KVM_CREATE_VCPU, 0));
	close(ioctl(vm_fd, KVM_CREATE_VCPU, 1));
	stats_file_open(&vcpu_file, &abi_getfd, vcpu_fd, 0, "vCPU");
	stats_file_open(&vcpus_file, &abi_getfd, vm_fd, KVM_STATS_SCOPE_VCPUS, "vCPUs");

	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		test_operation(&operations[i], false);
		if (operations[i].opens)
			test_operation(&operations[i], true);
	}
	test_close();
	test_interrupted_creation();

	stats_file_close(&vcpu_file);
	stats_file_close(&vcpus_file);
	close(vcpu_fd);
	close(vm_fd);
	close(kvm_fd);
	ok(vm_goes_away(getpid(), vm_fd), "nothing keeps the VM");
	if (references >= 0)
		ok_alone(module_references() == references, "nothing holds the modules");
	else
		ksft_print_msg("KVM is built in: module references are not tested\n");

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
