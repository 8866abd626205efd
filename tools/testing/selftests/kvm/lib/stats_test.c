// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the tests of the statistics files share
 */
#define _GNU_SOURCE
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/stddef.h>	/* required by io_uring.h, which does not include it */
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stats_test.h"
#include "test_util.h"

/* tools/arch/x86/include/asm/unistd_64.h, which comes first, has not all. */
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup	425
#define __NR_io_uring_enter	426
#define __NR_io_uring_register	427
#endif

const struct stats_abi abi_stats_fd = {
	.name = "stats_fd",
	.request = KVM_GET_STATS_FD,
	.cap = KVM_CAP_BINARY_STATS_FD,
	.header_size = sizeof(struct kvm_stats_header),
	.id_offset = sizeof(struct kvm_stats_header),
	.id_size = STATS_NAME_SIZE,
};

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int create_bare_vm(void)
{
	int kvm_fd = must_succeed(open("/dev/kvm", O_RDWR));
	int vm_fd = must_succeed(ioctl(kvm_fd, KVM_CREATE_VM, 0));

	close(kvm_fd);
	return vm_fd;
}

int create_bare_vcpu(int vm_fd, unsigned long id)
{
	int vcpu_fd = must_succeed(ioctl(vm_fd, KVM_CREATE_VCPU, id));

#ifdef __aarch64__
	struct kvm_vcpu_init init;

	must_succeed(ioctl(vm_fd, KVM_ARM_PREFERRED_TARGET, &init));
	must_succeed(ioctl(vcpu_fd, KVM_ARM_VCPU_INIT, &init));
#endif
	return vcpu_fd;
}

bool poisoned(const char *p, size_t len)
{
	while (len--) {
		if (*p++ != (char)POISON)
			return false;
	}
	return true;
}

static void stats_file_init(struct stats_file *file, const char *of)
{
	snprintf(file->label, sizeof(file->label), "%s %s", of, file->abi->name);
	file->size = lseek(file->stats.fd, 0, SEEK_END);
	file->reference = malloc(file->size);
	TEST_ASSERT(file->reference, "No memory for %zu bytes", file->size);
	TEST_ASSERT(pread(file->stats.fd, file->reference, file->size, 0) ==
		    (ssize_t)file->size,
		    "Reading a statistics file failed, errno: %i", errno);
}

int stats_open(int fd, const struct stats_abi *abi, uint32_t scope)
{
	return abi == &abi_stats_fd ? ioctl(fd, KVM_GET_STATS_FD, 0) :
	       kvm_stats_getfd(fd, scope);
}

void stats_file_open(struct stats_file *file, const struct stats_abi *abi,
		     int fd, uint32_t scope, const char *of)
{
	file->abi = abi;
	file->scope = scope;
	if (abi == &abi_stats_fd)
		kvm_stats_open_stats_fd(&file->stats, fd);
	else
		kvm_stats_open_getfd(&file->stats, fd, scope);
	stats_file_init(file, of);
}

void stats_file_take(struct stats_file *file, int stats_fd, const char *of)
{
	file->abi = &abi_getfd;
	file->scope = 0;
	kvm_stats_take_getfd(&file->stats, stats_fd);
	stats_file_init(file, of);
}

void stats_file_close(struct stats_file *file)
{
	kvm_stats_close(&file->stats);
	free(file->reference);
}

/* All that the file has now, if that is as long as it was; to be freed */
static char *stats_file_now(const struct stats_file *file)
{
	char *now = malloc(file->size + 1);

	TEST_ASSERT(now, "No memory for %zu bytes", file->size);
	if (pread(file->stats.fd, now, file->size + 1, 0) == (ssize_t)file->size)
		return now;
	free(now);
	return NULL;
}

bool stats_file_matches(struct stats_file *file, const char *bytes,
			size_t offset, size_t len)
{
	char *now;
	bool same;

	if (!memcmp(bytes, file->reference + offset, len))
		return true;
	now = stats_file_now(file);
	same = now && !memcmp(now, file->reference, file->stats.data_offset);
	if (same) {
		memcpy(file->reference, now, file->size);
		same = !memcmp(bytes, file->reference + offset, len);
	}
	free(now);
	return same;
}

bool stats_file_reads(struct stats_file *file)
{
	char *now = stats_file_now(file);
	bool same = now && stats_file_matches(file, now, 0, file->size);

	free(now);
	return same;
}

bool stats_file_unchanged(const struct stats_file *file)
{
	char *now = stats_file_now(file);
	bool same = now && !memcmp(now, file->reference, file->size);

	free(now);
	return same;
}

uint64_t stats_vm_number(int stats_fd)
{
	unsigned long long number = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", stats_fd);
	f = fopen(path, "r");
	TEST_ASSERT(f, "%s, errno: %i", path, errno);
	while (fgets(line, sizeof(line), f) &&
	       sscanf(line, "kvm-stats-vm:\t%llu", &number) != 1)
		;
	fclose(f);
	return number;
}

