// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "text.h"

bool buf_grow(struct buf *b, size_t n)
{
	size_t room = b->room ? b->room : 4096;
	char *more;

	if (b->failed)
		return false;
	while (room - b->len < n)
		room *= 2;
	more = realloc(b->text, room);
	if (!more) {
		b->failed = true;
		return false;
	}
	b->text = more;
	b->room = room;
	return true;
}

void buf_free(struct buf *b)
{
	free(b->text);
	memset(b, 0, sizeof(*b));
}

void buf_u64(struct buf *b, uint64_t n)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = '0' + n % 10;
		n /= 10;
	} while (n);
	buf_put(b, digits + i, sizeof(digits) - i);
}

void buf_fixed(struct buf *b, uint64_t n, unsigned int digits)
{
	char text[24];
	size_t i = sizeof(text);
	unsigned int d = 0;

	if (!digits) {
		buf_u64(b, n);
		return;
	}
	do {
		if (d == digits)
			text[--i] = '.';
		text[--i] = '0' + n % 10;
		n /= 10;
		d++;
	} while (n || d <= digits);
	buf_put(b, text + i, sizeof(text) - i);
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	/* with the 0 at the end */
	if (n < 0 || !buf_fits(b, n + 1))
		return;
	va_start(args, format);
	b->len += vsnprintf(b->text + b->len, n + 1, format, args);
	va_end(args);
}

static void put_escaped(struct buf *b, const char *text,
			const char *(*escape)(unsigned char c))
{
	const char *instead, *as_is = text;
	size_t n;

	for (; *text; text += n ? n : 1) {
		n = (unsigned char)*text < 0x80 ? 1 : utf8_length(text);
		instead = !n ? "?" : n == 1 ? escape(*text) : NULL;
		if (!instead)
			continue;
		buf_put(b, as_is, text - as_is);
		buf_str(b, instead);
		as_is = text + 1;
	}
	buf_put(b, as_is, text - as_is);
}

static const char *escape_label(unsigned char c)
{
	switch (c) {
	case '\\':
		return "\\\\";
	case '"':
		return "\\\"";
	case '\n':
		return "\\n";
	}
	/* allowed, but of no use to anybody */
	return c < ' ' || c == 0x7f ? "?" : NULL;
}

static const char *escape_html(unsigned char c)
{
	switch (c) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	}
	return c < ' ' || c == 0x7f ? "?" : NULL;
}

void buf_label(struct buf *b, const char *text)
{
	put_escaped(b, text, escape_label);
}

void buf_html(struct buf *b, const char *text)
{
	put_escaped(b, text, escape_html);
}

void buf_url(struct buf *b, const char *text)
{
	char code[4];

	for (; *text; text++) {
		if ((*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z') ||
		    (*text >= 'a' && *text <= 'z') || strchr("-._~", *text)) {
			buf_char(b, *text);
			continue;
		}
		snprintf(code, sizeof(code), "%%%02X", (unsigned char)*text);
		buf_str(b, code);
	}
}
