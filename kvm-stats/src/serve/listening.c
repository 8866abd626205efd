// SPDX-License-Identifier: GPL-2.0-only
/* Sockets to listen on, and the configuration of their connections */
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "app.h"
#include "logging.h"
#include "notify.h"
#include "serve.h"

#define DEFAULT_LISTEN		"127.0.0.1:10847"
#define MAX_CONNECTIONS		256
#define MAX_HEADER_BYTES	16384	/* all headers of a request */
#define HOST_MAX		256
#define BACKLOG			4096
#define CONFIG_CHECK_INTERVAL	SECOND

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

/* Return the path of a UNIX socket; an abstract one begins with '@'. */
static const char *unix_path(struct sockaddr_un *address, socklen_t len)
{
	((char *)address)[len] = '\0';
	if (len > offsetof(struct sockaddr_un, sun_path) && !*address->sun_path)
		*address->sun_path = '@';
	return address->sun_path;
}

static void report_address(const struct server *s, int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t len = sizeof(address) - 1;
	char host[64], port[8];

	if (getsockname(fd, (void *)&address, &len))
		return;
	if (address.ss_family == AF_UNIX)
		log_message(LOG_LEVEL_INFO, "serving on the socket %s",
			    unix_path((void *)&address, len));
	if (address.ss_family == AF_UNIX ||
	    getnameinfo((void *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	log_message(LOG_LEVEL_INFO, "serving on http%s://%s%s%s:%s/",
		    s->config && s->config->cert ? "s" : "",
		    strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port);
	if (!address_is_loopback((void *)&address) &&
	    !(s->config && (s->config->nr_users || s->config->client_auth)))
		log_message(LOG_LEVEL_WARN, "port %s: anyone who can reach it sees names and load of all VMs; --config requires users or client certificates",
			    port);
}

/* libmicrohttpd logs each client that closes its connection. */
static void discard_log(void *cls, const char *format, va_list args)
{
}

static void start_daemon(struct server *s, int fd)
{
	const bool tls = s->config && s->config->cert;
	/* A key and a certificate without MHD_USE_TLS are an error. */
	struct MHD_OptionItem options[] = {
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, tls ? s->config->key : NULL },
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, tls ? s->config->cert : NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_Daemon *daemon;

	daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
			MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0),
			0, NULL, NULL, handle_request, s,
			MHD_OPTION_EXTERNAL_LOGGER, discard_log, NULL,
			MHD_OPTION_LISTEN_SOCKET, fd,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned int)MAX_CONNECTIONS,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MAX_HEADER_BYTES,
			MHD_OPTION_CONNECTION_TIMEOUT, 0U,
			MHD_OPTION_NOTIFY_CONNECTION, connection_changed, s,
			MHD_OPTION_NOTIFY_COMPLETED, request_completed, s,
			MHD_OPTION_ARRAY, tls ? options : &options[2],
			MHD_OPTION_END);
	if (!daemon)
		errx(STATUS_NOTHING, "cannot start to serve%s", tls ? " with TLS" : "");
	s->daemon[s->nr_daemons++] = daemon;
	report_address(s, fd);
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

void read_config(struct server *s)
{
	char error[WEB_ERROR_SIZE];

	if (!s->settings.config)
		return;
	s->config = web_config_read(s->settings.config, &s->files, error);
	if (!s->config)
		errx(STATUS_USAGE, "%s", error);
	s->rate_tokens = UINT64_MAX / 2;	/* a full bucket */
}

void start_listening(struct server *s)
{
	unsigned int i;

	for (i = 0; i < s->nr_listening; i++)
		start_daemon(s, s->listening[i]);
}

void stop_listening(struct server *s)
{
	unsigned int i;

	/* MHD_stop_daemon() requires that no connection is suspended. */
	resume_connections(s, false, true);
	for (i = 0; i < s->nr_daemons; i++)
		MHD_run(s->daemon[i]);
	free_responses(s);
	for (i = 0; i < s->nr_daemons; i++)
		MHD_stop_daemon(s->daemon[i]);
	web_config_put(s->config);
}

/* Keep passwords that were verified for the same hash. */
static void keep_passwords(struct web_config *new, struct web_config *old)
{
	unsigned int i, j;

	for (i = 0; i < new->nr_users; i++) {
		for (j = 0; j < old->nr_users; j++) {
			if (strcmp(new->user[i].name, old->user[j].name) ||
			    strcmp(new->user[i].hash, old->user[j].hash))
				continue;
			free(new->user[i].password);
			new->user[i].password = old->user[j].password;
			old->user[j].password = NULL;
		}
	}
}

void reload_config(struct server *s, uint64_t now)
{
	char error[WEB_ERROR_SIZE];
	struct web_config *new;

	if (!s->config || now - s->config_checked < CONFIG_CHECK_INTERVAL)
		return;
	s->config_checked = now;
	if (!web_files_changed(&s->files))
		return;
	new = web_config_read(s->settings.config, &s->files, error);
	if (new && !new->cert != !s->config->cert) {
		snprintf(error, sizeof(error), "%.*s: enabling or disabling TLS requires a restart",
			 (int)sizeof(error) / 2, s->settings.config);
		web_config_put(new);
		new = NULL;
	}
	if (!new) {
		log_message(LOG_LEVEL_ERROR, "%s; keeping the previous configuration", error);
		return;
	}
	keep_passwords(new, s->config);
	web_config_put(s->config);
	s->config = new;
	s->config_generation++;
	s->rate_tokens = UINT64_MAX / 2;
	/* The headers may have changed. */
	free_responses(s);
	log_message(LOG_LEVEL_INFO, "reloaded %s", s->settings.config);
}
