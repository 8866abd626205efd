// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the source files, with libFuzzer: processes open, replace and close files of KVM, exit and
 * return, and the input has the contents of statistics files. No descriptor is left open.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "privileges.h"
#include "probe_vm.h"
#include "proc.h"
#include "readers.h"
#include "uevent.h"

/* Larger than the largest PID: no process of this host has them. */
#define FIRST_PID	4194305
#define PIDS		3
#define FIRST_FD	3
#define FDS		6
#define TIDS		3
#define CONTENTS_SIZE	8192
#define DESCRIPTORS_MAX	256	/* more than are open at a time */

extern const struct source_ops source_files;
const struct source_ops *const source_list[] = { &source_files, NULL };

static const uint8_t *at, *end;
static char root[] = "/dev/shm/fuzz-files.XXXXXX";
static int proc = -1;
static int exited[PIDS];	/* readable after the process has exited */

/* Statistics files of VMs, of vCPUs, and of all vCPUs of a VM */
static struct contents {
	unsigned char data[CONTENTS_SIZE];
	size_t size;
} contents[3];
static unsigned int fdinfo_number, errors;
static uint64_t later;
static bool news, has_getfd;

static unsigned int byte(void)
{
	return at < end ? *at++ : 0;
}

uint64_t __real_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock);
uint64_t __wrap_read_clock(clockid_t clock)
{
	return __real_read_clock(clock) + later;
}

bool __wrap_uevents_news(struct uevents *events);
bool __wrap_uevents_news(struct uevents *events)
{
	return news;
}

int __wrap_probe_vm_open(struct probe_vm *own, unsigned int id, char *why, size_t size);
int __wrap_probe_vm_open(struct probe_vm *own, unsigned int id, char *why, size_t size)
{
	return -ENOENT;
}

int __wrap_privileges_borrow(const struct kvmstats *k, struct kvmstats_probe *p);
int __wrap_privileges_borrow(const struct kvmstats *k, struct kvmstats_probe *p)
{
	return 0;
}

struct stats_ioctls __wrap_privileges_stats_ioctls(void);
struct stats_ioctls __wrap_privileges_stats_ioctls(void)
{
	return (struct stats_ioctls){ .flags = has_getfd };
}

/* A file in memory with these contents */
static int open_contents(const struct contents *c)
{
	int fd = memfd_create("stats", MFD_CLOEXEC);

	if (fd < 0 || write(fd, c->data, c->size) != (ssize_t)c->size)
		abort();
	return fd;
}

static int last_kind;

int __wrap_proc_take_fd(int pidfd, const struct kvm_fd *want);
int __wrap_proc_take_fd(int pidfd, const struct kvm_fd *want)
{
	if (errors & 1)
		return errors & 2 ? -EBADF : -EMFILE;
	last_kind = want->kind;
	return open_contents(&contents[want->kind == KVM_FD_VM || want->kind == KVM_FD_VM_STATS ? 0 : 1]);
}

int __wrap_privileges_getfd(unsigned long getfd, int fd, uint32_t scope);
int __wrap_privileges_getfd(unsigned long getfd, int fd, uint32_t scope)
{
	if (errors & 4) {
		errno = errors & 8 ? EIO : ENOMEM;
		return -1;
	}
	return open_contents(&contents[scope ? 2 : last_kind == KVM_FD_VM ? 0 : 1]);
}

int __wrap_proc_pidfd(pid_t pid);
int __wrap_proc_pidfd(pid_t pid)
{
	if (errors & 16)
		return errors & 32 ? -ESRCH : -EMFILE;
	return fcntl(pid < FIRST_PID ? exited[0] : exited[pid - FIRST_PID], F_DUPFD_CLOEXEC, 0);
}

uint64_t __wrap_proc_fdinfo(int fd, const char *name);
uint64_t __wrap_proc_fdinfo(int fd, const char *name)
{
	return fdinfo_number;
}

