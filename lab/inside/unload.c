// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unload kernel modules in the given order: unload MODULE...
 *
 * Retry for some seconds: files of io_uring or of a killed process are closed late and may
 * still pin a module. A module that stays in use is an error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ATTEMPTS	100
#define PAUSE_US	100000

static int unload(const char *module)
{
	int i, ret = -1;

	for (i = 0; i < ATTEMPTS && ret; i++) {
		if (i)
			usleep(PAUSE_US);
		ret = syscall(SYS_delete_module, module, O_NONBLOCK);
		if (ret && errno != EWOULDBLOCK)
			break;
	}
	return ret;
}

int main(int argc, char **argv)
{
	int i, failed = 0;

	printf("TAP version 13\n1..%d\n", argc - 1);
	for (i = 1; i < argc; i++) {
		if (unload(argv[i])) {
			printf("not ok %d unload %s: %s\n", i, argv[i],
			       strerror(errno));
			failed = 1;
		} else {
			printf("ok %d unload %s\n", i, argv[i]);
		}
	}
	return failed;
}
