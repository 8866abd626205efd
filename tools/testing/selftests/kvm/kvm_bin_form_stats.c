// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the statistics file descriptor of VMs and vCPUs: opening and the file
 *
 * Test the guarantees of Documentation/virt/kvm/stats.rst for the format and the
 * file on each kind: of a VM, of a vCPU and of all vCPUs of a VM, through
 * KVM_STATS_GETFD ("getfd") and KVM_GET_STATS_FD ("stats_fd").
 *
 * As root it sets the limit of open files of the whole system to 0 for some
 * milliseconds. It puts it back whatever happens, unless it is killed by SIGKILL.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/compiler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest_exits.h"
#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

#define VCPU_ID		0
#define OTHER_VCPU_ID	1
#define NR_VCPUS	2

/* More than any file here has; a read never touches what lies behind */
#define BUF_SIZE	65536

static char buf[BUF_SIZE];

static void test_capability(struct kvm_vm *vm, const struct stats_abi *abi)
{
	int mask = kvm_check_cap(abi->cap);

	ok(mask > 0, "/dev/kvm has the capability of %s: %d", abi->name, mask);
	ok(ioctl(vm_get_fd(vm), KVM_CHECK_EXTENSION, abi->cap) == mask,
	   "the VM fd reports the same capability of %s", abi->name);
}

static void test_argument(int fd, const char *of)
{
	int stats_fd = ioctl(fd, KVM_GET_STATS_FD, 1);

	ok(stats_fd >= 0, "%s KVM_GET_STATS_FD ignores its argument", of);
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
	ok(f && !strcmp(text, want), "%s: fdinfo has the id", file->label);
	if (f)
		fclose(f);
}

static void test_header(const struct stats_file *file, const char *id)
{
	const struct kvm_stats *stats = &file->stats;
	char want[sizeof(stats->id)] = "";
	unsigned int rows;

	strncpy(want, id, sizeof(want) - 1);
	ok(!memcmp(stats->id, want, sizeof(want)),
	   "%s: the id is %.*s, padded with NULs", file->label,
	   (int)sizeof(stats->id), stats->id);
	ok(stats->name_size == STATS_NAME_SIZE, "%s: name_size is %u",
	   file->label, stats->name_size);
	ok(stats->count > 0, "%s: the file has %u statistics", file->label, stats->count);
	/* Later kernels may append fields to the header. */
	ok(stats->desc_offset >= file->abi->header_size,
	   "%s: descriptors start after the header, at %u", file->label,
	   stats->desc_offset);
	ok(stats->data_offset >= stats->desc_offset + stats->count * stats->desc_size,
	   "%s: values start after the descriptors, at %u", file->label,
	   stats->data_offset);
	ok(!(stats->data_offset % sizeof(uint64_t)),
	   "%s: the values are aligned", file->label);
	rows = file->scope == KVM_STATS_SCOPE_VCPUS ? NR_VCPUS : 1;
	ok(file->size == stats->data_offset + rows * kvm_stats_data_size(stats),
	   "%s: the file has %zu bytes, %u times the size of the described values",
	   file->label, file->size, rows);
	if (file->abi == &abi_stats_fd) {
		const struct kvm_stats_header *header = (void *)file->reference;

		ok(!header->flags, "%s: flags is 0", file->label);
		ok(header->id_offset >= sizeof(*header) &&
		   header->id_offset + header->name_size <= header->desc_offset,
		   "%s: the id is between header and descriptors, at %u",
		   file->label, header->id_offset);
	}
}

/* Bits of the flags that make a statistic one which not every reader knows */
#define FLAGS_SKIP	0xffff0000

/* Whether a statistic begins at @offset of the values, or they end there */
static bool one_begins_at(const struct kvm_stats *stats, uint32_t offset)
{
	uint32_t i, found = offset == kvm_stats_data_size(stats);

	for (i = 0; i < stats->count; i++)
		found += kvm_stats_desc(stats, i)->offset == offset;
	return found == 1;
}

