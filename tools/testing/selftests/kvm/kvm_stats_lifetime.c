// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that an open statistics file never keeps a VM
 *
 * When the last user of a VM goes, everything goes as if there were no
 * statistics files: the debugfs directory, what else the VM holds, its use of
 * the module. The files say so to those who poll them, their values stand still
 * and can be read until the last one is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/compiler.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

#define VCPU_ID		0
#define OTHER_VCPU_ID	1

/* Milliseconds after which something that has to happen does not happen */
#define TIMEOUT		10000

/* A statistics file in every form that there is */
struct all_files {
	struct stats_file vm_getfd;
	struct stats_file vm_stats_fd;
	struct stats_file vcpu_getfd;
	struct stats_file vcpu_stats_fd;
	struct stats_file vcpus;
	struct stats_file next;
	struct stats_file next_vcpus;
};

#define NFILES	(sizeof(struct all_files) / sizeof(struct stats_file))

#define for_each_file(_file, _all)					\
	for (_file = (struct stats_file *)(_all);			\
	     _file < (struct stats_file *)((_all) + 1); _file++)

/* The file of the VM with this number; there is nothing between it and the last */
static int open_next(uint64_t number, uint32_t scope)
{
	struct kvm_stats_next next = { .vm = number - 1, .scope = scope };
	int kvm_fd = open("/dev/kvm", O_RDWR), stats_fd;

	stats_fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
	TEST_ASSERT(stats_fd >= 0 && next.vm == number,
		    "KVM_STATS_NEXT found VM %llu instead of %llu, errno: %i",
		    (unsigned long long)next.vm, (unsigned long long)number, errno);
	close(kvm_fd);
	return stats_fd;
}

static void open_all(struct all_files *all, int vm_fd, int vcpu_fd)
{
	uint64_t number;

	stats_file_open(&all->vm_getfd, &abi_getfd, vm_fd, 0, "VM");
	stats_file_open(&all->vm_stats_fd, &abi_stats_fd, vm_fd, 0, "VM");
	stats_file_open(&all->vcpu_getfd, &abi_getfd, vcpu_fd, 0, "vCPU");
	stats_file_open(&all->vcpu_stats_fd, &abi_stats_fd, vcpu_fd, 0, "vCPU");
	stats_file_open(&all->vcpus, &abi_getfd, vm_fd, KVM_STATS_VCPUS, "vCPUs");
	number = stats_vm_number(all->vm_getfd.stats.fd);
	stats_file_take(&all->next, open_next(number, 0), "next VM");
	stats_file_take(&all->next_vcpus, open_next(number, KVM_STATS_VCPUS),
			"next vCPUs");
}

static short poll_now(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	TEST_ASSERT(poll(&poll_fd, 1, 0) >= 0, "poll, errno: %i", errno);
	return poll_fd.revents;
}

static bool all_poll(struct all_files *all, short want)
{
	struct stats_file *file;

	for_each_file(file, all) {
		short events = poll_now(file->stats.fd);

		if (events != want) {
			ksft_print_msg("%s: poll says %#x\n", file->label, events);
			return false;
		}
	}
	return true;
}

/*
 * Wait for nothing but the end: that is reported without being asked for, and
 * not before the VM has gone.
 */
static void *poll_waiter(void *arg)
{
	const struct stats_file *file = arg;
	struct pollfd poll_fd = { .fd = file->stats.fd };

	return (void *)(long)(poll(&poll_fd, 1, TIMEOUT) == 1 &&
			      poll_fd.revents == POLLHUP &&
			      !debugfs_dir(getpid(), -1, NULL, 0));
}

static void *epoll_waiter(void *arg)
{
	const struct stats_file *file = arg;
	struct epoll_event event = { .events = 0 };
	int epoll_fd = epoll_create1(0);
	bool woken;

	TEST_ASSERT(!epoll_ctl(epoll_fd, EPOLL_CTL_ADD, file->stats.fd, &event),
		    "epoll_ctl, errno: %i", errno);
	woken = epoll_wait(epoll_fd, &event, 1, TIMEOUT) == 1 &&
		event.events == EPOLLHUP;
	close(epoll_fd);
	return (void *)(long)woken;
}

static bool stop_reading;

/* Read from before the end until after it: always the same but for the values. */
static void *reader(void *arg)
{
	const struct stats_file *file = arg;
	char *bytes = malloc(file->size);
	bool right = true;

	TEST_ASSERT(bytes, "No memory");
	while (!READ_ONCE(stop_reading) && right)
		right = pread(file->stats.fd, bytes, file->size, 0) ==
			(ssize_t)file->size &&
			!memcmp(bytes, file->reference, file->stats.data_offset);
	free(bytes);
	return (void *)(long)right;
}

