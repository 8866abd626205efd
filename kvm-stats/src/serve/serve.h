/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of "kvm-stats serve".
 *
 * A process, the sampler, samples the host (sampler.c), and its child serves. The files in http/ are for
 * the child only; tests/layers checks that the sampler uses none of them. Those in this directory are for
 * the sampler, for both, or for the child before it serves. A recording has no sampler.
 *
 * One thread of the child reads the samples (sampling.c), one verifies passwords (http/login.c), and the
 * main thread serves (http/server.c). Responses are built from the model, which holds the last sample, so
 * a slow sample delays no response. A text is built for the first request after a sample and shared by
 * all later ones (http/responses.c).
 *
 * libmicrohttpd bounds the memory of a connection. http/connections.c bounds its time, and
 * http/eviction.c chooses connections to close when there are too many.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include <microhttpd.h>
#include <pthread.h>
#include <zlib.h>

#include "input.h"
#include "http/login.h"
#include "networks.h"
#include "observation.h"
#include "settings.h"
#include "web_config.h"
#include "write.h"

/* Bits of scrapers: connections that scraped, and one for clients that close theirs */
#define OTHER_SCRAPERS	31
#define ADDRESS_BUCKETS	256

enum text {
	TEXT_METRICS,		/* one for each format */
	TEXT_JSON = FORMATS,
	TEXT_LIST,		/* page of the VMs with problems */
	TEXT_ALL,		/* page of all VMs */
	TEXT_HEALTH,
	TEXT_FOUND,		/* pages that depend on the URL: built for each request */
	TEXT_VM,
	TEXTS,
};

#define MAX_FREE_PAGES	(2 * TEXTS)

/* A text and the responses that send it */
struct page {
	struct page *next;	/* in the list of free pages */
	struct buf b;
};

struct cached_text {
	struct MHD_Response *plain, *gzip;
	const struct page *page;	/* of plain, valid while plain exists */
	const char *type;
	uint64_t sample, time;
	unsigned int code;
};

enum state {
	STATE_READING,		/* receives a request, or is idle after one */
	STATE_WAITING,		/* suspended until the next sample */
	STATE_LOGIN,		/* suspended until the password is verified */
	STATE_ANSWERING,
};

struct connection {
	struct connection *next, **back;	/* by the time of the last state change */
	struct MHD_Connection *c;
	int fd;
	enum state state;
	uint64_t address;	/* address_key() */
	uint64_t networks[NETWORKS];
	struct web_config *config;	/* used by the TLS session, or NULL */
	struct login *login;
	unsigned int login_generation;	/* config_generation at login_begin() */
	bool local;		/* on a loopback address of this host */
	bool used;		/* has completed a request */
	bool admitted;
	bool waited;
	bool closed;
	bool half_closed;	/* by the client, when its last request was completed */
	uint64_t since;
	uint64_t acked;		/* bytes that the client had received at the last check */
	bool scrapes;		/* this request is a scrape */
	int scraper;		/* index in server.scrapers, OTHER_SCRAPERS, or -1 */
	uint64_t sample;	/* that the scraper is sent */
	uint64_t scraped;	/* when it had received one */
};

struct server {
	struct serve_settings settings;
	uint64_t interval;	/* nanoseconds between samples */
	struct web_config *config;	/* NULL without --config */
	unsigned int config_generation;
	bool own_user;		/* the server has another user ID, so the sampler reads web.yml again */
	struct web_files files;
	uint64_t config_checked;
	uint64_t rate_tokens, rate_time;
	int listening[LISTEN_MAX];	/* sockets */
	struct MHD_Daemon *daemon[LISTEN_MAX];
	unsigned int nr_listening, nr_daemons;
	struct logins *logins;
	int login_done;		/* eventfd: a login was verified */
	struct cached_text text[TEXTS];
	struct page *free_pages;
	unsigned int nr_free_pages;
	z_stream z;
	struct connection *first, **end;
	unsigned int connections;	/* that are not closed */
	unsigned int of_bucket[ADDRESS_BUCKETS];
	struct connection *scrapers[OTHER_SCRAPERS];
	uint64_t other_scrape;	/* when a connection that scraped was closed */
	struct input in;	/* its samples are only for the sampling thread, like the next ten */
	bool paced;		/* it is a file: a sample each interval */
	bool follows;		/* a file that is written: each interval those that are new */
	bool caught_up;		/* all samples that were in the file at the start have been read */
	unsigned int replaced;	/* recording_replaced() of the last sample */
	bool live;		/* it is what the sampler writes of this host */
	bool only_samples;	/* this process is the sampler */
	uint64_t watchdog;	/* nanoseconds between notifications, 0 without a watchdog */
	struct programs programs;	/* those that are exported are open */
	bool began;		/* the first sample was taken */
	uint64_t exits_time;	/* when model_set_exits() was called */
	/* The older one covers the same time as the shares of vCPUs on pages, 30 to 60 s. */
	struct observation observed[2];
	unsigned int older;
	unsigned int observed_changes;	/* kvmstats_source_changes() */
	bool sampled;		/* at least once */
	int sample_done;	/* eventfd: a sample was taken */

