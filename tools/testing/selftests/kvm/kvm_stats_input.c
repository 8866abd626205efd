// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test what the ioctls of the statistics say to bad input
 *
 *	kvm_stats_input [-n IOCTLS] [-s SEED]
 *
 * Every argument, structures that are not in memory or only in part, fds that
 * are closed or of another kind, no fd left: an error, and nothing else. Then
 * random ioctls around the numbers of the statistics, on /dev/kvm, VM and vCPU,
 * after which all is as before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_stats.h"
#include "kvm_util.h"
#include "stats_test.h"
#include "test_util.h"

static int kvm_fd, vm_fd, vcpu_fd;

/* An ioctl that has to fail with @error, 0 for any; whether it does, and leaves no fd */
static bool fails(int fd, unsigned long request, unsigned long arg, int error)
{
	int next = next_fd();
	int r = ioctl(fd, request, arg), result = errno;

	if (r == -1 && (!error || result == error) && next_fd() == next)
		return true;
	ksft_print_msg("fd %d, ioctl %#lx, argument %#lx: %d, %s, next fd %d after %d\n",
		       fd, request, arg, r, r == -1 ? strerror(result) : "no error",
		       next_fd(), next);
	if (r > STDERR_FILENO)
		close(r);
	return false;
}

/* As fails(), for KVM_STATS_NEXT, which must not change its argument */
static bool next_fails(const struct kvm_stats_next *asked, int error)
{
	struct kvm_stats_next next = *asked;

	return fails(kvm_fd, KVM_STATS_NEXT, (unsigned long)&next, error) &&
	       !memcmp(&next, asked, sizeof(next));
}

static bool opens(int fd, unsigned long request, unsigned long arg)
{
	int stats_fd = ioctl(fd, request, arg);

	close(stats_fd);
	return stats_fd >= 0;
}

/* Whether KVM_GET_STATS_FD with @arg opens what it opens with 0 */
static bool ignores(int fd, unsigned long arg)
{
	int with = ioctl(fd, KVM_GET_STATS_FD, arg);
	int without = ioctl(fd, KVM_GET_STATS_FD, 0);
	char a[72], b[72];	/* header and id */
	bool same;

	same = pread(with, a, sizeof(a), 0) == sizeof(a) &&
	       pread(without, b, sizeof(b), 0) == sizeof(b) &&
	       !memcmp(a, b, sizeof(a));
	close(with);
	close(without);
	return same;
}

static bool opens_scope(int fd, uint32_t scope)
{
	int stats_fd = kvm_stats_getfd(fd, scope);

	close(stats_fd);
	return stats_fd >= 0;
}

#ifdef KVM_STATS_HEADER_ROWS	/* The argument is a structure. */

static bool getfd_fails(int fd, struct kvm_stats_getfd args, int error)
{
	return fails(fd, KVM_STATS_GETFD, (unsigned long)&args, error);
}

static bool scope_fails(int fd, uint32_t scope)
{
	return getfd_fails(fd, (struct kvm_stats_getfd) { .scope = scope }, EINVAL);
}

