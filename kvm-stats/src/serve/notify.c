// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(to.sun_path) || !strchr("/@", *path))
		return;
	memcpy(to.sun_path, path, len);
	if (*path == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
	       (void *)&to, offsetof(struct sockaddr_un, sun_path) + len);
	close(fd);
}

void notify_sampler(enum sampler_message message)
{
	const char byte = message;

	/* The sampler reads no messages while it takes a sample. */
	send(STDOUT_FILENO, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static unsigned long long number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t notify_interval(void)
{
	if (getenv("WATCHDOG_PID") && number("WATCHDOG_PID") != (unsigned long long)getpid())
		return 0;
	return number("WATCHDOG_USEC") * 1000 / 2;
}

unsigned int notify_sockets(void)
{
	const unsigned long long n = number("LISTEN_FDS");
	unsigned int i;

	if (number("LISTEN_PID") != (unsigned long long)getpid() || n > INT_MAX)
		return 0;
	for (i = 0; i < n && !fcntl(NOTIFY_FIRST_SOCKET + i, F_SETFD, FD_CLOEXEC); i++)
		;
	return n;
}
