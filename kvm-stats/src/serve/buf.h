/* SPDX-License-Identifier: GPL-2.0-only */
/* A text that grows, and keeps its room when it is written anew. */
#ifndef SERVE_BUF_H
#define SERVE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buf {
	char *text;
	size_t len, room;
	bool failed;		/* no memory: what is here is not whole */
};

/* Make room for n bytes more. False, and failed is set: there is no memory. */
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
	/* Without a byte there may be no text to write to, either. */
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

/* Numbers are exact: n, and n with its last digits behind a point. */
void buf_u64(struct buf *b, uint64_t n);
void buf_fixed(struct buf *b, uint64_t n, unsigned int digits);

/*
 * A text of others, inside double quotes that the caller writes: for a label as both
 * formats of metrics want it, for JSON, and for HTML. What is no UTF-8 becomes "?".
 */
void buf_label(struct buf *b, const char *text);
void buf_json(struct buf *b, const char *text);
void buf_html(struct buf *b, const char *text);

/* Bytes of the UTF-8 character that text begins with; 0: it is none, or the end */
size_t utf8_length(const char *text);

#endif /* SERVE_BUF_H */
