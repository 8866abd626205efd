/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who may see it: TLS, certificates of clients, and users, from a file in the form of
 * Prometheus' exporter toolkit.
 */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCESS_USERS	64

struct access_user {
	char *name, *hash;	/* bcrypt */
	char *known;		/* the password that fitted last: bcrypt is slow */
};

struct access {
	char *cert_file, *key_file, *ca_file;
	char *cert, *key, *ca;	/* what is in them; NULL: there is none */
	bool want_client;	/* a certificate of the client is needed */
	bool only_tls13;
	struct access_user user[ACCESS_USERS];
	unsigned int users;
	uint64_t next_try;	/* CLOCK_MONOTONIC: not before, for what is not known */
};

/* Ends the program with status 2 and one line if anything in it is wrong. */
void access_read(struct access *access, const char *path);
void access_free(struct access *access);

/* GnuTLS' words for the versions of TLS that are spoken */
const char *access_priorities(const struct access *access);

enum access_answer {
	ACCESS_YES,
	ACCESS_NO,
	ACCESS_LATER,		/* too many that were wrong: ask again */
};

/* user or password may be NULL: none was given. */
enum access_answer access_check(struct access *access, const char *user,
				const char *password);

#endif /* SERVE_ACCESS_H */