void require_stats_next(void)
{
	struct kvm_stats_next next = { 0 };
	int kvm_fd = open("/dev/kvm", O_RDWR), stats_fd;

	if (kvm_fd < 0 ||
	    !(ioctl(kvm_fd, KVM_CHECK_EXTENSION, abi_getfd.cap) &
	      KVM_STATS_CAP_NEXT)) {
		print_skip("KVM_STATS_NEXT is not available");
		exit(KSFT_SKIP);
	}
	stats_fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
	if (stats_fd == -1 && errno == EPERM) {
		print_skip("KVM_STATS_NEXT needs CAP_PERFMON");
		exit(KSFT_SKIP);
	}
	close(stats_fd);
	close(kvm_fd);
}

/* Create a VM, and get the id string of its statistics file. */
static void get_own_id(int kvm_fd, char *id, size_t size)
{
	int vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	int stats_fd = kvm_stats_getfd(vm_fd, 0);

	TEST_ASSERT(vm_fd >= 0 &&
		    pread(stats_fd, id, size, abi_getfd.id_offset) == (ssize_t)size,
		    "A VM with a statistics file, errno: %i", errno);
	close(stats_fd);
	close(vm_fd);
}

bool others_use_kvm(void)
{
	char own[STATS_NAME_SIZE], id[sizeof(own)];
	int kvm_fd = open("/dev/kvm", O_RDWR), stats_fd, i;
	bool others = false;

	get_own_id(kvm_fd, own, sizeof(own));
	/* Enumerate for 200 ms: others may have VMs only at times. */
	for (i = 0; i < 200 && !others; i++) {
		struct kvm_stats_next next = { 0 };

		while (!others && (stats_fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next)) >= 0) {
			others = pread(stats_fd, id, sizeof(id), abi_getfd.id_offset) !=
				 sizeof(id) || strcmp(id, own);
			close(stats_fd);
		}
		usleep(1000);
	}
	close(kvm_fd);
	return others;
}

bool child_says(bool (*condition)(void *arg), void *arg)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = must_succeed(fork());
	if (!pid)
		_exit(!condition(arg));
	must_succeed(waitpid(pid, &status, 0));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

bool write_file(const char *path, const char *text)
{
	const ssize_t len = strlen(text);
	int fd = open(path, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, len) == len;

	close(fd);
	return written;
}

static const char file_max[] = "/proc/sys/fs/file-max";

struct condition {
	bool (*holds)(void *arg);
	void *arg;
};

static bool child_lowers_file_max(void *arg)
{
	const struct condition *condition = arg;

	return write_file(file_max, "0\n") && condition->holds(condition->arg);
}

/*
 * The limit applies to the whole system. A child lowers it, so that this process
 * restores it in any case; signals that would end this process are blocked.
 */
bool child_says_without_files(bool (*holds)(void *arg), void *arg)
{
	struct condition condition = { holds, arg };
	sigset_t all, before;
	bool says, restored;
	char old[32] = "";
	FILE *f;

	f = fopen(file_max, "r");
	TEST_ASSERT(f && fgets(old, sizeof(old), f), "No %s", file_max);
	fclose(f);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	says = child_says(child_lowers_file_max, &condition);
	restored = write_file(file_max, old);
	sigprocmask(SIG_SETMASK, &before, NULL);
	TEST_ASSERT(restored, "%s was not restored to %s", file_max, old);
	return says;
}

void send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	must_succeed(sendmsg(sock, &msg, 0));
}

int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	TEST_ASSERT(recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg),
		    "recvmsg, errno: %i", errno);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

int next_fd(void)
{
	int fd = must_succeed(dup(STDOUT_FILENO));

	close(fd);
	return fd;
}

#define DEBUGFS_KVM "/sys/kernel/debug/kvm"

bool debugfs_dir(pid_t pid, int vm_fd, char *path, size_t size)
{
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	dir = opendir(DEBUGFS_KVM);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		int entry_pid, entry_fd;

		found = sscanf(entry->d_name, "%d-%d", &entry_pid, &entry_fd) == 2 &&
			entry_pid == pid && (vm_fd < 0 || entry_fd == vm_fd);
		if (found && path)
			snprintf(path, size, DEBUGFS_KVM "/%s", entry->d_name);
	}
	closedir(dir);
	return found;
}

bool debugfs_has_kvm(void)
{
	return !access(DEBUGFS_KVM, X_OK);
}

bool vm_goes_away(pid_t pid, int vm_fd)
{
	int i;

	for (i = 0; i < 1000 && debugfs_dir(pid, vm_fd, NULL, 0); i++)
		usleep(10000);
	return !debugfs_dir(pid, vm_fd, NULL, 0);
}

long module_references(void)
{
	static const char * const names[] = {
		"kvm", "kvm_amd", "kvm_intel", "kvm_pr", "kvm_hv",
	};
	long refs = 0, found = -1;
	char path[64];
	FILE *f;
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/module/%s/refcnt", names[i]);
		f = fopen(path, "r");
		if (!f)
			continue;
		TEST_ASSERT(fscanf(f, "%ld", &refs) == 1, "%s is empty", path);
		fclose(f);
		found = (found < 0 ? 0 : found) + refs;
	}
	return found;
}

