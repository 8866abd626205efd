// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "ascii.h"
#include "web_config.h"

#define FILE_MAX_BYTES	1048576
#define BCRYPT_COST_MAX	18	/* each login takes ten seconds or more */

struct parser {
	const char *path;
	struct web_config *config;
	struct web_files *files;
	char *error;		/* "" until the first error */
	yaml_document_t doc;
	/* values that are used after the whole file was parsed */
	const char *min_version, *max_version;
	char *cert_file, *key_file, *ca_file;
	char ciphers[256], groups[128];	/* for gnutls_priority_init() */
	bool client_preference;
};

/* A key, or, without a name, all others. Its value is a string, a list of strings, or a mapping. */
struct key {
	const char *name;
	/* Read the string, or one of the list; node: its place. */
	void (*read)(struct parser *p, const char *key, const yaml_node_t *node, const char *text);
	bool list;
	const struct key *keys;		/* for a mapping */
};

const char *const web_header_names[WEB_HEADERS] = {
	"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options",
	"X-XSS-Protection", "Strict-Transport-Security",
};

__attribute__((format(printf, 3, 4)))
static void config_error(struct parser *p, const yaml_node_t *node, const char *format, ...)
{
	va_list args;
	int n;

	if (*p->error)
		return;
	if (node)
		n = snprintf(p->error, WEB_ERROR_SIZE, "%s:%zu: ", p->path,
			     node->start_mark.line + 1);
	else
		n = snprintf(p->error, WEB_ERROR_SIZE, "%s: ", p->path);
	if (n >= WEB_ERROR_SIZE)
		return;
	va_start(args, format);
	vsnprintf(p->error + n, WEB_ERROR_SIZE - n, format, args);
	va_end(args);
}

/* Return the text of a scalar, or "" after reporting an error. */
static const char *read_text(struct parser *p, const char *key, const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE ||
	    strlen((char *)node->data.scalar.value) != node->data.scalar.length) {
		config_error(p, node, "%s: not a string", key);
		return "";
	}
	return (char *)node->data.scalar.value;
}

static char *copy_text(struct parser *p, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		config_error(p, NULL, "out of memory");
	return copy;
}

static bool read_bool(struct parser *p, const char *key, const yaml_node_t *node, const char *text)
{
	bool is_true = ascii_equal(text, "true") || ascii_equal(text, "yes") ||
		       ascii_equal(text, "on");

	if (!is_true && !ascii_equal(text, "false") && !ascii_equal(text, "no") &&
	    !ascii_equal(text, "off"))
		config_error(p, node, "%s '%s': must be true or false", key, text);
	return is_true;
}

/* Return true if the value of a section or list is missing. */
static bool is_null(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE && !node->data.scalar.length;
}

static void read_list(struct parser *p, const char *name, const yaml_node_t *list,
		      const struct key *key)
{
	const yaml_node_item_t *item;
	const yaml_node_t *node;

	if (is_null(list))
		return;
	if (list->type != YAML_SEQUENCE_NODE) {
		config_error(p, list, "%s: not a list", name);
		return;
	}
	for (item = list->data.sequence.items.start; item < list->data.sequence.items.top;
	     item++) {
		node = yaml_document_get_node(&p->doc, *item);
		key->read(p, name, node, read_text(p, name, node));
	}
}

static void read_map(struct parser *p, const char *name, const yaml_node_t *map,
		     const struct key *keys)
{
	const yaml_node_pair_t *pair, *other;
	const yaml_node_t *key, *value;
	const struct key *k;
	const char *text;

	if (is_null(map))
		return;
	if (map->type != YAML_MAPPING_NODE) {
		config_error(p, map, "%s: not a mapping", name);
		return;
	}
	for (pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
		key = yaml_document_get_node(&p->doc, pair->key);
		value = yaml_document_get_node(&p->doc, pair->value);
		text = read_text(p, name, key);
		for (other = map->data.mapping.pairs.start; other < pair; other++) {
			if (!strcmp(text, read_text(p, name, yaml_document_get_node(&p->doc,
										    other->key))))
				config_error(p, key, "'%s': given twice", text);
		}
		for (k = keys; k->name && strcmp(k->name, text); k++)
			;
		if (k->keys)
			read_map(p, text, value, k->keys);
		else if (k->list)
			read_list(p, text, value, k);
		else if (k->read)
			k->read(p, text, value, read_text(p, text, value));
		else
			config_error(p, key, "'%s': unknown key", text);
	}
}

/* Find the row that begins with text, and return its second word, or NULL. */
static const char *find_word(const char *const table[][2], const char *text)
{
	for (; (*table)[0]; table++) {
		if (!strcmp((*table)[0], text))
			return (*table)[1];
	}
	return NULL;
}

