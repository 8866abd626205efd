// SPDX-License-Identifier: GPL-2.0-only
/* The daemons of libmicrohttpd, one for each socket that listens */
#include <err.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "app.h"
#include "serve/logging.h"
#include "serve/serve.h"

#define MAX_CONNECTIONS		256
#define MAX_HEADER_BYTES	16384	/* all headers of a request */

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
