// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the reader of KVM's uevents, with libFuzzer. The input has messages: an error or a sender, a size,
 * and the bytes; \1 instead of 0.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "uevent.h"

static const uint8_t *at, *end;

static uint8_t byte(void)
{
	return at < end ? *at++ : 0;
}

ssize_t __wrap_recvfrom(int fd, void *buf, size_t size, int flags, struct sockaddr *from, socklen_t *len);
ssize_t __wrap_recvfrom(int fd, void *buf, size_t size, int flags, struct sockaddr *from, socklen_t *len)
{
	static const int errors[] = { EAGAIN, EINTR, ENOBUFS };
	const unsigned int kind = at < end ? byte() % 8 : 0;
	size_t n, i;

	if (kind < sizeof(errors) / sizeof(*errors)) {
		errno = errors[kind];
		return -1;
	}
	((struct sockaddr_nl *)from)->nl_pid = kind == 3;
	n = byte() * 9;
	n = n < (size_t)(end - at) ? n : (size_t)(end - at);
	n = n < size ? n : size;
	for (i = 0; i < n; i++)
		((char *)buf)[i] = *at == 1 ? 0 : *at, at++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uevent_count *count = uevent_count_open();
	struct uevents events = { .fd = 0 };
	uint64_t destroyed;

	if (!count)
		return 0;
	at = data;
	end = data + size;
	while (at < end) {
		switch (byte() % 4) {
		case 0:
			uevents_news(&events);
			break;
		case 1:
			uevents_expect(&events);
			break;
		case 2:
			uevent_count_restart(count);
			break;
		default:
			if (!uevent_count_destroyed(count, &destroyed) && destroyed)
				abort();
		}
	}
	uevent_count_close(count);
	return 0;
}
