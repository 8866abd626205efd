// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of statistics in the running kernel, with or without the series.
 * Requires QEMU's -icount, which makes the time stamp counter count instructions.
 *
 * Print a figure per line, NAME VALUE: instructions unless the name contains another unit.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/stddef.h>	/* for io_uring.h, which doesn't include it */
#include <linux/io_uring.h>

#include "kvm_stats.h"

#ifdef KVM_CAP_STATS_SCOPES
#define CAP_STATS	KVM_CAP_STATS_SCOPES
#else
#define CAP_STATS	KVM_CAP_STATS_BINARY_FD
#endif

/* Several timer ticks long, so that every mean includes the same share of ticks */
#define INSTRUCTIONS	20000000
#define MAX_ROUNDS	100000
/* Large enough that previously allocated objects do not matter */
#define OPEN_FILES	100000
#define MAX_DEBUGFS	256
#define MAX_VCPUS	128
#define MAX_FILES	64
#define HOST_VMS	4000

/* A VM with some vCPUs */
struct vm {
	int fd;
	int vcpus[MAX_VCPUS];
};

static int kvm_fd;
static struct vm one;
static struct kvm_run *run;
static char buf[1 << 20];

static long no_less(long value, long least, const char *what)
{
	if (value < least)
		err(1, "%s: %ld", what, value);
	return value;
}

static void create(struct vm *vm, int vcpus)
{
	int i;

	vm->fd = no_less(ioctl(kvm_fd, KVM_CREATE_VM, 0), 0, "KVM_CREATE_VM");
	for (i = 0; i < vcpus; i++)
		vm->vcpus[i] = no_less(ioctl(vm->fd, KVM_CREATE_VCPU, i), 0,
				       "KVM_CREATE_VCPU");
}

static void destroy(struct vm *vm, int vcpus)
{
	while (vcpus--)
		close(vm->vcpus[vcpus]);
	close(vm->fd);
}

/* The measured functions. Each one executes a single call. */

static void getppid_once(void)
{
	syscall(SYS_getppid);
}

static void eventfd_once(void)
{
	close(no_less(eventfd(0, 0), 0, "eventfd"));
}

/* The cheapest file on an anonymous inode that the base kernel has */
static void pidfd_once(void)
{
	close(no_less(syscall(SYS_pidfd_open, getpid(), 0), 0, "pidfd_open"));
}

static void run_once(void)
{
	if (ioctl(one.vcpus[0], KVM_RUN, 0) != -1 || errno != EINTR)
		err(1, "KVM_RUN with immediate_exit");
}

static void check_extension_once(void)
{
	no_less(ioctl(one.fd, KVM_CHECK_EXTENSION, KVM_CAP_USER_MEMORY), 1,
		"KVM_CHECK_EXTENSION");
}

static void vm_once(void)
{
	struct vm vm;

	create(&vm, 1);
	destroy(&vm, 1);
}

static struct pollfd polled = { .events = POLLIN };

static void poll_once(void)
{
	no_less(poll(&polled, 1, 0), 1, "poll");
}

/* Files read one after another, the same part of each */
static struct {
	int fds[MAX_FILES];
	int count;
	size_t len;
	off_t offset;
} reading;

static void read_once(void)
{
	no_less(pread(reading.fds[0], buf, reading.len, reading.offset),
		reading.len, "pread");
}

/* libc's pread() takes 47 more instructions once a process has had two threads. */
static void bare_read_once(void)
{
	no_less(syscall(SYS_pread64, reading.fds[0], buf, reading.len, reading.offset),
		reading.len, "pread");
}

static void preadv_once(void)
{
	struct iovec iov = { buf, reading.len };

	no_less(syscall(SYS_preadv, reading.fds[0], &iov, 1, reading.offset, 0),
		reading.len, "preadv");
}

/* A ring for one request at a time */
static struct {
	int fd;
	unsigned int *sq_tail;
	unsigned int *sq_array;
	unsigned int sq_mask;
	unsigned int *cq_head;
	unsigned int cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqes;
	unsigned int flags;
} ring;

