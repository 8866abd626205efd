// SPDX-License-Identifier: GPL-2.0-only
#include <arpa/inet.h>
#include <gnutls/x509.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access.h"
#include "ascii.h"

/* Client certificates */

static bool san_allowed(const struct web_config *config, gnutls_x509_crt_t cert)
{
	char san[1024], text[INET6_ADDRSTRLEN];
	unsigned int i, j;
	size_t size;
	int type;

	for (i = 0;; i++) {
		size = sizeof(san) - 1;
		type = gnutls_x509_crt_get_subject_alt_name(cert, i, san, &size, NULL);
		if (type == GNUTLS_E_SHORT_MEMORY_BUFFER)
			continue;
		if (type < 0)
			return false;
		if (type == GNUTLS_SAN_IPADDRESS) {
			if (!inet_ntop(size == 4 ? AF_INET : AF_INET6, san, text, sizeof(text)))
				continue;
			size = strlen(text);
			memcpy(san, text, size);
		} else if (type != GNUTLS_SAN_DNSNAME && type != GNUTLS_SAN_RFC822NAME &&
			   type != GNUTLS_SAN_URI) {
			continue;
		}
		for (j = 0; j < config->nr_sans; j++) {
			if (strlen(config->sans[j]) == size && !memcmp(config->sans[j], san, size))
				return true;
		}
	}
}

static bool peer_san_allowed(const struct web_config *config, const gnutls_datum_t *peer)
{
	gnutls_x509_crt_t cert;
	bool allowed;

	if (gnutls_x509_crt_init(&cert))
		return false;
	allowed = !gnutls_x509_crt_import(cert, peer, GNUTLS_X509_FMT_DER) &&
		  san_allowed(config, cert);
	gnutls_x509_crt_deinit(cert);
	return allowed;
}

const char *access_client(const struct web_config *config, gnutls_session_t session)
{
	/* A certificate for servers only is not a client certificate. */
	gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = (void *)GNUTLS_KP_TLS_WWW_CLIENT,
	};
	const gnutls_datum_t *peer;
	unsigned int nr = 0, status;

	if (config->client_auth == CLIENT_AUTH_NONE)
		return NULL;
	peer = session ? gnutls_certificate_get_peers(session, &nr) : NULL;
	if (!peer || !nr) {
		if (config->client_auth == CLIENT_AUTH_REQUIRE_ANY ||
		    config->client_auth == CLIENT_AUTH_REQUIRE_AND_VERIFY || config->nr_sans)
			return "client certificate required";
		return NULL;
	}
	if (config->client_auth >= CLIENT_AUTH_VERIFY_IF_GIVEN &&
	    (gnutls_certificate_verify_peers(session, &purpose, 1, &status) || status))
		return "client certificate not valid for this server";
	if (config->nr_sans && !peer_san_allowed(config, peer))
		return "client certificate without an allowed name";
	return NULL;
}

/* Users */

struct web_user *access_user(struct web_config *config, const char *name)
{
	struct web_user *user = NULL;
	unsigned int i;

	for (i = 0; i < config->nr_users; i++) {
		if (!strcmp(config->user[i].name, name))
			user = &config->user[i];
	}
	return user;
}

const struct web_user *access_costliest_user(const struct web_config *config)
{
	const struct web_user *costliest = config->user;
	unsigned int i;

	for (i = 1; i < config->nr_users; i++) {
		if (bcrypt_cost(config->user[i].hash) > bcrypt_cost(costliest->hash))
			costliest = &config->user[i];
	}
	return costliest;
}

bool access_same(const char *known, const char *text)
{
	size_t i, len = strlen(known), other = strlen(text);
	unsigned char differs = len != other;

	for (i = 0; i < len; i++)
		differs |= known[i] ^ text[i < other ? i : 0];
	return !differs;
}

/* Names of this host */

static bool is_own_address(int family, const void *address)
{
	const size_t len = family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
	struct ifaddrs *list, *i;
	bool own = false;
	const void *other;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !own; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != family)
			continue;
		other = family == AF_INET ?
			(void *)&((struct sockaddr_in *)i->ifa_addr)->sin_addr :
			(void *)&((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
		own = !memcmp(address, other, len);
	}
	freeifaddrs(list);
	return own;
}

static bool is_own(const char *address)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, address, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127 || is_own_address(AF_INET, &v4);
	return inet_pton(AF_INET6, address, &v6) == 1 &&
	       (IN6_IS_ADDR_LOOPBACK(&v6) || is_own_address(AF_INET6, &v6));
}

/*
 * Return true if /etc/hosts, which the administrator writes, has this name for an address of this
 * host. Debian has the fully qualified name there, with 127.0.1.1. DNS proves nothing: the owner
 * of a domain chooses its addresses.
 */
static bool is_in_hosts_file(const char *name)
{
	FILE *f = fopen("/etc/hosts", "re");
	char *line = NULL, *at, *word, *address;
	bool found = false;
	size_t size = 0;

	while (f && !found && getline(&line, &size, f) >= 0) {
		line[strcspn(line, "#\n")] = '\0';
		at = line;
		address = strsep(&at, " \t");
		while (!found && (word = strsep(&at, " \t")))
			found = ascii_equal(word, name) && is_own(address);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

static bool is_this_host(const char *name)
{
	char own[256] = "";

	if (ascii_equal(name, "localhost") || is_own(name))
		return true;
	if (gethostname(own, sizeof(own) - 1))
		return false;
	if (ascii_equal(name, own))
		return true;
	own[strcspn(own, ".")] = '\0';
	return (*own && ascii_equal(name, own)) || is_in_hosts_file(name);
}

bool access_host(const char *value, const char *const *extra, unsigned int nr_extra)
{
	const char *begin = value + (*value == '['), *end;
	char name[256];
	unsigned int i;
	size_t len;

	len = *value == '[' ? strcspn(begin, "]") : strcspn(begin, ":");
	end = begin + len + (*value == '[' && begin[len] == ']');
	if (!len || len >= sizeof(name) ||
	    (*end && (*end != ':' || end[1 + strspn(end + 1, "0123456789")])))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)len, begin);
	/* the dot of a fully qualified name */
	if (len > 1 && name[len - 1] == '.')
		name[len - 1] = '\0';
	for (i = 0; i < nr_extra; i++) {
		if (ascii_equal(name, extra[i]))
			return true;
	}
	return is_this_host(name);
}
