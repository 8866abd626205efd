// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse the headers Accept and Accept-Encoding (RFC 9110): lists of names with parameters,
 * of which "q" is the weight. The headers are untrusted: they are parsed in one pass and
 * without allocations.
 */
#include <ctype.h>

#include "ascii.h"
#include "serve/write.h"

struct str_slice {
	const char *text;
	size_t len;
};

static bool slice_equals(const struct str_slice *p, const char *word)
{
	return p->len == strlen(word) && ascii_begins(p->text, word, p->len);
}

static void trim(struct str_slice *p)
{
	for (; p->len && isspace((unsigned char)*p->text); p->text++)
		p->len--;
	while (p->len && isspace((unsigned char)p->text[p->len - 1]))
		p->len--;
}

/* Cut the item before the next unquoted end off text, and return it. */
static struct str_slice next_item(struct str_slice *text, char end)
{
	struct str_slice part = *text;
	bool quoted = false;
	size_t i;

	for (i = 0; i < text->len; i++) {
		if (quoted && text->text[i] == '\\')
			i++;
		else if (text->text[i] == '"')
			quoted = !quoted;
		else if (text->text[i] == end && !quoted)
			break;
	}
	if (i > text->len)
		i = text->len;
	part.len = i;
	text->text += i < text->len ? i + 1 : i;
	text->len -= i < text->len ? i + 1 : i;
	trim(&part);
	return part;
}

/* Parse a weight from 0 to 1 as thousandths. Invalid weights are 0. */
static unsigned int quality(const struct str_slice *p)
{
	unsigned int n = 0, unit = 100;
	size_t i;

	if (!p->len || (*p->text != '0' && *p->text != '1'))
		return 0;
	n = *p->text == '1' ? 1000 : 0;
	if (p->len > 1 && p->text[1] != '.')
		return 0;
	for (i = 2; i < p->len && i < 5; i++, unit /= 10) {
		if (!isdigit((unsigned char)p->text[i]))
			return 0;
		n += (p->text[i] - '0') * unit;
	}
	return n > 1000 ? 0 : n;
}

struct range {
	struct str_slice name, version;
	unsigned int q;
};

static struct range next_range(struct str_slice *list)
{
	struct str_slice all = next_item(list, ','), parameter, key;
	struct range range = { .name = next_item(&all, ';'), .q = 1000 };

	while (all.len) {
		parameter = next_item(&all, ';');
		key = next_item(&parameter, '=');
		trim(&parameter);
		if (parameter.len >= 2 && *parameter.text == '"') {
			parameter.text++;
			parameter.len -= 2;
		}
		if (slice_equals(&key, "q"))
			range.q = quality(&parameter);
		else if (slice_equals(&key, "version"))
			range.version = parameter;
	}
	return range;
}

/* Return 0 if a range does not match, otherwise more for a more specific match. */
static unsigned int fits(const struct range *r, const char *type, const char *main_type,
			 const char *version)
{
	if (r->version.len && !slice_equals(&r->version, version))
		return 0;
	if (slice_equals(&r->name, type))
		return r->version.len ? 4 : 3;
	return slice_equals(&r->name, main_type) ? 2 : slice_equals(&r->name, "*/*") ? 1 : 0;
}

enum format accept_format(const char *accept)
{
	unsigned int best[FORMATS] = { 0 }, q[FORMATS] = { 0 }, n;
	struct str_slice list;
	struct range r;

	if (!accept)
		return FORMAT_TEXT;
	list = (struct str_slice){ accept, strlen(accept) };
	while (list.len) {
		r = next_range(&list);
		n = fits(&r, "application/openmetrics-text", "application/*", "1.0.0");
		/* A wildcard does not request OpenMetrics. */
		if (n >= 3 && n > best[FORMAT_OPENMETRICS]) {
			best[FORMAT_OPENMETRICS] = n;
			q[FORMAT_OPENMETRICS] = r.q;
		}
		n = fits(&r, "text/plain", "text/*", "0.0.4");
		if (n > best[FORMAT_TEXT]) {
			best[FORMAT_TEXT] = n;
			q[FORMAT_TEXT] = r.q;
		}
	}
	return q[FORMAT_OPENMETRICS] && q[FORMAT_OPENMETRICS] >= q[FORMAT_TEXT] ?
	       FORMAT_OPENMETRICS : FORMAT_TEXT;
}

bool accept_gzip(const char *accept_encoding)
{
	unsigned int gzip = 0, any = 0, identity = 0;
	bool named = false;
	struct str_slice list;
	struct range r;

	if (!accept_encoding)
		return false;
	list = (struct str_slice){ accept_encoding, strlen(accept_encoding) };
	while (list.len) {
		r = next_range(&list);
		if (slice_equals(&r.name, "gzip") || slice_equals(&r.name, "x-gzip")) {
			gzip = r.q;
			named = true;
		} else if (slice_equals(&r.name, "*")) {
			any = r.q;
		} else if (slice_equals(&r.name, "identity")) {
			identity = r.q;
		}
	}
	gzip = named ? gzip : any;
	return gzip && gzip >= identity;
}
