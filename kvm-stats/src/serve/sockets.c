// SPDX-License-Identifier: GPL-2.0-only
/* The sockets that listen, before their connections are served */
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "notify.h"
#include "serve.h"

#define DEFAULT_LISTEN		"127.0.0.1:10847"
#define HOST_MAX		256
#define BACKLOG			4096

/* Split "HOST:PORT", "[ADDRESS]:PORT" or ":PORT", and return the port, or NULL. */
static const char *split_address(const char *where, char host[HOST_MAX])
{
	const char *colon = strrchr(where, ':'), *begin = where;
	size_t len = colon ? colon - where : 0;

	if (len >= 2 && *where == '[' && where[len - 1] == ']') {
		begin++;
		len -= 2;
	} else if (memchr(where, ':', len)) {
		return NULL;
	}
	if (!colon || len >= HOST_MAX || !colon[1] ||
	    colon[1 + strspn(colon + 1, "0123456789")] || strlen(colon + 1) > 5 ||
	    strtoul(colon + 1, NULL, 10) > 65535)
		return NULL;
	snprintf(host, HOST_MAX, "%.*s", (int)len, begin);
	return colon + 1;
}

/* Return a listening socket, or -1 and set errno. */
static int open_socket(const struct addrinfo *address)
{
	const int on = 1, off = 0;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (address->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, BACKLOG))
		return fd;
	close(fd);
	return -1;
}

/*
 * Return the address to listen on. If a name has several, choose the first of IPv4, otherwise the
 * first, as exporters written in Go do. Exit if the name has none.
 */
static struct addrinfo *find_address(const struct listen_option *option)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICSERV | AI_PASSIVE, .ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *address;
	char host[HOST_MAX];
	const char *port = split_address(option->value, host);
	int ret = EAI_NONAME;

	if (!port)
		errx(STATUS_USAGE, "--%s '%s': not ADDRESS:PORT", option->name, option->value);
	/* Don't ask DNS for an invalid address. */
	if (!host[strspn(host, "0123456789.")])
		hints.ai_flags |= AI_NUMERICHOST;
	if (*host)
		ret = getaddrinfo(host, port, &hints, &address);
	hints.ai_family = AF_UNSPEC;
	/* ":PORT" is all addresses, of IPv6 and IPv4 if the host has both. */
	if (ret)
		ret = getaddrinfo(*host ? host : "::", port, &hints, &address);
	if (ret)
		errx(STATUS_USAGE, "--%s '%s': %s", option->name, option->value,
		     gai_strerror(ret));
	return address;
}

static int listen_on(const struct listen_option *option)
{
	struct addrinfo *address = find_address(option);
	struct sockaddr_in any = { .sin_family = AF_INET };
	const struct addrinfo any4 = {
		.ai_family = AF_INET, .ai_addr = (void *)&any, .ai_addrlen = sizeof(any),
	};
	int fd = open_socket(address);

	if (fd < 0 && errno == EAFNOSUPPORT && *option->value == ':') {
		any.sin_port = ((const struct sockaddr_in6 *)address->ai_addr)->sin6_port;
		fd = open_socket(&any4);
	}
	freeaddrinfo(address);
	if (fd < 0)
		errx(STATUS_USAGE, "cannot listen on %s: %s", option->value, strerror(errno));
	return fd;
}

/* Exit if a file descriptor from systemd is not a socket that listens. */
static void check_passed(int fd)
{
	socklen_t len = sizeof(int);
	int listens = 0, type;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_STREAM)
		errx(STATUS_USAGE, "file descriptor %d from systemd: not a listening stream socket",
		     fd);
}

void open_sockets(struct server *s)
{
	const unsigned int passed = notify_sockets();
	unsigned int i;

	if (!passed && s->settings.needs_sockets)
		errx(STATUS_USAGE, "--web.systemd-socket: systemd passes no socket");
	if (passed > LISTEN_MAX)
		errx(STATUS_USAGE, "more than %d sockets from systemd", LISTEN_MAX);
	if (passed && s->settings.nr_listen)
		errx(STATUS_USAGE, "--%s '%s': systemd passes the sockets; set ListenStream in their unit",
		     s->settings.listen->name, s->settings.listen->value);
	if (!passed && !s->settings.nr_listen)
		s->settings.listen[s->settings.nr_listen++].value = DEFAULT_LISTEN;
	s->nr_listening = passed ? passed : s->settings.nr_listen;
	for (i = 0; i < s->nr_listening; i++) {
		s->listening[i] = passed ? NOTIFY_FIRST_SOCKET + (int)i :
				  listen_on(&s->settings.listen[i]);
		if (passed)
			check_passed(s->listening[i]);
	}
}
