// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the statistics file descriptor of VMs and vCPUs
 *
 * Everything that Documentation/virt/kvm/stats.rst promises is tried here, on
 * all four kinds of file: of a VM and of a vCPU, through KVM_STATS_GETFD and
 * through KVM_GET_STATS_FD.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "test_util.h"

/* tools/arch/x86/include/asm/unistd_64.h, which comes first, has not all. */
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup	425
#define __NR_io_uring_enter	426
#endif

#define VCPU_ID		0
#define OTHER_VCPU_ID	1

/* More than any file here has; a read never touches what lies behind */
#define BUF_SIZE	65536
#define POISON		0xa5

/* A user without capabilities */
#define NOBODY		65534

#define ok(condition, fmt, ...) \
	ksft_test_result(condition, fmt "\n", ##__VA_ARGS__)

static const struct {
	const char *name;
	unsigned long request;
	long cap;
	size_t id_offset;
	size_t first_block;	/* bytes before the descriptors */
} abis[] = {
	{ "KVM_STATS_GETFD", KVM_STATS_GETFD, KVM_CAP_STATS_BINARY_FD,
	  offsetof(struct kvm_stats_getfd_header, id),
	  sizeof(struct kvm_stats_getfd_header) },
	{ "KVM_GET_STATS_FD", KVM_GET_STATS_FD, KVM_CAP_BINARY_STATS_FD,
	  sizeof(struct kvm_stats_header),
	  sizeof(struct kvm_stats_header) + KVM_STATS_NAME_SIZE },
};

#define NABIS	ARRAY_SIZE(abis)

/* One of the four kinds of file, open, and all its bytes as first read */
struct stats_file {
	char label[32];
	struct kvm_stats stats;
	size_t size;
	char reference[BUF_SIZE];
};

static char buf[BUF_SIZE];

static bool poisoned(const char *p, size_t len)
{
	while (len--) {
		if (*p++ != (char)POISON)
			return false;
	}
	return true;
}

static void stats_file_open(struct stats_file *file, int fd, const char *scope,
			    int abi)
{
	ssize_t r;

	snprintf(file->label, sizeof(file->label), "%s %s", scope, abis[abi].name);
	kvm_stats_open(&file->stats, fd, abis[abi].request);
	r = pread(file->stats.fd, file->reference, sizeof(file->reference), 0);
	TEST_ASSERT(r >= 0, "Reading a statistics file failed, errno: %i", errno);
	file->size = r;
}

/*
 * Whether bytes are those of the file at an offset. Counters of a VM may move
 * while no vCPU runs, as fork() and mprotect() flush TLBs; then they have to be
 * those that the file has now. Nothing before the values may ever change.
 */
static bool matches(struct stats_file *file, const char *bytes, size_t offset,
		    size_t len)
{
	static char now[BUF_SIZE];

	if (!memcmp(bytes, file->reference + offset, len))
		return true;
	if (pread(file->stats.fd, now, sizeof(now), 0) != (ssize_t)file->size ||
	    memcmp(now, file->reference, file->stats.data_offset))
		return false;
	memcpy(file->reference, now, file->size);
	return !memcmp(bytes, file->reference + offset, len);
}

/* Whether a read of the whole file gives what it has */
static bool reads(struct stats_file *file)
{
	memset(buf, POISON, sizeof(buf));
	return pread(file->stats.fd, buf, sizeof(buf), 0) == (ssize_t)file->size &&
	       matches(file, buf, 0, file->size);
}

/* Whether the file has exactly the bytes that it had at first */
static bool unchanged(const struct stats_file *file)
{
	return pread(file->stats.fd, buf, sizeof(buf), 0) == (ssize_t)file->size &&
	       !memcmp(buf, file->reference, file->size);
}

/* The directory of this VM in debugfs; there as long as the VM exists */
static bool debugfs_dir(pid_t pid, char *path, size_t size)
{
	struct dirent *entry;
	bool found = false;
	char prefix[16];
	DIR *dir;

	dir = opendir("/sys/kernel/debug/kvm");
	if (!dir)
		return false;
	snprintf(prefix, sizeof(prefix), "%d-", pid);
	while (!found && (entry = readdir(dir))) {
		found = !strncmp(entry->d_name, prefix, strlen(prefix));
		if (found && path)
			snprintf(path, size, "/sys/kernel/debug/kvm/%s",
				 entry->d_name);
	}
	closedir(dir);
	return found;
}

/* VMs are destroyed when the last close() has been worked off */
static bool vm_goes_away(pid_t pid)
{
	int i;

	for (i = 0; i < 1000 && debugfs_dir(pid, NULL, 0); i++)
		usleep(10000);
	return !debugfs_dir(pid, NULL, 0);
}

static void send_fd(int sock, int fd)
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
	TEST_ASSERT(sendmsg(sock, &msg, 0) == 1, "sendmsg, errno: %i", errno);
}

static int receive_fd(int sock)
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

static void test_capability(struct kvm_vm *vm)
{
	int i;

	for (i = 0; i < NABIS; i++) {
		ok(kvm_check_cap(abis[i].cap) == 1,
		   "/dev/kvm has the capability of %s", abis[i].name);
		ok(ioctl(vm_get_fd(vm), KVM_CHECK_EXTENSION, abis[i].cap) == 1,
		   "the VM has the capability of %s", abis[i].name);
	}
}

