// SPDX-License-Identifier: GPL-2.0-only
/* The process that serves: its threads and its event loop */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app.h"
#include "clock.h"
#include "serve/confine.h"
#include "serve/notify.h"
#include "serve/serve.h"
#include "stop.h"

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		err(STATUS_NOTHING, "epoll");
}

/*
 * Notify systemd's watchdog only while samples are read. If a sampler takes them, it notifies the
 * watchdog, and replaces this process if that does not work.
 */
static void report_work(struct server *s, uint64_t *last, uint64_t now)
{
	const uint64_t clock = read_clock(CLOCK_MONOTONIC);
	uint64_t age;

	if (s->live && clock - *last >= SECOND) {
		*last = clock;
		notify_sampler(SERVER_WORKS);
	}
	if (s->live || !s->watchdog || now - *last < s->watchdog)
		return;
	pthread_mutex_lock(&s->lock);
	age = now - s->model->time;
	pthread_mutex_unlock(&s->lock);
	if (age > 2 * s->settings.max_age)
		return;
	*last = now;
	notify("WATCHDOG=1");
}

static bool drain(int eventfd)
{
	uint64_t count;

	return read(eventfd, &count, sizeof(count)) > 0;
}

static int make_epoll(struct server *s)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	unsigned int i;

	for (i = 0; i < s->nr_daemons; i++)
		watch(epoll, MHD_get_daemon_info(s->daemon[i],
						 MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
	watch(epoll, s->sample_done);
	watch(epoll, s->login_done);
	watch(epoll, stop_fd());
	return epoll;
}

static void serve_until_signal(struct server *s)
{
	const uint64_t watchdog = s->watchdog;
	uint64_t last = s->live ? 0 : app_now(), now;
	struct epoll_event events[LISTEN_MAX + 3];
	int epoll = make_epoll(s), n, i;
	bool stop = false, sampled;
	unsigned int d;

	/* systemd's watchdog starts with this notification, so after last. */
	if (s->live)
		notify_sampler(SERVER_READY);
	else
		notify("READY=1");
	while (!stop) {
		n = epoll_wait(epoll, events, LISTEN_MAX + 3, connection_timeout(s,
			       watchdog && watchdog < SECOND ? watchdog : SECOND));
		sampled = false;
		for (i = 0; i < n; i++) {
			if (events[i].data.fd == s->sample_done)
				sampled = drain(s->sample_done);
			else if (events[i].data.fd == s->login_done)
				drain(s->login_done);
			stop |= events[i].data.fd == stop_fd();
		}
		s->sampled |= sampled;
		now = app_now();
		/* The headers may have changed. */
		if (!s->own_user && reload_config(s, now))
			free_responses(s);
		resume_connections(s, sampled, false);
		for (d = 0; d < s->nr_daemons; d++)
			MHD_run(s->daemon[d]);
		now = app_now();
		close_slow_connections(s, now);
		report_work(s, &last, now);
	}
	close(epoll);
}

static void free_pages(struct server *s)
{
	struct page *page;

	while ((page = s->free_pages)) {
		s->free_pages = page->next;
		buf_free(&page->b);
		free(page);
	}
}

static void init_server(struct server *s)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	s->end = &s->first;
	s->sample_done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->login_done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->sample_done < 0 || s->login_done < 0 ||
	    deflateInit2(&s->z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		errx(STATUS_NOTHING, "out of memory");
}

void serve_until_stopped(struct server *s, const char *from)
{
	pthread_t thread;

	init_server(s);
	s->sampled = s->began;
	start_listening(s);
	if (from && needs_own_user())
		change_reader(s, from);
	/* Only the process that samples needs them. */
	drop_capabilities();
	/* A descriptor shared with the sampler could end the sampler. */
	if (s->live)
		stop_catch(STATUS_OK, NULL);
	s->logins = logins_start(s->login_done);
	if (!s->logins || pthread_create(&thread, NULL, sample_until_stopped, s))
		errx(STATUS_NOTHING, "cannot start a thread");
	if (s->live)
		filter_calls(s);

	serve_until_signal(s);

	if (!s->live)
		notify("STOPPING=1");
	shutdown(STDIN_FILENO, SHUT_RD);
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(thread, NULL);
	/* Ends responses, which read the sample. */
	stop_listening(s);
	close_programs(&s->programs);
	observation_close(&s->observed[0]);
	observation_close(&s->observed[1]);
	logins_stop(s->logins);
	free_pages(s);
	deflateEnd(&s->z);
}
