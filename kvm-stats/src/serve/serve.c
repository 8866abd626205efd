// SPDX-License-Identifier: GPL-2.0-only
/*
 * Serve metrics and a page by HTTP.
 *
 * One thread samples, the other one serves. What is served is made from the model,
 * which has the last sample, so that neither waits for the other: a sample that takes
 * long makes what is served old, not late. A text is made at the first request after a
 * sample, and compressed once; who else asks before the next one gets the same.
 *
 * libmicrohttpd bounds what a client can make us keep; time is bounded here: a request
 * has to come, and its answer to be read, within a few seconds, and when there are too
 * many connections those go that have been idle, or reading nothing of their answer, for
 * longest, of the address that has most of them: there is always room for the next one,
 * and a client that begins thousands of them is in its own way first.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <linux/tcp.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "access.h"
#include "app.h"
#include "notify.h"
#include "options.h"
#include "serve.h"

#define DEFAULT_LISTEN	"127.0.0.1:9847"
#define CONNECTIONS	256		/* at most */
#define CROWDED		192		/* from here on some go */
#define BACKLOG	4096
#define CONNECTION_ROOM	16384		/* bytes, for all headers of a request */
#define REQUEST_TIME	(10 * SECOND)	/* for a request to come, and to be answered */
#define IDLE_TIME	(300 * SECOND)	/* between two requests */
#define FRESH_TIME	(50 * 1000000)	/* wait this long for a sample that is due */
#define DOCTOR_TIME	(10 * SECOND)	/* between two looks why there is no source */
#define SCRAPERS	32		/* bits */
#define ADDRESSES	256		/* that are told apart, by a hash */

enum text {
	TEXT_METRICS,		/* and those of the other formats */
	TEXT_JSON = FORMATS,
	TEXT_HTML,
	TEXT_HEALTH,
	TEXTS,
};

/* A text that was made, with the answers that have it */
struct page {
	struct page *next;	/* of those that are free */
	struct buf b;
};

struct made {
	struct MHD_Response *plain, *gzip;
	const struct page *page;	/* of plain, and there as long as that is */
	const char *type;
	uint64_t sample, time;
	unsigned int code;
};

enum state {
	STATE_READING,		/* a request has to come; or idle, after one */
	STATE_WAITING,		/* suspended until there is a new sample */
	STATE_ANSWERING,
};

struct connection {
	struct connection *next, **back;	/* who began, or asked, first is first */
	struct MHD_Connection *c;
	int fd;
	enum state state;
	uint8_t address;
	bool used;		/* had a request */
	bool waited;
	bool dropped;		/* it ends */
	uint64_t since;
	uint64_t acked;		/* bytes that had come to the client when we looked */
	/* to be said of a request when it is through */
	int scraper;		/* -1: it is none */
	uint64_t sample;
};

struct scraper {
	uint64_t hash, last;
};

struct server {
	struct serve_settings settings;
	struct access access;
	struct MHD_Daemon *daemon;
	struct made made[TEXTS];
	struct page *free_pages;
	z_stream z;
	struct connection *first, **end;
	unsigned int connections;	/* that are not dropped */
	unsigned int of_address[ADDRESSES];
	struct codes codes[MAX_CODES + 1];
	struct scraper scrapers[SCRAPERS];
	struct kvmstats *k;	/* the sampling thread's */
	bool sampled;		/* there was one */
	int done;		/* eventfd: there was a sample */

	pthread_mutex_t lock;	/* what is below */
	pthread_cond_t wake;
	struct model *model;
	char health[2048];	/* what doctor says, if no source works */
	bool asked;		/* somebody wants a sample now */
	bool stop;
};

static struct server *server;	/* for the callbacks; there is one */

/* Sampling */

/* Why no source works, in doctor's words, which are dear: a VM is made for some. */
static void doctor(struct server *s, uint64_t *next)
{
	struct kvmstats_probe probe;
	char text[sizeof(s->health)] = "";
	size_t n = 0;
	unsigned int i;

	if (app_now() < *next)
		return;
	*next = app_now() + DOCTOR_TIME;
	for (i = 0; !kvmstats_probe(i, NULL, &probe); i++) {
		if (n < sizeof(text))
			n += snprintf(text + n, sizeof(text) - n, "%s: %s%s%s\n", probe.name,
				      probe.why, *probe.help ? ": " : "", probe.help);
	}
	pthread_mutex_lock(&s->lock);
	memcpy(s->health, text, sizeof(text));
	pthread_mutex_unlock(&s->lock);
}