static void *map_ring(size_t size, off_t offset)
{
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, ring.fd, offset);

	if (mapped == MAP_FAILED)
		err(1, "mmap io_uring");
	return mapped;
}

static void open_ring(void)
{
	struct io_uring_params params = { 0 };
	char *sq, *cq;

	ring.fd = no_less(syscall(SYS_io_uring_setup, 1, &params), 0, "io_uring_setup");
	sq = map_ring(params.sq_off.array + params.sq_entries * sizeof(int),
		      IORING_OFF_SQ_RING);
	cq = map_ring(params.cq_off.cqes + params.cq_entries * sizeof(*ring.cqes),
		      IORING_OFF_CQ_RING);
	ring.sq_tail = (unsigned int *)(sq + params.sq_off.tail);
	ring.sq_array = (unsigned int *)(sq + params.sq_off.array);
	ring.sq_mask = *(unsigned int *)(sq + params.sq_off.ring_mask);
	ring.cq_head = (unsigned int *)(cq + params.cq_off.head);
	ring.cq_mask = *(unsigned int *)(cq + params.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	ring.sqe = map_ring(params.sq_entries * sizeof(*ring.sqe), IORING_OFF_SQES);
}

static void io_uring_once(void)
{
	*ring.sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_READ,
		.flags = ring.flags,
		.fd = reading.fds[0],
		.addr = (uintptr_t)buf,
		.len = reading.len,
		.off = reading.offset,
	};
	ring.sq_array[*ring.sq_tail & ring.sq_mask] = 0;
	__atomic_store_n(ring.sq_tail, *ring.sq_tail + 1, __ATOMIC_RELEASE);
	no_less(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS,
			NULL, 0), 1, "io_uring_enter");
	no_less(ring.cqes[*ring.cq_head & ring.cq_mask].res, reading.len, "io_uring");
	__atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
}

static void read_all_once(void)
{
	int i;

	for (i = 0; i < reading.count; i++)
		no_less(pread(reading.fds[i], buf, reading.len, reading.offset),
			reading.len, "pread");
}

static int opened_fd;
static bool open_getfd;		/* by KVM_STATS_GETFD instead of KVM_GET_STATS_FD */

static int open_file(void)
{
	return no_less(open_getfd ? kvm_stats_getfd(opened_fd, 0) :
		       ioctl(opened_fd, KVM_GET_STATS_FD, 0), 0, "open statistics");
}

static void open_once(void)
{
	close(open_file());
}

static char debugfs_path[MAX_DEBUGFS][320];
static int debugfs_files;