static void test_argument(int fd, const char *scope)
{
	int stats_fd;

	ok(ioctl(fd, KVM_STATS_GETFD, 1) == -1 && errno == EINVAL,
	   "%s KVM_STATS_GETFD with an argument: EINVAL", scope);
	stats_fd = ioctl(fd, KVM_GET_STATS_FD, 1);
	ok(stats_fd >= 0, "%s KVM_GET_STATS_FD ignores its argument", scope);
	close(stats_fd);
}

static void test_open_file(const struct stats_file *file, const char *link)
{
	char path[64], text[256] = "", want[96];
	int fd = file->stats.fd;
	ssize_t r;
	FILE *f;

	ok((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY &&
	   fcntl(fd, F_GETFD) == FD_CLOEXEC,
	   "%s: the file is read-only and closed by exec", file->label);
	ok(write(fd, "", 1) == -1 && errno == EBADF,
	   "%s: writing fails with EBADF", file->label);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = readlink(path, text, sizeof(text) - 1);
	text[r > 0 ? r : 0] = 0;
	ok(!strcmp(text, link), "%s: %s is %s", file->label, path, text);

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	snprintf(want, sizeof(want), "kvm-stats-id:\t%s\n", file->stats.id);
	f = fopen(path, "r");
	while (f && fgets(text, sizeof(text), f) && strcmp(text, want))
		;
	ok(f && !strcmp(text, want), "%s: its fdinfo has the id", file->label);
	if (f)
		fclose(f);
}

static void test_header(const struct stats_file *file, int abi, const char *id)
{
	const struct kvm_stats *stats = &file->stats;
	char want[sizeof(stats->id)] = "";

	strncpy(want, id, sizeof(want) - 1);
	ok(!memcmp(stats->id, want, sizeof(want)),
	   "%s: the id is %.*s, padded with NULs", file->label,
	   (int)sizeof(stats->id), stats->id);
	ok(stats->name_size == KVM_STATS_NAME_SIZE, "%s: name_size is %u",
	   file->label, stats->name_size);
	ok(stats->count > 0, "%s: has %u statistics", file->label, stats->count);
	ok(stats->desc_offset == abis[abi].first_block,
	   "%s: desc_offset is %u", file->label, stats->desc_offset);
	ok(stats->data_offset == stats->desc_offset + stats->count * stats->desc_size,
	   "%s: data_offset is %u", file->label, stats->data_offset);
	ok(!(stats->data_offset % sizeof(uint64_t)),
	   "%s: the values are aligned", file->label);
	ok(file->size == stats->data_offset + kvm_stats_data_size(stats),
	   "%s: the file has %zu bytes, as the descriptors say",
	   file->label, file->size);
	if (abis[abi].request == KVM_GET_STATS_FD) {
		const struct kvm_stats_header *header = (void *)file->reference;

		ok(!header->flags, "%s: flags is 0", file->label);
		ok(header->id_offset == abis[abi].id_offset, "%s: id_offset is %u",
		   file->label, header->id_offset);
	}
}

static const char *desc_error(const struct kvm_stats *stats, uint32_t i,
			      uint32_t offset)
{
	const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
	uint32_t type = desc->flags & KVM_STATS_TYPE_MASK;
	uint32_t unit = desc->flags & KVM_STATS_UNIT_MASK;
	bool linear = type == KVM_STATS_TYPE_LINEAR_HIST;
	bool hist = linear || type == KVM_STATS_TYPE_LOG_HIST;
	size_t len = strnlen(desc->name, stats->name_size), pad;

	if (desc->flags & ~(KVM_STATS_TYPE_MASK | KVM_STATS_UNIT_MASK |
			    KVM_STATS_BASE_MASK))
		return "unknown bits in flags";
	if (type > KVM_STATS_TYPE_MAX)
		return "unknown type";
	if (unit > KVM_STATS_UNIT_MAX)
		return "unknown unit";
	if ((desc->flags & KVM_STATS_BASE_MASK) > KVM_STATS_BASE_MAX)
		return "unknown base";
	/* Nanoseconds are the finest there are, and no unit is larger than 1. */
	if (desc->exponent > 0 || desc->exponent < -9)
		return "exponent out of range";
	if (desc->exponent && (unit == KVM_STATS_UNIT_NONE ||
			       unit == KVM_STATS_UNIT_BOOLEAN))
		return "exponent without a unit";
	if (hist ? desc->size < 2 : desc->size != 1)
		return "size does not fit the type";
	if (linear == !desc->bucket_size)
		return "bucket_size does not fit the type";
	if (desc->offset != offset)
		return "values are not dense";
	if (!len)
		return "no name";
	if (len == stats->name_size)
		return "name is not terminated";
	for (pad = len; pad < stats->name_size; pad++) {
		if (desc->name[pad])
			return "name is not padded with NULs";
	}
	if (kvm_stats_find(stats, desc->name) != desc)
		return "name is not unique";
	return NULL;
}

static void test_descriptors(const struct stats_file *file)
{
	const struct kvm_stats *stats = &file->stats;
	uint32_t i, offset = 0;
	int errors = 0;

	for (i = 0; i < stats->count; i++) {
		const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
		const char *error = desc_error(stats, i, offset);

		if (error) {
			ksft_print_msg("%.*s: %s\n", (int)stats->name_size,
				       desc->name, error);
			errors++;
		}
		offset += desc->size * sizeof(uint64_t);
	}
	ok(!errors, "%s: %u descriptors are well-formed", file->label, i - errors);
}

static void test_every_offset(struct stats_file *file)
{
	const size_t lengths[] = { 1, 2, 7, 8, 63, 64, 65, BUF_SIZE - 16 };
	size_t offset, i, want, reads = 0;
	ssize_t r;

	for (offset = 0; offset <= file->size + 8; offset++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			want = offset > file->size ? 0 : file->size - offset;
			if (want > lengths[i])
				want = lengths[i];
			memset(buf, POISON, want + 16);
			r = pread(file->stats.fd, buf, lengths[i], offset);
			if (r != (ssize_t)want ||
			    !matches(file, buf, offset, want) ||
			    !poisoned(buf + want, 16)) {
				ok(false, "%s: pread of %zu bytes at %zu: %zd",
				   file->label, lengths[i], offset, r);
				return;
			}
			reads++;
		}
	}
	ok(true, "%s: %zu preads at every offset match", file->label, reads);
}