static void sample(struct server *s, struct kvmstats *k, uint64_t *next_doctor)
{
	uint64_t begin = app_now(), now;
	int ret = kvmstats_sample(k);
	bool none = !strcmp(kvmstats_source(k), "none");

	if (none)
		doctor(s, next_doctor);
	now = app_now();
	pthread_mutex_lock(&s->lock);
	if (!ret)
		model_update(s->model, k, now, now - begin);
	if (!none)
		snprintf(s->health, sizeof(s->health), "%s%s", kvmstats_problem(k),
			 ret ? "\n" : "");
	pthread_mutex_unlock(&s->lock);
}

static void *sampler(void *of)
{
	const uint64_t interval = server->settings.interval;
	uint64_t next = app_now(), next_doctor = 0, one = 1;
	struct server *s = of;
	struct kvmstats *k = s->k;
	struct timespec until;
	int ret;

	for (;;) {
		sample(s, k, &next_doctor);
		if (write(s->done, &one, sizeof(one)) < 0)
			break;
		/* not faster than asked when samples take longer */
		next += interval;
		if (next < app_now())
			next = app_now() + interval;
		pthread_mutex_lock(&s->lock);
		s->asked = false;
		until = (struct timespec){ .tv_sec = next / SECOND, .tv_nsec = next % SECOND };
		do {
			ret = s->stop || s->asked ? ETIMEDOUT :
			      pthread_cond_timedwait(&s->wake, &s->lock, &until);
		} while (!ret);
		if (s->asked)
			next = app_now();
		if (s->stop) {
			pthread_mutex_unlock(&s->lock);
			break;
		}
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

/* Texts */

static void free_page(void *of)
{
	struct page *page = of;

	page->next = server->free_pages;
	server->free_pages = page;
}

static struct page *new_page(void)
{
	struct page *page = server->free_pages;

	if (page)
		server->free_pages = page->next;
	else
		page = calloc(1, sizeof(*page));
	if (page)
		buf_reset(&page->b);
	return page;
}

static struct MHD_Response *respond(struct page *page, const char *type, bool gzip)
{
	struct MHD_Response *r;

	if (page->b.failed) {
		free_page(page);
		return NULL;
	}
	r = MHD_create_response_from_buffer_with_free_callback_cls(page->b.len, page->b.text,
								   free_page, page);
	if (!r) {
		free_page(page);
		return NULL;
	}
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Vary", "Accept, Accept-Encoding");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Content-Security-Policy", "default-src 'self'");
	if (gzip)
		MHD_add_response_header(r, "Content-Encoding", "gzip");
	return r;
}

static struct page *compress_page(struct server *s, const struct page *from)
{
	struct page *page = new_page();

	if (!page)
		return NULL;
	if (deflateReset(&s->z) != Z_OK || !buf_fits(&page->b, deflateBound(&s->z, from->b.len))) {
		free_page(page);
		return NULL;
	}
	s->z.next_in = (unsigned char *)from->b.text;
	s->z.avail_in = from->b.len;
	s->z.next_out = (unsigned char *)page->b.text;
	s->z.avail_out = page->b.room;
	if (deflate(&s->z, Z_FINISH) != Z_STREAM_END) {
		free_page(page);
		return NULL;
	}
	page->b.len = page->b.room - s->z.avail_out;
	return page;
}

static void put_health(struct server *s, struct made *made, struct page *page, uint64_t now)
{
	const struct model *m = s->model;
	bool works = strcmp(m->source, "none");
	uint64_t age = now - m->time;
	unsigned int i;

	if (!m->samples) {
		buf_str(&page->b, "there was no sample yet\n");
	} else if (!works) {
		buf_str(&page->b, "no source of statistics works\n");
		buf_str(&page->b, s->health);
	} else {
		buf_str(&page->b, age > s->settings.max_age ? "the last sample is too old: " :
			"ok: ");
		buf_u64(&page->b, m->vms);
		buf_str(&page->b, m->vms == 1 ? " VM, source " : " VMs, source ");
		buf_str(&page->b, m->source);
		buf_str(&page->b, ", sampled ");
		buf_fixed(&page->b, age / 1000000, 3);
		buf_str(&page->b, " s ago\n");
		buf_str(&page->b, s->health);
		for (i = 0; i < KVMSTATS_REASONS; i++) {
			if (!m->unread[i])
				continue;
			buf_u64(&page->b, m->unread[i]);
			buf_str(&page->b, " could not be read: ");
			buf_str(&page->b, m->why[i]);
			buf_char(&page->b, '\n');
		}
	}
	made->code = m->samples && works && age <= s->settings.max_age ? 200 : 503;
}

static const char *make_text(struct server *s, struct made *made, struct page *page,
			     enum text text, uint64_t now)
{
	struct model *m = s->model;

	made->code = MHD_HTTP_OK;
	if (text != TEXT_HEALTH && (!m->samples || now - m->time > s->settings.max_age)) {
		buf_str(&page->b, "the last sample is too old\n");
		made->code = MHD_HTTP_SERVICE_UNAVAILABLE;
		return "text/plain; charset=utf-8";
	}
	switch (text) {
	case TEXT_JSON:
		page_json(&page->b, m, now);
		return "application/json";
	case TEXT_HTML:
		page_html(&page->b, m, now);
		return "text/html; charset=utf-8";
	case TEXT_HEALTH:
		put_health(s, made, page, now);
		return "text/plain; charset=utf-8";
	default:
		write_metrics(&page->b, m, (enum format)text, now, s->codes);
		return format_types[text];
	}
}

/* The answer of this sample; made at the first time that somebody wants it. */
static struct MHD_Response *answer(struct server *s, enum text text, bool gzip,
				   struct made **which)
{
	struct made *made = *which = &s->made[text];
	uint64_t now = app_now();
	struct page *page, *small;
	const char *type;

	pthread_mutex_lock(&s->lock);
	/* the age of a sample changes, too */
	if (!made->plain || made->sample != s->model->samples ||
	    now - made->time > s->settings.interval) {
		if (made->plain)
			MHD_destroy_response(made->plain);
		if (made->gzip)
			MHD_destroy_response(made->gzip);
		made->plain = made->gzip = NULL;
		page = new_page();
		if (page) {
			type = make_text(s, made, page, text, now);
			made->plain = respond(page, type, false);
			made->page = page;
			made->type = type;
		}
		made->sample = s->model->samples;
		made->time = now;
	}
	pthread_mutex_unlock(&s->lock);
	if (gzip && made->plain && !made->gzip) {
		small = compress_page(s, made->page);
		made->gzip = small ? respond(small, made->type, true) : NULL;
	}
	return gzip && made->gzip ? made->gzip : made->plain;
}

/* Connections */

static void set_state(struct connection *c, enum state state)
{
	c->state = state;
	c->since = app_now();
}

/* Behind all others */
static void move_last(struct server *s, struct connection *c)
{
	if (c->back) {
		*c->back = c->next;
		if (c->next)
			c->next->back = c->back;
		else
			s->end = c->back;
	}
	c->next = NULL;
	c->back = s->end;
	*s->end = c;
	s->end = &c->next;
}

static void enqueue(struct server *s, struct connection *c, enum state state)
{
	set_state(c, state);
	move_last(s, c);
}

#define HASH_BEGIN	14695981039346656037ULL
#define HASH_FACTOR	1099511628211ULL

/* A hash of a client's address, without the port */
static uint64_t address_of(struct MHD_Connection *connection)
{
	const struct sockaddr *from = MHD_get_connection_info(connection,
						MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
	const unsigned char *bytes = (const unsigned char *)from;
	uint64_t hash = HASH_BEGIN;
	size_t i, begin = 0, end = 0;

	if (from && from->sa_family == AF_INET) {
		begin = offsetof(struct sockaddr_in, sin_addr);
		end = begin + sizeof(struct in_addr);
	} else if (from && from->sa_family == AF_INET6) {
		begin = offsetof(struct sockaddr_in6, sin6_addr);
		end = begin + sizeof(struct in6_addr);
	}
	for (i = begin; i < end; i++)
		hash = (hash ^ bytes[i]) * HASH_FACTOR;
	return hash;
}

static void count_no_more(struct server *s, struct connection *c)
{
	if (c->dropped)
		return;
	c->dropped = true;
	s->connections--;
	s->of_address[c->address]--;
}

/* libmicrohttpd sees the end and cleans up. */
static void drop(struct server *s, struct connection *c)
{
	if (!c->dropped)
		shutdown(c->fd, SHUT_RDWR);
	count_no_more(s, c);
}

static void connection_notice(void *cls, struct MHD_Connection *connection, void **of,
			      enum MHD_ConnectionNotificationCode what)
{
	struct server *s = cls;
	struct connection *c = *of;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		c = calloc(1, sizeof(*c));
		*of = c;
		if (!c)
			return;
		c->c = connection;
		c->fd = MHD_get_connection_info(connection,
						MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		c->scraper = -1;
		c->address = address_of(connection) % ADDRESSES;
		s->connections++;
		s->of_address[c->address]++;
		enqueue(s, c, STATE_READING);
	} else if (c) {
		count_no_more(s, c);
		*c->back = c->next;
		if (c->next)
			c->next->back = c->back;
		else
			s->end = c->back;
		free(c);
		*of = NULL;
	}
}

static struct connection *connection_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection,
				       MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Who scrapes: as well as can be told by the address and the program's name */
static int scraper_of(struct server *s, struct MHD_Connection *connection)
{
	const char *agent = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "User-Agent");
	uint64_t hash = address_of(connection), now = app_now();
	int oldest = 0;
	size_t i;

	for (; agent && *agent; agent++)
		hash = (hash ^ (unsigned char)*agent) * HASH_FACTOR;
	for (i = 0; i < SCRAPERS; i++) {
		if (s->scrapers[i].last && s->scrapers[i].hash == hash)
			break;
		if (s->scrapers[i].last < s->scrapers[oldest].last)
			oldest = i;
	}
	i = i < SCRAPERS ? i : (size_t)oldest;
	s->scrapers[i].hash = hash;
	s->scrapers[i].last = now;
	return i;
}

static void know_scrapers(struct server *s)
{
	uint64_t now = app_now();
	uint32_t known = 0;
	int i;

	for (i = 0; i < SCRAPERS; i++) {
		if (s->scrapers[i].last && now - s->scrapers[i].last < LINGER)
			known |= 1U << i;
	}
	s->model->scrapers = known;
}

static void request_completed(void *cls, struct MHD_Connection *connection, void **of,
			      enum MHD_RequestTerminationCode how)
{
	struct connection *c = connection_of(connection);
	struct server *s = cls;

	if (!c)
		return;
	if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK && c->scraper >= 0) {
		pthread_mutex_lock(&s->lock);
		know_scrapers(s);
		model_scraped(s->model, 1U << c->scraper, c->sample);
		pthread_mutex_unlock(&s->lock);
	}
	c->scraper = -1;
	c->waited = false;
	c->used = true;
	enqueue(s, c, STATE_READING);
}

