// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VMM that an ordinary user hangs: hung_vmm [ARGUMENT]...
 * It has one VM with a vCPU that is never entered. One thread reads a page of a FUSE file that
 * never answers, through /proc/self/mem, and so holds the lock of its memory; another one wants
 * this lock for writing. From then on each reader of /proc/PID/cmdline waits for the lock.
 *
 * Needs root: it opens /dev/kvm and creates device nodes, then becomes uid 65534 in its own user
 * namespace. Prints "ready", and ends when its standard input does.
 */
#include <grp.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fuse.h"
#include "vm.h"

#define USER	65534
#define FOLDER	"/run"	/* hidden by a tmpfs in a mount namespace */

static void write_file(const char *path, const char *text)
{
	int fd = need(open(path, O_WRONLY), path);

	need(write(fd, text, strlen(text)), path);
	close(fd);
}

/* Become root of a user namespace, as an ordinary user of the host. */
static void become_user(void)
{
	char map[32];

	need(unshare(CLONE_NEWNS), "unshare");
	need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount /");
	need(mount("tmpfs", FOLDER, "tmpfs", 0, "mode=0755"), "mount tmpfs");
	need(mkdir(FOLDER "/files", 0755), "mkdir");
	need(mknod(FOLDER "/fuse", S_IFCHR, makedev(10, 229)), "mknod");
	need(chmod(FOLDER "/fuse", 0666), "chmod");
	need(setgroups(0, NULL), "setgroups");
	need(setresgid(USER, USER, USER), "setresgid");
	need(setresuid(USER, USER, USER), "setresuid");
	/* /proc/self belongs to root otherwise. */
	prctl(PR_SET_DUMPABLE, 1);
	need(unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
	snprintf(map, sizeof(map), "0 %d 1", USER);
	write_file("/proc/self/uid_map", map);
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/gid_map", map);
}

/* Wait until the thread waits in this function of the kernel. */
static void wait_until_in(const volatile pid_t *thread, const char *function)
{
	char text[64], path[64];
	ssize_t n;
	int fd;

	do {
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/wchan", *thread);
		fd = open(path, O_RDONLY);
		n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
	} while (!strstr(text, function));
}

static volatile pid_t reader, writer;

static void *read_page(void *page)
{
	int fd = need(open("/proc/self/mem", O_RDONLY), "/proc/self/mem");
	char c;

	reader = gettid();
	if (pread(fd, &c, 1, (off_t)(unsigned long)page) == 1)
		errx(1, "the file answered");
	return NULL;
}

static void *change_mappings(void *arg)
{
	wait_until_in(&reader, "request_wait_answer");
	writer = gettid();
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return NULL;
}

static void start_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg))
		errx(1, "pthread_create");
}

static void hang(void)
{
	int fuse, fd;
	void *page;

	fuse = need(open(FOLDER "/fuse", O_RDWR | O_CLOEXEC), "/dev/fuse");
	need(fuse_mount(fuse, FOLDER "/files", 1, NULL, 0), "mount fuse");
	fd = need(open(FOLDER "/files/file", O_RDONLY), "file");
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		err(1, "mmap");
	start_thread(change_mappings, NULL);
	start_thread(read_page, page);
	wait_until_in(&writer, "mmap");
}

int main(int argc, char **argv)
{
	int kvm, vm;
	char end;

	kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
	become_user();
	vm = need(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	need(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	hang();
	need(write(STDOUT_FILENO, "ready\n", 6), "stdout");
	return read(STDIN_FILENO, &end, 1) > 0;
}
