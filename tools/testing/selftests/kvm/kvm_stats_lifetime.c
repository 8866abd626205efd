// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that an open statistics file never keeps a VM
 *
 * When the last user of a VM goes, everything goes as if there were no
 * statistics files: the debugfs directory, devices, memory slots and the address
 * space that the VM holds, its use of the module. The files say so to those who
 * poll them, their values are final and can be read until the last one is
 * closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/compiler.h>
#include <linux/vfio.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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
	stats_file_open(&all->vcpus, &abi_getfd, vm_fd, KVM_STATS_SCOPE_VCPUS, "vCPUs");
	number = stats_vm_number(all->vm_getfd.stats.fd);
	stats_file_take(&all->next, open_next(number, 0), "next VM");
	stats_file_take(&all->next_vcpus, open_next(number, KVM_STATS_SCOPE_VCPUS),
			"next vCPUs");
}

static short poll_now(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	must_succeed(poll(&poll_fd, 1, 0));
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

/* A thread that waits for the destruction of a VM, without a timeout */
struct waiter {
	pthread_t thread;
	int stats_fd;
	uint32_t events;	/* for epoll */
	pid_t tid;
	bool returned;
	bool right;
};

/*
 * Poll without events: POLLHUP is reported nevertheless, and not before the VM
 * is destroyed.
 */
static void *poll_waiter(void *arg)
{
	struct waiter *waiter = arg;
	struct pollfd poll_fd = { .fd = waiter->stats_fd };
	int r;

	WRITE_ONCE(waiter->tid, syscall(SYS_gettid));
	r = poll(&poll_fd, 1, -1);
	WRITE_ONCE(waiter->returned, true);
	waiter->right = r == 1 && poll_fd.revents == POLLHUP &&
			!debugfs_dir(getpid(), -1, NULL, 0);
	return NULL;
}

static void *epoll_waiter(void *arg)
{
	struct waiter *waiter = arg;
	struct epoll_event event = { .events = waiter->events };
	int epoll_fd = epoll_create1(0), r;

	must_succeed(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, waiter->stats_fd, &event));
	WRITE_ONCE(waiter->tid, syscall(SYS_gettid));
	r = epoll_wait(epoll_fd, &event, 1, -1);
	WRITE_ONCE(waiter->returned, true);
	waiter->right = r == 1 && event.events == EPOLLHUP;
	close(epoll_fd);
	return NULL;
}

/* Return how many times a thread has slept, 0 while it is awake. */
static unsigned long waiter_sleeps(const struct waiter *waiter)
{
	unsigned long switches = 0;
	char path[64], line[128], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", READ_ONCE(waiter->tid));
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "State: %c", &state) != 1 &&
		    sscanf(line, "voluntary_ctxt_switches: %lu", &switches) == 1)
			break;
	}
	if (f)
		fclose(f);
	return state == 'S' ? switches : 0;
}

/* Whether a thread sleeps, and stays asleep from one look to the next */
static bool waiter_stays_asleep(const struct waiter *waiter)
{
	unsigned long before = waiter_sleeps(waiter);

	usleep(1000);
	return before && waiter_sleeps(waiter) == before;
}

/* Start a thread, and return when it waits. */
static void waiter_start(struct waiter *waiter, void *(*function)(void *))
{
	TEST_ASSERT(!pthread_create(&waiter->thread, NULL, function, waiter), "pthread_create");
	while (!waiter_stays_asleep(waiter))
		;
}

/*
 * Whether the destruction of the VM, which is over, has woken the thread with
 * the right events.  Then it runs, or waits for a CPU, until it has returned.
 */
static bool waiter_woken(struct waiter *waiter)
{
	while (!READ_ONCE(waiter->returned)) {
		if (waiter_stays_asleep(waiter) && !READ_ONCE(waiter->returned))
			return false;
	}
	pthread_join(waiter->thread, NULL);
	return waiter->right;
}

/* Read the values as soon as poll() reports the destruction. */
static void *final_reader(void *arg)
{
	struct stats_file *file = arg;
	const size_t start = file->stats.data_offset;
	struct pollfd poll_fd = { .fd = file->stats.fd };
	char *values = malloc(file->size);
	ssize_t n = -1;

	TEST_ASSERT(values, "No memory");
	while (must_succeed(poll(&poll_fd, 1, 0)) == 0)
		;
	n = pread(file->stats.fd, values, file->size - start, start);
	TEST_ASSERT(n == file->size - start, "%s: reading failed", file->label);
	return values;
}