static void count_code(struct server *s, unsigned int code)
{
	unsigned int i;

	for (i = 0; i < MAX_CODES && s->codes[i].code && s->codes[i].code != code; i++)
		;
	if (i == MAX_CODES)
		return;
	s->codes[i].code = code;
	s->codes[i].count++;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned int code,
				 const char *type, const char *text)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *)text,
								 MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ret;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Content-Security-Policy", "default-src 'self'");
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	ret = MHD_queue_response(connection, code, r);
	MHD_destroy_response(r);
	return ret;
}

/*
 * Is the next sample nearly due? Then it is taken now, so that who comes at regular
 * times gets samples at regular times, and does not see the one of just before and the
 * one of just after the same time in turn. Never more often than that.
 */
static bool wants_sample(struct server *s)
{
	uint64_t now = app_now();
	bool wants;

	pthread_mutex_lock(&s->lock);
	wants = !s->model->samples ||
		now - s->model->time > s->settings.interval / 8 * 7;
	if (wants && s->model->samples) {
		s->asked = true;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	return wants;
}

/* Has the client shown a certificate that our CA has signed? */
static bool client_is_known(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	unsigned int status;

	return info && info->tls_session &&
	       !gnutls_certificate_verify_peers2(info->tls_session, &status) && !status;
}

/* True: it may see all; false: it was answered, *ret is the result. */
static bool admit(struct server *s, struct MHD_Connection *connection, enum MHD_Result *ret)
{
	char *user, *password = NULL;
	enum access_answer answer;
	struct MHD_Response *r;

	if (s->access.want_client && !client_is_known(connection)) {
		count_code(s, MHD_HTTP_FORBIDDEN);
		*ret = send_text(connection, MHD_HTTP_FORBIDDEN, "text/plain",
				 "a certificate is wanted\n");
		return false;
	}
	if (!s->access.users)
		return true;
	user = MHD_basic_auth_get_username_password(connection, &password);
	answer = access_check(&s->access, user, password);
	MHD_free(user);
	MHD_free(password);
	if (answer == ACCESS_YES)
		return true;
	if (answer == ACCESS_LATER) {
		count_code(s, MHD_HTTP_TOO_MANY_REQUESTS);
		*ret = send_text(connection, MHD_HTTP_TOO_MANY_REQUESTS, "text/plain",
				 "too many that were wrong\n");
		return false;
	}
	count_code(s, MHD_HTTP_UNAUTHORIZED);
	r = MHD_create_response_from_buffer(13, (void *)"unauthorized\n", MHD_RESPMEM_PERSISTENT);
	*ret = MHD_queue_basic_auth_fail_response(connection, "kvm-stats", r);
	MHD_destroy_response(r);
	return false;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **of)
{
	struct connection *c = connection_of(connection);
	struct server *s = cls;
	struct MHD_Response *r;
	struct made *made;
	const char *accepts;
	enum MHD_Result ret;
	enum text text;

	if (!c)
		return MHD_NO;
	if (!*of) {
		/* the headers are there; what is sent with them is of no interest */
		*of = s;
		enqueue(s, c, STATE_ANSWERING);
		return MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (!c->waited && !admit(s, connection, &ret))
		return ret;
	if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
		count_code(s, MHD_HTTP_METHOD_NOT_ALLOWED);
		return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
				 "only GET and HEAD\n");
	}
	if (!strcmp(url, "/metrics")) {
		text = (enum text)accept_format(MHD_lookup_connection_value(connection,
							MHD_HEADER_KIND, "Accept"));
	} else if (!strcmp(url, "/api/v1/vms")) {
		text = TEXT_JSON;
	} else if (!strcmp(url, "/")) {
		text = TEXT_HTML;
	} else if (!strcmp(url, "/healthz")) {
		text = TEXT_HEALTH;
	} else if (!strcmp(url, "/style.css")) {
		count_code(s, MHD_HTTP_OK);
		return send_text(connection, MHD_HTTP_OK, "text/css; charset=utf-8", page_style);
	} else {
		count_code(s, MHD_HTTP_NOT_FOUND);
		return send_text(connection, MHD_HTTP_NOT_FOUND, "text/plain",
				 "there are /, /metrics, /api/v1/vms and /healthz\n");
	}
	if (!c->waited && !s->stop &&
	    (text < TEXT_JSON || (!s->sampled && text != TEXT_HEALTH)) && wants_sample(s)) {
		c->waited = true;
		set_state(c, STATE_WAITING);
		MHD_suspend_connection(connection);
		return MHD_YES;
	}
	accepts = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept-Encoding");
	r = answer(s, text, accept_gzip(accepts), &made);
	if (!r)
		return MHD_NO;
	if (text < TEXT_JSON && made->code == MHD_HTTP_OK) {
		c->scraper = scraper_of(s, connection);
		c->sample = made->sample;
	}
	count_code(s, made->code);
	return MHD_queue_response(connection, made->code, r);
}

