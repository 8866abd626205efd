// SPDX-License-Identifier: GPL-2.0-only
#include <crypt.h>
#include <err.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "access.h"
#include "app.h"

#define FILE_MAX	1048576
#define PASSWORD_MAX	256
/* Nobody has this: that a user is not known takes as long as a wrong password. */
#define NOBODY		"$2b$10$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"

/* Of the file, for messages */
struct reader {
	const char *path;
	yaml_document_t doc;
};

__attribute__((noreturn, format(printf, 3, 4)))
static void wrong(const struct reader *r, const yaml_node_t *node, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	errx(STATUS_USAGE, "%s:%zu: %s", r->path, node ? node->start_mark.line + 1 : 1, text);
}

static const char *text_of(const struct reader *r, const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE ||
	    strlen((char *)node->data.scalar.value) != node->data.scalar.length)
		wrong(r, node, "a text is wanted here");
	return (char *)node->data.scalar.value;
}

static char *copy(const char *text)
{
	char *new = strdup(text);

	if (!new)
		err(STATUS_NOTHING, NULL);
	return new;
}

/* A file's name is relative to the folder of the file that names it. */
static char *file_of(const struct reader *r, const yaml_node_t *node)
{
	const char *name = text_of(r, node), *slash = strrchr(r->path, '/');
	char *path;

	if (*name == '/' || !slash)
		return copy(name);
	if (asprintf(&path, "%.*s/%s", (int)(slash - r->path), r->path, name) < 0)
		err(STATUS_NOTHING, NULL);
	return path;
}

static void read_tls(struct reader *r, struct access *access, const char *key,
		     const yaml_node_t *value)
{
	const char *text;

	if (!strcmp(key, "cert_file")) {
		access->cert_file = file_of(r, value);
	} else if (!strcmp(key, "key_file")) {
		access->key_file = file_of(r, value);
	} else if (!strcmp(key, "client_ca_file")) {
		access->ca_file = file_of(r, value);
	} else if (!strcmp(key, "client_auth_type")) {
		text = text_of(r, value);
		access->want_client = !strcmp(text, "RequireAndVerifyClientCert");
		if (!access->want_client && strcmp(text, "NoClientCert"))
			wrong(r, value, "client_auth_type is NoClientCert or RequireAndVerifyClientCert here, not '%s'",
			      text);
	} else if (!strcmp(key, "min_version")) {
		text = text_of(r, value);
		access->only_tls13 = !strcmp(text, "TLS13");
		if (!access->only_tls13 && strcmp(text, "TLS12"))
			wrong(r, value, "min_version is TLS12 or TLS13, not '%s'", text);
	} else {
		wrong(r, value, "'%s' is not known here", key);
	}
}

static bool is_bcrypt(const char *hash)
{
	static const char digits[] =
		"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	/* the cost is an exponent: 16 takes seconds already */
	return strlen(hash) == 60 && !strncmp(hash, "$2", 2) && strchr("aby", hash[2]) &&
	       hash[3] == '$' && hash[6] == '$' && (hash[4] == '0' || hash[4] == '1') &&
	       strspn(hash + 5, "0123456789") == 1 && atoi(hash + 4) >= 4 &&
	       atoi(hash + 4) <= 16 && strspn(hash + 7, digits) == 53;
}

static void read_user(struct reader *r, struct access *access, const char *name,
		      const yaml_node_t *value)
{
	const char *hash = text_of(r, value);

	if (!is_bcrypt(hash))
		wrong(r, value, "the hash of user '%s' is none of bcrypt", name);
	if (access->users == ACCESS_USERS)
		wrong(r, value, "there are more than %d users", ACCESS_USERS);
	access->user[access->users].name = copy(name);
	access->user[access->users++].hash = copy(hash);
}

static void read_map(struct reader *r, struct access *access, yaml_node_t *map,
		     void (*read)(struct reader *r, struct access *access, const char *key,
				  const yaml_node_t *value))
{
	yaml_node_pair_t *pair;

	if (map->type != YAML_MAPPING_NODE)
		wrong(r, map, "names with values are wanted here");
	for (pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++)
		read(r, access, text_of(r, yaml_document_get_node(&r->doc, pair->key)),
		     yaml_document_get_node(&r->doc, pair->value));
}

static void read_part(struct reader *r, struct access *access, const char *key,
		      const yaml_node_t *value)
{
	if (!strcmp(key, "tls_server_config"))
		read_map(r, access, (yaml_node_t *)value, read_tls);
	else if (!strcmp(key, "basic_auth_users"))
		read_map(r, access, (yaml_node_t *)value, read_user);
	else
		wrong(r, value, "'%s' is not known here", key);
}

static char *read_whole(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;

	if (!f)
		errx(STATUS_USAGE, "%s: %s", path, strerror(errno));
	text = calloc(1, FILE_MAX + 1);
	if (!text)
		err(STATUS_NOTHING, NULL);
	n = fread(text, 1, FILE_MAX, f);
	if (ferror(f))
		errx(STATUS_USAGE, "%s: %s", path, strerror(errno));
	if (n == FILE_MAX)
		errx(STATUS_USAGE, "%s: too large", path);
	fclose(f);
	return text;
}