/* Whether the file still has these values */
static bool values_are(const struct stats_file *file, const void *values)
{
	const size_t start = file->stats.data_offset, size = file->size - start;
	char *now = malloc(size);
	bool same;

	TEST_ASSERT(now, "No memory");
	same = pread(file->stats.fd, now, size, start) == size && !memcmp(now, values, size);
	free(now);
	return same;
}

struct race {
	int vm_fd, stats_fd;
	bool ready;
};

static void *destroy_vm(void *arg)
{
	struct race *race = arg;

	while (!READ_ONCE(race->ready))
		;
	close(race->vm_fd);
	return NULL;
}

/*
 * Add stats fds to an epoll set while the VM is destroyed: each of them must be
 * reported, whether it was added before or after the destruction.
 */
static void test_poll_races(void)
{
	const unsigned int rounds = 200;
	struct epoll_event events[128];
	unsigned int round, i, ready;
	int fds[ARRAY_SIZE(events)];
	struct race race;
	pthread_t thread;

	for (round = 0; round < rounds; round++) {
		int epoll_fd = must_succeed(epoll_create1(0));

		race.vm_fd = create_bare_vm();
		race.stats_fd = must_succeed(kvm_stats_getfd(race.vm_fd, 0));
		race.ready = false;
		TEST_ASSERT(!pthread_create(&thread, NULL, destroy_vm, &race),
			    "pthread_create");
		events[0].events = 0;
		WRITE_ONCE(race.ready, true);
		for (i = 0; i < ARRAY_SIZE(fds); i++) {
			fds[i] = must_succeed(dup(race.stats_fd));
			must_succeed(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[i], events));
		}
		pthread_join(thread, NULL);
		ready = must_succeed(epoll_wait(epoll_fd, events, ARRAY_SIZE(events), 0));
		for (i = 0; i < ARRAY_SIZE(fds); i++)
			close(fds[i]);
		close(race.stats_fd);
		close(epoll_fd);
		if (ready != ARRAY_SIZE(fds))
			break;
	}
	ok(round == rounds,
	   "epoll reports the destruction for %u of %zu fds added meanwhile, %u times",
	   ready, ARRAY_SIZE(fds), round);
}

/*
 * Wake many waiters: the first one runs on another CPU before the last one is woken,
 * and must detect the destruction.
 */
static void test_many_waiters(void)
{
	struct epoll_event event = { .events = 0 };
	int epoll_fd[500], vm_fd = create_bare_vm();
	struct race race = { .vm_fd = vm_fd };
	pthread_t thread;
	struct waiter waiter = { };
	int i;

	waiter.stats_fd = must_succeed(kvm_stats_getfd(vm_fd, 0));
	for (i = 0; i < ARRAY_SIZE(epoll_fd); i++) {
		epoll_fd[i] = must_succeed(epoll_create1(0));
		must_succeed(epoll_ctl(epoll_fd[i], EPOLL_CTL_ADD, waiter.stats_fd, &event));
	}
	waiter_start(&waiter, poll_waiter);
	TEST_ASSERT(!pthread_create(&thread, NULL, destroy_vm, &race), "pthread_create");
	WRITE_ONCE(race.ready, true);
	pthread_join(thread, NULL);
	ok(waiter_woken(&waiter),
	   "the first of %zu waiters detects the destruction", ARRAY_SIZE(epoll_fd) + 1);
	for (i = 0; i < ARRAY_SIZE(epoll_fd); i++)
		close(epoll_fd[i]);
	close(waiter.stats_fd);
}

static bool stop_reading;

/* Read during the destruction: all bytes except the values stay the same. */
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

/* A process that was passed all files, and checks them on request */
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

	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fflush(stdout);
	other->pid = must_succeed(fork());
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

/* fork() and mprotect() flush TLBs, which changes counters of a live VM. */
static bool child_does_nothing(void *arg)
{
	return true;
}

static bool all_final(struct all_files *all)
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
		   "the next VM has the same fd and its directory in debugfs");
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