/* tls_server_config */

/* A relative file name is relative to the directory of web.yml. */
static void read_file_name(struct parser *p, const char *key, const yaml_node_t *node,
			   const char *text)
{
	char **file = !strcmp(key, "cert_file") ? &p->cert_file :
		      !strcmp(key, "key_file") ? &p->key_file : &p->ca_file;
	const char *slash = strrchr(p->path, '/');

	free(*file);
	*file = NULL;
	/* as without the key */
	if (!*text)
		return;
	if (*text == '/' || !slash)
		*file = copy_text(p, text);
	else if (asprintf(file, "%.*s/%s", (int)(slash - p->path), p->path, text) < 0)
		*file = NULL;
}

static void read_pem(struct parser *p, const char *key, const yaml_node_t *node,
		     const char *text)
{
	char **pem = !strcmp(key, "cert") ? &p->config->cert :
		     !strcmp(key, "key") ? &p->config->key : &p->config->ca;

	free(*pem);
	*pem = *text ? copy_text(p, text) : NULL;
}

static void read_client_auth(struct parser *p, const char *key, const yaml_node_t *node,
			     const char *text)
{
	static const struct {
		const char *name;
		enum client_auth policy;
	} types[] = {
		{ "", CLIENT_AUTH_NONE },
		{ "NoClientCert", CLIENT_AUTH_NONE },
		{ "RequestClientCert", CLIENT_AUTH_REQUEST },
		{ "RequireClientCert", CLIENT_AUTH_REQUIRE_ANY },
		{ "RequireAnyClientCert", CLIENT_AUTH_REQUIRE_ANY },
		{ "VerifyClientCertIfGiven", CLIENT_AUTH_VERIFY_IF_GIVEN },
		{ "RequireAndVerifyClientCert", CLIENT_AUTH_REQUIRE_AND_VERIFY },
	};
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcmp(text, types[i].name)) {
			p->config->client_auth = types[i].policy;
			return;
		}
	}
	config_error(p, node, "client_auth_type '%s': unknown policy", text);
}

static void add_san(struct parser *p, const char *key, const yaml_node_t *node,
		    const char *text)
{
	char **sans = realloc(p->config->sans, (p->config->nr_sans + 1) * sizeof(*sans));
	char *san = copy_text(p, text);

	if (sans)
		p->config->sans = sans;
	if (!sans || !san) {
		free(san);
		config_error(p, node, "out of memory");
		return;
	}
	sans[p->config->nr_sans++] = san;
}

/* Versions in the order of age; their names in Go and in GnuTLS */
static const char *const versions[][2] = {
	{ "TLS10", "1.0" }, { "TLS11", "1.1" }, { "TLS12", "1.2" }, { "TLS13", "1.3" },
};
#define NR_VERSIONS	(sizeof(versions) / sizeof(versions[0]))

static size_t version_index(const char *name)
{
	size_t i;

	for (i = 0; i < NR_VERSIONS && strcmp(versions[i][0], name); i++)
		;
	return i;
}

static void read_version(struct parser *p, const char *key, const yaml_node_t *node,
			 const char *text)
{
	if (version_index(text) == NR_VERSIONS)
		config_error(p, node, "%s '%s': must be TLS10, TLS11, TLS12 or TLS13", key, text);
	else if (!strcmp(key, "min_version"))
		p->min_version = text;
	else
		p->max_version = text;
}

/* Append ":+NAME" to list, unless it is in it or too long. */
static void append(char *list, size_t size, const char *name)
{
	size_t len = strlen(list);
	char item[64];

	snprintf(item, sizeof(item), ":+%s", name);
	if (!strstr(list, item))
		snprintf(list + len, size - len, "%s", item);
}

static void add_cipher(struct parser *p, const char *key, const yaml_node_t *node,
		       const char *text)
{
	static const char *const ciphers[][2] = {
		{ "AES_128_GCM_SHA256", "AES-128-GCM" },
		{ "AES_256_GCM_SHA384", "AES-256-GCM" },
		{ "CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305" },
		{ "CHACHA20_POLY1305", "CHACHA20-POLY1305" },
		{ "AES_128_CBC_SHA", "AES-128-CBC" },
		{ "AES_256_CBC_SHA", "AES-256-CBC" },
		{ NULL }
	};
	static const char *const prefixes[] = {
		"TLS_ECDHE_ECDSA_WITH_", "TLS_ECDHE_RSA_WITH_", "TLS_",
	};
	const char *end = "", *name;
	size_t i;

	for (i = 0; i < 3 && !*end; i++) {
		if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
			end = text + strlen(prefixes[i]);
	}
	name = find_word(ciphers, end);
	if (name)
		append(p->ciphers, sizeof(p->ciphers), name);
	else
		config_error(p, node, "%s '%s': unknown cipher suite", key, text);
}