/* Those that wait get what there is: now, or when they waited enough. */
static void resume(struct server *s, bool at_once)
{
	const uint64_t now = app_now();
	struct connection *c;
	/* the first one is worth more */
	const uint64_t time = s->sampled ? FRESH_TIME : 40 * (uint64_t)FRESH_TIME;

	for (c = s->first; c; c = c->next) {
		if (c->state == STATE_WAITING &&
		    (at_once || c->dropped || now - c->since > time)) {
			set_state(c, STATE_ANSWERING);
			MHD_resume_connection(c->c);
		}
	}
}

/* Has more of its answer come to the client since we looked? */
static bool goes_on(struct connection *c)
{
	uint64_t before = c->acked;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	if (c->state != STATE_ANSWERING ||
	    getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	c->acked = info.tcpi_bytes_acked;
	return c->acked != before;
}

static struct connection *next_of(struct connection *c, unsigned int address)
{
	while (c && (c->address != address || c->dropped))
		c = c->next;
	return c;
}

/*
 * The first, of the address with most connections, unless it reads: a scraper that has
 * the address of a flood gets its answer, as long as it reads some of it while the next
 * CROWDED connections come.
 */
static struct connection *find_in_the_way(struct server *s)
{
	unsigned int most = 0, left, i;
	struct connection *c, *next;

	for (i = 1; i < ADDRESSES; i++) {
		if (s->of_address[i] > s->of_address[most])
			most = i;
	}
	c = next_of(s->first, most);
	/* if all of them read, one has to go nevertheless */
	for (left = s->of_address[most]; left > 1 && goes_on(c); left--) {
		next = next_of(c->next, most);
		move_last(s, c);
		c = next;
	}
	return c;
}

/* Time is up, or the place is needed */
static void drop_slow(struct server *s, uint64_t now)
{
	struct connection *c;

	for (c = s->first; c; c = c->next) {
		const uint64_t idle = c->state == STATE_READING && c->used ? IDLE_TIME :
				      REQUEST_TIME;

		if (c->state != STATE_WAITING && now - c->since > idle)
			drop(s, c);
	}
	while (s->connections > CROWDED && (c = find_in_the_way(s)))
		drop(s, c);
}

/* The address to listen on */

static void bad_listen(const char *where)
{
	errx(STATUS_USAGE, "'%s' is no ADDRESS:PORT to listen on", where);
}

static int listen_on(const char *where, bool *everybody)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *address;
	const char *colon = strrchr(where, ':'), *begin = where;
	const int on = 1;
	char host[64];
	size_t len;
	int fd;

	len = colon ? colon - where : 0;
	if (len >= 2 && *where == '[' && where[len - 1] == ']') {
		begin++;
		len -= 2;
	} else if (memchr(where, ':', len)) {
		bad_listen(where);
	}
	if (!colon || !len || len >= sizeof(host) || !colon[1] ||
	    colon[1 + strspn(colon + 1, "0123456789")] || strlen(colon + 1) > 5 ||
	    strtoul(colon + 1, NULL, 10) > 65535)
		bad_listen(where);
	snprintf(host, sizeof(host), "%.*s", (int)len, begin);
	if (getaddrinfo(host, colon + 1, &hints, &address))
		bad_listen(where);
	*everybody = address->ai_family == AF_INET ?
		(ntohl(((struct sockaddr_in *)address->ai_addr)->sin_addr.s_addr) >> 24) != 127 :
		!IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)address->ai_addr)->sin6_addr);
	fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, BACKLOG))
		errx(STATUS_USAGE, "cannot listen on %s: %s", where, strerror(errno));
	freeaddrinfo(address);
	return fd;
}