/* A process that was handed all the files, and looks at them when it is told */
struct other_process {
	pid_t pid;
	int sock;
};

static void other_process_start(struct other_process *other)
{
	struct all_files all;
	struct stats_file *file;
	char id[16];
	int sock[2];
	bool good = true;

	TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock),
		    "socketpair, errno: %i", errno);
	fflush(stdout);
	other->pid = fork();
	TEST_ASSERT(other->pid >= 0, "fork, errno: %i", errno);
	if (other->pid) {
		close(sock[1]);
		other->sock = sock[0];
		return;
	}

	close(sock[0]);
	for_each_file(file, &all)
		file->stats.fd = receive_fd(sock[1]);
	/* Until the other side has written or closed */
	read(sock[1], id, 1);
	for_each_file(file, &all)
		good &= poll_now(file->stats.fd) == (POLLIN | POLLHUP) &&
			pread(file->stats.fd, id, sizeof(id), 0) == sizeof(id);
	_exit(!good);
}

static bool other_process_says(struct other_process *other)
{
	int status;

	close(other->sock);
	TEST_ASSERT(waitpid(other->pid, &status, 0) == other->pid,
		    "waitpid, errno: %i", errno);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* What would move counters of a VM that still is there: TLBs are flushed. */
static bool child_does_nothing(void *arg)
{
	return true;
}

static bool all_stand_still(struct all_files *all)
{
	struct stats_file *file;
	bool still = true;

	/* The last values may be later than those of the opening. */
	for_each_file(file, all)
		TEST_ASSERT(pread(file->stats.fd, file->reference, file->size, 0) ==
			    (ssize_t)file->size, "%s: reading failed", file->label);
	child_says(child_does_nothing, NULL);
	for_each_file(file, all) {
		if (!stats_file_unchanged(file)) {
			ksft_print_msg("%s: changed\n", file->label);
			still = false;
		}
	}
	return still;
}

static void close_all(struct all_files *all)
{
	struct stats_file *file;

	for_each_file(file, all)
		stats_file_close(file);
}

static void test_debugfs_of_next(int vm_fd, uint64_t number)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_exits);
	struct kvm_stats stats;

	kvm_stats_open_getfd(&stats, vm_get_fd(vm), 0);
	ok(stats_vm_number(stats.fd) > number,
	   "the number of the next VM, %llu, is greater than %llu",
	   (unsigned long long)stats_vm_number(stats.fd),
	   (unsigned long long)number);
	TEST_ASSERT(vm_get_fd(vm) == vm_fd, "The VM has fd %d, not %d",
		    vm_get_fd(vm), vm_fd);
	if (debugfs_has_kvm())
		ok(debugfs_dir(getpid(), vm_fd, NULL, 0),
		   "it has the same fd and its directory in debugfs");
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

/* All fds of the VM are closed. */
static void test_closed(void)
{
	long before = module_references();
	pthread_t in_poll, in_epoll, reads_vm, reads_vcpus;
	void *poll_woken, *epoll_woken, *vm_right, *vcpus_right;
	struct other_process other;
	struct all_files all;
	struct stats_file *file;
	struct kvm_vm *vm;
	uint64_t number;
	int vm_fd;

	other_process_start(&other);
	vm = vm_create_guest(VCPU_ID, guest_exits);
	vm_vcpu_add_default(vm, OTHER_VCPU_ID, guest_exits);
	vm_fd = vm_get_fd(vm);
	if (guest_exit_stats())
		vcpu_run_exits(vm, VCPU_ID, 10);
	open_all(&all, vm_fd, vcpu_get_fd(vm, VCPU_ID));
	number = stats_vm_number(all.vm_getfd.stats.fd);
	for_each_file(file, &all)
		send_fd(other.sock, file->stats.fd);
	ok(number, "the VM has the number %llu", (unsigned long long)number);
	if (debugfs_has_kvm())
		ok(debugfs_dir(getpid(), vm_fd, NULL, 0), "it is in debugfs");
	ok(all_poll(&all, POLLIN), "all %zu files can be read, none has ended", NFILES);

	TEST_ASSERT(!pthread_create(&in_poll, NULL, poll_waiter, &all.vm_getfd) &&
		    !pthread_create(&in_epoll, NULL, epoll_waiter, &all.vcpu_getfd) &&
		    !pthread_create(&reads_vm, NULL, reader, &all.vm_getfd) &&
		    !pthread_create(&reads_vcpus, NULL, reader, &all.vcpus),
		    "pthread_create");
	usleep(100000);
	kvm_vm_free(vm);

	pthread_join(in_poll, &poll_woken);
	ok(poll_woken, "poll() of the VM's file wakes up with POLLHUP when it has gone");
	pthread_join(in_epoll, &epoll_woken);
	ok(epoll_woken, "epoll_wait() of the vCPU's file wakes up with EPOLLHUP");
	WRITE_ONCE(stop_reading, true);
	pthread_join(reads_vm, &vm_right);
	pthread_join(reads_vcpus, &vcpus_right);
	ok(vm_right && vcpus_right, "reads that were under way are right");
	ok(all_poll(&all, POLLIN | POLLHUP), "all files can be read and have ended");
	if (debugfs_has_kvm())
		ok(vm_goes_away(getpid(), vm_fd), "the VM has left debugfs");
	else
		ksft_test_result_skip("no debugfs that the VM could leave\n");
	if (before >= 0)
		ok(module_references_become(before + NFILES),
		   "the modules have %ld references, one for each file",
		   module_references() - before);
	else
		ksft_print_msg("KVM is no module here: nothing counts its use\n");
	ok(all_stand_still(&all), "all values stand still");
	test_debugfs_of_next(vm_fd, number);
	for_each_file(file, &all) {
		if (!stats_file_unchanged(file))
			break;
	}
	ok(file == (struct stats_file *)(&all + 1), "and after another VM still do");

	close_all(&all);
	if (before >= 0)
		ok(module_references_become(before + NFILES),
		   "the files that another process has hold the modules too");
	ok(other_process_says(&other), "that process can read them and sees the end");
	if (before >= 0)
		ok(module_references_become(before), "after it nothing holds the modules");
}