static void debugfs_once(void)
{
	int i, fd;

	for (i = 0; i < debugfs_files; i++) {
		fd = no_less(open(debugfs_path[i], O_RDONLY), 0, debugfs_path[i]);
		no_less(read(fd, buf, sizeof(buf)), 0, debugfs_path[i]);
		close(fd);
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t instructions(void)
{
	return __rdtsc();
}

/* Return this thread's instructions: the time stamp counter also counts while it sleeps. */
static uint64_t own_instructions(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/*
 * The median is the cost of the call itself. The mean includes interruptions: timer ticks,
 * and RCU, which frees closed files later.
 */
static inline __attribute__((always_inline))
void measure_by(uint64_t (*clock)(void), const char *name,
		void (*once)(void))
{
	static uint64_t spent[MAX_ROUNDS];
	uint64_t start, now, sum;
	int pass, rounds;

	/* The first pass warms up: page faults, slabs that grow. */
	for (pass = 0; pass < 2; pass++) {
		sum = 0;
		for (rounds = 0; rounds < MAX_ROUNDS && sum < INSTRUCTIONS; rounds++) {
			start = clock();
			once();
			now = clock();
			spent[rounds] = now - start;
			sum += spent[rounds];
		}
	}
	qsort(spent, rounds, sizeof(*spent), compare);
	printf("%s %.1f\n%s_mean %.1f\n", name, (double)spent[rounds / 2], name,
	       (double)sum / rounds);
}

static void measure(const char *name, void (*once)(void))
{
	measure_by(instructions, name, once);
}

static void prepare_read(int fd, size_t len, off_t offset)
{
	reading.fds[0] = fd;
	reading.len = len;
	reading.offset = offset;
}

static void measure_read(const char *name, int fd, size_t len, off_t offset)
{
	prepare_read(fd, len, offset);
	measure(name, read_once);
}

static void measure_open(const char *name, int fd, bool getfd)
{
	opened_fd = fd;
	open_getfd = getfd;
	measure(name, open_once);
}

/* Return true if the kernel supports KVM_STATS_GETFD, not only KVM_GET_STATS_FD */
static bool have_getfd;

static void open_stats(struct kvm_stats *stats, int fd)
{
	if (have_getfd)
		kvm_stats_open_getfd(stats, fd, 0);
	else
		kvm_stats_open_stats_fd(stats, fd);
}

/* Measure the files of a VM and of a vCPU with both ABIs */
static void measure_files(void)
{
	struct kvm_stats stats;
	char name[32];
	size_t size;
	int vm, abi;

	for (vm = 0; vm < 2; vm++)
		for (abi = !have_getfd; abi < 2; abi++) {
			const char *kind = vm ? "vm" : "vcpu";
			const char *by = abi ? "stats_fd" : "getfd";
			int fd = vm ? one.fd : one.vcpus[0];

			if (abi)
				kvm_stats_open_stats_fd(&stats, fd);
			else
				kvm_stats_open_getfd(&stats, fd, 0);
			size = kvm_stats_data_size(&stats);
			snprintf(name, sizeof(name), "data_%s_%s", kind, by);
			measure_read(name, stats.fd, size, stats.data_offset);
			snprintf(name, sizeof(name), "file_%s_%s", kind, by);
			measure_read(name, stats.fd, stats.data_offset + size, 0);
			kvm_stats_close(&stats);
			snprintf(name, sizeof(name), "open_%s_%s", kind, by);
			measure_open(name, fd, !abi);
		}
}

/* Measure reading all values of a vCPU with system calls other than pread() */
static void measure_calls(void)
{
	struct kvm_stats stats;

	open_stats(&stats, one.vcpus[0]);
	prepare_read(stats.fd, kvm_stats_data_size(&stats), stats.data_offset);
	measure("preadv", preadv_once);
	open_ring();
	/*
	 * A file that has only ->read() is not read without a worker thread, unless reads of the
	 * open file are nonblocking anyway. If it has ->poll(), the kernel polls 128 times before.
	 */
	measure("io_uring", io_uring_once);
	no_less(fcntl(stats.fd, F_SETFL, O_NONBLOCK), 0, "fcntl");
	measure("io_uring_nonblock", io_uring_once);
	no_less(fcntl(stats.fd, F_SETFL, 0), 0, "fcntl");
	ring.flags = IOSQE_ASYNC;
	measure("io_uring_async", io_uring_once);
	close(ring.fd);
	kvm_stats_close(&stats);
}

/* Parts of a vCPU's file */
static void measure_parts(void)
{
	struct kvm_stats stats;
	size_t size;

	open_stats(&stats, one.vcpus[0]);
	size = kvm_stats_data_size(&stats);
	printf("data_bytes %zu\nfile_bytes %zu\n", size, stats.data_offset + size);
	measure_read("8_bytes", stats.fd, 8, stats.data_offset);
	measure_read("all_but_one", stats.fd, size - 8, stats.data_offset);
	polled.fd = stats.fd;
	measure("poll", poll_once);
	kvm_stats_close(&stats);
}

static void *wait_forever(void *arg)
{
	pause();
	return NULL;
}

/* With two threads, each call takes a reference to the file. */
static void measure_threads(void)
{
	struct kvm_stats stats;
	pthread_t thread;

	open_stats(&stats, one.vcpus[0]);
	if (pthread_create(&thread, NULL, wait_forever, NULL))
		errx(1, "pthread_create");
	measure("getppid_2_threads", getppid_once);
	prepare_read(stats.fd, 8, stats.data_offset);
	measure("8_bytes_2_threads", bare_read_once);
	prepare_read(stats.fd, kvm_stats_data_size(&stats), stats.data_offset);
	measure("data_2_threads", bare_read_once);
	kvm_stats_close(&stats);
}

/* Measure one file per vCPU, read one after another. */
static void measure_several(int count)
{
	struct kvm_stats stats[MAX_FILES];
	struct vm vm;
	char name[32];
	int i;

	create(&vm, count);
	for (i = 0; i < count; i++) {
		open_stats(&stats[i], vm.vcpus[i]);
		reading.fds[i] = stats[i].fd;
	}
	reading.count = count;
	reading.len = kvm_stats_data_size(&stats[0]);
	reading.offset = stats[0].data_offset;
	snprintf(name, sizeof(name), "%d_files", count);
	measure(name, read_all_once);
	for (i = 0; i < count; i++)
		kvm_stats_close(&stats[i]);
	destroy(&vm, count);
}

/* Measure one file with all vCPUs. */
static void measure_vcpus(int count)
{
	struct kvm_stats stats;
	struct vm vm;
	char name[32];

	create(&vm, count);
	kvm_stats_open_getfd(&stats, vm.fd, KVM_STATS_SCOPE_VCPUS);
	snprintf(name, sizeof(name), "vcpus_%d", count);
	measure_read(name, stats.fd, count * kvm_stats_data_size(&stats),
		     stats.data_offset);
	if (count == 1) {
		polled.fd = stats.fd;
		measure("poll_vcpus", poll_once);
	}
	kvm_stats_close(&stats);
	destroy(&vm, count);
}

static uint64_t last_vm;
static int host_vms;

/* One statistics file after another, each closed before the next */
static void enumerate_once(void)
{
	struct kvm_stats_next next = { 0 };
	int fd, found = 0;

	while ((fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next)) >= 0) {
		close(fd);
		found++;
	}
	if (errno != ENOENT)
		err(1, "KVM_STATS_NEXT");
	no_less(found, host_vms, "VMs found");
	last_vm = next.vm;
}

static void nothing_new_once(void)
{
	struct kvm_stats_next next = { .vm = last_vm };

	if (ioctl(kvm_fd, KVM_STATS_NEXT, &next) != -1 || errno != ENOENT)
		err(1, "KVM_STATS_NEXT after the last VM");
}

/*
 * Measure an agent's enumeration of all VMs at its start on hosts with few and with many VMs,
 * and a later call without new VMs.
 */
static void measure_next(void)
{
	static const int counts[] = { 1, 100, 1000, HOST_VMS };
	static struct vm vms[HOST_VMS];
	char name[32];
	int i, created = 0;

	/* The VM that exists throughout is one of them. */
	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		for (host_vms = counts[i]; created < host_vms - 1; created++)
			create(&vms[created], 0);
		snprintf(name, sizeof(name), "enumerate_%d", host_vms);
		measure(name, enumerate_once);
	}
	measure("nothing_new", nothing_new_once);
	while (created)
		destroy(&vms[--created], 0);
}

static void find_debugfs(void)
{
	char folder[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/sys/kernel/debug/kvm/%d-%d", getpid(),
		 one.fd);
	dir = opendir(folder);
	if (!dir)
		err(1, "%s", folder);
	while ((entry = readdir(dir))) {
		if (entry->d_type != DT_REG)
			continue;
		if (debugfs_files == MAX_DEBUGFS)
			errx(1, "%s: too many files", folder);
		snprintf(debugfs_path[debugfs_files++], sizeof(*debugfs_path),
			 "%s/%s", folder, entry->d_name);
	}
	closedir(dir);
	printf("debugfs_files %d\n", debugfs_files);
}

/* Print if an open debugfs file can be read a second time; skip empty files. */
static void print_debugfs_again(void)
{
	int i = 0, fd = no_less(open(debugfs_path[0], O_RDONLY), 0, debugfs_path[0]);

	while (read(fd, buf, sizeof(buf)) < 1) {
		close(fd);
		if (++i == debugfs_files)
			errx(1, "debugfs: all files are empty");
		fd = no_less(open(debugfs_path[i], O_RDONLY), 0, debugfs_path[i]);
	}
	printf("debugfs_again %d\n", pread(fd, buf, sizeof(buf), 0) > 0 ||
	       (!lseek(fd, 0, SEEK_SET) && read(fd, buf, sizeof(buf)) > 0));
	close(fd);
}

/* Measure a memfd as large as a vCPU's values */
static void measure_memfd(void)
{
	int fd = no_less(memfd_create("bench", 0), 0, "memfd_create");
	struct kvm_stats stats;
	size_t size;

	open_stats(&stats, one.vcpus[0]);
	size = kvm_stats_data_size(&stats);
	kvm_stats_close(&stats);
	no_less(write(fd, buf, size), size, "write memfd");
	measure_read("memfd", fd, size, 0);
	close(fd);
}

/* Return the bytes in the objects of all slab caches */
static long slab_bytes(void)
{
	FILE *file = fopen("/proc/slabinfo", "r");
	unsigned long objects, size, sum = 0;
	char *line = NULL;
	size_t len = 0;

	if (!file)
		err(1, "/proc/slabinfo");
	while (getline(&line, &len, file) > 0)
		if (sscanf(line, "%*s %lu %*u %lu", &objects, &size) == 2)
			sum += objects * size;
	free(line);
	fclose(file);
	return sum;
}

/* Print the size of a struct file with the alignment of its slab cache */
static void print_file_object(void)
{
	static const char path[] = "/sys/kernel/slab/filp/slab_size";
	FILE *file = fopen(path, "r");
	int size;

	if (!file || fscanf(file, "%d", &size) != 1)
		err(1, "%s", path);
	printf("file_object %d\n", size);
	fclose(file);
}

static void measure_memory(const char *name, bool getfd)
{
	static int fds[OPEN_FILES];
	long before;
	int i;

	/* Closed files are freed after an RCU grace period. */
	sleep(1);
	opened_fd = one.vcpus[0];
	open_getfd = getfd;
	slab_bytes();
	before = slab_bytes();
	for (i = 0; i < OPEN_FILES; i++)
		fds[i] = open_file();
	printf("%s %.1f\n", name, (double)(slab_bytes() - before) / OPEN_FILES);
	for (i = 0; i < OPEN_FILES; i++)
		close(fds[i]);
}

static void print_memory(void)
{
	struct rlimit limit = { OPEN_FILES + 1000, OPEN_FILES + 1000 };

	print_file_object();
	/* Grow the fd table to its full size first: it does not belong to a file. */
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "RLIMIT_NOFILE");
	no_less(dup2(STDOUT_FILENO, limit.rlim_cur - 1), 0, "dup2");
	if (have_getfd)
		measure_memory("memory_getfd", true);
	measure_memory("memory_stats_fd", false);
}

