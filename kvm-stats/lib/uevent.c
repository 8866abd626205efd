// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uevent.h"

/* Those of the kernel; what udev makes of them is another group. */
#define KERNEL_GROUP	1

int uevent_open(void)
{
	const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };
	const void *any = &address;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);
	int error;

	if (fd < 0)
		return -errno;
	if (!bind(fd, any, sizeof(address)))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

bool uevent_of_kvm(int fd)
{
	static const char kvm[] = "change@/devices/virtual/misc/kvm";
	bool heard = fd < 0;
	char text[sizeof(kvm)];
	ssize_t n;

	/* All of them, or there is no room for the next ones. */
	while (fd >= 0) {
		n = recv(fd, text, sizeof(text), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ENOBUFS)
			break;
		heard |= n < 0 || (n == sizeof(kvm) && !memcmp(text, kvm, n));
	}
	return heard;
}

void uevents_open(struct uevents *events)
{
	events->fd = uevent_open();
	events->expected = false;
}

void uevents_close(struct uevents *events)
{
	if (events->fd >= 0)
		close(events->fd);
	events->fd = -1;
}

void uevents_check(struct uevents *events)
{
	if (!uevent_of_kvm(events->fd))
		uevents_close(events);
}

bool uevents_news(struct uevents *events)
{
	bool heard = uevent_of_kvm(events->fd), news = heard || events->expected;

	events->expected = heard;
	return news;
}

void uevents_expect(struct uevents *events)
{
	events->expected = true;
}