	pthread_mutex_t lock;	/* protects the members below */
	pthread_cond_t wake;
	struct model *model;
	char health[2048];	/* the problem, or the report of doctor while no source works */
	bool stop;
};

/* sampling.c */
bool exports_program(const struct server *s, enum program program);
/*
 * Take the sums of the programs that are exported from the recording. Exit if it does not have them;
 * a pipe, or a file that is followed, has them later.
 */
void open_recorded_sums(struct server *s, const char *path);
/* Read all samples of a file that is followed. Nothing is served before: counters only grow. */
void catch_up(struct server *s);
void *sample_until_stopped(void *server);
/* Replace the sample in the model by the last one, which may have failed. begin: of a recorded one */
void update_model(struct server *s, uint64_t begin, bool failed);
/* Return true if a sample of this time is almost an interval old. */
bool sample_is_due(const struct server *s, uint64_t last);
/*
 * Return true if a sample is due or nearly due, and take it now. So a scraper with
 * regular intervals gets samples at regular intervals. Samples never become more
 * frequent than configured.
 */
bool request_sample(struct server *s);

/* sockets.c: exits if it cannot open one */
void open_sockets(struct server *s);

/* config.c: read web.yml, or exit */
void read_config(struct server *s);
/* Read web.yml again if it was changed, at most once per second. Return true if it is in use. */
bool reload_config(struct server *s, uint64_t now);

/* http/server.c: serve until a signal arrives. from: a recording, or NULL in a child of the sampler */
void serve_until_stopped(struct server *s, const char *from);

/* http/responses.c */
enum MHD_Result handle_request(void *server, struct MHD_Connection *connection,
			       const char *url, const char *method, const char *version,
			       const char *upload, size_t *upload_size, void **request);
void free_responses(struct server *s);

/* http/connections.c */
void connection_changed(void *server, struct MHD_Connection *connection, void **context,
			enum MHD_ConnectionNotificationCode what);
void request_completed(void *server, struct MHD_Connection *connection, void **request,
		       enum MHD_RequestTerminationCode how);
struct connection *connection_of(struct MHD_Connection *connection);
void set_state(struct connection *c, enum state state);
void enqueue_connection(struct server *s, struct connection *c, enum state state);
/* Return true if the client has closed its sending side; what it sent may still be unread. */
bool has_half_closed(const struct connection *c);
void suspend_connection(struct connection *c, enum state state);
/* Resume connections whose sample, login or timeout has occurred, or all of them. */
void resume_connections(struct server *s, bool sampled, bool stopping);
void close_slow_connections(struct server *s, uint64_t now);
/* Return the time in milliseconds until a connection has to be checked. */
int connection_timeout(const struct server *s, uint64_t wait);

/* http/eviction.c */
void unlink_connection(struct server *s, struct connection *c);
void move_to_end(struct server *s, struct connection *c);
unsigned int address_bucket(uint64_t key);
struct connection *find_connection_to_evict(struct server *s);

/* http/scrapers.c */
/* The request of this connection is a scrape of this sample. */
void begin_scrape(struct server *s, struct connection *c, uint64_t sample);
/* The response was sent. */
void end_scrape(struct server *s, struct connection *c);
/* The connection is closed. */
void forget_scraper(struct server *s, struct connection *c);

/* http/listening.c */
void start_listening(struct server *s);
void stop_listening(struct server *s);

#endif /* SERVE_SERVE_H */