static void say_where(int fd, bool tls)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char host[64], port[8];

	if (getsockname(fd, (void *)&address, &len) ||
	    getnameinfo((void *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	fprintf(stderr, "kvm-stats: serving on http%s://%s%s%s:%s/\n",
		tls ? "s" : "",
		strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port);
}

/* It would tell of each client that goes away. */
static void say_nothing(void *cls, const char *format, va_list args)
{
}

static void start(struct server *s, int fd)
{
	const struct access *access = &s->access;
	/* a key and a certificate without MHD_USE_TLS are an error */
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, access->key },
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, access->cert },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)access_priorities(access) },
		{ access->ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, access->ca },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

	s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
			MHD_USE_ERROR_LOG | (access->cert ? MHD_USE_TLS : 0),
			0, NULL, NULL, handle, s,
			MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
			MHD_OPTION_LISTEN_SOCKET, fd,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_ROOM,
			MHD_OPTION_CONNECTION_TIMEOUT, 0U,
			MHD_OPTION_NOTIFY_CONNECTION, connection_notice, s,
			MHD_OPTION_NOTIFY_COMPLETED, request_completed, s,
			MHD_OPTION_ARRAY, access->cert ? tls : none,
			MHD_OPTION_END);
	if (!s->daemon)
		errx(STATUS_NOTHING, "cannot start to serve%s", access->cert ? " with TLS" : "");
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		err(STATUS_NOTHING, "epoll");
}