/* GnuTLS knows whether they fit; libmicrohttpd would only say that it cannot start. */
static void check_tls(struct access *access)
{
	gnutls_certificate_credentials_t cred;
	gnutls_datum_t cert, key, ca;
	int ret;

	access->cert = read_whole(access->cert_file);
	access->key = read_whole(access->key_file);
	cert = (gnutls_datum_t){ (void *)access->cert, strlen(access->cert) };
	key = (gnutls_datum_t){ (void *)access->key, strlen(access->key) };
	if (gnutls_certificate_allocate_credentials(&cred))
		errx(STATUS_NOTHING, "no memory");
	ret = gnutls_certificate_set_x509_key_mem(cred, &cert, &key, GNUTLS_X509_FMT_PEM);
	if (ret < 0)
		errx(STATUS_USAGE, "the certificate in %s and the key in %s: %s",
		     access->cert_file, access->key_file, gnutls_strerror(ret));
	if (access->ca_file) {
		access->ca = read_whole(access->ca_file);
		ca = (gnutls_datum_t){ (void *)access->ca, strlen(access->ca) };
		ret = gnutls_certificate_set_x509_trust_mem(cred, &ca, GNUTLS_X509_FMT_PEM);
		if (ret <= 0)
			errx(STATUS_USAGE, "%s: %s", access->ca_file,
			     ret ? gnutls_strerror(ret) : "there is no certificate in it");
	}
	gnutls_certificate_free_credentials(cred);
}

void access_read(struct access *access, const char *path)
{
	struct reader r = { .path = path };
	yaml_parser_t parser;
	yaml_node_t *root;
	FILE *f = fopen(path, "re");

	if (!f)
		errx(STATUS_USAGE, "%s: %s", path, strerror(errno));
	if (!yaml_parser_initialize(&parser))
		errx(STATUS_NOTHING, "no memory");
	yaml_parser_set_input_file(&parser, f);
	if (!yaml_parser_load(&parser, &r.doc))
		errx(STATUS_USAGE, "%s:%zu: %s", path, parser.problem_mark.line + 1,
		     parser.problem ? parser.problem : "cannot be read");
	root = yaml_document_get_root_node(&r.doc);
	/* an empty file is allowed */
	if (root)
		read_map(&r, access, root, read_part);
	if (!access->cert_file != !access->key_file)
		wrong(&r, root, "cert_file and key_file need each other");
	if ((access->ca_file || access->want_client) && !access->cert_file)
		wrong(&r, root, "certificates of clients need cert_file and key_file");
	if (!access->ca_file != !access->want_client)
		wrong(&r, root, "client_ca_file and RequireAndVerifyClientCert need each other");
	yaml_document_delete(&r.doc);
	yaml_parser_delete(&parser);
	fclose(f);
	if (access->cert_file)
		check_tls(access);
}

void access_free(struct access *access)
{
	unsigned int i;

	for (i = 0; i < access->users; i++) {
		free(access->user[i].name);
		free(access->user[i].hash);
		free(access->user[i].known);
	}
	free(access->cert_file);
	free(access->key_file);
	free(access->ca_file);
	free(access->cert);
	free(access->key);
	free(access->ca);
}

const char *access_priorities(const struct access *access)
{
	return access->only_tls13 ? "NORMAL:-VERS-ALL:+VERS-TLS1.3" :
	       "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
}

/* In a time that does not tell where they differ; len is that of the known one. */
static bool same(const char *known, const char *text)
{
	size_t i, len = strlen(known), other = strlen(text);
	unsigned char differs = len != other;

	for (i = 0; i < len; i++)
		differs |= known[i] ^ text[i < other ? i : 0];
	return !differs;
}

enum access_answer access_check(struct access *access, const char *name,
				const char *password)
{
	struct access_user *user = NULL;
	struct crypt_data data;
	uint64_t begin = app_now();
	const char *hash;
	unsigned int i;
	bool fits;

	if (!access->users)
		return ACCESS_YES;
	if (!name || !password || strlen(password) > PASSWORD_MAX)
		return ACCESS_NO;
	for (i = 0; i < access->users; i++) {
		if (!strcmp(access->user[i].name, name))
			user = &access->user[i];
	}
	if (user && user->known && same(user->known, password))
		return ACCESS_YES;
	/* who guesses gets a part of the time; the others are served in the rest */
	if (begin < access->next_try)
		return ACCESS_LATER;
	memset(&data, 0, sizeof(data));
	hash = crypt_r(password, user ? user->hash : NOBODY, &data);
	fits = user && hash && same(user->hash, hash);
	if (fits) {
		free(user->known);
		user->known = strdup(password);
		return ACCESS_YES;
	}
	access->next_try = app_now() + 4 * (app_now() - begin);
	return ACCESS_NO;
}