static void test_vectors(struct stats_file *file)
{
	/* So that vectors end within each block, and one has no length */
	const size_t cut[] = { 10, 0, 73, 1, file->stats.data_offset - 80, 4 };
	struct iovec iov[ARRAY_SIZE(cut) + 1];
	size_t pos = 0;
	int i;

	memset(buf, POISON, sizeof(buf));
	for (i = 0; i < ARRAY_SIZE(cut); i++) {
		iov[i].iov_base = buf + pos;
		iov[i].iov_len = cut[i];
		pos += cut[i];
	}
	iov[i].iov_base = buf + pos;
	iov[i].iov_len = sizeof(buf) - pos;

	ok(preadv(file->stats.fd, iov, ARRAY_SIZE(iov), 0) == (ssize_t)file->size &&
	   matches(file, buf, 0, file->size),
	   "%s: preadv into %zu vectors matches", file->label, ARRAY_SIZE(iov));

	memset(buf, POISON, sizeof(buf));
	lseek(file->stats.fd, 0, SEEK_SET);
	ok(readv(file->stats.fd, iov, ARRAY_SIZE(iov)) == (ssize_t)file->size &&
	   matches(file, buf, 0, file->size) &&
	   lseek(file->stats.fd, 0, SEEK_CUR) == (off_t)file->size,
	   "%s: readv does too and moves the position to the end", file->label);
}

static void test_seek(struct stats_file *file)
{
	off_t size = file->size, pos = 0;
	int fd = file->stats.fd;
	uint64_t value;
	ssize_t r;

	lseek(fd, 0, SEEK_SET);
	memset(buf, POISON, sizeof(buf));
	while ((r = read(fd, buf + pos, 7)) > 0)
		pos += r;
	ok(!r && pos == size && matches(file, buf, 0, size),
	   "%s: reading on 7 by 7 bytes gives the whole file", file->label);

	ok(lseek(fd, -8, SEEK_END) == size - 8 &&
	   read(fd, &value, 8) == 8 &&
	   matches(file, (char *)&value, size - 8, 8) &&
	   lseek(fd, 0, SEEK_CUR) == size,
	   "%s: SEEK_END leads to the last value", file->label);
	ok(lseek(fd, 16, SEEK_SET) == 16 && lseek(fd, 8, SEEK_CUR) == 24 &&
	   lseek(fd, -4, SEEK_CUR) == 20 &&
	   pread(fd, &value, 8, 0) == 8 && lseek(fd, 0, SEEK_CUR) == 20,
	   "%s: SEEK_SET and SEEK_CUR do what they say, pread leaves it", file->label);
	ok(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL &&
	   lseek(fd, -21, SEEK_CUR) == -1 && errno == EINVAL &&
	   lseek(fd, -size - 1, SEEK_END) == -1 && errno == EINVAL &&
	   lseek(fd, 1, SEEK_END) == -1 && errno == EINVAL &&
	   lseek(fd, 0, SEEK_CUR) == 20,
	   "%s: seeking out of the file fails with EINVAL", file->label);
}

static void test_limits(struct stats_file *file)
{
	/* volatile: the compiler would warn of what the kernel has to bear */
	volatile size_t huge = sizeof(long) == 8 ? INT_MAX : BUF_SIZE;
	int fd = file->stats.fd;

	memset(buf, POISON, sizeof(buf));
	ok(pread(fd, buf, 8, file->size) == 0 &&
	   pread(fd, buf, 8, file->size + 1) == 0 &&
	   pread(fd, buf, 8, (off_t)1 << (sizeof(off_t) * 8 - 2)) == 0 &&
	   poisoned(buf, 8),
	   "%s: at and past the end nothing is read", file->label);
	ok(pread(fd, buf, 8, -1) == -1 && errno == EINVAL,
	   "%s: before the start: EINVAL", file->label);
	ok(pread(fd, buf, 0, 0) == 0 && poisoned(buf, 8),
	   "%s: no bytes are read when none are asked for", file->label);
	ok(pread(fd, buf, huge, 0) == (ssize_t)file->size &&
	   matches(file, buf, 0, file->size),
	   "%s: asked for %zu bytes it returns what it has", file->label, huge);
}

