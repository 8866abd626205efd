/* SPDX-License-Identifier: GPL-2.0-only */
/* What systemd wants to hear, and gives: sd_notify(3), sd_listen_fds(3). */
#ifndef SERVE_NOTIFY_H
#define SERVE_NOTIFY_H

#include <stdint.h>

/* Nothing happens if nobody listens. */
void notify(const char *state);

/* How often it wants a sign of life, nanoseconds; 0: not at all */
uint64_t notify_interval(void);

/* The socket that was opened for us; -1: none; -2: more than one */
int notify_socket(void);

#endif /* SERVE_NOTIFY_H */
