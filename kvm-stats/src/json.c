// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "json.h"
#include "text.h"
#include "xalloc.h"

static void put_code_unit(struct buf *b, uint32_t unit)
{
	char text[16];

	snprintf(text, sizeof(text), "\\u%04x", unit);
	buf_str(b, text);
}

static void put_json_text(struct buf *b, const char *text)
{
	uint32_t code;
	size_t bytes;

	for (; *text; text += bytes) {
		bytes = text_character(text, &code);
		if (!bytes) {
			put_code_unit(b, 0xfffd);
			bytes = 1;
		} else if (code == '"' || code == '\\') {
			buf_char(b, '\\');
			buf_char(b, code);
		} else if (code < ' ' || (code >= 0x7f && text_hidden(code) && code < 0x10000)) {
			put_code_unit(b, code);
		} else if (code >= 0x10000 && text_hidden(code)) {
			put_code_unit(b, 0xd800 + ((code - 0x10000) >> 10));
			put_code_unit(b, 0xdc00 + ((code - 0x10000) & 0x3ff));
		} else {
			buf_put(b, text, bytes);
		}
	}
}

static void begin_value(struct json *j, const char *key)
{
	const bool own_line = j->line;

	if (j->comma)
		buf_char(j->buf, ',');
	j->comma = j->depth;
	if (own_line)
		buf_str(j->buf, j->line);
	j->line = NULL;
	if (!key)
		return;
	buf_char(j->buf, '"');
	buf_str(j->buf, key);
	buf_str(j->buf, own_line ? "\": " : "\":");
}

void json_open(struct json *j, const char *key, char bracket)
{
	begin_value(j, key);
	buf_char(j->buf, bracket);
	j->depth++;
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	if (j->line)
		buf_str(j->buf, j->line);
	j->line = NULL;
	buf_char(j->buf, bracket);
	j->comma = --j->depth;
}

void json_text(struct json *j, const char *key, const char *text)
{
	begin_value(j, key);
	buf_char(j->buf, '"');
	put_json_text(j->buf, text);
	buf_char(j->buf, '"');
}

void json_literal(struct json *j, const char *key, const char *text)
{
	begin_value(j, key);
	buf_str(j->buf, text);
}

void json_fixed(struct json *j, const char *key, uint64_t n, unsigned int digits)
{
	begin_value(j, key);
	buf_fixed(j->buf, n, digits);
}

void json_print_line(struct json *j)
{
	buf_char(j->buf, '\n');
	check_alloc(j->buf->failed ? NULL : j->buf->text);
	fwrite(j->buf->text, 1, j->buf->len, stdout);
	buf_reset(j->buf);
}