static void vmm(int sock)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_spins);
	struct vcpu_thread thread;
	struct all_files all;
	struct stats_file *file;

	if (guest_exit_stats())
		vcpu_thread_start(&thread, vcpu_get_fd(vm, VCPU_ID));
	open_all(&all, vm_get_fd(vm), vcpu_get_fd(vm, VCPU_ID));
	for_each_file(file, &all)
		send_fd(sock, file->stats.fd);
	for (;;)
		pause();
}

/* The process of the VM is killed while a vCPU is in KVM_RUN. */
static void test_killed(void)
{
	char id[KVM_STATS_NAME_SIZE], want_vm[KVM_STATS_NAME_SIZE];
	char want_vcpu[KVM_STATS_NAME_SIZE];
	long before = module_references();
	struct pollfd poll_fd = { 0 };
	struct all_files all;
	struct stats_file *file;
	bool right = true;
	int sock[2];
	pid_t pid;

	TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock),
		    "socketpair, errno: %i", errno);
	fflush(stdout);
	pid = fork();
	TEST_ASSERT(pid >= 0, "fork, errno: %i", errno);
	if (!pid)
		vmm(sock[1]);
	for_each_file(file, &all) {
		int fd = receive_fd(sock[0]);

		if (file == &all.vm_stats_fd || file == &all.vcpu_stats_fd) {
			/* These have another header; the labels tell them apart. */
			file->abi = &abi_stats_fd;
			file->stats.fd = fd;
			file->stats.descs = NULL;
			file->size = lseek(fd, 0, SEEK_END);
			file->reference = malloc(file->size);
			snprintf(file->label, sizeof(file->label), "stats_fd");
		} else {
			stats_file_take(file, fd, "file");
		}
	}
	close(sock[0]);
	close(sock[1]);
	kill(pid, SIGKILL);
	TEST_ASSERT(waitpid(pid, NULL, 0) == pid, "waitpid, errno: %i", errno);

	poll_fd.fd = all.vcpus.stats.fd;
	ok(poll(&poll_fd, 1, TIMEOUT) == 1 && poll_fd.revents == POLLHUP,
	   "the file of a killed process says that the VM has gone");
	snprintf(want_vm, sizeof(want_vm), "kvm-%d", pid);
	snprintf(want_vcpu, sizeof(want_vcpu), "kvm-%d/vcpu-%d", pid, VCPU_ID);
	for_each_file(file, &all) {
		bool vcpu = file == &all.vcpu_getfd || file == &all.vcpu_stats_fd;

		right &= pread(file->stats.fd, id, sizeof(id), file->abi->id_offset) ==
			 sizeof(id) &&
			 !strcmp(id, vcpu ? want_vcpu : want_vm);
	}
	ok(right, "all files have the id %s", want_vm);
	ok(all_poll(&all, POLLIN | POLLHUP), "all files can be read and have ended");
	ok(all_stand_still(&all), "all values stand still");
	if (debugfs_has_kvm())
		ok(vm_goes_away(pid, -1), "the VM has left debugfs");
	else
		ksft_test_result_skip("no debugfs that the VM could leave\n");
	close_all(&all);
	if (before >= 0)
		ok(module_references_become(before), "nothing holds the modules");
}

int main(int argc, char *argv[])
{
	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();

	test_closed();
	test_killed();

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