static void test_faults(struct stats_file *file)
{
	const size_t room[] = { 1, 40, 64, 75, 100, file->size - 1 };
	const long page = sysconf(_SC_PAGESIZE);
	const size_t pages = BUF_SIZE / page;
	char *map, *end;
	ssize_t r = 0;
	int i;

	map = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TEST_ASSERT(map != MAP_FAILED, "mmap, errno: %i", errno);
	end = map + pages * page;
	TEST_ASSERT(!mprotect(end, page, PROT_NONE), "mprotect, errno: %i", errno);

	for (i = 0; i < ARRAY_SIZE(room); i++) {
		memset(end - room[i], POISON, room[i]);
		r = pread(file->stats.fd, end - room[i], file->size, 0);
		if (r <= 0 || r > (ssize_t)room[i] ||
		    !matches(file, end - room[i], 0, r))
			break;
	}
	ok(i == ARRAY_SIZE(room),
	   "%s: a fault behind some bytes returns those (%zd of %zu)", file->label,
	   r, room[i == ARRAY_SIZE(room) ? i - 1 : i]);
	ok(pread(file->stats.fd, end, 8, 0) == -1 && errno == EFAULT &&
	   pread(file->stats.fd, end, 8, file->stats.data_offset) == -1 &&
	   errno == EFAULT,
	   "%s: a fault at the first byte: EFAULT", file->label);
	ok(pread(file->stats.fd, end, 8, file->size) == 0,
	   "%s: at the end nothing faults", file->label);
	munmap(map, (pages + 1) * page);
}

static void test_same_content(struct stats_file *a, struct stats_file *b)
{
	ok(reads(a) && reads(b) &&
	   a->size - a->stats.desc_offset == b->size - b->stats.desc_offset &&
	   !memcmp(a->reference + a->stats.desc_offset,
		   b->reference + b->stats.desc_offset,
		   a->size - a->stats.desc_offset),
	   "%s and %s: the same descriptors and values", a->label, b->label);
}

static void test_same_descriptors(const struct stats_file *a,
				  const struct stats_file *b)
{
	ok(a->stats.count == b->stats.count &&
	   !memcmp(a->stats.descs, b->stats.descs,
		   a->stats.count * a->stats.desc_size),
	   "%s: two vCPUs have the same descriptors", a->label);
}

/*
 * In a file of debugfs that has the name of a statistic stands its value, for
 * vCPUs the sum of all.
 */
static void test_debugfs(const struct stats_file *file,
			 const struct stats_file *other, const char *when)
{
	char dir[NAME_MAX + 32], path[NAME_MAX + 96], text[32];
	unsigned int same = 0, different = 0;
	uint32_t i;

	if (!debugfs_dir(getpid(), dir, sizeof(dir))) {
		ksft_test_result_skip("%s: no debugfs\n", file->label);
		return;
	}
	for (i = 0; i < file->stats.count; i++) {
		const char *name = kvm_stats_desc(&file->stats, i)->name;
		uint64_t value;
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, name);
		f = fopen(path, "r");
		if (!f)
			continue;
		TEST_ASSERT(fgets(text, sizeof(text), f), "%s is empty", path);
		fclose(f);
		value = kvm_stats_value(&file->stats, name);
		if (other)
			value += kvm_stats_value(&other->stats, name);
		if (value == strtoull(text, NULL, 10)) {
			same++;
			continue;
		}
		ksft_print_msg("%s is %llu, but in debugfs %s", name,
			       (unsigned long long)value, text);
		different++;
	}
	/* Not all files have the name of the statistic, a VM may have none. */
	ok(!different && (same || !other),
	   "%s: %u values are those of debugfs %s", file->label, same, when);
}