static void add_curve(struct parser *p, const char *key, const yaml_node_t *node,
		      const char *text)
{
	static const char *const curves[][2] = {
		{ "CurveP256", "GROUP-SECP256R1" }, { "CurveP384", "GROUP-SECP384R1" },
		{ "CurveP521", "GROUP-SECP521R1" }, { "X25519", "GROUP-X25519" }, { NULL }
	};
	const char *name = find_word(curves, text);

	if (name)
		append(p->groups, sizeof(p->groups), name);
	else
		config_error(p, node, "%s '%s': unknown curve", key, text);
}

static void read_preference(struct parser *p, const char *key, const yaml_node_t *node,
			    const char *text)
{
	p->client_preference = !read_bool(p, key, node, text);
}

static const struct key tls_keys[] = {
	{ "cert", .read = read_pem },
	{ "key", .read = read_pem },
	{ "client_ca", .read = read_pem },
	{ "cert_file", .read = read_file_name },
	{ "key_file", .read = read_file_name },
	{ "client_ca_file", .read = read_file_name },
	{ "client_auth_type", .read = read_client_auth },
	{ "client_allowed_sans", .read = add_san, .list = true },
	{ "min_version", .read = read_version },
	{ "max_version", .read = read_version },
	{ "cipher_suites", .read = add_cipher, .list = true },
	{ "prefer_server_cipher_suites", .read = read_preference },
	{ "curve_preferences", .read = add_curve, .list = true },
	{ NULL }
};

/* http_server_config */

/* HTTP/2 is not supported, so either value has the same effect. */
static void read_http2(struct parser *p, const char *key, const yaml_node_t *node,
		       const char *text)
{
	read_bool(p, key, node, text);
}

static void read_header(struct parser *p, const char *key, const yaml_node_t *node,
			const char *text)
{
	int i;

	if (*text && ((!strcmp(key, "X-Content-Type-Options") && strcmp(text, "nosniff")) ||
		      (!strcmp(key, "X-Frame-Options") && strcmp(text, "deny") &&
		       strcmp(text, "sameorigin"))))
		config_error(p, node, "%s '%s': invalid value", key, text);
	if (strpbrk(text, "\r\n"))
		config_error(p, node, "%s: more than one line", key);
	for (i = 0; i < WEB_HEADERS && strcmp(key, web_header_names[i]); i++)
		;
	if (i == WEB_HEADERS) {
		config_error(p, node, "'%s': unknown key", key);
		return;
	}
	free(p->config->header[i]);
	p->config->header[i] = copy_text(p, text);
}

static const struct key header_keys[] = { { .read = read_header } };

static const struct key http_keys[] = {
	{ "http2", .read = read_http2 },
	{ "headers", .keys = header_keys },
	{ NULL }
};

/* rate_limit */

/* A duration of Go: "1m30s", "100ms"; a number alone is in nanoseconds. */
static void read_interval(struct parser *p, const char *key, const yaml_node_t *node,
			  const char *text)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 },
		{ "h", 3600e9 },
	};
	const char *at = text;
	double sum = 0, n;
	size_t i, len;
	char *end;

	do {
		n = strspn(at, "0123456789.") ? strtod(at, &end) : -1;
		if (n < 0)
			break;
		len = strcspn(end, "0123456789.");
		for (i = 0; i < 6 && (strlen(units[i].name) != len ||
				      strncmp(end, units[i].name, len)); i++)
			;
		if (i == 6 && *end)
			n = -1;
		sum += n * (i < 6 ? units[i].ns : 1);
		at = end + len;
	} while (*at && n >= 0);
	if (n < 0 || sum > 86400e9)
		config_error(p, node, "interval '%s': not a duration", text);
	else
		p->config->rate_interval = sum;
}

static void read_burst(struct parser *p, const char *key, const yaml_node_t *node,
		       const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9)
		config_error(p, node, "burst '%s': not a number", text);
	else
		p->config->rate_burst = strtoul(text, NULL, 10);
}

static const struct key rate_keys[] = {
	{ "interval", .read = read_interval },
	{ "burst", .read = read_burst },
	{ NULL }
};

/* basic_auth_users */

