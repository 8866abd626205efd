// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test KVM_STATS_NEXT, which enumerates the VMs of the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "kvm_util.h"
#include "test_util.h"
#include "ucall_common.h"

#define NOBODY	65534
#define NR_VMS	3
#define CREATION_INTERVAL_US	1000

static void guest_code(void)
{
	GUEST_DONE();
}

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
		TEST_ASSERT(next.vm > id, "VM id %llu is not after the destroyed one", next.vm);
		close(fd);
	}
	ksft_test_result_pass("a destroyed VM is not returned\n");
}

struct creator {
	pthread_t thread;
	int kvm_fd;
	int vm_fds[20];
};

static void *create_vms(void *data)
{
	struct creator *creator = data;
	int i;

	for (i = 0; i < ARRAY_SIZE(creator->vm_fds); i++)
		creator->vm_fds[i] = ioctl(creator->kvm_fd, KVM_CREATE_VM, 0);
	return NULL;
}

/* Repeat the call with the last id while threads create VMs. */
static void test_concurrent_creation(int kvm_fd, u64 last)
{
	struct kvm_stats_next next = { .vm = last };
	struct creator creators[8];
	int nr_created = 0, nr_found = 0, fd, i, j;

	for (i = 0; i < ARRAY_SIZE(creators); i++) {
		creators[i].kvm_fd = kvm_fd;
		TEST_ASSERT(!pthread_create(&creators[i].thread, NULL, create_vms, &creators[i]),
			    "pthread_create() failed");
	}
	/* The last round starts after the last thread has exited. */
	for (i = 0; i < ARRAY_SIZE(creators);) {
		i += !pthread_tryjoin_np(creators[i].thread, NULL);
		while ((fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next)) >= 0) {
			nr_found += next.pid == getpid();
			close(fd);
		}
	}
	for (i = 0; i < ARRAY_SIZE(creators); i++) {
		for (j = 0; j < ARRAY_SIZE(creators[i].vm_fds); j++)
			nr_created += !close(creators[i].vm_fds[j]);
	}
	ksft_test_result(nr_created && nr_found == nr_created,
			 "calls with the last id return all VMs that threads create\n");
}

/* Find a VM by its id; return its stats fd. */
static int find_vm(int kvm_fd, u64 id, u32 scope, u32 *pid)
{
	struct kvm_stats_next next = { .vm = id - 1, .scope = scope };
	int fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);

	TEST_ASSERT(fd >= 0, KVM_IOCTL_ERROR(KVM_STATS_NEXT, fd));
	TEST_ASSERT_EQ(next.vm, id);
	*pid = next.pid;
	return fd;
}

/* Compare a stats fd of KVM_STATS_NEXT with one of the VM, byte by byte. */
static bool is_same_content(int fd, int own)
{
	const off_t size = lseek(own, 0, SEEK_END);
	char *data = malloc(size + 1), *own_data = malloc(size);
	bool same;

	TEST_ASSERT_EQ(pread(own, own_data, size, 0), size);
	same = pread(fd, data, size + 1, 0) == size && !memcmp(data, own_data, size);
	free(data);
	free(own_data);
	return same;
}

/* The guest has run: the rows of its vCPUs aren't 0, and differ from the values of the VM. */
static void test_content(int kvm_fd)
{
	struct kvm_stats_getfd args = { .scope = KVM_STATS_SCOPE_VCPUS };
	struct pollfd poll_fd = {};
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	int own[] = { vm_get_stats_fd(vm), ioctl(vm->fd, KVM_STATS_GETFD, &args) };
	int found[ARRAY_SIZE(own)], i;
	u32 pid;

	TEST_ASSERT(own[1] >= 0, KVM_IOCTL_ERROR(KVM_STATS_GETFD, own[1]));
	vcpu_run(vcpu);
	for (i = 0; i < ARRAY_SIZE(own); i++) {
		found[i] = find_vm(kvm_fd, get_vm_id(own[0]), i, &pid);
		TEST_ASSERT_EQ(fcntl(found[i], F_GETFD), FD_CLOEXEC);
	}
	ksft_test_result(is_same_content(found[0], own[0]) && is_same_content(found[1], own[1]),
			 "the stats fd has the values of the VM, or of all its vCPUs\n");
	for (i = 0; i < ARRAY_SIZE(own); i++)
		close(own[i]);

	poll_fd.fd = found[1];
	TEST_ASSERT_EQ(poll(&poll_fd, 1, 0), 0);
	kvm_vm_free(vm);
	TEST_ASSERT_EQ(poll(&poll_fd, 1, 20000), 1);
	ksft_test_result(poll_fd.revents == POLLHUP,
			 "the stats fd doesn't pin the VM, and reports its destruction\n");
	for (i = 0; i < ARRAY_SIZE(own); i++)
		close(found[i]);
}