static void test_no_fds(int fd, const char *scope)
{
	struct rlimit old, none;
	int abi, next;

	TEST_ASSERT(!getrlimit(RLIMIT_NOFILE, &old), "getrlimit, errno: %i", errno);
	next = dup(fd);
	close(next);
	none = old;
	none.rlim_cur = next;
	TEST_ASSERT(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit, errno: %i", errno);
	for (abi = 0; abi < NABIS; abi++)
		ok(ioctl(fd, abis[abi].request, 0) == -1 && errno == EMFILE,
		   "%s %s without a free fd: EMFILE", scope, abis[abi].name);
	TEST_ASSERT(!setrlimit(RLIMIT_NOFILE, &old), "setrlimit, errno: %i", errno);
}

/* What a child does and says with its exit status */
static bool child_says(bool (*promise)(void *arg), void *arg)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	TEST_ASSERT(pid >= 0, "fork, errno: %i", errno);
	if (!pid)
		_exit(!promise(arg));
	TEST_ASSERT(waitpid(pid, &status, 0) == pid, "waitpid, errno: %i", errno);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool child_reads(void *arg)
{
	return reads(arg);
}

/* One read through an io_uring that is made for it; returns as pread() does. */
static ssize_t io_uring_pread(int fd, void *data, size_t len, off_t offset)
{
	struct io_uring_params params = { 0 };
	struct iovec iov = { data, len };
	struct io_uring_sqe *sqe;
	size_t sq_size, cq_size;
	char *sq, *cq;
	int ring;

	ring = syscall(__NR_io_uring_setup, 1, &params);
	TEST_ASSERT(ring >= 0, "io_uring_setup, errno: %i", errno);
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
	*(__u32 *)(sq + params.sq_off.array) = 0;
	__atomic_store_n((__u32 *)(sq + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	TEST_ASSERT(syscall(__NR_io_uring_enter, ring, 1, 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		    "io_uring_enter, errno: %i", errno);
	TEST_ASSERT(__atomic_load_n((__u32 *)(cq + params.cq_off.tail),
				    __ATOMIC_ACQUIRE) == 1,
		    "io_uring_enter without a result");
	return ((struct io_uring_cqe *)(cq + params.cq_off.cqes))->res;
}

static bool child_reads_io_uring(void *arg)
{
	struct stats_file *file = arg;

	memset(buf, POISON, sizeof(buf));
	return io_uring_pread(file->stats.fd, buf, sizeof(buf) - 16, 0) ==
	       (ssize_t)file->size &&
	       matches(file, buf, 0, file->size) && poisoned(buf + file->size, 16);
}

/*
 * In a child, which ends with its io_uring: to tear that down is work for the
 * task. Waiting for a child is interrupted by such work, and Linux 5.10 on
 * powerpc then does not restore all registers to begin the call anew.
 */
static void test_io_uring(struct stats_file *file)
{
	if (syscall(__NR_io_uring_setup, 1, NULL) == -1 && errno != EFAULT) {
		ksft_test_result_skip("%s: no io_uring\n", file->label);
		return;
	}
	ok(child_says(child_reads_io_uring, file),
	   "%s: io_uring reads the whole file", file->label);
}

struct passed {
	const struct stats_file *file;
	int sock;
};

static bool child_reads_passed(void *arg)
{
	const struct passed *passed = arg;
	struct stats_file file = *passed->file;

	close(file.stats.fd);
	file.stats.fd = receive_fd(passed->sock);
	return reads(&file);
}

static void test_sharing(struct stats_file *file)
{
	struct stats_file duplicate = *file;
	struct passed passed = { .file = file };
	int sock[2];

	duplicate.stats.fd = dup(file->stats.fd);
	ok(reads(&duplicate), "%s: reads through dup()", file->label);
	close(duplicate.stats.fd);
	ok(reads(file), "%s: reads on after its close", file->label);
	ok(child_says(child_reads, file), "%s: reads in a child", file->label);

	TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock),
		    "socketpair, errno: %i", errno);
	send_fd(sock[0], file->stats.fd);
	passed.sock = sock[1];
	ok(child_says(child_reads_passed, &passed),
	   "%s: reads when passed with SCM_RIGHTS", file->label);
	close(sock[0]);
	close(sock[1]);
}

struct foreign {
	int fd;
	int abi;
	const struct stats_file *file;
};

static bool child_opens(void *arg)
{
	const struct foreign *foreign = arg;
	struct stats_file file = *foreign->file;

	file.stats.fd = ioctl(foreign->fd, abis[foreign->abi].request, 0);
	return reads(&file);
}

static bool child_is_refused(void *arg)
{
	const struct foreign *foreign = arg;

	return ioctl(foreign->fd, KVM_CHECK_EXTENSION, KVM_CAP_STATS_BINARY_FD) == -1 &&
	       errno == EIO;
}

static bool child_has_no_file(void *arg)
{
	const struct foreign *foreign = arg;
	int next = dup(foreign->fd);

	close(next);
	return !setresuid(NOBODY, NOBODY, NOBODY) &&
	       ioctl(foreign->fd, abis[foreign->abi].request, 0) == -1 &&
	       errno == ENFILE && dup(foreign->fd) == next;
}

/*
 * Only root has files beyond the limit of the system. The child looks whether
 * the fd is free again; whether the VM still is held shows when it is freed.
 */
static void test_no_files(int fd, const char *scope)
{
	struct foreign foreign = { .fd = fd };
	FILE *file_max = fopen("/proc/sys/fs/file-max", "r+");
	char old[32];

	if (!file_max) {
		ksft_test_result_skip("%s: not root\n", scope);
		return;
	}
	TEST_ASSERT(fgets(old, sizeof(old), file_max), "file-max is empty");
	rewind(file_max);
	TEST_ASSERT(fputs("0\n", file_max) >= 0 && !fflush(file_max),
		    "file-max, errno: %i", errno);
	for (foreign.abi = 0; foreign.abi < NABIS; foreign.abi++)
		ok(child_says(child_has_no_file, &foreign),
		   "%s %s without a free file: ENFILE", scope,
		   abis[foreign.abi].name);
	rewind(file_max);
	TEST_ASSERT(fputs(old, file_max) >= 0 && !fclose(file_max),
		    "file-max, errno: %i", errno);
}

/* A child has another mm than the one that made the VM. */
static void test_foreign(struct stats_file *file, int fd, int abi)
{
	struct foreign foreign = { .fd = fd, .abi = abi, .file = file };

	ok(child_says(child_opens, &foreign),
	   "%s: opened by another process", file->label);
	ok(child_says(child_is_refused, &foreign),
	   "%s: other ioctls of another process still fail with EIO", file->label);
}

#ifdef __x86_64__
/* ioctl() as a 32-bit program calls it: number 54, through int 0x80 */
static int compat_ioctl(int fd, unsigned long request, unsigned long arg)
{
	long r;

	asm volatile("int $0x80"
		     : "=a" (r)
		     : "a" (54), "b" (fd), "c" (request), "d" (arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)r;
}

static bool child_opens_compat(void *arg)
{
	const struct foreign *foreign = arg;
	struct stats_file file = *foreign->file;
	bool same;

	file.stats.fd = compat_ioctl(foreign->fd, abis[foreign->abi].request, 0);
	same = reads(&file);
	close(file.stats.fd);
	return same;
}

static void test_compat(struct stats_file *file, int fd, int abi)
{
	struct foreign foreign = { .fd = fd, .abi = abi, .file = file };

	if (compat_ioctl(-1, 0, 0) != -EBADF) {
		ksft_test_result_skip("%s: no 32-bit programs\n", file->label);
		return;
	}
	ok(child_opens_compat(&foreign), "%s: opened by a 32-bit ioctl", file->label);
	ok(child_says(child_opens_compat, &foreign),
	   "%s: opened by a 32-bit ioctl of another process", file->label);
	ok(compat_ioctl(fd, KVM_STATS_GETFD, 1) == -EINVAL,
	   "%s: KVM_STATS_GETFD with an argument through a 32-bit ioctl: EINVAL",
	   file->label);
}
#else
static void test_compat(struct stats_file *file, int fd, int abi)
{
}
#endif

/* Counters of the modules that may implement KVM, summed up */
static long module_references(void)
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
		found = (found < 0 ? 0 : found) + refs;
		fclose(f);
	}
	return found;
}

/* All other fds closed, the file holds the VM, and then it does not. */
static void test_lifetime(void)
{
	struct stats_file *file = calloc(2, sizeof(*file));
	long before = module_references(), with_vm, held;
	struct kvm_vm *vm;
	int abi, kind;

	for (abi = 0; abi < NABIS; abi++) {
		vm = vm_create_guest(VCPU_ID, guest_exits);
		with_vm = module_references();
		stats_file_open(&file[0], vm_get_fd(vm), "VM", abi);
		stats_file_open(&file[1], vcpu_get_fd(vm, VCPU_ID), "vCPU", abi);
		held = module_references();
		ok(held < 0 || held == with_vm + 2,
		   "%s: each file takes a reference of the module (%ld, %ld without)",
		   abis[abi].name, held, with_vm);
		kvm_vm_free(vm);

		for (kind = 0; kind < 2; kind++) {
			ok(pread(file[kind].stats.fd, buf, sizeof(buf), 0) ==
			   (ssize_t)file[kind].size &&
			   !memcmp(buf, file[kind].reference,
				   file[kind].stats.data_offset),
			   "%s: reads after VM and vCPU fd are closed",
			   file[kind].label);
			ok(debugfs_dir(getpid(), NULL, 0),
			   "%s: holds the VM", file[kind].label);
			held = module_references();
			ok(held < 0 || held > before,
			   "%s: holds the module (%ld references, %ld without)",
			   file[kind].label, held, before);
			kvm_stats_close(&file[kind].stats);
		}
		ok(vm_goes_away(getpid()), "%s: the VM is gone after the last close",
		   abis[abi].name);
		ok(module_references() == before, "%s: so is the use of the module",
		   abis[abi].name);
	}
	free(file);
}

static void test_killed_vmm(void)
{
	char id[KVM_STATS_NAME_SIZE] = "", want[KVM_STATS_NAME_SIZE];
	int sock[2], fd[2 * NABIS], abi, i;
	struct kvm_stats stats;
	struct kvm_vm *vm;
	pid_t pid;

	TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sock),
		    "socketpair, errno: %i", errno);
	fflush(stdout);
	pid = fork();
	TEST_ASSERT(pid >= 0, "fork, errno: %i", errno);
	if (!pid) {
		vm = vm_create_guest(VCPU_ID, guest_exits);
		for (abi = 0; abi < NABIS; abi++) {
			kvm_stats_open(&stats, vm_get_fd(vm), abis[abi].request);
			send_fd(sock[1], stats.fd);
			kvm_stats_open(&stats, vcpu_get_fd(vm, VCPU_ID),
				       abis[abi].request);
			send_fd(sock[1], stats.fd);
		}
		pause();
		_exit(1);
	}
	for (i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = receive_fd(sock[0]);
	close(sock[0]);
	close(sock[1]);
	kill(pid, SIGKILL);
	TEST_ASSERT(waitpid(pid, NULL, 0) == pid, "waitpid, errno: %i", errno);

	for (i = 0; i < ARRAY_SIZE(fd); i++) {
		const char *scope = i % 2 ? "vCPU" : "VM";
		int abi = i / 2;

		snprintf(want, sizeof(want), i % 2 ? "kvm-%d/vcpu-%d" : "kvm-%d",
			 pid, VCPU_ID);
		ok(pread(fd[i], id, sizeof(id), abis[abi].id_offset) == sizeof(id) &&
		   !strcmp(id, want),
		   "%s %s: reads after its VMM was killed, the id is %s", scope,
		   abis[abi].name, id);
		close(fd[i]);
	}
	ok(vm_goes_away(pid), "the VM of the killed VMM is gone after the last close");
}

