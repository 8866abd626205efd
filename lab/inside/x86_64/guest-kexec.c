// SPDX-License-Identifier: GPL-2.0-only
/*
 * Start another kernel, as a guest does it while perf runs:
 * guest-kexec KERNEL INITRD
 *
 * The command line is this kernel's. The task is on the last CPU, so that the kernel
 * moves it to the first one on the way, after it has told everybody that it ends.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <sched.h>
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
	const time_t busy = 2;
	char cmdline[1024];
	cpu_set_t last;
	ssize_t len;
	time_t end;

	if (argc != 3) {
		fprintf(stderr, "usage: guest-kexec KERNEL INITRD\n");
		return 2;
	}
	len = read(opened("/proc/cmdline"), cmdline, sizeof(cmdline));
	TEST_ASSERT(len > 0 && cmdline[len - 1] == '\n', "No line in /proc/cmdline");
	cmdline[len - 1] = '\0';
	TEST_ASSERT(!syscall(SYS_kexec_file_load, opened(argv[1]), opened(argv[2]), len,
			     cmdline, 0), "kexec_file_load");
	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	TEST_ASSERT(!sched_setaffinity(0, sizeof(last), &last), "sched_setaffinity");
	/* For perf to see something */
	for (end = time(NULL) + busy; time(NULL) < end; )
		continue;
	syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_KEXEC, NULL);
	perror("guest-kexec: reboot");
	return 1;
}