/* Send an fd to another process, or receive one. */
static int pass_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = {}, byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	if (fd < 0) {
		TEST_ASSERT_EQ(recvmsg(socket, &msg, 0), 1);
		return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&msg));
	}
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	*(int *)CMSG_DATA(cmsg) = fd;
	TEST_ASSERT_EQ(sendmsg(socket, &msg, 0), 1);
	return fd;
}

#ifdef __x86_64__
/* Call an ioctl without an argument as a 32-bit process would; return -errno if it fails. */
static int compat_ioctl(int fd, u32 request)
{
	long ret;

	asm volatile("int $0x80"
		     : "=a" (ret)
		     : "a" (54), "b" (fd), "c" (request), "d" (0)
		     : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

/* Without 32-bit system calls, int $0x80 ends the process by SIGSEGV. */
static void test_compat(const int *fds, int nr)
{
	const char *name = "another 32-bit process than the VMM can open stats fds";
	pid_t pid = fork();
	int status, i;

	TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
	if (!pid) {
		for (i = 0; i < nr; i++)
			if (compat_ioctl(fds[i], KVM_GET_STATS_FD) < 0)
				_exit(1);
		_exit(0);
	}
	TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
		ksft_test_result_skip("%s\n", name);
	else
		ksft_test_result(!status, "%s\n", name);
}

#define NR_COMPAT_TESTS	1
#else
static void test_compat(const int *fds, int nr)
{
}

#define NR_COMPAT_TESTS	0
#endif

/* A process creates a VM and a vCPU, passes their fds on, and exits after the next byte. */
static void test_creator(int kvm_fd)
{
	int sockets[2], vm_fd, vcpu_fd, stats_fd;
	char byte = 0;
	u32 pid = 0;
	pid_t child;
	u64 id;

	TEST_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair() failed");
	child = fork();
	TEST_ASSERT(child >= 0, "fork() failed, errno: %i", errno);
	if (!child) {
		vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
		pass_fd(sockets[1], vm_fd);
		pass_fd(sockets[1], ioctl(vm_fd, KVM_CREATE_VCPU, 0));
		TEST_ASSERT_EQ(read(sockets[1], &byte, 1), 1);
		_exit(0);
	}
	vm_fd = pass_fd(sockets[0], -1);
	vcpu_fd = pass_fd(sockets[0], -1);
	TEST_ASSERT_EQ(ioctl(vm_fd, KVM_CREATE_VCPU, 0), -1);
	TEST_ASSERT_EQ(errno, EIO);
	stats_fd = ioctl(vcpu_fd, KVM_GET_STATS_FD, NULL);
	TEST_ASSERT(stats_fd >= 0, KVM_IOCTL_ERROR(KVM_GET_STATS_FD, stats_fd));
	close(stats_fd);
	test_compat((int []){ vm_fd, vcpu_fd }, 2);
	close(vcpu_fd);
	stats_fd = ioctl(vm_fd, KVM_GET_STATS_FD, NULL);
	TEST_ASSERT(stats_fd >= 0, KVM_IOCTL_ERROR(KVM_GET_STATS_FD, stats_fd));
	ksft_test_result_pass("another process than the VMM can open stats fds\n");

	id = get_vm_id(stats_fd);
	close(stats_fd);
	close(find_vm(kvm_fd, id, 0, &pid));
	TEST_ASSERT_EQ(pid, child);
	TEST_ASSERT_EQ(write(sockets[0], &byte, 1), 1);
	TEST_ASSERT_EQ(waitpid(child, NULL, 0), child);
	close(find_vm(kvm_fd, id, 0, &pid));
	ksft_test_result(!pid, "the PID of a creator that has exited is 0\n");
	close(vm_fd);
	close(sockets[0]);
	close(sockets[1]);
}

/* All VMs of a process have the same id string; a vCPU has the id of its VM. */
static void test_ids(struct kvm_vm *vm, const u64 *ids)
{
	int vcpu_stats_fd = vcpu_get_stats_fd(__vm_vcpu_add(vm, 0));

	TEST_ASSERT_EQ(get_vm_id(vcpu_stats_fd), ids[0]);
	close(vcpu_stats_fd);
	ksft_test_result(ids[0] && ids[0] < ids[1] && ids[1] < ids[2],
			 "ids of VMs are unique, and increase\n");
	/* An id is not used again, even after KVM is reloaded. */
	ksft_test_result(ids[1] - ids[0] >= CREATION_INTERVAL_US * 1000 &&
			 ids[2] - ids[1] >= CREATION_INTERVAL_US * 1000,
			 "ids of VMs grow with time, not with the number of VMs\n");
}

static void check_name(int stats_fd, const char *name)
{
	char path[64], link[256] = {}, *end;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", stats_fd);
	TEST_ASSERT(readlink(path, link, sizeof(link) - 1) > 0, "readlink() failed");
	end = strchr(link, ':');
	TEST_ASSERT(end && !strcmp(end + 1, name), "The stats fd is a link to %s", link);
}

/* LSM policies refer to the names. */
static void test_names(int kvm_fd, u64 id)
{
	const char *const names[] = { "kvm-vm-stats", "kvm-vcpus-stats" };
	u32 scope, pid;
	int fd;

	for (scope = 0; scope < ARRAY_SIZE(names); scope++) {
		fd = find_vm(kvm_fd, id, scope, &pid);
		check_name(fd, names[scope]);
		TEST_ASSERT_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
		close(fd);
	}
	ksft_test_result_pass("the stats fd is named after its scope\n");
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
	int fd;

	buf = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TEST_ASSERT(buf != MAP_FAILED, "mmap() failed");
	next = (void *)(buf + page - offsetof(struct kvm_stats_next, pid));
	*next = orig;
	TEST_ASSERT(!mprotect(buf + page, page, PROT_READ), "mprotect() failed");
	TEST_ASSERT_EQ(ioctl(kvm_fd, KVM_STATS_NEXT, next), -1);
	TEST_ASSERT_EQ(errno, EFAULT);
	TEST_ASSERT_EQ(get_free_fd(), free_fd);

	/* Only the id and the PID are written. */
	TEST_ASSERT(!mprotect(buf + page, page, PROT_READ | PROT_WRITE), "mprotect() failed");
	next = (void *)(buf + page - offsetof(struct kvm_stats_next, scope));
	*next = orig;
	TEST_ASSERT(!mprotect(buf + page, page, PROT_READ), "mprotect() failed");
	fd = ioctl(kvm_fd, KVM_STATS_NEXT, next);
	TEST_ASSERT(fd >= 0, KVM_IOCTL_ERROR(KVM_STATS_NEXT, fd));
	close(fd);

	TEST_ASSERT(!mprotect(buf + page, page, PROT_READ | PROT_WRITE), "mprotect() failed");
	next = (void *)(buf + page - offsetof(struct kvm_stats_next, reserved));
	*next = orig;
	TEST_ASSERT(!mprotect(buf + page, page, PROT_NONE), "mprotect() failed");
	TEST_ASSERT_EQ(ioctl(kvm_fd, KVM_STATS_NEXT, next), -1);
	TEST_ASSERT_EQ(errno, EFAULT);
	munmap(buf, 2 * page);
	ksft_test_result_pass("a partly read-only argument fails with EFAULT, without an fd\n");
}

static void test_no_fd(int kvm_fd)
{
	struct rlimit limit, none;

	TEST_ASSERT(!getrlimit(RLIMIT_NOFILE, &limit), "getrlimit() failed");
	none = (struct rlimit) { .rlim_cur = 0, .rlim_max = limit.rlim_max };
	TEST_ASSERT(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit() failed");
	test_failure(kvm_fd, (struct kvm_stats_next) {}, EMFILE);
	TEST_ASSERT(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit() failed");
	ksft_test_result_pass("the call fails with EMFILE without a free fd\n");
}

static void test_errors(int kvm_fd)
{
	const u32 scopes[] = { 0, KVM_STATS_SCOPE_VCPUS };
	int status, i;
	pid_t pid;

	test_failure(kvm_fd, (struct kvm_stats_next) { .scope = 2 }, EINVAL);
	for (i = 0; i < ARRAY_SIZE(scopes); i++) {
		struct kvm_stats_next next = { .scope = scopes[i], .reserved[0] = 1 };

		test_failure(kvm_fd, next, EINVAL);
		next = (struct kvm_stats_next) { .scope = scopes[i], .reserved[1] = 1 };
		test_failure(kvm_fd, next, EINVAL);
	}
	ksft_test_result_pass("an unknown scope and reserved fields fail with EINVAL\n");
	test_fault(kvm_fd);
	test_no_fd(kvm_fd);

	pid = fork();
	TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
	if (!pid) {
		TEST_ASSERT(!setresuid(NOBODY, NOBODY, NOBODY), "setresuid() failed");
		for (i = 0; i < ARRAY_SIZE(scopes); i++)
			test_failure(kvm_fd, (struct kvm_stats_next) { .scope = scopes[i] }, EPERM);
		/* The permission is checked before the argument. */
		TEST_ASSERT_EQ(ioctl(kvm_fd, KVM_STATS_NEXT, NULL), -1);
		TEST_ASSERT_EQ(errno, EPERM);
		_exit(0);
	}
	TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
	TEST_ASSERT_EQ(status, 0);
	ksft_test_result_pass("a process without CAP_PERFMON gets EPERM\n");
}

/* Keep only one capability. */
static void set_capability(int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	data[CAP_TO_INDEX(capability)].effective = CAP_TO_MASK(capability);
	data[CAP_TO_INDEX(capability)].permitted = CAP_TO_MASK(capability);
	TEST_ASSERT(!syscall(SYS_capset, &header, data), "capset() failed, errno: %i", errno);
}

static void test_capabilities(int kvm_fd)
{
	const char *name = "CAP_PERFMON in another user namespace doesn't suffice";
	const int capabilities[] = { CAP_PERFMON, CAP_SYS_ADMIN };
	struct kvm_stats_next next = {};
	int status, i;
	pid_t pid;

	for (i = 0; i < ARRAY_SIZE(capabilities); i++) {
		pid = fork();
		TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
		if (!pid) {
			set_capability(capabilities[i]);
			_exit(ioctl(kvm_fd, KVM_STATS_NEXT, &next) < 0);
		}
		TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
		TEST_ASSERT_EQ(status, 0);
	}
	ksft_test_result_pass("CAP_PERFMON or CAP_SYS_ADMIN suffices\n");

	pid = fork();
	TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
	if (!pid) {
		if (unshare(CLONE_NEWUSER))
			_exit(KSFT_SKIP);
		test_failure(kvm_fd, next, EPERM);
		_exit(0);
	}
	TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
		ksft_test_result_skip("%s\n", name);
	else
		ksft_test_result(!status, "%s\n", name);
}

/* A process in a new PID namespace sees the PID of the creator in the initial one. */
static void test_pid_namespace(int kvm_fd, u64 id)
{
	const char *name = "the PID belongs to the initial PID namespace";
	pid_t creator = getpid(), pid = fork();
	int status;
	u32 found;

	TEST_ASSERT(pid >= 0, "fork() failed, errno: %i", errno);
	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(KSFT_SKIP);
		pid = fork();
		if (!pid) {
			find_vm(kvm_fd, id, 0, &found);
			_exit(found != creator);
		}
		_exit(waitpid(pid, &status, 0) != pid || status);
	}
	TEST_ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
		ksft_test_result_skip("%s\n", name);
	else
		ksft_test_result(!status, "%s\n", name);
}

/* The creator of a VM is the process, not the thread. */
static void *create_vm(void *vm)
{
	*(struct kvm_vm **)vm = vm_create_barebones();
	return NULL;
}

int main(void)
{
	struct kvm_stats_next next = {};
	struct kvm_vm *vms[NR_VMS];
	pthread_t thread;
	u64 ids[NR_VMS];
	int kvm_fd, i, fd;

	TEST_REQUIRE(kvm_has_cap(KVM_CAP_STATS_SCOPES) &&
		     kvm_check_cap(KVM_CAP_STATS_SCOPES) & KVM_STATS_CAP_NEXT);
	kvm_fd = open_kvm_dev_path_or_exit();

	for (i = 0; i < NR_VMS; i++) {
		usleep(CREATION_INTERVAL_US);
		TEST_ASSERT(!pthread_create(&thread, NULL, create_vm, &vms[i]),
			    "pthread_create() failed");
		pthread_join(thread, NULL);
		fd = vm_get_stats_fd(vms[i]);
		ids[i] = get_vm_id(fd);
		close(fd);
	}
	fd = ioctl(kvm_fd, KVM_STATS_NEXT, &next);
	__TEST_REQUIRE(fd >= 0 || errno != EPERM, "CAP_PERFMON is required");
	TEST_ASSERT(fd >= 0, KVM_IOCTL_ERROR(KVM_STATS_NEXT, fd));
	close(fd);

	ksft_print_header();
	ksft_set_plan(20 + NR_COMPAT_TESTS);
	test_ids(vms[0], ids);
	test_enumerate(kvm_fd, ids);
	test_new_vm(kvm_fd, ids[NR_VMS - 1]);
	test_concurrent_creation(kvm_fd, ids[NR_VMS - 1]);
	test_content(kvm_fd);
	test_creator(kvm_fd);
	test_inode(kvm_fd, vms[0]);
	test_names(kvm_fd, ids[0]);
	test_errors(kvm_fd);
	test_capabilities(kvm_fd);
	test_pid_namespace(kvm_fd, ids[0]);

	for (i = 0; i < NR_VMS; i++)
		kvm_vm_free(vms[i]);
	close(kvm_fd);
	ksft_finished();
}
