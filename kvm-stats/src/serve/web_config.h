/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The web configuration file of Prometheus' exporter toolkit (web.yml): TLS, client
 * certificates, users, headers and the rate limit.
 */
#ifndef SERVE_WEB_CONFIG_H
#define SERVE_WEB_CONFIG_H

#include <gnutls/gnutls.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define WEB_USERS_MAX	64
#define WEB_HEADERS	5
#define WEB_ERROR_SIZE	1024

/* Policies of client_auth_type, the least strict first */
enum client_auth {
	CLIENT_AUTH_NONE,
	CLIENT_AUTH_REQUEST,
	CLIENT_AUTH_REQUIRE_ANY,
	CLIENT_AUTH_VERIFY_IF_GIVEN,
	CLIENT_AUTH_REQUIRE_AND_VERIFY,
};

struct web_user {
	char *name, *hash;	/* bcrypt */
	char *password;		/* the password that was verified last, or NULL */
};

/* Return the cost of a hash of bcrypt: "$2b$COST$...". */
static inline unsigned int bcrypt_cost(const char *hash)
{
	return 10 * (hash[4] - '0') + hash[5] - '0';
}

struct web_config {
	unsigned int references;
	char *cert, *key, *ca;	/* PEM; NULL if not configured */
	gnutls_certificate_credentials_t credentials;	/* NULL without TLS */
	gnutls_priority_t priority;
	enum client_auth client_auth;
	char **sans;		/* client_allowed_sans */
	unsigned int nr_sans;
	struct web_user user[WEB_USERS_MAX];
	unsigned int nr_users;
	char *header[WEB_HEADERS];	/* NULL if not configured, "" to omit the header */
	uint64_t rate_interval;	/* nanoseconds between requests, 0 without a limit */
	unsigned int rate_burst;
};

extern const char *const web_header_names[WEB_HEADERS];

/* The files that a configuration was read from, to detect changes */
struct web_files {
	struct web_file {
		char path[PATH_MAX];
		struct stat st;		/* all zero if stat() failed */
	} file[4];
	unsigned int nr;
};

/*
 * Read the configuration in path. Returns NULL if it is invalid, with one line in error.
 * Fills files in either case.
 */
struct web_config *web_config_read(const char *path, struct web_files *files,
				   char error[WEB_ERROR_SIZE]);

struct web_config *web_config_get(struct web_config *config);
void web_config_put(struct web_config *config);

/* Return true if one of the files was changed, created, replaced or removed. */
bool web_files_changed(const struct web_files *files);

#endif /* SERVE_WEB_CONFIG_H */