static int next_timeout(struct server *s, uint64_t watchdog)
{
	MHD_UNSIGNED_LONG_LONG http;
	uint64_t wait = SECOND;
	struct connection *c;

	for (c = s->first; c; c = c->next) {
		if (c->state == STATE_WAITING)
			wait = FRESH_TIME / 4;
	}
	if (watchdog && watchdog < wait)
		wait = watchdog;
	if (MHD_get_timeout(s->daemon, &http) == MHD_YES && http * 1000000 < wait)
		return http;
	return wait / 1000000;
}

/* As long as samples come: a program that only answers is of no use. */
static void stay_alive(struct server *s, uint64_t interval, uint64_t *last, uint64_t now)
{
	uint64_t age;

	if (!interval || now - *last < interval)
		return;
	pthread_mutex_lock(&s->lock);
	age = now - s->model->time;
	pthread_mutex_unlock(&s->lock);
	if (age > 2 * s->settings.max_age)
		return;
	*last = now;
	notify("WATCHDOG=1");
}

static void serve(struct server *s, int signals)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon,
							       MHD_DAEMON_INFO_EPOLL_FD);
	uint64_t watchdog = notify_interval(), last = app_now(), now, count;
	int epoll = epoll_create1(EPOLL_CLOEXEC), n, i;
	struct epoll_event events[3];
	bool stop = false, sampled;

	watch(epoll, info->epoll_fd);
	watch(epoll, s->done);
	watch(epoll, signals);
	while (!stop) {
		n = epoll_wait(epoll, events, 3, next_timeout(s, watchdog));
		sampled = false;
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == s->done)
				sampled = read(s->done, &count, sizeof(count)) > 0;
			stop |= events[i].data.fd == signals;
		}
		s->sampled |= sampled;
		resume(s, sampled);
		MHD_run(s->daemon);
		now = app_now();
		drop_slow(s, now);
		stay_alive(s, watchdog, &last, now);
	}
	close(epoll);
}