static void write_file(const char *path, const char *text)
{
	int fd = openat(proc, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

/* Open or close a file of a process. */
static void change_descriptor(void)
{
	static const char *const links[] = {
		"anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0", "anon_inode:kvm-vcpu:1", "anon_inode:kvm-vm-stats",
		"anon_inode:kvm-vcpu-stats:0", "anon_inode:kvm-vcpu-stats:1", "anon_inode:kvm-vcpus-stats",
		"anon_inode:kvm-vcpu:4294967295", "anon_inode:kvm-vcpu:x", "socket:[1]",
	};
	const unsigned int where = byte(), which = byte() % (sizeof(links) / sizeof(*links) + 2);
	char path[48];

	snprintf(path, sizeof(path), "%u/fd/%u", FIRST_PID + where % PIDS, FIRST_FD + where / PIDS % FDS);
	unlinkat(proc, path, 0);
	if (which < sizeof(links) / sizeof(*links) && symlinkat(links[which], proc, path))
		abort();
}

static void change_thread(void)
{
	static const char *const names[] = { "comm", "syscall", "schedstat", "stat" };
	static const char *const texts[] = {
		"CPU 0/KVM\n", "vcpu1\n", "16 0x3 0xae80 0x0 0x0 0x0 0x0 0x7ffe 0x7f00\n", "16 0x4 0xae80 0x0 0x0 0x0 0x0 0x1 0x1\n",
		"1000000 2000000 3\n", "1 (a) S 1 1 1 0 -1 0\n", "1 (a) b) R 1 1 1 0 -1 0\n", "running\n", "",
	};
	const unsigned int where = byte();
	char path[64];

	snprintf(path, sizeof(path), "%u/task/%u/%s", FIRST_PID + where % PIDS,
		 FIRST_PID + where % PIDS + where / PIDS % TIDS, names[byte() % 4]);
	write_file(path, texts[byte() % (sizeof(texts) / sizeof(*texts))]);
}

static void change_contents(void)
{
	struct contents *c = &contents[byte() % 3];
	size_t from = byte() << 8, size;

	from |= byte();
	size = byte() << 8;
	size |= byte();
	from %= CONTENTS_SIZE;
	if (size > CONTENTS_SIZE - from)
		size = CONTENTS_SIZE - from;
	if (size > (size_t)(end - at))
		size = end - at;
	memcpy(c->data + from, at, size);
	at += size;
	if (c->size < from + size)
		c->size = from + size;
}

static void change_rows(void)
{
	static const char *const texts[] = {
		"kvm-stats-vcpu: 0 7\nkvm-stats-vcpu: 1 8\n", "kvm-stats-vcpu: 4294967295 -1\n", "pos: 0\n", "",
		"kvm-stats-vcpu: 0 7\nkvm-stats-vcpu: 0 7\nkvm-stats-vcpu: 5 0\n",
	};

	write_file("self/rows", texts[byte() % 5]);
}

static int remove_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_root(void)
{
	nftw(root, remove_file, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
	static const char *const dirs[] = { "%u", "%u/fd", "%u/task" };
	unsigned int i, j;
	char path[64];

	if (!mkdtemp(root))
		abort();
	atexit(remove_root);
	proc = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(proc, "self", 0700);
	mkdirat(proc, "self/fdinfo", 0700);
	write_file("self/rows", "");
	for (i = 0; i < DESCRIPTORS_MAX; i++) {
		snprintf(path, sizeof(path), "self/fdinfo/%u", i);
		if (symlinkat("../rows", proc, path))
			abort();
	}
	for (i = 0; i < PIDS; i++) {
		exited[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		for (j = 0; j < 3; j++) {
			snprintf(path, sizeof(path), dirs[j], FIRST_PID + i);
			mkdirat(proc, path, 0700);
		}
		for (j = 0; j < TIDS; j++) {
			snprintf(path, sizeof(path), "%u/task/%u", FIRST_PID + i, FIRST_PID + i + j);
			mkdirat(proc, path, 0700);
		}
		snprintf(path, sizeof(path), "%u/comm", FIRST_PID + i);
		write_file(path, "qemu-kvm\n");
	}
}

static void begin(void)
{
	unsigned int i, j;
	eventfd_t value;
	char path[48];

	for (i = 0; i < PIDS; i++) {
		eventfd_read(exited[i], &value);
		for (j = 0; j < FDS; j++) {
			snprintf(path, sizeof(path), "%u/fd/%u", FIRST_PID + i, FIRST_FD + j);
			unlinkat(proc, path, 0);
		}
	}
	memset(contents, 0, sizeof(contents));
	fdinfo_number = errors = 0;
	news = false;
	later = 0;
}

static void step(struct kvmstats *k)
{
	switch (byte() % 12) {
	case 0:
		change_descriptor();
		break;
	case 1:
		change_thread();
		break;
	case 2:
		change_contents();
		break;
	case 3:
		change_rows();
		break;
	case 4:
		kvmstats_release_files(k);
		break;
	case 5:
		later += byte() * 1000000000ULL;
		break;
	case 6:
		fdinfo_number = byte() % 3;
		break;
	case 7:
		errors = byte();
		break;
	case 8:
		eventfd_write(exited[byte() % PIDS], 1);
		break;
	case 9:
		news = byte() & 1;
		break;
	default:
		kvmstats_sample(k);
		break;
	}
}

static unsigned int count_descriptors(void)
{
	unsigned int count = 0;
	int fd;

	for (fd = 0; fd < DESCRIPTORS_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kvmstats *k = NULL;
	unsigned int before;

	at = data;
	end = data + size;
	if (proc < 0)
		make_root();
	begin();
	has_getfd = byte() & 1;
	before = count_descriptors();
	if (kvmstats_open(&k, "files", root, 0))
		abort();
	while (at < end)
		step(k);
	kvmstats_close(k);
	if (count_descriptors() != before)
		abort();
	return 0;
}