int main(void)
{
	long size;

	kvm_fd = no_less(open("/dev/kvm", O_RDWR), 0, "/dev/kvm");
	create(&one, 1);
	size = no_less(ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0), 1,
		       "KVM_GET_VCPU_MMAP_SIZE");
	run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, one.vcpus[0], 0);
	if (run == MAP_FAILED)
		err(1, "mmap vCPU");
	run->immediate_exit = 1;

	measure("getppid", getppid_once);
	measure("eventfd", eventfd_once);
	measure("pidfd", pidfd_once);
	measure("run", run_once);
	measure("check_extension", check_extension_once);
	measure_by(own_instructions, "vm", vm_once);
	find_debugfs();
	measure("debugfs", debugfs_once);
	print_debugfs_again();
	have_getfd = ioctl(kvm_fd, KVM_CHECK_EXTENSION, CAP_STATS) > 0;
	if (!have_getfd &&
	    ioctl(kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_BINARY_STATS_FD) <= 0)
		return 0;

	measure_memfd();
	measure_files();
	measure_parts();
	measure_several(1);
	measure_several(16);
	measure_several(64);
	if (have_getfd) {
		measure_vcpus(1);
		measure_vcpus(16);
		measure_vcpus(64);
		measure_vcpus(128);
	}
	print_memory();
	if (have_getfd)
		measure_next();
	/* From here on, the process has several threads: io_uring creates some. */
	measure_calls();
	measure_threads();
	return 0;
}