static void drop_texts(struct server *s)
{
	unsigned int i;

	for (i = 0; i < TEXTS; i++) {
		if (s->made[i].plain)
			MHD_destroy_response(s->made[i].plain);
		if (s->made[i].gzip)
			MHD_destroy_response(s->made[i].gzip);
	}
}

static void drop_pages(struct server *s)
{
	struct page *page;

	while ((page = s->free_pages)) {
		s->free_pages = page->next;
		buf_free(&page->b);
		free(page);
	}
}

int command_serve(int argc, char **argv)
{
	static struct server s = { .lock = PTHREAD_MUTEX_INITIALIZER };
	bool everybody = false;
	pthread_condattr_t attr;
	pthread_t thread;
	sigset_t set;
	int fd, signals;

	serve_parse(argc, argv, true, &s.settings);
	if (s.settings.config)
		access_read(&s.access, s.settings.config);
	fd = notify_socket();
	if (fd == -2)
		errx(STATUS_USAGE, "systemd has given more than one socket");
	if (fd < 0)
		fd = listen_on(s.settings.listen ? s.settings.listen : DEFAULT_LISTEN, &everybody);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	s.done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s.model = model_new(&s.settings.model);
	s.end = &s.first;
	server = &s;
	if (kvmstats_open(&s.k, &(struct kvmstats_options){ .wait = true }))
		errx(STATUS_NOTHING, "no memory");
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s.wake, &attr);
	if (signals < 0 || s.done < 0 || !s.model ||
	    deflateInit2(&s.z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		errx(STATUS_NOTHING, "no memory");
	start(&s, fd);
	if (pthread_create(&thread, NULL, sampler, &s))
		errx(STATUS_NOTHING, "cannot start a thread");
	say_where(fd, s.access.cert);
	if (everybody && !s.access.users && !s.access.want_client)
		warnx("whoever reaches this address sees the names and the load of all VMs");
	notify("READY=1");

	serve(&s, signals);

	notify("STOPPING=1");
	pthread_mutex_lock(&s.lock);
	s.stop = true;
	pthread_cond_signal(&s.wake);
	pthread_mutex_unlock(&s.lock);
	pthread_join(thread, NULL);
	kvmstats_close(s.k);
	/* MHD_stop_daemon() takes none that are suspended */
	resume(&s, true);
	MHD_run(s.daemon);
	drop_texts(&s);
	MHD_stop_daemon(s.daemon);
	drop_pages(&s);
	deflateEnd(&s.z);
	model_free(s.model);
	access_free(&s.access);
	free(s.settings.model.stats);
	return STATUS_OK;
}
