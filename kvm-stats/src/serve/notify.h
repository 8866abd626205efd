/* SPDX-License-Identifier: GPL-2.0-only */
/* Protocols of systemd: sd_notify(3) and sd_listen_fds(3) */
#ifndef SERVE_NOTIFY_H
#define SERVE_NOTIFY_H

#include <stdint.h>

/* Send a state, unless systemd has not asked for states. */
void notify(const char *state);

/* Return the interval for WATCHDOG=1 in nanoseconds, or 0 without a watchdog. */
uint64_t notify_interval(void);

#define NOTIFY_FIRST_SOCKET	3	/* SD_LISTEN_FDS_START */

/* Return the number of sockets passed by systemd. */
unsigned int notify_sockets(void);

/* To the process that samples, on standard output */
enum sampler_message {
	SERVER_READY = 'R',
	SERVER_WORKS = 'W',	/* each second */
	SAMPLE_WANTED = 'S',
};
void notify_sampler(enum sampler_message message);

#endif /* SERVE_NOTIFY_H */