/* All fds of the VM are closed. */
static void test_closed(void)
{
	long before = module_references();
	struct waiter in_poll = { }, in_epoll = { }, exclusive[NFILES];
	pthread_t reads_vm, reads_vcpus;
	void *vm_right, *vcpus_right;
	pthread_t reads_final[2];
	void *final[2];
	unsigned int i, all_woken = 0;
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
		ok(debugfs_dir(getpid(), vm_fd, NULL, 0), "the VM is in debugfs");
	ok(all_poll(&all, POLLIN), "all %zu files can be read, none has ended", NFILES);

	TEST_ASSERT(!pthread_create(&reads_final[0], NULL, final_reader, &all.vm_getfd) &&
		    !pthread_create(&reads_final[1], NULL, final_reader, &all.vcpus),
		    "pthread_create");
	TEST_ASSERT(!pthread_create(&reads_vm, NULL, reader, &all.vm_getfd) &&
		    !pthread_create(&reads_vcpus, NULL, reader, &all.vcpus),
		    "pthread_create");
	in_poll.stats_fd = all.vm_getfd.stats.fd;
	waiter_start(&in_poll, poll_waiter);
	in_epoll.stats_fd = all.vcpu_getfd.stats.fd;
	waiter_start(&in_epoll, epoll_waiter);
	/*
	 * A set that is woken for one of its files, and not for what others wait for:
	 * all files of a VM have one end, so each of these sets has to be woken.
	 */
	i = 0;
	for_each_file(file, &all) {
		exclusive[i] = (struct waiter) {
			.stats_fd = file->stats.fd,
			.events = EPOLLEXCLUSIVE,
		};
		waiter_start(&exclusive[i++], epoll_waiter);
	}
	kvm_vm_free(vm);

	ok(waiter_woken(&in_poll),
	   "poll() of the VM's file wakes up with POLLHUP after VM destruction");
	ok(waiter_woken(&in_epoll), "epoll_wait() of the vCPU's file wakes up with EPOLLHUP");
	for (i = 0; i < NFILES; i++)
		all_woken += waiter_woken(&exclusive[i]);
	ok(all_woken == NFILES,
	   "EPOLLEXCLUSIVE: %zu sets have a file of the VM, %u are woken",
	   NFILES, all_woken);
	WRITE_ONCE(stop_reading, true);
	pthread_join(reads_vm, &vm_right);
	pthread_join(reads_vcpus, &vcpus_right);
	ok(vm_right && vcpus_right, "reads that were under way are right");
	pthread_join(reads_final[0], &final[0]);
	pthread_join(reads_final[1], &final[1]);
	ok(values_are(&all.vm_getfd, final[0]) && values_are(&all.vcpus, final[1]),
	   "the values that are read after EPOLLHUP are final");
	free(final[0]);
	free(final[1]);
	ok(all_poll(&all, POLLIN | POLLHUP), "all files can be read and have ended");
	if (debugfs_has_kvm())
		ok(vm_goes_away(getpid(), vm_fd), "the VM has left debugfs");
	else
		ksft_test_result_skip("no debugfs that the VM could leave\n");
	if (before >= 0)
		ok_alone(module_references_become(before + NFILES + stats_mem_module_refs),
			 "the modules have %ld references from the files and the VM",
			 module_references() - before);
	else
		ksft_print_msg("KVM is built in: module references are not tested\n");
	ok(all_final(&all), "all values are final");
	test_debugfs_of_next(vm_fd, number);
	for_each_file(file, &all) {
		if (!stats_file_unchanged(file))
			break;
	}
	ok(file == (struct stats_file *)(&all + 1), "all values are final while another VM exists");

	close_all(&all);
	if (before >= 0)
		ok_alone(module_references_become(before + NFILES + stats_mem_module_refs),
			 "the files that another process has hold the modules too");
	ok(other_process_says(&other),
	   "the other process reads the files and detects the destruction");
	if (before >= 0)
		ok_alone(module_references_become(before),
			 "nothing holds the modules after the other process has exited");
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
	char id[STATS_NAME_SIZE], want_vm[STATS_NAME_SIZE];
	char want_vcpu[STATS_NAME_SIZE];
	long before = module_references();
	struct pollfd poll_fd = { 0 };
	struct all_files all;
	struct stats_file *file;
	bool right = true;
	int sock[2];
	pid_t pid;

	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fflush(stdout);
	pid = must_succeed(fork());
	if (!pid)
		vmm(sock[1]);
	for_each_file(file, &all) {
		int fd = receive_fd(sock[0]);

		if (file == &all.vm_stats_fd || file == &all.vcpu_stats_fd) {
			/* These files have a different header. */
			file->abi = &abi_stats_fd;
			file->stats = (struct kvm_stats) {
				.fd = fd,
				.id_offset = abi_stats_fd.id_offset,
			};
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
	must_succeed(waitpid(pid, NULL, 0));

	poll_fd.fd = all.vcpus.stats.fd;
	ok(poll(&poll_fd, 1, -1) == 1 && poll_fd.revents == POLLHUP,
	   "the file of a killed VMM reports POLLHUP");
	ok(lseek(all.vcpus.stats.fd, 0, SEEK_END) == all.vcpus.size,
	   "the table ends where it ended before");
	snprintf(want_vm, sizeof(want_vm), "kvm-%d", pid);
	snprintf(want_vcpu, sizeof(want_vcpu), "kvm-%d/vcpu-%d", pid, VCPU_ID);
	for_each_file(file, &all) {
		bool vcpu = file == &all.vcpu_getfd || file == &all.vcpu_stats_fd;

		right &= pread(file->stats.fd, id, sizeof(id), file->stats.id_offset) ==
			 sizeof(id) &&
			 !strcmp(id, vcpu ? want_vcpu : want_vm);
	}
	ok(right, "all files have the id %s", want_vm);
	ok(all_poll(&all, POLLIN | POLLHUP), "all files can be read and have ended");
	ok(all_final(&all), "all values are final");
	if (debugfs_has_kvm())
		ok(vm_goes_away(pid, -1), "the VM has left debugfs");
	else
		ksft_test_result_skip("no debugfs that the VM could leave\n");
	close_all(&all);
	if (before >= 0)
		ok_alone(module_references_become(before), "nothing holds the modules");
}

/* Create a VM without vCPUs, and open its statistics */
static int create_vm_with_stats(int *stats_fd)
{
	int vm_fd = create_bare_vm();

	*stats_fd = must_succeed(kvm_stats_getfd(vm_fd, 0));
	return vm_fd;
}

/* Wait until the VM of a statistics file is destroyed. */
static void wait_for_end(int stats_fd)
{
	struct pollfd poll_fd = { .fd = stats_fd };

	TEST_ASSERT(poll(&poll_fd, 1, -1) == 1 && poll_fd.revents == POLLHUP,
		    "The VM does not go");
}

/* Open an eventfd; *id is the least number that no other has. */
static int open_eventfd(int *id)
{
	int fd = eventfd(0, 0);
	char path[64], line[64];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	TEST_ASSERT(f, "No %s", path);
	while (fgets(line, sizeof(line), f) && !found)
		found = sscanf(line, "eventfd-id: %d", id) == 1;
	fclose(f);
	TEST_ASSERT(found, "No eventfd-id in %s", path);
	return fd;
}

/* How often to try what other processes can disturb, and not help */
#define ATTEMPTS	10

/*
 * An in-kernel device holds an eventfd, whose id is in use until the device is
 * released. Ids are shared by all processes: another one may take the freed id.
 */
static void test_device(void)
{
	struct kvm_ioeventfd ioeventfd = { .addr = 0x1000, .len = 4 };
	int vm_fd, stats_fd, other_fd, again_fd, id, other, again, i;
	bool released = false;

	for (i = 0; i < ATTEMPTS && !released; i++) {
		vm_fd = create_vm_with_stats(&stats_fd);
		ioeventfd.fd = open_eventfd(&id);
		must_succeed(ioctl(vm_fd, KVM_IOEVENTFD, &ioeventfd));
		close(ioeventfd.fd);
		other_fd = open_eventfd(&other);
		close(vm_fd);
		wait_for_end(stats_fd);
		again_fd = open_eventfd(&again);
		released = other != id && again == id;
		close(again_fd);
		close(other_fd);
		close(stats_fd);
	}
	ok(released,
	   "an in-kernel device is released: eventfd %d, %d before that, then %d",
	   id, other, again);
}

/* A device that no hardware is needed for: samples/vfio-mdev/mtty.c has it */
#define MTTY	"/sys/devices/virtual/mtty/mtty/mdev_supported_types/mtty-1/create"
#define UUID	"83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
#define DEVICE	"/sys/bus/mdev/devices/" UUID

/* Open the group of the device. */
static int open_group(void)
{
	char link[256] = "", path[64];

	TEST_ASSERT(readlink(DEVICE "/iommu_group", link, sizeof(link) - 1) > 0,
		    "The device has no group, errno: %i", errno);
	snprintf(path, sizeof(path), "/dev/vfio/%s", strrchr(link, '/') + 1);
	return open(path, O_RDWR);
}

/* A VM with a VFIO device uses its group, which cannot be opened again until then. */
static void test_vfio(void)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_VFIO };
	struct kvm_device_attr attr = {
		.group = KVM_DEV_VFIO_GROUP,
		.attr = KVM_DEV_VFIO_GROUP_ADD,
	};
	int container_fd, group_fd, vm_fd, stats_fd, used;

	if (access(MTTY, W_OK)) {
		ksft_print_msg("no device for VFIO without hardware: no mtty\n");
		return;
	}
	TEST_ASSERT(write_file(MTTY, UUID), "No device, errno: %i", errno);
	container_fd = open("/dev/vfio/vfio", O_RDWR);
	group_fd = must_succeed(open_group());
	TEST_ASSERT(!ioctl(group_fd, VFIO_GROUP_SET_CONTAINER, &container_fd) &&
		    !ioctl(container_fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU),
		    "A container with the group, errno: %i", errno);

	vm_fd = create_vm_with_stats(&stats_fd);
	attr.addr = (uintptr_t)&group_fd;
	TEST_ASSERT(!ioctl(vm_fd, KVM_CREATE_DEVICE, &device) &&
		    !ioctl(device.fd, KVM_SET_DEVICE_ATTR, &attr),
		    "A VM with the group, errno: %i", errno);
	close(group_fd);
	group_fd = open_group();
	used = group_fd < 0 && errno == EBUSY;
	/* Kernels differ in whether the group is let go of here or with the VM. */
	close(device.fd);
	close(vm_fd);
	wait_for_end(stats_fd);
	if (used)
		group_fd = open_group();
	ok(used && group_fd >= 0,
	   "VFIO has its group back: the VM %s it",
	   used ? "used" : "did not use");

	close(stats_fd);
	close(group_fd);
	close(container_fd);
	TEST_ASSERT(write_file(DEVICE "/remove", "1"), "The device stays, errno: %i",
		    errno);
}

