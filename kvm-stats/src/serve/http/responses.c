// SPDX-License-Identifier: GPL-2.0-only
/* Requests and their responses */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/access.h"
#include "app.h"
#include "ascii.h"
#include "page.h"
#include "serve/serve.h"

#define PASSWORD_MAX	256
#define PLAIN		"text/plain; charset=utf-8"
#define HTML		"text/html; charset=utf-8"
#define URL_HOST_MAX	300	/* longer than a name can be */

/* Texts and the responses that send them */

static struct server *page_server;	/* for free_page(), which gets no other argument */

static void free_page(void *of)
{
	struct page *page = of;

	/* Clients that read slowly can hold more. */
	if (page_server->nr_free_pages == MAX_FREE_PAGES) {
		buf_free(&page->b);
		free(page);
		return;
	}
	page->next = page_server->free_pages;
	page_server->free_pages = page;
	page_server->nr_free_pages++;
}

static struct page *new_page(struct server *s)
{
	struct page *page = s->free_pages;

	page_server = s;
	if (page) {
		s->free_pages = page->next;
		s->nr_free_pages--;
	} else {
		page = calloc(1, sizeof(*page));
	}
	if (page)
		buf_reset(&page->b);
	return page;
}

/* Add the headers that web.yml can replace. */
static void add_headers(const struct server *s, struct MHD_Response *r)
{
	static const char *const defaults[WEB_HEADERS] = {
		"default-src 'self'; frame-ancestors 'self'", "nosniff"
	};
	const char *value;
	int i;

	for (i = 0; i < WEB_HEADERS; i++) {
		value = s->config && s->config->header[i] ? s->config->header[i] : defaults[i];
		if (value && *value)
			MHD_add_response_header(r, web_header_names[i], value);
	}
}

static struct MHD_Response *make_response(const struct server *s, struct page *page,
					  const char *type, bool gzip)
{
	struct MHD_Response *r = NULL;

	if (!page->b.failed)
		r = MHD_create_response_from_buffer_with_free_callback_cls(page->b.len,
								page->b.text, free_page, page);
	if (!r) {
		free_page(page);
		return NULL;
	}
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Vary", "Accept, Accept-Encoding");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	if (gzip)
		MHD_add_response_header(r, "Content-Encoding", "gzip");
	add_headers(s, r);
	return r;
}

static struct page *compress_page(struct server *s, const struct page *from)
{
	struct page *page = new_page(s);

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

static void put_health(const struct server *s, struct cached_text *text, struct buf *b,
		       uint64_t now)
{
	const struct model *m = s->model;
	bool works = strcmp(m->source, "none");
	uint64_t age = now - m->time;
	unsigned int i;

	if (!m->samples) {
		buf_str(b, "no sample taken yet\n");
	} else if (!works) {
		buf_printf(b, "no source of statistics works\n%s", s->health);
	} else {
		buf_printf(b, "%s%u%s, source %s%s, sampled ",
			   age > s->settings.max_age ? "last sample too old: " : "ok: ", m->vms,
			   m->vms == 1 ? " VM" : " VMs", m->source,
			   m->unread[KVMSTATS_TOO_MANY] ? " (partial)" : "");
		buf_fixed(b, age / 1000000, 3);
		buf_printf(b, " s ago\n%s", s->health);
		for (i = 0; i < KVMSTATS_REASONS; i++) {
			if (m->unread[i])
				buf_printf(b, "cannot read %u: %s\n", m->unread[i], m->why[i]);
		}
	}
	text->code = m->samples && works && age <= s->settings.max_age ? 200 : 503;
}

static bool is_html(enum text which)
{
	return which == TEXT_LIST || which == TEXT_ALL || which == TEXT_FOUND || which == TEXT_VM;
}

/* Write a text and return its type. */
static const char *write_text(struct server *s, struct cached_text *text, struct page *page,
			      enum text which, const struct page_request *request)
{
	const uint64_t now = request->now;
	struct model *m = s->model;