static bool is_bcrypt(const char *hash)
{
	static const char digits[] =
		"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	return strlen(hash) == 60 && !strncmp(hash, "$2", 2) && strchr("aby", hash[2]) &&
	       hash[3] == '$' && hash[6] == '$' && (hash[4] == '0' || hash[4] == '1') &&
	       strspn(hash + 5, "0123456789") == 1 && bcrypt_cost(hash) >= 4 &&
	       bcrypt_cost(hash) <= BCRYPT_COST_MAX && strspn(hash + 7, digits) == 53;
}

static void add_user(struct parser *p, const char *name, const yaml_node_t *node, const char *hash)
{
	struct web_user *user;

	if (!is_bcrypt(hash))
		config_error(p, node, "user '%s': not a bcrypt hash with a cost of %d or less",
			     name, BCRYPT_COST_MAX);
	if (p->config->nr_users == WEB_USERS_MAX)
		config_error(p, node, "more than %d users", WEB_USERS_MAX);
	if (*p->error)
		return;
	user = &p->config->user[p->config->nr_users++];
	user->name = copy_text(p, name);
	user->hash = copy_text(p, hash);
}

static const struct key user_keys[] = { { .read = add_user } };

/* The whole file */

static const struct key sections[] = {
	{ "tls_server_config", .keys = tls_keys },
	{ "http_server_config", .keys = http_keys },
	{ "basic_auth_users", .keys = user_keys },
	{ "rate_limit", .keys = rate_keys },
	{ NULL }
};

/* Return the state of a file; all zero if it has none. */
static struct stat stat_file(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		memset(&st, 0, sizeof(st));
	return st;
}

/* Return the content of a file, or NULL after reporting an error. */
static char *read_whole_file(struct parser *p, const char *path)
{
	struct web_file *file = &p->files->file[p->files->nr++];
	char *text = NULL;
	size_t n = 0;
	FILE *f;

	/* The state before the content, so that a later change is never missed */
	snprintf(file->path, sizeof(file->path), "%s", path);
	file->st = stat_file(path);
	f = fopen(path, "re");
	if (f) {
		text = calloc(1, FILE_MAX_BYTES + 1);
		n = text ? fread(text, 1, FILE_MAX_BYTES, f) : 0;
	}
	if (!*p->error && (!text || ferror(f)))
		snprintf(p->error, WEB_ERROR_SIZE, "%s: %s", path, strerror(errno));
	else if (!*p->error && n == FILE_MAX_BYTES)
		snprintf(p->error, WEB_ERROR_SIZE, "%s: larger than %d bytes", path,
			 FILE_MAX_BYTES);
	if (f)
		fclose(f);
	return text;
}

