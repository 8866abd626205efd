// SPDX-License-Identifier: GPL-2.0-only
/*
 * What opening and reading the statistics cost in the kernel it runs on. It
 * wants QEMU's -icount, where the time stamp counter counts instructions.
 *
 * Prints one figure a line, NAME VALUE: instructions, or what the name says.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "kvm_stats.h"

/* Some timer ticks long, so that these are in every mean alike. */
#define INSTRUCTIONS	20000000
#define MAX_ROUNDS	100000
/* So many that the objects at hand beforehand do not count. */
#define OPEN_FILES	100000
#define MAX_DEBUGFS	256

static int vm_fd, vcpu_fd, memfd;
static struct kvm_stats stats;
static size_t data_size, file_size;
static char buf[65536];

static char debugfs_path[MAX_DEBUGFS][320];
static int debugfs_files;

static void no_less(long value, long least, const char *what)
{
	if (value < least)
		err(1, "%s: %ld", what, value);
}

static void getppid_once(void)
{
	syscall(SYS_getppid);
}

static void memfd_once(void)
{
	no_less(pread(memfd, buf, data_size, 0), data_size, "pread memfd");
}

static void data_once(void)
{
	no_less(pread(stats.fd, buf, data_size, stats.data_offset), data_size,
		"pread data");
}

static void one_once(void)
{
	no_less(pread(stats.fd, buf, 8, stats.data_offset), 8, "pread 8 bytes");
}

static void file_once(void)
{
	no_less(pread(stats.fd, buf, sizeof(buf), 0), file_size, "pread file");
}

static void open_once(unsigned long request)
{
	int fd = ioctl(vcpu_fd, request, 0);

	no_less(fd, 0, "open statistics");
	close(fd);
}

static void getfd_once(void)
{
	open_once(KVM_STATS_GETFD);
}

static void get_stats_fd_once(void)
{
	open_once(KVM_GET_STATS_FD);
}

static void debugfs_once(void)
{
	int i, fd;

	for (i = 0; i < debugfs_files; i++) {
		fd = open(debugfs_path[i], O_RDONLY);
		no_less(fd, 0, debugfs_path[i]);
		no_less(read(fd, buf, sizeof(buf)), 1, debugfs_path[i]);
		close(fd);
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * The median is what the call itself takes. The mean has in it what comes in
 * between, too: timer ticks, and RCU, which frees closed files later.
 */
static void measure(const char *name, void (*once)(void))
{
	static uint64_t spent[MAX_ROUNDS];
	uint64_t start, now, sum;
	int pass, rounds;

	/* The first pass is the warm-up: page faults, slabs that grow. */
	for (pass = 0; pass < 2; pass++) {
		sum = 0;
		for (rounds = 0; rounds < MAX_ROUNDS && sum < INSTRUCTIONS; rounds++) {
			start = __rdtsc();
			once();
			now = __rdtsc();
			spent[rounds] = now - start;
			sum += spent[rounds];
		}
	}
	qsort(spent, rounds, sizeof(*spent), compare);
	printf("%s %.1f\n%s_mean %.1f\n", name, (double)spent[rounds / 2], name,
	       (double)sum / rounds);
}

static void find_debugfs(void)
{
	char folder[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/sys/kernel/debug/kvm/%d-%d", getpid(),
		 vm_fd);
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
}

/* Can a file of debugfs that is kept open be read a second time? */
static void print_debugfs_again(void)
{
	int fd = open(debugfs_path[0], O_RDONLY);

	no_less(fd, 0, debugfs_path[0]);
	no_less(read(fd, buf, sizeof(buf)), 1, debugfs_path[0]);
	printf("debugfs_again %d\n", pread(fd, buf, sizeof(buf), 0) > 0 ||
	       (!lseek(fd, 0, SEEK_SET) && read(fd, buf, sizeof(buf)) > 0));
	close(fd);
}

/* Bytes in the objects of all slab caches */
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

/* A struct file with what its slab cache aligns it to */
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

static void measure_memory(const char *name, unsigned long request)
{
	static int fds[OPEN_FILES];
	long before;
	int i;

	/* Files closed before are freed after an RCU grace period. */
	sleep(1);
	slab_bytes();
	before = slab_bytes();
	for (i = 0; i < OPEN_FILES; i++) {
		fds[i] = ioctl(vcpu_fd, request, 0);
		no_less(fds[i], 0, "open statistics");
	}
	printf("%s %.1f\n", name, (double)(slab_bytes() - before) / OPEN_FILES);
	for (i = 0; i < OPEN_FILES; i++)
		close(fds[i]);
}

int main(void)
{
	struct rlimit limit = { OPEN_FILES + 1000, OPEN_FILES + 1000 };
	int kvm;

	kvm = open("/dev/kvm", O_RDWR);
	no_less(kvm, 0, "/dev/kvm");
	vm_fd = ioctl(kvm, KVM_CREATE_VM, 0);
	no_less(vm_fd, 0, "KVM_CREATE_VM");
	vcpu_fd = ioctl(vm_fd, KVM_CREATE_VCPU, 0);
	no_less(vcpu_fd, 0, "KVM_CREATE_VCPU");
	kvm_stats_open_getfd(&stats, vcpu_fd, 0);
	data_size = kvm_stats_data_size(&stats);
	file_size = stats.data_offset + data_size;
	memfd = memfd_create("bench", 0);
	no_less(memfd, 0, "memfd_create");
	no_less(write(memfd, buf, data_size), data_size, "write memfd");
	find_debugfs();

	printf("data_bytes %zu\nfile_bytes %zu\ndebugfs_files %d\n", data_size,
	       file_size, debugfs_files);
	measure("getppid", getppid_once);
	measure("memfd", memfd_once);
	measure("data", data_once);
	measure("8_bytes", one_once);
	measure("file", file_once);
	measure("KVM_STATS_GETFD", getfd_once);
	measure("KVM_GET_STATS_FD", get_stats_fd_once);
	measure("debugfs", debugfs_once);
	print_debugfs_again();
	print_file_object();

	/* The table of fds is the process's own: have its full size now. */
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "RLIMIT_NOFILE");
	no_less(dup2(memfd, limit.rlim_cur - 1), 0, "dup2");
	measure_memory("memory_KVM_STATS_GETFD", KVM_STATS_GETFD);
	measure_memory("memory_KVM_GET_STATS_FD", KVM_GET_STATS_FD);
	return 0;
}
