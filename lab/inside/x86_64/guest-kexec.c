// SPDX-License-Identifier: GPL-2.0-only
/*
 * Start another kernel in a guest, with the command line of the current one, while perf
 * runs: guest-kexec [-p] KERNEL INITRD
 *
 * With -p, only load the kernel for a panic, which the caller causes.
 *
 * Run on the last CPU, so that the kernel moves the task to the first one, which it does
 * after the reboot notifiers have run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test_util.h"

static int opened(const char *path)
{
	int fd = open(path, O_RDONLY);

	TEST_ASSERT(fd >= 0, "No %s", path);
	return fd;
}

int main(int argc, char **argv)
{
	/* The CPU that panicked starts the kernel and cannot start the other CPUs. */
	static const char after_panic[] = " crashkernel=0 nr_cpus=1";
	const time_t busy = 2;
	char cmdline[1024];
	cpu_set_t last;
	ssize_t len;
	time_t end;
	bool panic;

	panic = argc > 1 && !strcmp(argv[1], "-p");
	argv += panic;
	if (argc != 3 + panic) {
		fprintf(stderr, "usage: guest-kexec [-p] KERNEL INITRD\n");
		return 2;
	}
	len = read(opened("/proc/cmdline"), cmdline, sizeof(cmdline) - sizeof(after_panic));
	TEST_ASSERT(len > 0 && cmdline[len - 1] == '\n', "No line in /proc/cmdline");
	cmdline[len - 1] = '\0';
	if (panic)
		strcat(cmdline, after_panic);
	TEST_ASSERT(!syscall(SYS_kexec_file_load, opened(argv[1]), opened(argv[2]),
			     strlen(cmdline) + 1, cmdline, panic ? KEXEC_FILE_ON_CRASH : 0),
		    "kexec_file_load, errno: %i", errno);
	if (panic)
		return 0;
	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(last), &last), "sched_setaffinity");
	/* Give perf some work to count and sample. */
	for (end = time(NULL) + busy; time(NULL) < end; )
		continue;
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_KEXEC, NULL);
	perror("guest-kexec: reboot");
	return 1;
}