	text->code = MHD_HTTP_OK;
	if (which != TEXT_HEALTH && (!m->samples || now - m->time > s->settings.max_age)) {
		text->code = MHD_HTTP_SERVICE_UNAVAILABLE;
		if (is_html(which)) {
			page_too_old(&page->b, m, request, s->health);
			return HTML;
		}
		buf_str(&page->b, "503: last sample too old\n");
		return PLAIN;
	}
	switch (which) {
	case TEXT_JSON:
		page_json(&page->b, m, now);
		return "application/json";
	case TEXT_LIST:
	case TEXT_ALL:
	case TEXT_FOUND:
		page_list(&page->b, m, request);
		return HTML;
	case TEXT_VM:
		if (page_vm(&page->b, m, request))
			return HTML;
		buf_str(&page->b, "404: no VM has this name; / lists all VMs\n");
		text->code = MHD_HTTP_NOT_FOUND;
		return PLAIN;
	case TEXT_HEALTH:
		put_health(s, text, &page->b, now);
		return PLAIN;
	default:
		write_metrics(&page->b, m, (enum format)which,
			      s->model->served->codes);
		return format_types[which];
	}
}

static void drop_text(struct cached_text *text)
{
	if (text->plain)
		MHD_destroy_response(text->plain);
	if (text->gzip)
		MHD_destroy_response(text->gzip);
	text->plain = text->gzip = NULL;
}

void free_responses(struct server *s)
{
	unsigned int i;

	for (i = 0; i < TEXTS; i++)
		drop_text(&s->text[i]);
}

/*
 * Return the response for the last sample. It is built for the first request only, unless it
 * depends on the request.
 */
static struct MHD_Response *find_response(struct server *s, enum text which,
					  struct page_request *request, bool gzip)
{
	struct cached_text *text = &s->text[which];
	const uint64_t now = app_now();
	struct page *page, *small;

	request->now = now;
	request->interval = s->interval;
	request->metrics_path = s->settings.metrics_path;
	request->all = which == TEXT_ALL;
	pthread_mutex_lock(&s->lock);
	/* After an interval without a sample, the age in the text has changed. */
	if (!text->plain || which > TEXT_HEALTH || text->sample != s->model->samples ||
	    now - text->time > s->interval) {
		drop_text(text);
		page = new_page(s);
		if (page) {
			text->type = write_text(s, text, page, which, request);
			text->plain = make_response(s, page, text->type, false);
			text->page = page;
		}
		text->sample = s->model->samples;
		text->time = now;
	}
	pthread_mutex_unlock(&s->lock);
	if (gzip && text->plain && !text->gzip) {
		small = compress_page(s, text->page);
		text->gzip = small ? make_response(s, small, text->type, true) : NULL;
	}
	return gzip && text->gzip ? text->gzip : text->plain;
}

static void count_code(struct server *s, unsigned int code)
{
	struct codes *codes = s->model->served->codes;
	unsigned int i;

	for (i = 0; i < MAX_CODES && codes[i].code && codes[i].code != code; i++)
		;
	if (i == MAX_CODES)
		return;
	codes[i].code = code;
	codes[i].count++;
}

static enum MHD_Result send_text(struct server *s, struct connection *c, unsigned int code,
				 const char *type, const char *text)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *)text,
								 MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ret;

	if (!r)
		return MHD_NO;
	count_code(s, code);
	MHD_add_response_header(r, "Content-Type", type);
	add_headers(s, r);
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	/* Another certificate requires another connection, and a wrong length has no end. */
	if (code == MHD_HTTP_FORBIDDEN || code == MHD_HTTP_BAD_REQUEST)
		MHD_add_response_header(r, "Connection", "close");
	ret = code == MHD_HTTP_UNAUTHORIZED ?
	      MHD_queue_basic_auth_fail_response(c->c, "kvm-stats", r) :
	      MHD_queue_response(c->c, code, r);
	MHD_destroy_response(r);
	return ret;
}

/* Admission */

/* Take a token from the bucket of rate_limit. */
static bool within_rate(struct server *s)
{
	const struct web_config *config = s->config;
	uint64_t now = app_now(), max;

	if (!config || !config->rate_interval)
		return true;
	if (__builtin_mul_overflow(config->rate_interval, config->rate_burst, &max))
		max = UINT64_MAX / 2;
	s->rate_tokens += now - s->rate_time;
	s->rate_time = now;
	if (s->rate_tokens > max)
		s->rate_tokens = max;
	if (s->rate_tokens < config->rate_interval)
		return false;
	s->rate_tokens -= config->rate_interval;
	return true;
}

/* Verify the password in the login thread, and suspend the connection until then. */
static const char *begin_login(struct server *s, struct connection *c, const char *name,
			       const char *password, unsigned int *code)
{
	struct web_user *user = access_user(s->config, name);
	const char *costly;

	if (!s->config->nr_users)
		return NULL;
	if (user && user->password && access_same(user->password, password))
		return NULL;
	*code = MHD_HTTP_SERVICE_UNAVAILABLE;
	costly = access_costliest_user(s->config)->hash;
	c->login = login_begin(s->logins, c->networks, name, password,
			       user ? user->hash : costly, bcrypt_cost(costly), user);
	if (!c->login)
		return "503: out of memory\n";
	*code = 0;
	c->login_generation = s->config_generation;
	suspend_connection(c, STATE_LOGIN);
	return "";
}

