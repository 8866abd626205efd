/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the statistics files share
 */
#ifndef SELFTEST_KVM_STATS_TEST_H
#define SELFTEST_KVM_STATS_TEST_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "test_util.h"

/* One line of TAP: the guarantee, with the measured figures */
#define ok(condition, fmt, ...) \
	ksft_test_result(condition, fmt "\n", ##__VA_ARGS__)

/*
 * As ok(), for conditions that hold only if no other process uses KVM: if the
 * condition is false and another process uses KVM, the test is skipped.
 */
#define ok_alone(condition, fmt, ...)						\
do {										\
	bool _holds = (condition);						\
										\
	if (!_holds && others_use_kvm())					\
		ksft_test_result_skip("another process uses KVM: " fmt "\n",	\
				      ##__VA_ARGS__);				\
	else									\
		ok(_holds, fmt, ##__VA_ARGS__);					\
} while (0)

/*
 * Whether another process has a VM, or creates one within a fifth of a second; false
 * where KVM_STATS_NEXT is not to be had.
 */
bool others_use_kvm(void);

/* Nanoseconds of CLOCK_MONOTONIC; whole ones: not every CPU of the lab has an FPU. */
uint64_t now_ns(void);

/* Size of a name in the files, and minimum size of an id */
#define STATS_NAME_SIZE	48

/*
 * The result of a system call that has to succeed, or the test fails. Unlike the
 * wrappers of the library it may be any call that returns -1 and sets errno.
 */
#define must_succeed(call)						\
({										\
	__auto_type _result = (call);						\
										\
	TEST_ASSERT((long)_result != -1, "%s failed, errno: %i (%s)", #call,	\
		    errno, strerror(errno));					\
	_result;								\
})

/* A VM without memory and without vCPUs; returns its fd. */
int create_bare_vm(void);

/* A vCPU of it that can enter KVM_RUN, but has no guest code; returns its fd. */
int create_bare_vcpu(int vm_fd, unsigned long id);

/* A user without capabilities */
#define NOBODY		65534

/* Contents of buffers before a read */
#define POISON		0xa5

/* Whether none of the @len bytes at @p was written since it was poisoned */
bool poisoned(const char *p, size_t len);

/*
 * One of the two ABIs: @request opens a file, @cap reports support for it. The
 * file begins with a header of @header_size bytes, the id is at @id_offset.
 */
struct stats_abi {
	const char *name;
	unsigned long request;
	long cap;
	int flags;	/* value of the capability */
	size_t header_size;
	size_t id_offset;
	size_t id_size;
};

/* Whether the values have the order of their descriptors */
extern const bool stats_values_in_order;

/* Whether struct kvm is a line of /proc/vmallocinfo on x86_64 */
extern const bool stats_vm_is_large_block;

/* References to KVM's modules that the memory of a VM holds in addition to its files */
extern const long stats_mem_module_refs;

/* Whether an id contains the TID of the creating thread instead of its TGID */
extern const bool stats_id_has_tid;

/*
 * Whether fdinfo has the id and the thread of each row. Otherwise the row has them, as
 * two more statistics, and keeps the TID of a thread that has exited.
 */
extern const bool stats_rows_in_fdinfo;

/* Whether the file has ->read_iter() on this kernel */
extern const bool stats_has_read_iter;

/* Whether a VM id is the boot time at the VM's creation instead of a count of VMs */
extern const bool stats_vm_id_is_time;

extern const struct stats_abi abi_getfd;
extern const struct stats_abi abi_stats_fd;

/* Open the file of @fd, a VM or vCPU fd, through @abi; return the result of the ioctl. */
int stats_open(int fd, const struct stats_abi *abi, uint32_t scope);

#ifdef __x86_64__
/* As kvm_stats_getfd(), as a 32-bit program calls it; returns -errno. */
int stats_getfd_compat(int fd, uint32_t scope);
#endif

/* An open statistics file and its @size bytes as they were when it was opened */
struct stats_file {
	char label[32];
	const struct stats_abi *abi;
	uint32_t scope;
	struct kvm_stats stats;
	size_t size;
	char *reference;
};

/*
 * Open the file of @fd, a VM or vCPU fd that the results call @of, through
 * @abi. @scope is 0 or KVM_STATS_SCOPE_VCPUS.
 */
void stats_file_open(struct stats_file *file, const struct stats_abi *abi,
		     int fd, uint32_t scope, const char *of);

/* As stats_file_open(), for @stats_fd, an open file of abi_getfd */
void stats_file_take(struct stats_file *file, int stats_fd, const char *of);

void stats_file_close(struct stats_file *file);

/*
 * Whether bytes equal the file at an offset. Counters of a VM may change while
 * no vCPU runs, as fork() and mprotect() flush TLBs; then they must equal the
 * current values of the file. Nothing before the values may ever change.
 */
bool stats_file_matches(struct stats_file *file, const char *bytes,
			size_t offset, size_t len);

/* Whether a read of the whole file gives what it has */
bool stats_file_reads(struct stats_file *file);

/* Whether the file has exactly the bytes that it had when it was opened */
bool stats_file_unchanged(const struct stats_file *file);

/* The VM id from the fdinfo of a statistics file, 0 if it has none */
uint64_t stats_vm_number(int stats_fd);

/*
 * Skip the test unless this process may use KVM_STATS_NEXT: to be called at the
 * start of a test that requires it.
 */
void require_stats_next(void);

/* Whether @condition holds in a child, which returns it as its exit status */
bool child_says(bool (*condition)(void *arg), void *arg);

/*
 * The same where no further file can be opened without CAP_SYS_ADMIN; to be
 * called with it. That is so for all processes for a moment: not to be called
 * if others_use_kvm().
 */
bool child_says_without_files(bool (*condition)(void *arg), void *arg);

#ifdef __x86_64__
/* ioctl() as a 32-bit program calls it, number 54 of int 0x80; returns -errno */
static inline int compat_ioctl(int fd, unsigned long request, unsigned long arg)
{
	long r;

	asm volatile("int $0x80"
		     : "=a" (r)
		     : "a" (54), "b" (fd), "c" (request), "d" (arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)r;
}
#endif

/* Pass an fd over a socket. */
void send_fd(int sock, int fd);
int receive_fd(int sock);

/*
 * The number of the next fd. One that is reserved and has no file is in no
 * list of open fds, but shows here.
 */
int next_fd(void);

/*
 * The directory in debugfs of the VM that process @pid has as @vm_fd, -1 for
 * any. It exists while the VM exists. @path may be NULL.
 */
bool debugfs_dir(pid_t pid, int vm_fd, char *path, size_t size);

/* Whether debugfs is mounted, so that a missing VM directory is significant */
bool debugfs_has_kvm(void);

/*
 * Whether the VM goes away: that is when the last close() has been worked off,
 * so it is waited for, 10 s at most.
 */
bool vm_goes_away(pid_t pid, int vm_fd);

/* References of all modules that may implement KVM; -1 if none is a module */
long module_references(void);

/*
 * Whether the modules have as many references within 10 s; all processes add to
 * them, so use it with ok_alone().
 */
bool module_references_become(long want);

/*
 * Whether the CPU copies aligned words whole. QEMU's emulation of an x86 CPU
 * with ERMS does not: the kernel copies with REP MOVSB, which moves bytes there.
 */
bool cpu_copies_whole_words(void);

/* Whether all of a text could be written to an existing file */
bool write_file(const char *path, const char *text);

/* Whether the kernel has io_uring */
bool have_io_uring(void);

/*
 * One read through an io_uring that is made for it, into a buffer that is registered
 * with it if @fixed; returns as pread() does, but -errno.
 */
ssize_t io_uring_pread(int fd, void *data, size_t len, off_t offset, bool fixed);

/* A thread that is in KVM_RUN until a signal comes, and errno after that */
struct vcpu_thread {
	pthread_t thread;
	int vcpu_fd;
	pid_t tid;
	bool entered;
	bool left;		/* for READ_ONCE() */
	int run_errno;
};

/*
 * Let a thread enter KVM_RUN on @vcpu_fd; return when it has had time for it. If
 * a test hangs there, an alarm ends the program after 2 minutes.
 */
void vcpu_thread_start(struct vcpu_thread *thread, int vcpu_fd);

/* Report progress of the test: the 2 minutes begin again. */
void vcpu_thread_goes_on(void);

/* Have it leave KVM_RUN with a signal, and wait for its end. */
void vcpu_thread_stop(struct vcpu_thread *thread);

#endif /* SELFTEST_KVM_STATS_TEST_H */