static void test_getfd_argument(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	const size_t size = sizeof(struct kvm_stats_getfd);
	struct kvm_stats_getfd args;
	bool good = true;
	size_t in;
	char *map;
	int bit;

	for (bit = 0; bit < 32; bit++) {
		args = (struct kvm_stats_getfd) { .flags = 1U << bit };
		good &= getfd_fails(vm_fd, args, EINVAL) && getfd_fails(vcpu_fd, args, EINVAL);
	}
	ok(good, "KVM_STATS_GETFD fails with EINVAL for each flag");
	for (bit = 0, good = true; bit < 128; bit++) {
		args = (struct kvm_stats_getfd) { 0 };
		args.reserved[bit / 64] = 1ULL << bit % 64;
		good &= getfd_fails(vm_fd, args, EINVAL);
	}
	ok(good, "KVM_STATS_GETFD fails with EINVAL for each reserved bit");
	map = must_succeed(mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	must_succeed(mprotect(map + page, page, PROT_NONE));
	for (in = 0, good = true; in < size; in++)
		good &= fails(vm_fd, KVM_STATS_GETFD, (unsigned long)map + page - in, EFAULT) &&
			fails(vcpu_fd, KVM_STATS_GETFD, (unsigned long)map + page - in, EFAULT);
	ok(good, "KVM_STATS_GETFD fails with EFAULT if only 0 to %zu bytes are mapped", size - 1);
	must_succeed(mprotect(map + page, page, PROT_READ));
	ok(opens(vm_fd, KVM_STATS_GETFD, (unsigned long)map + page - size / 2),
	   "KVM_STATS_GETFD succeeds if half of the structure cannot be written");
	must_succeed(mprotect(map, page, PROT_READ));
	ok(opens(vcpu_fd, KVM_STATS_GETFD, (unsigned long)map + page - size / 2),
	   "KVM_STATS_GETFD succeeds if the structure cannot be written");
	munmap(map, 2 * page);
	ok(fails(vm_fd, KVM_STATS_GETFD, 0, EFAULT) &&
	   fails(vm_fd, KVM_STATS_GETFD, 1, EFAULT) &&
	   fails(vm_fd, KVM_STATS_GETFD, -1UL, EFAULT),
	   "KVM_STATS_GETFD fails with EFAULT for pointers that no program can have");
}

#else	/* The argument is a scope. */

static bool scope_fails(int fd, uint32_t scope)
{
	return fails(fd, KVM_STATS_GETFD, scope, EINVAL);
}

static void test_getfd_argument(void)
{
	unsigned long on_stack = 0, high = 0, arg;
	bool good = true;

	/* On 64 bits no argument may be taken for what its lower half is. */
	if (sizeof(long) == 8)
		high = 1UL << (sizeof(long) * 4);
	for (arg = 0; high && arg <= 16; arg++)
		good &= fails(vm_fd, KVM_STATS_GETFD, high | arg, EINVAL) &&
			fails(vcpu_fd, KVM_STATS_GETFD, high | arg, EINVAL) &&
			fails(vm_fd, KVM_STATS_GETFD, high << 31 | arg, EINVAL);
	ok(good, "scopes that are 0 to 16 in their lower half only fail with EINVAL");
	ok(fails(vm_fd, KVM_STATS_GETFD, (unsigned long)&on_stack, EINVAL) &&
	   fails(vm_fd, KVM_STATS_GETFD, (unsigned long)&vm_fd, EINVAL) &&
	   fails(vm_fd, KVM_STATS_GETFD, -1UL, EINVAL) &&
	   fails(vm_fd, KVM_STATS_GETFD, 1UL << (sizeof(long) * 8 - 1), EINVAL),
	   "pointers and the greatest numbers as a scope fail with EINVAL");
}

#endif

static void test_scopes(void)
{
	bool good = true;
	uint32_t scope;
	int arg;

	ok(opens_scope(vm_fd, 0) && opens_scope(vcpu_fd, 0),
	   "scope 0 opens the statistics of VM and vCPU");
	ok(opens_scope(vm_fd, KVM_STATS_SCOPE_VCPUS),
	   "scope KVM_STATS_SCOPE_VCPUS opens the statistics of all vCPUs of a VM");
	ok(scope_fails(vcpu_fd, KVM_STATS_SCOPE_VCPUS),
	   "scope KVM_STATS_SCOPE_VCPUS fails with EINVAL on a vCPU");
	for (scope = 2; scope; scope = scope < 16 ? scope + 1 : scope << 1)
		good &= scope_fails(vm_fd, scope) && scope_fails(vcpu_fd, scope);
	ok(good && scope_fails(vm_fd, -1), "unknown scopes fail with EINVAL");
	test_getfd_argument();
	for (arg = 0, good = true; arg <= 16; arg++)
		good &= ignores(vm_fd, arg) && ignores(vcpu_fd, arg);
	ok(good && ignores(vm_fd, -1UL),
	   "KVM_GET_STATS_FD ignores every argument");
}

static void test_next_fields(void)
{
	const struct kvm_stats_next good_one = { .pid = 0xdeadbeef };
	uint64_t beyond[] = { UINT64_MAX, UINT64_MAX - 1, INT64_MAX, 1ULL << 63 };
	const uint32_t ignored[] = { 0, 1, getpid(), INT32_MAX, UINT32_MAX };
	struct kvm_stats_next next;
	bool good = true;
	uint32_t scope;
	int bit, i;

	for (scope = 2; scope; scope = scope < 16 ? scope + 1 : scope << 1) {
		next = good_one;
		next.scope = scope;
		good &= next_fails(&next, EINVAL);
	}
	next.scope = -1;
	ok(good && next_fails(&next, EINVAL),
	   "KVM_STATS_NEXT fails with EINVAL for unknown scopes");
	for (bit = 0, good = true; bit < 128; bit++) {
		next = good_one;
		next.reserved[bit / 64] = 1ULL << bit % 64;
		good &= next_fails(&next, EINVAL);
	}
	ok(good, "KVM_STATS_NEXT fails with EINVAL for each reserved bit");
	next = good_one;
	for (i = 0, good = true; i < ARRAY_SIZE(beyond); i++) {
		next.vm = beyond[i];
		good &= next_fails(&next, ENOENT);
	}
	ok(good, "KVM_STATS_NEXT fails with ENOENT for ids that no VM will ever have");
	next = good_one;
	for (i = 0, good = true; i < ARRAY_SIZE(ignored); i++) {
		next.pid = ignored[i];
		good &= opens(kvm_fd, KVM_STATS_NEXT, (unsigned long)&next);
		next.vm = 0;
	}
	ok(good, "KVM_STATS_NEXT ignores the pid of its argument");
}

/* The structure is where no memory is, or only a part of it, or none to write. */
static void test_next_memory(void)
{
	const long page = sysconf(_SC_PAGESIZE);
	const struct kvm_stats_next asked = { .pid = 0xdeadbeef };
	const size_t size = sizeof(asked);
	bool good = true;
	int stats_fd;
	char *map;
	size_t in;

	map = must_succeed(mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	must_succeed(mprotect(map + page, page, PROT_NONE));
	for (in = 0; in < size; in++)
		good &= fails(kvm_fd, KVM_STATS_NEXT,
			      (unsigned long)map + page - in, EFAULT);
	ok(good, "KVM_STATS_NEXT fails with EFAULT if only 0 to %zu bytes are mapped", size - 1);
	must_succeed(mprotect(map, page, PROT_READ));
	ok(fails(kvm_fd, KVM_STATS_NEXT, (unsigned long)map, EFAULT),
	   "a structure that cannot be written fails with EFAULT and leaks no fd");
	TEST_ASSERT(!mprotect(map, 2 * page, PROT_READ | PROT_WRITE),
		    "mprotect, errno: %i", errno);
	/* The answer is all before the scope. */
	for (in = 1, good = true; in < offsetof(struct kvm_stats_next, scope); in++) {
		struct kvm_stats_next *next = (void *)(map + page - in);

		memcpy(next, &asked, size);
		must_succeed(mprotect(map + page, page, PROT_READ));
		good &= fails(kvm_fd, KVM_STATS_NEXT, (unsigned long)next, EFAULT);
		TEST_ASSERT(!mprotect(map + page, page, PROT_READ | PROT_WRITE),
			    "mprotect, errno: %i", errno);
	}
	ok(good,
	   "a structure with 1 to %zu writable bytes fails with EFAULT and leaks no fd", in - 1);
	memcpy(map + page - in, &asked, size);
	must_succeed(mprotect(map + page, page, PROT_READ));
	stats_fd = ioctl(kvm_fd, KVM_STATS_NEXT, map + page - in);
	ok(stats_fd >= 0, "KVM_STATS_NEXT succeeds if only scope and reserved cannot be written");
	close(stats_fd);
	ok(fails(kvm_fd, KVM_STATS_NEXT, 0, EFAULT) &&
	   fails(kvm_fd, KVM_STATS_NEXT, 1, EFAULT) &&
	   fails(kvm_fd, KVM_STATS_NEXT, -1UL, EFAULT) &&
	   fails(kvm_fd, KVM_STATS_NEXT, -8UL, EFAULT) &&
	   fails(kvm_fd, KVM_STATS_NEXT, 1UL << (sizeof(long) * 8 - 1), EFAULT),
	   "KVM_STATS_NEXT fails with EFAULT for pointers that no program can have");
	munmap(map, 2 * page);
}

static void test_fds(void)
{
	struct kvm_stats_next next = { 0 };
	int stats_fd = kvm_stats_getfd(vm_fd, 0);
	int event_fd = eventfd(0, 0), null_fd = open("/dev/null", O_RDWR);
	const unsigned long requests[] = {
		KVM_STATS_GETFD, KVM_GET_STATS_FD, KVM_STATS_NEXT,
	};
	bool closed = true, others = true, statistics = true;
	int i;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		unsigned long arg = requests[i] == KVM_STATS_NEXT ?
				    (unsigned long)&next : 0;

		closed &= fails(-1, requests[i], arg, EBADF) &&
			  fails(next_fd(), requests[i], arg, EBADF);
		others &= fails(event_fd, requests[i], arg, ENOTTY) &&
			  fails(null_fd, requests[i], arg, ENOTTY);
		statistics &= fails(stats_fd, requests[i], arg, ENOTTY);
	}
	ok(closed, "closed fds fail with EBADF");
	ok(others, "fds other than KVM's fail with ENOTTY");
	ok(statistics, "ioctls of a statistics file fail with ENOTTY");
	/* With an error that depends on the architecture */
	ok(fails(kvm_fd, KVM_STATS_GETFD, 0, 0) && fails(kvm_fd, KVM_GET_STATS_FD, 0, 0),
	   "KVM_STATS_GETFD and KVM_GET_STATS_FD fail on /dev/kvm");
	ok(fails(vm_fd, KVM_STATS_NEXT, (unsigned long)&next, 0) &&
	   fails(vcpu_fd, KVM_STATS_NEXT, (unsigned long)&next, 0),
	   "KVM_STATS_NEXT is for /dev/kvm only");
#ifndef __riscv	/* where KVM ignores the type */
	/* The failure occurs after the PID reference was taken. */
	ok(fails(kvm_fd, KVM_CREATE_VM, -1UL, EINVAL),
	   "KVM_CREATE_VM with an unknown type fails with EINVAL");
#endif
	close(stats_fd);
	close(event_fd);
	close(null_fd);
}

static void test_no_fds(void)
{
	const struct kvm_stats_next asked = { .pid = 0xdeadbeef };
	struct kvm_stats_next next = asked;
	struct rlimit old, none;
	bool good;

	must_succeed(getrlimit(RLIMIT_NOFILE, &old));
	none = old;
	none.rlim_cur = next_fd();
	must_succeed(setrlimit(RLIMIT_NOFILE, &none));
	good = kvm_stats_getfd(vm_fd, KVM_STATS_SCOPE_VCPUS) == -1 &&
	       errno == EMFILE &&
	       ioctl(kvm_fd, KVM_STATS_NEXT, &next) == -1 && errno == EMFILE &&
	       !memcmp(&next, &asked, sizeof(next));
	must_succeed(setrlimit(RLIMIT_NOFILE, &old));
	ok(good, "KVM_STATS_SCOPE_VCPUS and KVM_STATS_NEXT fail with EMFILE without a free fd");
}

/* A local generator: the same seed must give the same ioctls with every libc. */
static uint64_t random_state;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static unsigned long random_argument(void *page)
{
	switch (random_u64() % 5) {
	case 0:
		return random_u64() % 17;
	case 1:
		return random_u64();
	case 2:
		return random_u64() % 17 | (random_u64() & ~0xffffffffULL);
	default:
		return (unsigned long)page + random_u64() % 4096;
	}
}

static void test_random(unsigned long ioctls, uint64_t seed)
{
	const int fds[] = { kvm_fd, vm_fd, vcpu_fd };
	unsigned long i, opened = 0;
	struct stats_file file;
	int first = next_fd();
	uint64_t *page;

	page = must_succeed(mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	random_state = seed;
	for (i = 0; i < ioctls; i++) {
		unsigned int nr = random_u64() % 3 ? 0xf0 + random_u64() % 16 : 0xce;
		unsigned int dir = random_u64() % 4, size = random_u64() % 64;
		unsigned long request, arg = random_argument(page);
		int fd = fds[random_u64() % ARRAY_SIZE(fds)];

		switch (random_u64() % 4) {
		case 0:
			request = KVM_STATS_GETFD;
			break;
		case 1:
			request = KVM_STATS_NEXT;
			break;
		default:
			request = _IOC(dir, KVMIO, nr, size);
		}
		page[random_u64() % 512] = random_u64() % 3 ? 0 : random_u64();
		if (!(random_u64() % 8))
			memset(page, 0, 4096);
		fd = ioctl(fd, request, arg);
		if (fd > 0) {
			opened++;
			if (close(fd))
				break;
		}
	}
	ok(i == ioctls && next_fd() == first,
	   "%lu random ioctls (seed %llu) opened %lu files and left none", i,
	   (unsigned long long)seed, opened);
	stats_file_open(&file, &abi_getfd, vm_fd, KVM_STATS_SCOPE_VCPUS, "vCPUs");
	ok(stats_file_unchanged(&file), "the statistics can be read after random ioctls");
	stats_file_close(&file);
	munmap(page, 2 * 4096);
}

int main(int argc, char *argv[])
{
	unsigned long ioctls = 100000;
	uint64_t seed = 1;
	int opt;

	while ((opt = getopt(argc, argv, "n:s:")) != -1) {
		if (opt == 'n')
			ioctls = strtoul(optarg, NULL, 0);
		else if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		if (opt == '?' || !ioctls || !seed) {
			fprintf(stderr, "usage: %s [-n IOCTLS] [-s SEED], neither 0\n",
				argv[0]);
			return 2;
		}
	}

	setbuf(stdout, NULL);
	ksft_print_header();
	require_stats_next();
	kvm_fd = open("/dev/kvm", O_RDWR);
	vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	vcpu_fd = must_succeed(ioctl(vm_fd, KVM_CREATE_VCPU, 0));

	test_scopes();
	test_next_fields();
	test_next_memory();
	test_fds();
	test_no_fds();
	test_random(ioctls, seed);
	close(vcpu_fd);
	close(vm_fd);
	ok(vm_goes_away(getpid(), vm_fd), "the VM is destroyed after all tests");

	ksft_set_plan(ksft_test_num());
	ksft_exit(!ksft_get_fail_cnt());
}