static void parse(struct parser *p, const char *text)
{
	yaml_parser_t parser;
	yaml_node_t *root;

	if (!yaml_parser_initialize(&parser)) {
		config_error(p, NULL, "out of memory");
		return;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	if (yaml_parser_load(&parser, &p->doc)) {
		root = yaml_document_get_root_node(&p->doc);
		/* An empty file is valid. */
		if (root)
			read_map(p, p->path, root, sections);
	} else if (!*p->error) {
		snprintf(p->error, WEB_ERROR_SIZE, "%s:%zu: %s", p->path,
			 parser.problem_mark.line + 1,
			 parser.problem ? parser.problem : "not YAML");
	}
	yaml_parser_delete(&parser);
}

static void read_pem_file(struct parser *p, const char *file, char **pem, const char *what)
{
	if (!file)
		return;
	if (*pem)
		config_error(p, NULL, "%s and %s_file: only one is allowed", what, what);
	else
		*pem = read_whole_file(p, file);
}

static void set_priority(struct parser *p)
{
	size_t min = version_index(p->min_version), max = version_index(p->max_version), i;
	char text[1024] = "NORMAL:-VERS-ALL";
	size_t n = strlen(text);

	if (min > max)
		config_error(p, NULL, "min_version '%s': newer than max_version", p->min_version);
	for (i = max + 1; i-- > min;)
		n += snprintf(text + n, sizeof(text) - n, ":+VERS-TLS%s", versions[i][1]);
	/* RSA key exchange has no forward secrecy; CBC ciphers have to be named. */
	n += snprintf(text + n, sizeof(text) - n, ":-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA%s%s",
		      *p->ciphers ? ":-CIPHER-ALL" : ":-MAC-ALL:+AEAD", p->ciphers);
	if (*p->groups)
		n += snprintf(text + n, sizeof(text) - n, ":-GROUP-ALL%s", p->groups);
	if (!p->client_preference)
		snprintf(text + n, sizeof(text) - n, ":%%SERVER_PRECEDENCE");
	if (!*p->error && gnutls_priority_init(&p->config->priority, text, NULL))
		config_error(p, NULL, "no usable TLS version, cipher suite or curve");
}

static void set_credentials(struct parser *p)
{
	const struct web_config *config = p->config;
	gnutls_datum_t cert = { (void *)config->cert, strlen(config->cert) };
	gnutls_datum_t key = { (void *)config->key, strlen(config->key) };
	gnutls_datum_t ca = { (void *)config->ca, config->ca ? strlen(config->ca) : 0 };
	int ret;

	if (gnutls_certificate_allocate_credentials(&p->config->credentials)) {
		config_error(p, NULL, "out of memory");
		return;
	}
	ret = gnutls_certificate_set_x509_key_mem(config->credentials, &cert, &key,
						  GNUTLS_X509_FMT_PEM);
	if (ret < 0)
		config_error(p, NULL, "certificate '%s', key '%s': %s",
			     p->cert_file ? p->cert_file : "cert",
			     p->key_file ? p->key_file : "key", gnutls_strerror(ret));
	if (!ca.size)
		return;
	ret = gnutls_certificate_set_x509_trust_mem(config->credentials, &ca,
						    GNUTLS_X509_FMT_PEM);
	if (ret <= 0)
		config_error(p, NULL, "client CA '%s': %s", p->ca_file ? p->ca_file : "client_ca",
			     ret ? gnutls_strerror(ret) : "no certificate");
}

static void check_tls(struct parser *p)
{
	struct web_config *config = p->config;

	read_pem_file(p, p->cert_file, &config->cert, "cert");
	read_pem_file(p, p->key_file, &config->key, "key");
	read_pem_file(p, p->ca_file, &config->ca, "client_ca");
	if (*p->error)
		return;
	if (!config->cert != !config->key)
		config_error(p, NULL, "cert_file and key_file: both are required");
	else if ((config->ca || config->client_auth) && !config->cert)
		config_error(p, NULL, "client certificates require cert_file and key_file");
	else if (config->ca && !config->client_auth)
		config_error(p, NULL, "client_ca_file requires client_auth_type");
	else if (!config->ca && config->client_auth == CLIENT_AUTH_REQUIRE_AND_VERIFY)
		config_error(p, NULL, "client_auth_type requires client_ca_file");
	if (*p->error || !config->cert)
		return;
	set_credentials(p);
	set_priority(p);
}

struct web_config *web_config_read(const char *path, struct web_files *files,
				   char error[WEB_ERROR_SIZE])
{
	struct parser p = {
		.path = path, .error = error, .files = files,
		.config = calloc(1, sizeof(*p.config)),
		.min_version = "TLS12", .max_version = "TLS13",
	};
	char *text;

	*error = '\0';
	files->nr = 0;
	if (!p.config) {
		snprintf(error, WEB_ERROR_SIZE, "out of memory");
		return NULL;
	}
	p.config->references = 1;
	text = read_whole_file(&p, path);
	if (!*error) {
		parse(&p, text);
		if (!*error)
			check_tls(&p);
		yaml_document_delete(&p.doc);
	}
	free(text);
	free(p.cert_file);
	free(p.key_file);
	free(p.ca_file);
	if (*error) {
		web_config_put(p.config);
		return NULL;
	}
	return p.config;
}

struct web_config *web_config_get(struct web_config *config)
{
	if (config)
		config->references++;
	return config;
}

void web_config_put(struct web_config *config)
{
	unsigned int i;

	if (!config || --config->references)
		return;
	for (i = 0; i < config->nr_users; i++) {
		free(config->user[i].name);
		free(config->user[i].hash);
		free(config->user[i].password);
	}
	for (i = 0; i < config->nr_sans; i++)
		free(config->sans[i]);
	for (i = 0; i < WEB_HEADERS; i++)
		free(config->header[i]);
	free(config->sans);
	free(config->cert);
	free(config->key);
	free(config->ca);
	if (config->credentials)
		gnutls_certificate_free_credentials(config->credentials);
	if (config->priority)
		gnutls_priority_deinit(config->priority);
	free(config);
}

bool web_files_changed(const struct web_files *files)
{
	const struct stat *old;
	struct stat new;
	unsigned int i;

	for (i = 0; i < files->nr; i++) {
		old = &files->file[i].st;
		new = stat_file(files->file[i].path);
		if (old->st_dev != new.st_dev || old->st_ino != new.st_ino ||
		    old->st_size != new.st_size || old->st_mtim.tv_sec != new.st_mtim.tv_sec ||
		    old->st_mtim.tv_nsec != new.st_mtim.tv_nsec)
			return true;
	}
	return false;
}
