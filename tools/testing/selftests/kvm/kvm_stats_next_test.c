// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test KVM_STATS_NEXT, which enumerates the VMs of the host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_util.h"
#include "test_util.h"

#define NOBODY	65534
#define NR_VMS	3

/* VM id in the fdinfo of a stats fd, 0 if there is none */
static u64 get_vm_id(int stats_fd)
{
	unsigned long long id = 0;
	char line[128];
	FILE *f;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", stats_fd);
	f = fopen(line, "r");
	TEST_ASSERT(f, "Failed to open '%s'", line);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "kvm-stats-vm: %llu", &id);
	fclose(f);
	return id;
}

static void test_enumerate(int kvm_fd, const u64 *ids)
{
	struct kvm_stats_next next = { .scope = KVM_STATS_SCOPE_VCPUS }, prev;
	int fd, i, found = 0;

	for (;;) {
		prev = next;
		fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
		if (fd < 0)
			break;
		TEST_ASSERT(next.vm > prev.vm, "VM id %llu after %llu", next.vm, prev.vm);
		TEST_ASSERT_EQ(get_vm_id(fd), next.vm);
		for (i = 0; i < NR_VMS; i++) {
			if (next.vm != ids[i])
				continue;
			TEST_ASSERT_EQ(next.pid, getpid());
			found++;
		}
		close(fd);
	}
	TEST_ASSERT_EQ(errno, ENOENT);
	TEST_ASSERT(!memcmp(&next, &prev, sizeof(next)), "ENOENT modifies the argument");
	ksft_test_result_pass("enumeration ends with ENOENT and an unmodified argument\n");
	TEST_ASSERT_EQ(found, NR_VMS);
	ksft_test_result_pass("each VM is returned once, with its id and its creator\n");
}

static void test_new_vm(int kvm_fd, u64 last)
{
	struct kvm_stats_next next = { .vm = last };
	struct kvm_vm *vm = vm_create_barebones();
	int stats_fd = vm_get_stats_fd(vm);
	u64 id = get_vm_id(stats_fd);
	int fd;

	/* Skip VMs that other processes create meanwhile. */
	do {
		last = next.vm;
		fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
		TEST_ASSERT(fd >= 0, KVM_IOCTL_ERROR(KVM_STATS_NEXT, fd));
		close(fd);
	} while (next.vm > last && next.vm < id);
	TEST_ASSERT_EQ(next.vm, id);
	ksft_test_result_pass("a call with the last id returns a new VM\n");

	close(stats_fd);
	kvm_vm_free(vm);
	next.vm = id - 1;
	fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
	if (fd < 0) {
		TEST_ASSERT_EQ(errno, ENOENT);
	} else {
		TEST_ASSERT(next.vm > id, "VM id %llu after %llu", next.vm, id - 1);
		close(fd);
	}
	ksft_test_result_pass("a destroyed VM is not returned\n");
}

/* LSMs cannot label the inode that anonymous files share. */
static void test_inode(int kvm_fd, struct kvm_vm *vm)
{
	struct kvm_stats_next next = {};
	int fd[] = { vm_get_stats_fd(vm), ioctl(kvm_fd, KVM_STATS_NEXT, &next) };
	struct stat st[ARRAY_SIZE(fd)];
	int i;

	for (i = 0; i < ARRAY_SIZE(fd); i++) {
		TEST_ASSERT(!fstat(fd[i], &st[i]), "fstat() failed, errno: %i", errno);
		close(fd[i]);
	}
	TEST_ASSERT(st[0].st_ino != st[1].st_ino, "The inode is shared");
	ksft_test_result_pass("the stats fd has its own inode\n");
}

static void test_failure(int kvm_fd, struct kvm_stats_next next, int error)
{
	const struct kvm_stats_next orig = next;

	TEST_ASSERT_EQ(ioctl(kvm_fd, KVM_STATS_NEXT, &next), -1);
	TEST_ASSERT_EQ(errno, error);
	TEST_ASSERT(!memcmp(&next, &orig, sizeof(next)), "A failure modifies the argument");
}

/* Return the number of the next fd that is opened. */
static int get_free_fd(void)
{
	int fd = dup(STDIN_FILENO);

	TEST_ASSERT(fd >= 0, "dup() failed, errno: %i", errno);
	close(fd);
	return fd;
}

/* Put the id on a writable page and the rest on a read-only one. */
static void test_fault(int kvm_fd)
{
	const size_t page = getpagesize();
	const int free_fd = get_free_fd();
	const struct kvm_stats_next orig = { .scope = KVM_STATS_SCOPE_VCPUS };
	struct kvm_stats_next *next;
	char *buf;

	buf = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TEST_ASSERT(buf != MAP_FAILED, "mmap() failed");
	next = (void *)(buf + page - offsetof(struct kvm_stats_next, pid));
	*next = orig;
	TEST_ASSERT(!mprotect(buf + page, page, PROT_READ), "mprotect() failed");
	TEST_ASSERT_EQ(ioctl(kvm_fd, KVM_STATS_NEXT, next), -1);
	TEST_ASSERT_EQ(errno, EFAULT);
	TEST_ASSERT_EQ(get_free_fd(), free_fd);
	munmap(buf, 2 * page);
	ksft_test_result_pass("a partly read-only argument fails with EFAULT, without an fd\n");
}

static void test_errors(int kvm_fd)
{
	int status;
	pid_t pid;

	test_failure(kvm_fd, (struct kvm_stats_next) { .scope = 2 }, EINVAL);
	test_failure(kvm_fd, (struct kvm_stats_next) { .reserved[0] = 1 }, EINVAL);
	test_failure(kvm_fd, (struct kvm_stats_next) { .reserved[1] = 1 }, EINVAL);
	ksft_test_result_pass("an unknown scope and reserved fields fail with EINVAL\n");
	test_fault(kvm_fd);

	pid = fork();
	TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
	if (!pid) {
		TEST_ASSERT(!setresuid(NOBODY, NOBODY, NOBODY), "setresuid() failed");
		test_failure(kvm_fd, (struct kvm_stats_next) {}, EPERM);
		_exit(0);
	}
	TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
	TEST_ASSERT_EQ(status, 0);
	ksft_test_result_pass("a process without CAP_PERFMON gets EPERM\n");
}

int main(void)
{
	struct kvm_stats_next next = {};
	struct kvm_vm *vms[NR_VMS];
	u64 ids[NR_VMS];
	int kvm_fd, i, fd;

	TEST_REQUIRE(kvm_has_cap(KVM_CAP_STATS_SCOPES) &&
		     kvm_check_cap(KVM_CAP_STATS_SCOPES) & KVM_STATS_CAP_NEXT);
	kvm_fd = open_kvm_dev_path_or_exit();

	for (i = 0; i < NR_VMS; i++) {
		vms[i] = vm_create_barebones();
		fd = vm_get_stats_fd(vms[i]);
		ids[i] = get_vm_id(fd);
		close(fd);
	}
	fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
	__TEST_REQUIRE(fd >= 0 || errno != EPERM, "CAP_PERFMON is required");
	TEST_ASSERT(fd >= 0, KVM_IOCTL_ERROR(KVM_STATS_NEXT, fd));
	close(fd);

	ksft_print_header();
	ksft_set_plan(8);
	test_enumerate(kvm_fd, ids);
	test_new_vm(kvm_fd, ids[NR_VMS - 1]);
	test_inode(kvm_fd, vms[0]);
	test_errors(kvm_fd);

	for (i = 0; i < NR_VMS; i++)
		kvm_vm_free(vms[i]);
	close(kvm_fd);
	ksft_finished();
}
