// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections and their time limits: a request has to arrive, and its response to be
 * read, within a few seconds.
 */
#include <poll.h>
#include <stdlib.h>

#include "app.h"
#include "serve/serve.h"

#define EVICT_THRESHOLD	192		/* connections; beyond it, some are closed */
#define REQUEST_NS	(10 * SECOND)	/* to receive a request, and to send its response */
#define IDLE_NS		(300 * SECOND)	/* between two requests */
#define HALF_CLOSED_NS	(SECOND / 10)	/* for requests that were received before */
#define DUE_SAMPLE_NS	(50 * 1000000ULL)	/* to wait for a sample that is due */
#define FIRST_SAMPLE_NS	(40 * DUE_SAMPLE_NS)

void set_state(struct connection *c, enum state state)
{
	c->state = state;
	c->since = app_now();
}

void enqueue_connection(struct server *s, struct connection *c, enum state state)
{
	set_state(c, state);
	move_to_end(s, c);
}

static void mark_closed(struct server *s, struct connection *c)
{
	if (c->closed)
		return;
	c->closed = true;
	s->connections--;
	s->of_bucket[address_bucket(c->address)]--;
}

/* libmicrohttpd detects the end of the connection and releases it. */
static void close_connection(struct server *s, struct connection *c)
{
	if (!c->closed)
		shutdown(c->fd, SHUT_RDWR);
	mark_closed(s, c);
}

/*
 * Use the current certificates and TLS settings for this session, not those of the
 * daemon, which are from the start.
 */
static void configure_tls(struct server *s, struct connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c->c, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = info ? info->tls_session : NULL;

	if (!session || !s->config || !s->config->credentials)
		return;
	c->config = web_config_get(s->config);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, c->config->credentials);
	gnutls_priority_set(session, c->config->priority);
	gnutls_certificate_server_set_request(session, c->config->client_auth ?
					      GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
	/* Without a CA, clients may send any certificate. */
	if (!c->config->ca)
		gnutls_certificate_send_x509_rdn_sequence(session, 1);
}

static struct connection *add_connection(struct server *s, struct MHD_Connection *connection)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	const struct sockaddr *peer;

	if (!c)
		return NULL;
	c->c = connection;
	c->fd = MHD_get_connection_info(connection,
					MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	c->scraper = -1;
	peer = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
	c->address = address_key(peer);
	address_networks(peer, c->networks);
	c->local = getsockname(c->fd, (void *)&local, &len) || address_is_loopback((void *)&local);
	configure_tls(s, c);
	s->connections++;
	s->of_bucket[address_bucket(c->address)]++;
	enqueue_connection(s, c, STATE_READING);
	return c;
}

static void end_login(struct server *s, struct connection *c)
{
	if (c->login)
		login_end(s->logins, c->login);
	c->login = NULL;
}

void connection_changed(void *server, struct MHD_Connection *connection, void **context,
			enum MHD_ConnectionNotificationCode what)
{
	struct server *s = server;
	struct connection *c = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = add_connection(s, connection);
	} else if (c) {
		mark_closed(s, c);
		unlink_connection(s, c);
		end_login(s, c);
		forget_scraper(s, c);
		web_config_put(c->config);
		free(c);
		*context = NULL;
	}
}

struct connection *connection_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection,
				       MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

bool has_half_closed(const struct connection *c)
{
	struct pollfd peer = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&peer, 1, 0) > 0 && peer.revents & POLLRDHUP;
}

void request_completed(void *server, struct MHD_Connection *connection, void **request,
		       enum MHD_RequestTerminationCode how)
{
	struct connection *c = connection_of(connection);
	struct server *s = server;

	if (!c)
		return;
	if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK && c->scrapes)
		end_scrape(s, c);
	end_login(s, c);
	c->scrapes = c->waited = c->admitted = false;
	c->used = true;
	/* libmicrohttpd may have missed the event while it did not read. */
	c->half_closed = has_half_closed(c);
	enqueue_connection(s, c, STATE_READING);
}

void suspend_connection(struct connection *c, enum state state)
{
	set_state(c, state);
	MHD_suspend_connection(c->c);
}

static bool wait_is_over(const struct server *s, const struct connection *c, bool sampled,
			 uint64_t now)
{
	if (c->closed)
		return true;
	if (c->state == STATE_LOGIN)
		return !c->login || login_result(s->logins, c->login) != LOGIN_PENDING;
	return sampled || now - c->since > (s->sampled ? DUE_SAMPLE_NS : FIRST_SAMPLE_NS);
}

void resume_connections(struct server *s, bool sampled, bool stopping)
{
	const uint64_t now = app_now();
	struct connection *c;

	for (c = s->first; c; c = c->next) {
		if (c->state != STATE_WAITING && c->state != STATE_LOGIN)
			continue;
		if (stopping || wait_is_over(s, c, sampled, now)) {
			set_state(c, STATE_ANSWERING);
			MHD_resume_connection(c->c);
		}
	}
}

void close_slow_connections(struct server *s, uint64_t now)
{
	struct connection *c;

	for (c = s->first; c; c = c->next) {
		const uint64_t limit = c->state != STATE_READING || !c->used ? REQUEST_NS :
				       c->half_closed ? HALF_CLOSED_NS : IDLE_NS;

		if (c->state != STATE_WAITING && c->state != STATE_LOGIN && now - c->since > limit)
			close_connection(s, c);
	}
	while (s->connections > EVICT_THRESHOLD && (c = find_connection_to_evict(s)))
		close_connection(s, c);
}

int connection_timeout(const struct server *s, uint64_t wait)
{
	MHD_UNSIGNED_LONG_LONG http;
	const struct connection *c;
	unsigned int i;

	for (c = s->first; c; c = c->next) {
		if ((c->state == STATE_WAITING || (c->state == STATE_READING && c->half_closed)) &&
		    wait > DUE_SAMPLE_NS / 4)
			wait = DUE_SAMPLE_NS / 4;
	}
	for (i = 0; i < s->nr_daemons; i++) {
		if (MHD_get_timeout(s->daemon[i], &http) == MHD_YES && http * 1000000 < wait)
			wait = http * 1000000;
	}
	return wait / 1000000;
}