/* N exits move the counters of the vCPU that made them by what they have to. */
static void test_guest(struct kvm_vm *vm, struct stats_file *file,
		       const struct stats_file *other)
{
	const struct guest_exit_stat *stat = guest_exit_stats();
	const unsigned int n = 100;
	uint64_t before[16], moved, want;
	int i;

	for (i = 0; stat[i].name; i++)
		before[i] = kvm_stats_value(&file->stats, stat[i].name);
	vcpu_run_exits(vm, VCPU_ID, n);
	for (i = 0; stat[i].name; i++) {
		moved = kvm_stats_value(&file->stats, stat[i].name) - before[i];
		want = (uint64_t)n * stat[i].per_run;
		ok(stat[i].exact ? moved == want : moved >= want,
		   "%s: %u exits moved %s by %llu, expected %s%llu", file->label,
		   n, stat[i].name, (unsigned long long)moved,
		   stat[i].exact ? "" : "at least ", (unsigned long long)want);
	}
	ok(unchanged(other), "%s: and nothing of another vCPU", file->label);
}

static volatile bool vcpu_thread_entered, vcpu_thread_left;
static int vcpu_thread_errno;
static pthread_t vcpu_pthread;

/* Not with _vcpu_run(), which enters the guest again after a signal. */
static void *vcpu_thread(void *arg)
{
	struct kvm_vm *vm = arg;

	vcpu_thread_entered = true;
	if (ioctl(vcpu_get_fd(vm, VCPU_ID), KVM_RUN, NULL))
		vcpu_thread_errno = errno;
	vcpu_thread_left = true;
	return NULL;
}