bool module_references_become(long want)
{
	int i;

	for (i = 0; i < 1000 && module_references() != want; i++) {
		usleep(10000);
		if (i == 100 && others_use_kvm())
			return false;
	}
	return module_references() == want;
}

#define CPUID_7_EBX_ERMS	BIT(9)

bool cpu_copies_whole_words(void)
{
#ifdef __x86_64__
	unsigned int eax, ebx = 0, ecx, edx, name[3] = { 0 };

	__cpuid(0x40000000, eax, name[0], name[1], name[2]);
	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	if (!memcmp(name, "TCGTCGTCGTCG", sizeof(name)) && (ebx & CPUID_7_EBX_ERMS))
		return false;
#endif
#ifdef __riscv
	/* Only multiples of 64 bytes, from 128 on: the rest is copied by bytes. */
	return false;
#endif
	return sizeof(long) == sizeof(uint64_t);
}

bool have_io_uring(void)
{
	return syscall(__NR_io_uring_setup, 1, NULL) == -1 && errno == EFAULT;
}

ssize_t io_uring_pread(int fd, void *data, size_t len, off_t offset, bool fixed)
{
	struct io_uring_params params = { 0 };
	struct iovec iov = { data, len };
	struct io_uring_sqe *sqe;
	size_t sq_size, cq_size;
	char *sq, *cq;
	ssize_t res;
	int ring;

	ring = must_succeed(syscall(__NR_io_uring_setup, 1, &params));
	sq_size = params.sq_off.array + sizeof(__u32);
	cq_size = params.cq_off.cqes +
		  params.cq_entries * sizeof(struct io_uring_cqe);
	sq = mmap(NULL, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		  IORING_OFF_SQ_RING);
	cq = mmap(NULL, cq_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		  IORING_OFF_CQ_RING);
	sqe = mmap(NULL, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		   IORING_OFF_SQES);
	TEST_ASSERT(sq != MAP_FAILED && cq != MAP_FAILED && sqe != MAP_FAILED,
		    "mmap of an io_uring, errno: %i", errno);

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_READV;
	sqe->fd = fd;
	sqe->off = offset;
	sqe->addr = (uintptr_t)&iov;
	sqe->len = 1;
	if (fixed) {
		must_succeed(syscall(__NR_io_uring_register, ring,
				     IORING_REGISTER_BUFFERS, &iov, 1));
		sqe->opcode = IORING_OP_READ_FIXED;
		sqe->addr = (uintptr_t)data;
		sqe->len = len;
	}
	*(__u32 *)(sq + params.sq_off.array) = 0;
	__atomic_store_n((__u32 *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	TEST_ASSERT(syscall(__NR_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1,
		    "io_uring_enter, errno: %i", errno);
	/* A wait may be interrupted. */
	while (!__atomic_load_n((__u32 *)(cq + params.cq_off.tail), __ATOMIC_ACQUIRE))
		TEST_ASSERT(!syscall(__NR_io_uring_enter, ring, 0, 1,
				     IORING_ENTER_GETEVENTS, NULL, 0) ||
			    errno == EINTR, "io_uring_enter, errno: %i", errno);
	res = ((struct io_uring_cqe *)(cq + params.cq_off.cqes))->res;
	munmap(sqe, sizeof(*sqe));
	munmap(cq, cq_size);
	munmap(sq, sq_size);
	close(ring);
	return res;
}

/* Not with _vcpu_run(), which enters the guest again after a signal. */
static void *vcpu_thread_run(void *arg)
{
	struct vcpu_thread *thread = arg;

	thread->tid = syscall(SYS_gettid);
	WRITE_ONCE(thread->entered, true);
	if (ioctl(thread->vcpu_fd, KVM_RUN, NULL))
		thread->run_errno = errno;
	WRITE_ONCE(thread->left, true);
	return NULL;
}

static void on_signal(int sig)
{
}

void vcpu_thread_goes_on(void)
{
	alarm(120);
}

void vcpu_thread_start(struct vcpu_thread *thread, int vcpu_fd)
{
	struct sigaction action = { .sa_handler = on_signal };

	*thread = (struct vcpu_thread){ .vcpu_fd = vcpu_fd };
	sigaction(SIGUSR1, &action, NULL);
	vcpu_thread_goes_on();
	TEST_ASSERT(!pthread_create(&thread->thread, NULL, vcpu_thread_run, thread),
		    "pthread_create, errno: %i", errno);
	while (!READ_ONCE(thread->entered))
		sched_yield();
	usleep(200000);
}

void vcpu_thread_stop(struct vcpu_thread *thread)
{
	/* Again, in case it came before KVM_RUN */
	while (!READ_ONCE(thread->left)) {
		pthread_kill(thread->thread, SIGUSR1);
		usleep(10000);
	}
	pthread_join(thread->thread, NULL);
	alarm(0);
}