static const char *finish_login(struct server *s, struct connection *c, const char *name,
				const char *password, unsigned int *code)
{
	enum login_result result = login_result(s->logins, c->login);
	struct web_user *user = access_user(s->config, name);

	login_end(s->logins, c->login);
	c->login = NULL;
	/* web.yml was reloaded: the hash may be another one now. */
	if (c->login_generation != s->config_generation)
		return begin_login(s, c, name, password, code);
	*code = MHD_HTTP_SERVICE_UNAVAILABLE;
	if (result == LOGIN_PENDING)
		return "503: the server stops\n";
	*code = MHD_HTTP_UNAUTHORIZED;
	if (result == LOGIN_WRONG || !user)
		return "401: wrong user or password\n";
	free(user->password);
	user->password = strdup(password);
	return NULL;
}

/*
 * Set user and password from the header Authorization, and return the memory that they are in, or
 * NULL. libmicrohttpd 0.9.75 knows the scheme only as "Basic", but its case does not matter.
 */
static char *read_credentials(struct connection *c, char **user, char **password)
{
	const char *header = MHD_lookup_connection_value(c->c, MHD_HEADER_KIND, "Authorization");
	gnutls_datum_t decoded, base64;
	char *text;

	if (!header || !ascii_begins(header, "basic ", 6))
		return NULL;
	header += 6 + strspn(header + 6, " ");
	base64 = (gnutls_datum_t){ (void *)header, strcspn(header, " ") };
	if (gnutls_base64_decode2(&base64, &decoded))
		return NULL;
	text = strndup((char *)decoded.data, decoded.size);
	*user = text;
	/* Bytes after a 0 would be ignored. */
	*password = text && strlen(text) == decoded.size ? strchr(text, ':') : NULL;
	explicit_bzero(decoded.data, decoded.size);
	gnutls_free(decoded.data);
	if (*password)
		*(*password)++ = '\0';
	return text;
}

/*
 * Return NULL if the user of a request may log in. Otherwise return the error and set
 * *code, which is 0 if the connection is suspended.
 */
static const char *check_user(struct server *s, struct connection *c, unsigned int *code)
{
	const char *error = "401: user and password required\n";
	char *user, *password = NULL, *text = read_credentials(c, &user, &password);

	*code = MHD_HTTP_UNAUTHORIZED;
	if (password && strlen(password) <= PASSWORD_MAX)
		error = c->login ? finish_login(s, c, user, password, code) :
			begin_login(s, c, user, password, code);
	if (password)
		explicit_bzero(password, strlen(password));
	free(text);
	return error;
}

static const char *check_client(const struct server *s, const struct connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c->c, MHD_CONNECTION_INFO_GNUTLS_SESSION);

	return access_client(s->config, info ? info->tls_session : NULL);
}

/* Return true if the client may see everything; otherwise *ret is the result. */
static bool admit(struct server *s, struct connection *c, const char *host, enum MHD_Result *ret)
{
	const char *error = NULL;
	unsigned int code;

	if (c->login) {
		/* The other checks were made before the login. */
		error = check_user(s, c, &code);
	} else if (c->local && host && !access_host(host, s->settings.hosts,
						   s->settings.nr_hosts)) {
		code = MHD_HTTP_MISDIRECTED_REQUEST;
		error = "421: not a name of this host; --host allows more names\n";
	} else if (!within_rate(s)) {
		code = MHD_HTTP_TOO_MANY_REQUESTS;
		error = "429: too many requests, try again later\n";
	} else if (s->config && check_client(s, c)) {
		code = MHD_HTTP_FORBIDDEN;
		error = "403: valid client certificate required\n";
	} else if (s->config && s->config->nr_users) {
		error = check_user(s, c, &code);
	}
	c->admitted = !error;
	if (error)
		*ret = code ? send_text(s, c, code, PLAIN, error) : MHD_YES;
	return c->admitted;
}

/* Requests */

/* Headers that a request may have once only */
struct header_counts {
	unsigned int hosts, lengths;
};

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	struct header_counts *counts = cls;

	counts->hosts += ascii_equal(name, "Host");
	counts->lengths += ascii_equal(name, "Content-Length") ||
			   ascii_equal(name, "Transfer-Encoding");
	return MHD_YES;
}

/* Return the error in the headers of a request, or NULL (RFC 9112, 3.2 and 6.3). */
static const char *check_headers(struct connection *c, const char *version)
{
	struct header_counts counts = { 0 };

	MHD_get_connection_values(c->c, MHD_HEADER_KIND, count_header, &counts);
	if (counts.hosts > 1 || (!counts.hosts && !strcmp(version, MHD_HTTP_VERSION_1_1)))
		return "400: exactly one header Host required\n";
	if (counts.lengths > 1)
		return "400: more than one length of the body\n";
	return NULL;
}

/*
 * Return the path of a URL, and set *host, NULL if the request has none. A URL in absolute form, as
 * clients send it to a proxy, has its own host, which replaces the header (RFC 9112, 3.2.2).
 */