static const char *desc_error(const struct kvm_stats *stats, uint32_t i,
			      uint32_t offset)
{
	const struct kvm_stats_desc *desc = kvm_stats_desc(stats, i);
	uint32_t end = desc->offset + desc->size * sizeof(uint64_t);
	uint32_t type = desc->flags & KVM_STATS_TYPE_MASK;
	uint32_t unit = desc->flags & KVM_STATS_UNIT_MASK;
	bool linear = type == KVM_STATS_TYPE_LINEAR_HIST;
	bool hist = linear || type == KVM_STATS_TYPE_LOG_HIST;
	size_t len = strnlen(desc->name, stats->name_size), pad;

	if (stats_values_in_order && desc->offset != offset)
		return "values are not in order";
	/* So no two overlap, and there is nothing between them. */
	if (!one_begins_at(stats, 0) || !one_begins_at(stats, desc->offset) ||
	    !one_begins_at(stats, end))
		return "values are not dense";
	/* A reader skips a statistic with unknown flags among these. */
	if (desc->flags & FLAGS_SKIP)
		return NULL;
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
	if (len > 3 && !strncmp(desc->name + len - 3, "_ns", 3) &&
	    (unit != KVM_STATS_UNIT_SECONDS || desc->exponent != -9))
		return "is not in nanoseconds";
	if (hist ? desc->size < 2 : desc->size != 1)
		return "size does not fit the type";
	if (linear == !desc->bucket_size)
		return "bucket_size does not fit the type";
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
	const size_t to_end = BUF_SIZE - 16;
	const size_t lengths[] = { 1, 2, 7, 8, 63, 64, 65, to_end };
	/* Reads to the end take long: one in so many. A prime, for each byte of a value. */
	const size_t step = 61;
	size_t offset, i, len, want, reads = 0;
	ssize_t r;

	for (offset = 0; offset <= file->size + 8; offset++) {
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			len = lengths[i];
			if (len == to_end && offset % step)
				continue;
			want = offset > file->size ? 0 : file->size - offset;
			if (want > len)
				want = len;
			memset(buf, POISON, want + 16);
			r = pread(file->stats.fd, buf, len, offset);
			if (r != (ssize_t)want ||
			    !stats_file_matches(file, buf, offset, want) ||
			    !poisoned(buf + want, 16)) {
				ok(false, "%s: pread of %zu bytes at %zu: %zd",
				   file->label, len, offset, r);
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
	   stats_file_matches(file, buf, 0, file->size),
	   "%s: preadv into %zu vectors matches", file->label, ARRAY_SIZE(iov));

	memset(buf, POISON, sizeof(buf));
	lseek(file->stats.fd, 0, SEEK_SET);
	ok(readv(file->stats.fd, iov, ARRAY_SIZE(iov)) == (ssize_t)file->size &&
	   stats_file_matches(file, buf, 0, file->size) &&
	   lseek(file->stats.fd, 0, SEEK_CUR) == (off_t)file->size,
	   "%s: readv matches and moves the position to the end", file->label);

	/* To newer kernels one vector is something else than several. */
	memset(buf, POISON, sizeof(buf));
	lseek(file->stats.fd, 0, SEEK_SET);
	ok(readv(file->stats.fd, &iov[0], 1) == (ssize_t)cut[0] &&
	   readv(file->stats.fd, &iov[2], 1) == (ssize_t)cut[2] &&
	   stats_file_matches(file, buf, 0, cut[0] + cut[2]) &&
	   lseek(file->stats.fd, 0, SEEK_CUR) == (off_t)(cut[0] + cut[2]),
	   "%s: readv continues in the second vector", file->label);

	memset(buf, POISON, sizeof(buf));
	if (stats_has_read_iter)
		ok(preadv2(file->stats.fd, iov, ARRAY_SIZE(iov), 0, RWF_NOWAIT) ==
		   (ssize_t)file->size && stats_file_matches(file, buf, 0, file->size),
		   "%s: preadv2 with RWF_NOWAIT returns the same bytes", file->label);
	else
		ok(preadv2(file->stats.fd, iov, ARRAY_SIZE(iov), 0, RWF_NOWAIT) == -1 &&
		   errno == EOPNOTSUPP,
		   "%s: preadv2 with RWF_NOWAIT fails with EOPNOTSUPP", file->label);
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
	ok(!r && pos == size && stats_file_matches(file, buf, 0, size),
	   "%s: reads of 7 bytes each return the whole file", file->label);

	ok(lseek(fd, -8, SEEK_END) == size - 8 &&
	   read(fd, &value, 8) == 8 &&
	   stats_file_matches(file, (char *)&value, size - 8, 8) &&
	   lseek(fd, 0, SEEK_CUR) == size,
	   "%s: SEEK_END leads to the last value", file->label);
	ok(lseek(fd, 16, SEEK_SET) == 16 && lseek(fd, 8, SEEK_CUR) == 24 &&
	   lseek(fd, -4, SEEK_CUR) == 20 &&
	   pread(fd, &value, 8, 0) == 8 && lseek(fd, 0, SEEK_CUR) == 20,
	   "%s: SEEK_SET and SEEK_CUR move the position, pread keeps it", file->label);
	ok(lseek(fd, -1, SEEK_SET) == -1 && errno == EINVAL &&
	   lseek(fd, -21, SEEK_CUR) == -1 && errno == EINVAL &&
	   lseek(fd, -size - 1, SEEK_END) == -1 && errno == EINVAL &&
	   lseek(fd, 1, SEEK_END) == -1 && errno == EINVAL &&
	   lseek(fd, 0, SEEK_CUR) == 20,
	   "%s: seeking out of the file fails with EINVAL", file->label);
	ok(lseek(fd, 0, SEEK_DATA) == -1 && errno == EINVAL &&
	   lseek(fd, 0, SEEK_HOLE) == -1 && errno == EINVAL &&
	   lseek(fd, 0, SEEK_CUR) == 20,
	   "%s: SEEK_DATA and SEEK_HOLE fail with EINVAL", file->label);
}

static void test_splice(struct stats_file *file)
{
	loff_t offset = 0;
	int fds[2];

	TEST_ASSERT(!pipe(fds), "pipe, errno: %i", errno);
	ok(splice(file->stats.fd, &offset, fds[1], NULL, file->size, 0) == -1 &&
	   errno == EINVAL, "%s: splice fails with EINVAL", file->label);
	close(fds[0]);
	close(fds[1]);
}

static void test_limits(struct stats_file *file)
{
	size_t huge = sizeof(long) == 8 ? INT_MAX : BUF_SIZE;
	int fd = file->stats.fd;

	memset(buf, POISON, sizeof(buf));
	ok(pread(fd, buf, 8, file->size) == 0 &&
	   pread(fd, buf, 8, file->size + 1) == 0 &&
	   pread(fd, buf, 8, (off_t)1 << (sizeof(off_t) * 8 - 2)) == 0 &&
	   poisoned(buf, 8),
	   "%s: reads at and after the end return 0", file->label);
	ok(pread(fd, buf, 8, -1) == -1 && errno == EINVAL,
	   "%s: a negative offset fails with EINVAL", file->label);
	ok(pread(fd, buf, 0, 0) == 0 &&
	   pread(fd, buf, 0, file->stats.data_offset) == 0 && poisoned(buf, 8),
	   "%s: a read of 0 bytes returns 0", file->label);
	/* READ_ONCE() hides the size, of which the compiler would warn. */
	ok(pread(fd, buf, READ_ONCE(huge), 0) == (ssize_t)file->size &&
	   stats_file_matches(file, buf, 0, file->size),
	   "%s: a read of %zu bytes returns the whole file", file->label, huge);
}

static void test_faults(struct stats_file *file)
{
	const size_t values = file->size - file->stats.data_offset;
	/* Offset of the read, and number of bytes of the buffer that are mapped */
	const struct {
		size_t offset;
		size_t room;
	} cut[] = {
		{ 0, 1 }, { 0, 40 }, { 0, 64 }, { 0, 75 }, { 0, 100 },
		{ 0, file->stats.data_offset },
		{ 0, file->size - 1 },
		/* All values at once, which takes a separate path */
		{ file->stats.data_offset, 1 },
		{ file->stats.data_offset, 9 },
		{ file->stats.data_offset, values / 2 + 1 },
		{ file->stats.data_offset, values - 1 },
	};
	const long page = sysconf(_SC_PAGESIZE);
	const size_t pages = BUF_SIZE / page;
	/* The kernel's half of the address space, on x86 the first hole */
	void *no_users = (void *)~(~0UL >> 1);
	struct iovec iov[2] = { { .iov_len = 8 }, { .iov_len = 8 } };
	char *map, *end;
	ssize_t r = 0;
	int i;

	map = must_succeed(mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	end = map + pages * page;
	must_succeed(mprotect(end, page, PROT_NONE));
	iov[0].iov_base = end - iov[0].iov_len;
	iov[1].iov_base = end;

	for (i = 0; i < ARRAY_SIZE(cut); i++) {
		char *p = end - cut[i].room;

		memset(p, POISON, cut[i].room);
		r = pread(file->stats.fd, p, file->size, cut[i].offset);
		if (r <= 0 || r > (ssize_t)cut[i].room ||
		    !stats_file_matches(file, p, cut[i].offset, r))
			break;
	}
	ok(i == ARRAY_SIZE(cut),
	   "%s: a fault after some bytes returns those bytes, %d times (last: %zd)",
	   file->label, i, r);
	ok(pread(file->stats.fd, end, 8, 0) == -1 && errno == EFAULT &&
	   pread(file->stats.fd, end, 8, file->stats.data_offset) == -1 &&
	   errno == EFAULT &&
	   pread(file->stats.fd, end, values, file->stats.data_offset) == -1 &&
	   errno == EFAULT,
	   "%s: a fault at the first byte fails with EFAULT", file->label);
	ok(preadv(file->stats.fd, iov, ARRAY_SIZE(iov), 0) == (ssize_t)iov[0].iov_len &&
	   stats_file_matches(file, iov[0].iov_base, 0, iov[0].iov_len),
	   "%s: a fault in the second vector returns the bytes of the first", file->label);
	/* The bytes that the kernel copies before a fault may be fewer than fit. */
	iov[0].iov_base = end - 4;
	iov[1].iov_base = map;
	memset(map, POISON, iov[1].iov_len);
	r = preadv(file->stats.fd, iov, ARRAY_SIZE(iov), 0);
	ok((r == -1 ? errno == EFAULT : r <= 4) && poisoned(map, iov[1].iov_len),
	   "%s: preadv does not continue after a fault in a vector", file->label);
	ok(pread(file->stats.fd, READ_ONCE(no_users), 8, 0) == -1 &&
	   errno == EFAULT &&
	   pread(file->stats.fd, READ_ONCE(no_users), values,
		 file->stats.data_offset) == -1 && errno == EFAULT,
	   "%s: an address that no process can have fails with EFAULT", file->label);
	ok(pread(file->stats.fd, end, 8, file->size) == 0,
	   "%s: a read at the end does not fault", file->label);
	munmap(map, (pages + 1) * page);
}

static void test_same_content(struct stats_file *a, struct stats_file *b)
{
	ok(stats_file_reads(a) && stats_file_reads(b) &&
	   a->size - a->stats.desc_offset == b->size - b->stats.desc_offset &&
	   !memcmp(a->reference + a->stats.desc_offset,
		   b->reference + b->stats.desc_offset,
		   a->size - a->stats.desc_offset),
	   "%s and %s have the same descriptors and values", a->label, b->label);
}

static void test_same_descriptors(const struct stats_file *a,
				  const struct stats_file *b)
{
	ok(a->stats.count == b->stats.count &&
	   !memcmp(a->stats.descs, b->stats.descs,
		   a->stats.count * a->stats.desc_size),
	   "%s: two vCPUs have the same descriptors", a->label);
}

static void test_no_fds(int fd, const struct stats_abi *abi, const char *of)
{
	struct rlimit old, none;

	must_succeed(getrlimit(RLIMIT_NOFILE, &old));
	none = old;
	none.rlim_cur = next_fd();
	must_succeed(setrlimit(RLIMIT_NOFILE, &none));
	ok(stats_open(fd, abi, 0) == -1 && errno == EMFILE,
	   "%s %s without a free fd fails with EMFILE", of, abi->name);
	must_succeed(setrlimit(RLIMIT_NOFILE, &old));
}

static bool child_reads(void *arg)
{
	return stats_file_reads(arg);
}

static bool child_reads_io_uring(void *arg)
{
	struct stats_file *file = arg;

	memset(buf, POISON, sizeof(buf));
	return io_uring_pread(file->stats.fd, buf, sizeof(buf) - 16, 0, false) ==
	       (ssize_t)file->size &&
	       stats_file_matches(file, buf, 0, file->size) && poisoned(buf + file->size, 16);
}

/*
 * Read parts that begin and end within each block, and beyond the end. The registered
 * buffer must not be mapped from a file, as the program's own memory is.
 */
static bool child_reads_fixed(void *arg)
{
	struct stats_file *file = arg;
	const size_t size = file->size, data = file->stats.data_offset;
	const size_t at[] = { 0, 1, 63, 70, data - 3, data, data + 8, size - 9, size, size + 1 };
	const size_t lens[] = { 1, 8, 100, data, size, size + 100 };
	char *map;
	int i, j;

	map = must_succeed(mmap(NULL, BUF_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		for (j = 0; j < ARRAY_SIZE(lens); j++) {
			size_t want = at[i] >= size ? 0 : size - at[i];

			if (want > lens[j])
				want = lens[j];
			memset(map, POISON, BUF_SIZE);
			if (io_uring_pread(file->stats.fd, map, lens[j], at[i], true) !=
			    (ssize_t)want ||
			    !stats_file_matches(file, map, at[i], want) ||
			    !poisoned(map + want, 16))
				return false;
		}
	}
	return true;
}

/*
 * In a child, which ends with its io_uring: to tear that down is work for the
 * task. Waiting for a child is interrupted by such work, and Linux 5.10 on
 * powerpc then does not restore all registers to begin the call anew.
 */
static void test_io_uring(struct stats_file *file)
{
	if (!have_io_uring()) {
		ksft_test_result_skip("%s: no io_uring\n", file->label);
		return;
	}
	ok(child_says(child_reads_io_uring, file),
	   "%s: io_uring reads the whole file", file->label);
	if (stats_has_read_iter)
		ok(child_says(child_reads_fixed, file),
		   "%s: io_uring reads parts of it into a registered buffer", file->label);
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
	return stats_file_reads(&file);
}

static void test_sharing(struct stats_file *file)
{
	struct stats_file duplicate = *file;
	struct passed passed = { .file = file };
	int sock[2];

	duplicate.stats.fd = dup(file->stats.fd);
	ok(stats_file_reads(&duplicate), "%s: a duplicate reads the file", file->label);
	close(duplicate.stats.fd);
	ok(stats_file_reads(file),
	   "%s: the file is readable after the duplicate is closed", file->label);
	ok(child_says(child_reads, file), "%s: a child reads the file", file->label);

	must_succeed(socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	send_fd(sock[0], file->stats.fd);
	passed.sock = sock[1];
	ok(child_says(child_reads_passed, &passed),
	   "%s: a process that gets the fd by SCM_RIGHTS reads the file", file->label);
	close(sock[0]);
	close(sock[1]);
}

struct foreign {
	int fd;
	const struct stats_abi *abi;
	uint32_t scope;
	const struct stats_file *file;
};

static bool child_opens(void *arg)
{
	const struct foreign *foreign = arg;
	struct stats_file file = *foreign->file;

	file.stats.fd = stats_open(foreign->fd, file.abi, file.scope);
	return stats_file_reads(&file);
}

static bool child_is_refused(void *arg)
{
	const struct foreign *foreign = arg;

	return ioctl(foreign->fd, KVM_CHECK_EXTENSION, abi_getfd.cap) == -1 &&
	       errno == EIO;
}

static bool child_has_no_file(void *arg)
{
	const struct foreign *foreign = arg;
	int next = next_fd();

	/* Only root has files beyond the limit. */
	return !setresuid(NOBODY, NOBODY, NOBODY) &&
	       stats_open(foreign->fd, foreign->abi, foreign->scope) == -1 &&
	       errno == ENFILE && next_fd() == next;
}

/*
 * The child checks whether the fd is free again; a leaked VM reference is
 * detected when the VM is freed.
 */
static void test_no_files(int fd, const struct stats_abi *abi, uint32_t scope,
			  const char *of)
{
	struct foreign foreign = { .fd = fd, .abi = abi, .scope = scope };

	if (geteuid()) {
		ksft_test_result_skip("%s: not root\n", of);
		return;
	}
	if (others_use_kvm()) {
		ksft_test_result_skip("another process uses KVM: it would have no files\n");
		return;
	}
	ok(child_says_without_files(child_has_no_file, &foreign),
	   "%s %s without a free file fails with ENFILE", of, abi->name);
}

/* A child has another mm than the one that made the VM. */
static void test_foreign(struct stats_file *file, int fd)
{
	struct foreign foreign = { .fd = fd, .file = file };

	ok(child_says(child_opens, &foreign),
	   "%s: another process opens the file", file->label);
	ok(child_says(child_is_refused, &foreign),
	   "%s: other ioctls of another process still fail with EIO", file->label);
}

#ifdef __x86_64__
static bool child_opens_compat(void *arg)
{
	const struct foreign *foreign = arg;
	struct stats_file file = *foreign->file;
	bool same;

	file.stats.fd = file.abi == &abi_stats_fd ?
			compat_ioctl(foreign->fd, KVM_GET_STATS_FD, 0) :
			stats_getfd_compat(foreign->fd, file.scope);
	same = stats_file_reads(&file);
	close(file.stats.fd);
	return same;
}

static void test_compat(struct stats_file *file, int fd)
{
	struct foreign foreign = { .fd = fd, .file = file };

	if (compat_ioctl(-1, 0, 0) != -EBADF) {
		ksft_test_result_skip("%s: no 32-bit programs\n", file->label);
		return;
	}
	ok(child_opens_compat(&foreign), "%s: a 32-bit ioctl opens the file", file->label);
	ok(child_says(child_opens_compat, &foreign),
	   "%s: a 32-bit ioctl of another process opens the file", file->label);
}
#else
static void test_compat(struct stats_file *file, int fd)
{
}
#endif

/* A thread that reads from an fd as soon as a file is installed */
struct guesser {
	int fd;
	bool stop;
	unsigned long read;
	int error;
};

static void *guess(void *arg)
{
	struct guesser *guesser = arg;
	char byte;

	while (!READ_ONCE(guesser->stop)) {
		if (pread(guesser->fd, &byte, 1, 0) == 1)
			guesser->read++;
		else if (errno != EBADF)
			guesser->error = errno;
	}
	return NULL;
}

/* A file that another thread sees is one that can be read at an offset. */
static void test_visible(int fd)
{
	struct guesser guesser = { .fd = next_fd() };
	/* Kernels with all checks on need minutes for as many, the other thread needs a CPU. */
	const time_t end = time(NULL) + 2;
	const int opens = 100000;
	pthread_t thread;
	bool same = true;
	int i;

	TEST_ASSERT(!pthread_create(&thread, NULL, guess, &guesser), "pthread_create");
	for (i = 0; i < opens && same; i++) {
		if (READ_ONCE(guesser.read) && time(NULL) >= end)
			break;
		same = kvm_stats_getfd(fd, 0) == guesser.fd;
		close(guesser.fd);
	}
	WRITE_ONCE(guesser.stop, true);
	pthread_join(thread, NULL);
	ok(same && guesser.read && !guesser.error,
	   "%d files opened, another thread read %lu times: %s", i, guesser.read,
	   guesser.error ? strerror(guesser.error) : "no error");
}

static void test_file(struct stats_file *file, int fd, const char *link,
		      const char *id)
{
	test_open_file(file, link);
	test_header(file, id);
	test_descriptors(file);
	test_every_offset(file);
	test_vectors(file);
	test_io_uring(file);
	test_seek(file);
	test_splice(file);
	test_limits(file);
	test_faults(file);
	test_sharing(file);
	test_foreign(file, fd);
	test_compat(file, fd);
}

static void test_no_room(int fd, const char *of)
{
	test_no_fds(fd, &abi_getfd, of);
	test_no_fds(fd, &abi_stats_fd, of);
	test_no_files(fd, &abi_getfd, 0, of);
	test_no_files(fd, &abi_stats_fd, 0, of);
}

/* The files of a VM or of a vCPU, through the two ABIs */
struct both {
	struct stats_file getfd;
	struct stats_file stats_fd;
};

static void test_both(struct both *files, int fd, const char *of,
		      const char *link, const char *id)
{
	stats_file_open(&files->getfd, &abi_getfd, fd, 0, of);
	test_file(&files->getfd, fd, link, id);
	stats_file_open(&files->stats_fd, &abi_stats_fd, fd, 0, of);
	test_file(&files->stats_fd, fd, link, id);
	test_same_content(&files->getfd, &files->stats_fd);
}

int main(int argc, char *argv[])
{
	char vm_id[64], vcpu_id[64];
	struct both of_vm, of_vcpu;
	struct stats_file of_vcpus, other;
	int vm_fd, vcpu_fd;
	struct kvm_vm *vm;
	uint64_t number;

	setbuf(stdout, NULL);
	ksft_print_header();
	if (kvm_check_cap(abi_getfd.cap) == 0) {
		print_skip("KVM_STATS_GETFD is not available");
		exit(KSFT_SKIP);
	}

	vm = vm_create_guest(VCPU_ID, guest_exits);
	vm_vcpu_add_default(vm, OTHER_VCPU_ID, guest_exits);
	vm_fd = vm_get_fd(vm);
	vcpu_fd = vcpu_get_fd(vm, VCPU_ID);
	snprintf(vm_id, sizeof(vm_id), "kvm-%d", getpid());
	snprintf(vcpu_id, sizeof(vcpu_id), "kvm-%d/vcpu-%d", getpid(), VCPU_ID);

	test_capability(vm, &abi_getfd);
	test_capability(vm, &abi_stats_fd);
	ok(kvm_check_cap(abi_getfd.cap) == abi_getfd.flags,
	   "the capability of getfd returns the flags 0x%x", abi_getfd.flags);
	test_argument(vm_fd, "VM");
	test_argument(vcpu_fd, "vCPU");
	test_no_room(vm_fd, "VM");
	test_no_room(vcpu_fd, "vCPU");
	test_no_files(vm_fd, &abi_getfd, KVM_STATS_SCOPE_VCPUS, "vCPUs");
	test_visible(vcpu_fd);

	test_both(&of_vm, vm_fd, "VM", "anon_inode:kvm-vm-stats", vm_id);
	test_both(&of_vcpu, vcpu_fd, "vCPU", "anon_inode:kvm-vcpu-stats:0", vcpu_id);
	stats_file_open(&of_vcpus, &abi_getfd, vm_fd, KVM_STATS_SCOPE_VCPUS, "vCPUs");
	test_file(&of_vcpus, vm_fd, "anon_inode:kvm-vcpus-stats", vm_id);
	stats_file_open(&other, &abi_getfd, vcpu_get_fd(vm, OTHER_VCPU_ID), 0,
			"other vCPU");
	test_same_descriptors(&of_vcpu.getfd, &other);
	number = stats_vm_number(of_vm.getfd.stats.fd);
	ok(number && stats_vm_number(of_vm.stats_fd.stats.fd) == number &&
	   stats_vm_number(of_vcpu.getfd.stats.fd) == number &&
	   stats_vm_number(of_vcpu.stats_fd.stats.fd) == number &&
	   stats_vm_number(of_vcpus.stats.fd) == number &&
	   stats_vm_number(other.stats.fd) == number,
	   "the fdinfo of each file has the number of the VM, %llu",
	   (unsigned long long)number);

	stats_file_close(&of_vm.getfd);
	stats_file_close(&of_vm.stats_fd);
	stats_file_close(&of_vcpu.getfd);
	stats_file_close(&of_vcpu.stats_fd);
	stats_file_close(&of_vcpus);
	stats_file_close(&other);
	kvm_vm_free(vm);
	if (debugfs_has_kvm())
		ok(vm_goes_away(getpid(), -1), "the VM is gone after the last close");
	else
		ksft_test_result_skip("no debugfs: whether the VM is gone is not seen\n");

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