#ifdef __x86_64__
/*
 * Blocks of memory that functions of KVM took, so large that each has a line: that
 * names who took it, or the helper for arrays if it does not end in a jump.
 */
static int large_blocks(void)
{
	FILE *f = fopen("/proc/vmallocinfo", "r");
	char line[256];
	int blocks = 0;

	TEST_ASSERT(f, "No /proc/vmallocinfo");
	while (fgets(line, sizeof(line), f))
		blocks += strstr(line, "kvm") || strstr(line, "__vcalloc");
	fclose(f);
	return blocks;
}

/*
 * The metadata of the pages of a memory slot takes 16 MiB here. The block that remains
 * until the file is closed is struct kvm with the counters.
 */
static void test_memory_slot(void)
{
	struct kvm_userspace_memory_region region = { .memory_size = 8ULL << 30 };
	int vm_fd, stats_fd, before, without, with, after, i;
	bool slot_freed = false, vm_freed = false;
	void *memory;

	memory = must_succeed(mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	region.userspace_addr = (uintptr_t)memory;
	/* The counts include all VMs of the host. */
	for (i = 0; i < ATTEMPTS && !(slot_freed && vm_freed); i++) {
		before = large_blocks();
		vm_fd = create_vm_with_stats(&stats_fd);
		without = large_blocks();
		must_succeed(ioctl(vm_fd, KVM_SET_USER_MEMORY_REGION, &region));
		with = large_blocks();
		close(vm_fd);
		wait_for_end(stats_fd);
		after = large_blocks();
		slot_freed = with > without && after <= before + 1;
		close(stats_fd);
		vm_freed = large_blocks() == before;
	}
	ok_alone(slot_freed,
		 "a memory slot is freed: %d large blocks without it, %d with it, then %d",
		 without, with, after);
	if (stats_vm_is_large_block)
		ok_alone(without > before && vm_freed,
			 "the memory of a VM is freed with its last file: %d large blocks, then %d",
			 without, before);
	munmap(memory, region.memory_size);
}
#else
static void test_memory_slot(void)
{
}
#endif

/* How many address spaces the kernel has, -1 if it does not say so */
static int address_spaces(void)
{
	static const char slab[] = "/sys/kernel/slab/mm_struct";
	char path[64];
	int count = -1;
	FILE *f;

	/*
	 * Lockdep sees a circle in this and a later unload of a module, with which
	 * KVM has nothing to do.
	 */
	if (!access("/proc/lockdep", F_OK))
		return -1;
	/* Free objects in per-CPU caches are counted until the cache shrinks. */
	snprintf(path, sizeof(path), "%s/shrink", slab);
	if (!write_file(path, "1"))
		return -1;
	snprintf(path, sizeof(path), "%s/objects", slab);
	f = fopen(path, "r");
	if (!f)
		return -1;
	TEST_ASSERT(fscanf(f, "%d", &count) == 1, "No number in %s", path);
	fclose(f);
	return count;
}

/*
 * A VM and its MMU notifier hold the address space of the process that created
 * it. Some are in use for other reasons, so it is tried with many.
 */
static void test_address_space(void)
{
	int stats_fd[32], sock[2], i, before, after, attempt = 0;

	if (address_spaces() < 0) {
		ksft_print_msg("this kernel does not count its address spaces, or has lockdep\n");
		return;
	}
	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fflush(stdout);
again:
	before = address_spaces();
	for (i = 0; i < ARRAY_SIZE(stats_fd); i++) {
		pid_t pid = must_succeed(fork());

		if (!pid) {
			create_vm_with_stats(&stats_fd[i]);
			send_fd(sock[1], stats_fd[i]);
			_exit(0);
		}
		stats_fd[i] = receive_fd(sock[0]);
		must_succeed(waitpid(pid, NULL, 0));
		wait_for_end(stats_fd[i]);
	}
	after = address_spaces();
	for (i = 0; i < ARRAY_SIZE(stats_fd); i++)
		close(stats_fd[i]);
	/* The counts include other processes, some of which may have started. */
	if (after >= before + ARRAY_SIZE(stats_fd) / 2 && ++attempt < ATTEMPTS)
		goto again;
	ok(after < before + ARRAY_SIZE(stats_fd) / 2,
	   "the address spaces of %zu ended processes are freed: %d before, %d after",
	   ARRAY_SIZE(stats_fd), before, after);
	close(sock[0]);
	close(sock[1]);
}

/*
 * A VM of which only a vCPU is left has the name in debugfs that the next one of the
 * thread should have.
 */
static void test_debugfs_of_two(void)
{
	int vm_fd = create_bare_vm(), next_fd, next_vcpu_fd;
	int low_fd = must_succeed(ioctl(vm_fd, KVM_CREATE_VCPU, 0ul));
	/* So that the same fds are free as before. */
	int vcpu_fd = must_succeed(fcntl(low_fd, F_DUPFD, 100));

	close(low_fd);
	close(vm_fd);
	next_fd = create_bare_vm();
	TEST_ASSERT(next_fd == vm_fd, "The VM has fd %d, not %d", next_fd, vm_fd);
	next_vcpu_fd = must_succeed(ioctl(next_fd, KVM_CREATE_VCPU, 0ul));
	ok(access("/sys/kernel/debug/vcpu0", F_OK) == -1,
	   "the vCPU of a VM without a directory in debugfs has none in its root");
	close(next_vcpu_fd);
	close(next_fd);
	close(vcpu_fd);
}

int main(int argc, char *argv[])
{
	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();

	test_closed();
	test_killed();
	test_poll_races();
	test_many_waiters();
	test_device();
	test_vfio();
	test_memory_slot();
	test_address_space();
	if (debugfs_has_kvm())
		test_debugfs_of_two();

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