static void on_signal(int sig)
{
}

/* Let a thread enter KVM_RUN; if a test hangs there, an alarm ends it. */
static void vcpu_thread_start(struct kvm_vm *vm)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	alarm(120);
	vcpu_thread_entered = false;
	vcpu_thread_left = false;
	vcpu_thread_errno = 0;
	TEST_ASSERT(!pthread_create(&vcpu_pthread, NULL, vcpu_thread, vm),
		    "pthread_create, errno: %i", errno);
	while (!vcpu_thread_entered)
		sched_yield();
	usleep(200000);
}

static void vcpu_thread_stop(void)
{
	/* Again, in case it came before KVM_RUN */
	while (!vcpu_thread_left) {
		pthread_kill(vcpu_pthread, SIGUSR1);
		usleep(10000);
	}
	pthread_join(vcpu_pthread, NULL);
	alarm(0);
}

/* A vCPU stays in KVM_RUN while its statistics are opened and read. */
static void test_running(void)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_spins);
	int abi, fd[NABIS][2], vcpu_fd = vcpu_get_fd(vm, VCPU_ID);
	bool opened = true, read = true;

	/* If opening waited for the vCPU, it would wait until the alarm. */
	vcpu_thread_start(vm);
	for (abi = 0; abi < NABIS; abi++) {
		fd[abi][0] = ioctl(vm_get_fd(vm), abis[abi].request, 0);
		fd[abi][1] = ioctl(vcpu_fd, abis[abi].request, 0);
		opened &= fd[abi][0] >= 0 && fd[abi][1] >= 0;
		read &= pread(fd[abi][0], buf, sizeof(buf), 0) > 0 &&
			pread(fd[abi][1], buf, sizeof(buf), 0) > 0;
	}
	usleep(200000);
	ok(opened, "opened while the vCPU is in KVM_RUN");
	ok(read, "read while the vCPU is in KVM_RUN");
	ok(!vcpu_thread_left, "the vCPU stayed in KVM_RUN");

	vcpu_thread_stop();
	ok(vcpu_thread_errno == EINTR, "and left it for a signal: %s",
	   strerror(vcpu_thread_errno));
	for (abi = 0; abi < NABIS; abi++) {
		close(fd[abi][0]);
		close(fd[abi][1]);
	}
	kvm_vm_free(vm);
}

/* The buckets of a histogram, and their sum */
static uint64_t read_histogram(const struct kvm_stats *stats, const char *name,
			       uint64_t *buckets, size_t size)
{
	const struct kvm_stats_desc *desc = kvm_stats_find(stats, name);
	uint64_t sum = 0;
	int i;

	TEST_ASSERT(desc && desc->size * sizeof(*buckets) == size,
		    "%s is no histogram of %zu bytes", name, size);
	TEST_ASSERT(pread(stats->fd, buckets, size,
			  stats->data_offset + desc->offset) == (ssize_t)size,
		    "Reading %s failed", name);
	for (i = 0; i < desc->size; i++)
		sum += buckets[i];
	return sum;
}

/* Bucket 0 is for 0, number i for [2^(i-1), 2^i), the last one for the rest. */
static int log_bucket(uint64_t value, int last)
{
	int i = 0;

	while (value >> i && i < last)
		i++;
	return i;
}

