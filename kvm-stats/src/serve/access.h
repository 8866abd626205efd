/* SPDX-License-Identifier: GPL-2.0-only */
/* Decide whether a client may see the metrics: certificate, user and name of the host. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H

#include "web_config.h"

/*
 * Return NULL if the client of this session fulfils client_auth_type and
 * client_allowed_sans, or the reason why not.
 */
const char *access_client(const struct web_config *config, gnutls_session_t session);

/* Return the user of this name, or NULL. */
struct web_user *access_user(struct web_config *config, const char *name);

/* Return the user whose hash has the highest cost; there must be users. */
const struct web_user *access_costliest_user(const struct web_config *config);

/*
 * Compare a password with a known one, or two hashes, in a time that depends on the
 * lengths only.
 */
bool access_same(const char *known, const char *text);

/*
 * Return true if the value of a Host header names this host: localhost, an address or
 * the name of this host, or one of extra. The port is ignored.
 */
bool access_host(const char *value, const char *const *extra, unsigned int nr_extra);

#endif /* SERVE_ACCESS_H */
