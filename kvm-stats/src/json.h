/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Append JSON to a text. The writer adds commas and escapes; key is NULL for elements of arrays
 * and for values that are in nothing else.
 */
#ifndef JSON_H
#define JSON_H

#include "buf.h"

struct json {
	struct buf *buf;
	const char *line;	/* "\n" and blanks before the next key, value or end, or NULL */
	unsigned int depth;
	bool comma;		/* before the next key or value */
};

/* bracket: '{' and '}', or '[' and ']' */
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);

/* Bytes that are not UTF-8 become U+FFFD, characters that a terminal obeys are escaped. */
void json_text(struct json *j, const char *key, const char *text);
/* A number, true, false or null */
void json_literal(struct json *j, const char *key, const char *text);
/* A number with a decimal point before its last digits */
void json_fixed(struct json *j, const char *key, uint64_t n, unsigned int digits);

/* End a line of JSON, write it to standard output and empty it. Exits without memory. */
void json_print_line(struct json *j);

#endif /* JSON_H */
