// SPDX-License-Identifier: GPL-2.0-only
/*
 * On a kernel that uses the series' numbers of capabilities for something else, no source
 * issues an ioctl of the series. The test answers as such a kernel. Needs /dev/kvm of a
 * kernel without the series; prints TAP.
 */
#include <errno.h>
#include <stdarg.h>

#include "abi.h"
#include "structures.h"
#include "tap.h"

static unsigned int queries, foreign;

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	unsigned long arg;
	va_list args;

	va_start(args, request);
	arg = va_arg(args, unsigned long);
	va_end(args);
	switch (request) {
	case ABI_CHECK_EXTENSION:
		if (arg != ABI_CAP_STATS && arg != ABI_CAP_STATS_5_10)
			break;
		queries++;
		return 15;
	case ABI_STATS_GETFD:
	case ABI_STATS_GETFD_5_10:
	case ABI_STATS_NEXT:
	case ABI_STATS_NEXT_5_10:
		foreign++;
		errno = ENOTTY;
		return -1;
	}
	return __real_ioctl(fd, request, arg);
}

/* Open a source, look for VMs, and return the error of opening it. */
static int try(const char *source)
{
	struct kvmstats *k;
	int ret = kvmstats_open(&k, source, NULL, 0);

	if (!ret) {
		kvmstats_sample(k);
		kvmstats_close(k);
	}
	return ret;
}

int main(void)
{
	int ret = try("next");

	tap_result(ret == -ENODEV, "the source next does not work");
	try("files");
	tap_result(queries >= 2, "the sources query the capability: %u times", queries);
	tap_result(!foreign, "no source issues an ioctl of the series");
	return tap_end();
}
