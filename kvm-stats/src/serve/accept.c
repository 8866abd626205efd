// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a client accepts, RFC 9110: lists of names with parameters, "q" is how much it
 * wants it. These texts are of anybody: nothing is kept, and one pass is all.
 */
#include <ctype.h>
#include <strings.h>

#include "write.h"

struct part {
	const char *text;
	size_t len;
};

static bool is(const struct part *p, const char *word)
{
	return p->len == strlen(word) && !strncasecmp(p->text, word, p->len);
}

static void trim(struct part *p)
{
	for (; p->len && isspace((unsigned char)*p->text); p->text++)
		p->len--;
	while (p->len && isspace((unsigned char)p->text[p->len - 1]))
		p->len--;
}

/* What comes before the next "end" that is not in quotes; *text goes behind it. */
static struct part next_part(struct part *text, char end)
{
	struct part part = *text;
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

/* 0 to 1 in thousandths; what is none is 0: better not to trust in it */
static unsigned int quality(const struct part *p)
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
	struct part name, version;
	unsigned int q;
};

static struct range next_range(struct part *list)
{
	struct part all = next_part(list, ','), parameter, key;
	struct range range = { .name = next_part(&all, ';'), .q = 1000 };

	while (all.len) {
		parameter = next_part(&all, ';');
		key = next_part(&parameter, '=');
		trim(&parameter);
		if (parameter.len >= 2 && *parameter.text == '"') {
			parameter.text++;
			parameter.len -= 2;
		}
		if (is(&key, "q"))
			range.q = quality(&parameter);
		else if (is(&key, "version"))
			range.version = parameter;
	}
	return range;
}

/* How well a range fits: 0, not at all; the larger the more it says */
static unsigned int fits(const struct range *r, const char *type, const char *main_type,
			 const char *version)
{
	if (r->version.len && !is(&r->version, version))
		return 0;
	if (is(&r->name, type))
		return r->version.len ? 4 : 3;
	return is(&r->name, main_type) ? 2 : is(&r->name, "*/*") ? 1 : 0;
}

enum format accept_format(const char *accept)
{
	unsigned int best[FORMATS] = { 0 }, q[FORMATS] = { 0 }, n;
	struct part list;
	struct range r;

	if (!accept)
		return FORMAT_TEXT;
	list = (struct part){ accept, strlen(accept) };
	while (list.len) {
		r = next_range(&list);
		n = fits(&r, "application/openmetrics-text", "application/*", "1.0.0");
		/* who takes anything did not ask for it */
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
	struct part list;
	struct range r;

	if (!accept_encoding)
		return false;
	list = (struct part){ accept_encoding, strlen(accept_encoding) };
	while (list.len) {
		r = next_range(&list);
		if (is(&r.name, "gzip") || is(&r.name, "x-gzip")) {
			gzip = r.q;
			named = true;
		} else if (is(&r.name, "*")) {
			any = r.q;
		} else if (is(&r.name, "identity")) {
			identity = r.q;
		}
	}
	gzip = named ? gzip : any;
	return gzip && gzip >= identity;
}
