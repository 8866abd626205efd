// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uevent.h"

/* Multicast group of the kernel; udev's own is another one. */
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

/*
 * Receive a message. The kernel sends from port 0; a process with CAP_NET_ADMIN can send to the
 * same group, but not from that port: such a message has length 0.
 */
static ssize_t receive(int fd, void *text, size_t size)
{
	struct sockaddr_nl from = { .nl_pid = 1 };
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(fd, text, size, 0, (void *)&from, &len);

	return n > 0 && from.nl_pid ? 0 : n;
}

bool uevent_of_kvm(int fd)
{
	static const char kvm[] = "change@/devices/virtual/misc/kvm";
	bool heard = fd < 0;
	char text[sizeof(kvm)];
	ssize_t n;

	/* All of them, or there is no room for the next ones. */
	while (fd >= 0) {
		n = receive(fd, text, sizeof(text));
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

struct uevent_count {
	int fd;
	bool started;
	uint64_t first, last;	/* VMs destroyed since KVM was loaded */
	uint64_t own;
};

struct uevent_count *uevent_count_open(void)
{
	struct uevent_count *count = calloc(1, sizeof(*count));

	if (!count)
		return NULL;
	count->fd = uevent_open();
	if (count->fd >= 0)
		return count;
	free(count);
	return NULL;
}

void uevent_count_close(struct uevent_count *count)
{
	if (!count)
		return;
	close(count->fd);
	free(count);
}

/* Return the value of a line NAME=VALUE, NULL if there is none. Lines end with 0. */
static const char *find_value(const char *text, size_t size, const char *name)
{
	const size_t len = strlen(name);
	const char *line;

	for (line = text; line < text + size; line += strlen(line) + 1) {
		if (!strncmp(line, name, len) && line[len] == '=')
			return line + len + 1;
	}
	return NULL;
}

static void add_event(struct uevent_count *count, const char *text, size_t size)
{
	const char *created = find_value(text, size, "CREATED");
	const char *exist = find_value(text, size, "COUNT");
	const char *event = find_value(text, size, "EVENT"), *pid = find_value(text, size, "PID");
	bool destroy;

	if (strcmp(text, "change@/devices/virtual/misc/kvm") || !created || !exist || !event)
		return;
	destroy = !strcmp(event, "destroy");
	count->last = strtoull(created, NULL, 10) - strtoull(exist, NULL, 10);
	if (!count->started)
		count->first = count->last - destroy;
	count->started = true;
	count->own += destroy && pid && atoi(pid) == getpid();
}

void uevent_count_restart(struct uevent_count *count)
{
	uint64_t destroyed;

	if (!count)
		return;
	uevent_count_destroyed(count, &destroyed);
	count->first = count->last;
	count->own = 0;
}

bool uevent_count_destroyed(struct uevent_count *count, uint64_t *destroyed)
{
	char text[2048];
	ssize_t n;

	do {
		n = receive(count->fd, text, sizeof(text) - 1);
		if (n > 0) {
			text[n] = '\0';
			add_event(count, text, n);
		}
		/* If events were lost, the next one has the numbers. */
	} while (n >= 0 || errno == EINTR || errno == ENOBUFS);
	*destroyed = count->last - count->first - count->own;
	return count->started;
}