static const char *split_url(struct connection *c, const char *url, char buf[URL_HOST_MAX],
			     const char **host)
{
	const char *begin = ascii_begins(url, "http://", 7) ? url + 7 :
			    ascii_begins(url, "https://", 8) ? url + 8 : NULL;
	size_t len;

	*host = MHD_lookup_connection_value(c->c, MHD_HEADER_KIND, "Host");
	if (!begin)
		return url;
	len = strcspn(begin, "/");
	snprintf(buf, URL_HOST_MAX, "%.*s", (int)len, begin);
	*host = buf;
	return begin[len] ? begin + len : "/";
}

/* Return an argument of the URL, "" if it is missing, or NULL if it is too long or has a 0. */
static const char *find_argument(struct connection *c, const char *name)
{
	const char *value;
	size_t len;

	if (MHD_lookup_connection_value_n(c->c, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
					  &len) != MHD_YES || !value)
		return "";
	return len > QUERY_MAX || strlen(value) != len ? NULL : value;
}

/* Find the text for a path and its arguments; TEXTS if it is unknown */
static enum text find_text(const struct server *s, struct connection *c, const char *url,
			   struct page_request *request)
{
	if (!strcmp(url, s->settings.metrics_path))
		return (enum text)accept_format(MHD_lookup_connection_value(c->c,
								MHD_HEADER_KIND, "Accept"));
	if (!strcmp(url, "/api/v1/vms"))
		return TEXT_JSON;
	if (!strcmp(url, "/healthz"))
		return TEXT_HEALTH;
	if (!strcmp(url, "/vm")) {
		request->vm = find_argument(c, "vm");
		return TEXT_VM;
	}
	if (strcmp(url, "/"))
		return TEXTS;
	request->filter = find_argument(c, "q");
	if (!request->filter || *request->filter)
		return TEXT_FOUND;
	return *(find_argument(c, "all") ?: "") ? TEXT_ALL : TEXT_LIST;
}

static enum MHD_Result send_sample(struct server *s, struct connection *c, enum text text,
				   struct page_request *request)
{
	const char *accepts = MHD_lookup_connection_value(c->c, MHD_HEADER_KIND,
							  "Accept-Encoding");
	struct MHD_Response *r;

	/*
	 * libmicrohttpd reads when a request is resumed, and closes the connection without a
	 * response if it finds the client's end: such a client gets the last sample.
	 */
	if (!c->waited && !s->stop &&
	    (text < TEXT_JSON || (!s->sampled && text != TEXT_HEALTH)) && request_sample(s) &&
	    !has_half_closed(c)) {
		c->waited = true;
		suspend_connection(c, STATE_WAITING);
		return MHD_YES;
	}
	r = find_response(s, text, request, accept_gzip(accepts));
	if (!r)
		return MHD_NO;
	if (text < TEXT_JSON && s->text[text].code == MHD_HTTP_OK)
		begin_scrape(s, c, s->text[text].sample);
	count_code(s, s->text[text].code);
	return MHD_queue_response(c->c, s->text[text].code, r);
}

enum MHD_Result handle_request(void *server, struct MHD_Connection *connection,
			       const char *url, const char *method, const char *version,
			       const char *upload, size_t *upload_size, void **request)
{
	struct connection *c = connection_of(connection);
	struct page_request asked = { .filter = "", .vm = "" };
	struct server *s = server;
	const char *host, *error;
	char buf[URL_HOST_MAX];
	enum MHD_Result ret;
	enum text text;

	if (!c)
		return MHD_NO;
	if (!*request) {
		/* The headers have arrived; a body is ignored. */
		*request = s;
		enqueue_connection(s, c, STATE_ANSWERING);
		error = check_headers(c, version);
		return error ? send_text(s, c, MHD_HTTP_BAD_REQUEST, PLAIN, error) : MHD_YES;
	}
	if (*upload_size) {
		*upload_size = 0;
		return MHD_YES;
	}
	url = split_url(c, url, buf, &host);
	if (!c->admitted && !admit(s, c, host, &ret))
		return ret;
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return send_text(s, c, MHD_HTTP_METHOD_NOT_ALLOWED, PLAIN,
				 "405: use GET or HEAD\n");
	if (!strcmp(url, "/style.css"))
		return send_text(s, c, MHD_HTTP_OK, "text/css; charset=utf-8", page_style);
	text = find_text(s, c, url, &asked);
	if (text == TEXTS)
		return send_text(s, c, MHD_HTTP_NOT_FOUND, PLAIN,
				 "404: unknown path; / has links to all others\n");
	if (!asked.filter || !asked.vm)
		return send_text(s, c, MHD_HTTP_BAD_REQUEST, PLAIN,
				 "400: an argument has more than 128 bytes, or a 0\n");
	return send_sample(s, c, text, &asked);
}
