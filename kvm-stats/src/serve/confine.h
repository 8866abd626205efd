/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The limits of the process that serves. It reads what clients send, so an attacker may take it
 * over: it must not be able to end, stop or confuse the sampler, or outlive it.
 */
#ifndef SERVE_CONFINE_H
#define SERVE_CONFINE_H

#include "serve.h"

/*
 * Return true if this process is root's, and not in a user namespace where root is an ordinary user
 * outside.
 */
bool needs_own_user(void);

/*
 * Change to another user ID, without groups: one that systemd would give to a service with
 * DynamicUser=. Call it while the process has one thread.
 */
void change_user(void);

/*
 * The same for a server of a recording, which opens the recording and the configuration again when they
 * are replaced: it may read files in their directories, whoever owns them, and open no others.
 */
void change_reader(const struct server *s, const char *path);

/* Give up all capabilities, except for that of change_reader(). Threads that are created later have none either. */
void drop_capabilities(void);

/*
 * Fail system calls that act on other processes, create one, or change the sockets that the
 * successor also listens on. All threads must exist, and no other descriptor of these sockets.
 */
void filter_calls(const struct server *s);

#endif /* SERVE_CONFINE_H */
