/* SPDX-License-Identifier: GPL-2.0-only */
/* A string that grows, and keeps its capacity when it is reset */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "utf8.h"

struct buf {
	char *text;
	size_t len, room;
	bool failed;		/* memory ran out, the text is incomplete */
};

/* Ensure capacity for n more bytes. Return false and set failed if memory runs out. */
bool buf_grow(struct buf *b, size_t n);
void buf_free(struct buf *b);

static inline void buf_reset(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

static inline bool buf_fits(struct buf *b, size_t n)
{
	return b->room - b->len >= n || buf_grow(b, n);
}

static inline void buf_put(struct buf *b, const char *text, size_t len)
{
	/* text may be NULL if len is 0. */
	if (!len || !buf_fits(b, len))
		return;
	memcpy(b->text + b->len, text, len);
	b->len += len;
}

static inline void buf_str(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

static inline void buf_char(struct buf *b, char c)
{
	buf_put(b, &c, 1);
}

/* Append n exactly, or with a decimal point before its last digits. */
void buf_u64(struct buf *b, uint64_t n);
void buf_fixed(struct buf *b, uint64_t n, unsigned int digits);

__attribute__((format(printf, 2, 3)))
void buf_printf(struct buf *b, const char *format, ...);

/*
 * Append an untrusted string, escaped for a label of both formats, or for HTML. The
 * caller adds the double quotes. Bytes that are not UTF-8 become "?".
 */
void buf_label(struct buf *b, const char *text);
void buf_html(struct buf *b, const char *text);
/* Append any bytes as the value of an argument in a URL. */
void buf_url(struct buf *b, const char *text);

#endif /* BUF_H */