/* One halt, from which a signal wakes the vCPU, and what is counted of it */
static void test_halt(void)
{
	struct kvm_vm *vm = vm_create_guest(VCPU_ID, guest_halts);
	uint64_t buckets[32], blocking, wait, polls, attempted;
	struct kvm_stats stats;
	int i, bucket;

	kvm_stats_open(&stats, vcpu_get_fd(vm, VCPU_ID), KVM_STATS_GETFD);
	ok(!kvm_stats_value(&stats, "blocking"), "a new vCPU does not block");
	vcpu_thread_start(vm);
	for (i = 0; i < 1000 && !kvm_stats_value(&stats, "blocking"); i++)
		usleep(10000);
	blocking = kvm_stats_value(&stats, "blocking");
	ok(blocking == 1, "blocking is %llu when it has halted",
	   (unsigned long long)blocking);
	usleep(100000);
	vcpu_thread_stop();
	ok(!kvm_stats_value(&stats, "blocking"), "and 0 after a signal");

	wait = kvm_stats_value(&stats, "halt_wait_ns");
	ok(wait >= 100000000, "halt_wait_ns is %llu after at least 0.1 s",
	   (unsigned long long)wait);
	if (!kvm_stats_find(&stats, "halt_wait_hist")) {
		ksft_test_result_skip("no histograms\n");
	} else {
		bucket = log_bucket(wait, ARRAY_SIZE(buckets) - 1);
		ok(read_histogram(&stats, "halt_wait_hist", buckets,
				  sizeof(buckets)) == 1 && buckets[bucket] == 1,
		   "halt_wait_hist has that one time in bucket %d", bucket);
		polls = read_histogram(&stats, "halt_poll_success_hist", buckets,
				       sizeof(buckets)) +
			read_histogram(&stats, "halt_poll_fail_hist", buckets,
				       sizeof(buckets));
		attempted = kvm_stats_value(&stats, "halt_attempted_poll");
		ok(polls == attempted, "%llu polls in the histograms, %llu attempted",
		   (unsigned long long)polls, (unsigned long long)attempted);
	}
	kvm_stats_close(&stats);
	kvm_vm_free(vm);
}

static void test_file(struct stats_file *file, int fd, int abi,
		      const char *link, const char *id)
{
	test_open_file(file, link);
	test_header(file, abi, id);
	test_descriptors(file);
	test_every_offset(file);
	test_vectors(file);
	test_io_uring(file);
	test_seek(file);
	test_limits(file);
	test_faults(file);
	test_sharing(file);
	test_foreign(file, fd, abi);
	test_compat(file, fd, abi);
}

int main(int argc, char *argv[])
{
	struct stats_file *file = calloc(2 * NABIS, sizeof(*file));
	struct stats_file *other = calloc(1, sizeof(*other));
	char vm_id[64], vcpu_id[64];
	int abi, vm_fd, vcpu_fd;
	struct kvm_vm *vm;

	setbuf(stdout, NULL);
	ksft_print_header();
	TEST_ASSERT(file && other, "No memory");
	if (kvm_check_cap(KVM_CAP_STATS_BINARY_FD) == 0) {
		print_skip("KVM_CAP_STATS_BINARY_FD is not available");
		exit(KSFT_SKIP);
	}

	vm = vm_create_guest(VCPU_ID, guest_exits);
	vm_vcpu_add_default(vm, OTHER_VCPU_ID, guest_exits);
	vm_fd = vm_get_fd(vm);
	vcpu_fd = vcpu_get_fd(vm, VCPU_ID);
	snprintf(vm_id, sizeof(vm_id), "kvm-%d", getpid());
	snprintf(vcpu_id, sizeof(vcpu_id), "kvm-%d/vcpu-%d", getpid(), VCPU_ID);

	test_capability(vm);
	test_argument(vm_fd, "VM");
	test_argument(vcpu_fd, "vCPU");
	test_no_fds(vm_fd, "VM");
	test_no_fds(vcpu_fd, "vCPU");
	test_no_files(vm_fd, "VM");
	test_no_files(vcpu_fd, "vCPU");

	for (abi = 0; abi < NABIS; abi++) {
		stats_file_open(&file[abi], vm_fd, "VM", abi);
		test_file(&file[abi], vm_fd, abi, "anon_inode:kvm-vm-stats", vm_id);
		stats_file_open(&file[NABIS + abi], vcpu_fd, "vCPU", abi);
		test_file(&file[NABIS + abi], vcpu_fd, abi,
			  "anon_inode:kvm-vcpu-stats:0", vcpu_id);
	}
	test_same_content(&file[0], &file[1]);
	test_same_content(&file[NABIS], &file[NABIS + 1]);
	stats_file_open(other, vcpu_get_fd(vm, OTHER_VCPU_ID), "other vCPU", 0);
	test_same_descriptors(&file[NABIS], other);

	test_debugfs(&file[0], NULL, "before the guest runs");
	if (guest_exit_stats()) {
		test_guest(vm, &file[NABIS], other);
		test_debugfs(&file[0], NULL, "after it");
		test_debugfs(&file[NABIS], other, "after it");
	} else {
		ksft_test_result_skip("no guest can run here\n");
	}

	for (abi = 0; abi < 2 * NABIS; abi++)
		kvm_stats_close(&file[abi].stats);
	kvm_stats_close(&other->stats);
	kvm_vm_free(vm);
	ok(vm_goes_away(getpid()), "the VM is gone after the last close");

	test_lifetime();
	test_killed_vmm();
	if (guest_exit_stats()) {
		test_running();
		test_halt();
	} else {
		ksft_test_result_skip("no vCPU can be in KVM_RUN here\n");
	}

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
