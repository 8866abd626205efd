// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_JSON
#include <json-c/json.h>
#endif

#include "out.h"
#include "text.h"

struct out {
	enum out_format format;
	const struct out_column *columns;
	unsigned int width, at;		/* columns; which one is next */
	char **cells;			/* of the table, row by row */
	size_t count, room;
#ifdef HAVE_JSON
	json_object *rows, *row;
#endif
};

static void *need(void *memory)
{
	if (!memory)
		err(1, NULL);
	return memory;
}

/*
 * RFC 4180, one line per row. What begins with one of these is a formula to a
 * spreadsheet: not with a ' before it.
 */
static void csv_text(const char *name)
{
	char text[TEXT_SHOWN(strlen(name) + 1)];
	const char *c = text;

	text_line(name, text, sizeof(text));
	if (!text[strcspn(text, ",\"")]) {
		printf("%s%s", *text && strchr("=+-@'", *text) ? "'" : "", text);
		return;
	}
	putchar('"');
	if (strchr("=+-@'", *c))
		putchar('\'');
	for (; *c; c++) {
		if (*c == '"')
			putchar('"');
		putchar(*c);
	}
	putchar('"');
}

/* Values of the table are kept: its columns are as wide as the widest. */
static void table_text(struct out *out, const char *name)
{
	char text[TEXT_SHOWN(strlen(name) + 1)];

	if (out->count == out->room) {
		out->room = out->room ? 2 * out->room : 256;
		out->cells = need(realloc(out->cells, out->room * sizeof(*out->cells)));
	}
	text_shown(name, text, sizeof(text));
	out->cells[out->count++] = need(strdup(text));
}

void out_keys(const struct out *out)
{
	bool first = true;
	unsigned int i;

	for (i = 0; i < out->width; i++) {
		if (!out->columns[i].key)
			continue;
		printf("%s%s", first ? "" : ",", out->columns[i].key);
		first = false;
	}
	putchar('\n');
}

struct out *out_open(enum out_format format, const struct out_column *columns)
{
	struct out *out = need(calloc(1, sizeof(*out)));

	out->format = format == OUT_CSV_MORE ? OUT_CSV : format;
	out->columns = columns;
	while (columns[out->width].title || columns[out->width].key)
		out->width++;
	if (format == OUT_CSV)
		out_keys(out);
#ifdef HAVE_JSON
	if (format == OUT_JSON)
		out->rows = need(json_object_new_array());
#else
	if (format == OUT_JSON || format == OUT_JSON_LINES)
		errx(2, "built without JSON");
#endif
	return out;
}

enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_BOOL, CELL_NONE };

#ifdef HAVE_JSON
static void json_cell(struct out *out, const char *key, enum cell_kind kind,
		      const char *text)
{
	json_object *value = NULL;

	if (kind == CELL_TEXT)
		value = need(json_object_new_string(text));
	else if (kind == CELL_BOOL)
		value = need(json_object_new_boolean(*text == 'y'));
	else if (kind == CELL_NUMBER && strchr(text, '.'))
		/* the digits as they are, whatever a double makes of them */
		value = need(json_object_new_double_s(0, text));
	else if (kind == CELL_NUMBER && *text == '-')
		value = need(json_object_new_int64(strtoll(text, NULL, 10)));
	else if (kind == CELL_NUMBER)
		value = need(json_object_new_uint64(strtoull(text, NULL, 10)));
	if (!out->row)
		out->row = need(json_object_new_object());
	json_object_object_add(out->row, key, value);
}

/* Names are exact: what must not reach a terminal is escaped as JSON does it. */
static void json_write(json_object *object, int flags)
{
	const char *c = json_object_to_json_string_ext(object, flags |
						       JSON_C_TO_STRING_NOSLASHESCAPE);
	uint32_t code;
	size_t bytes;

	for (; *c; c += bytes) {
		bytes = text_character(c, &code);
		if (!bytes) {
			/* json-c does not look: a replacement for what is no UTF-8 */
			fputs("\\ufffd", stdout);
			bytes = 1;
		} else if (code < 0x7f || !text_hidden(code)) {
			fwrite(c, 1, bytes, stdout);
		} else if (code < 0x10000) {
			printf("\\u%04x", code);
		} else {
			code -= 0x10000;
			printf("\\u%04x\\u%04x", 0xd800 + (code >> 10),
			       0xdc00 + (code & 0x3ff));
		}
	}
	putchar('\n');
}

static void json_row(struct out *out)
{
	if (out->format == OUT_JSON) {
		json_object_array_add(out->rows, out->row);
	} else {
		json_write(out->row, JSON_C_TO_STRING_PLAIN);
		json_object_put(out->row);
	}
	out->row = NULL;
}
#endif

static void cell(struct out *out, enum cell_kind kind, const char *text)
{
	const struct out_column *column = &out->columns[out->at++];
	static bool comma;

	if (out->format == OUT_TABLE && column->title)
		table_text(out, *text ? text : "-");
	if (out->format == OUT_CSV && column->key) {
		if (comma)
			putchar(',');
		if (kind == CELL_TEXT)
			csv_text(text);
		else
			fputs(text, stdout);
		comma = true;
	}
#ifdef HAVE_JSON
	if ((out->format == OUT_JSON || out->format == OUT_JSON_LINES) && column->key)
		json_cell(out, column->key, kind, text);
#endif
	if (out->at < out->width)
		return;
	out->at = 0;
	if (out->format == OUT_CSV)
		putchar('\n');
	comma = false;
#ifdef HAVE_JSON
	if (out->row)
		json_row(out);
#endif
}

void out_text(struct out *out, const char *text)
{
	cell(out, CELL_TEXT, text);
}

void out_number(struct out *out, const char *digits)
{
	cell(out, CELL_NUMBER, digits);
}

void out_u64(struct out *out, unsigned long long n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", n);
	out_number(out, text);
}

void out_bool(struct out *out, bool value)
{
	cell(out, CELL_BOOL, value ? "yes" : "no");
}

void out_none(struct out *out)
{
	cell(out, CELL_NONE, "");
}

static void write_line(const struct out_column **columns, const int *width,
		       unsigned int n, char **cells)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		const char *text = cells ? cells[i] : columns[i]->title;
		bool last = i == n - 1;

		const int blanks = width[i] - (int)text_width(text);

		if (columns[i]->right)
			printf("%*s%s", blanks, "", text);
		else
			printf("%s%*s", text, last ? 0 : blanks, "");
		fputs(last ? "\n" : "  ", stdout);
	}
}

static void write_table(struct out *out)
{
	const struct out_column *columns[out->width];
	int width[out->width], len;
	unsigned int i, n = 0;
	size_t row;

	for (i = 0; i < out->width; i++) {
		if (!out->columns[i].title)
			continue;
		columns[n] = &out->columns[i];
		width[n++] = strlen(out->columns[i].title);
	}
	for (row = 0; row < out->count; row++) {
		len = text_width(out->cells[row]);
		if (width[row % n] < len)
			width[row % n] = len;
	}
	write_line(columns, width, n, NULL);
	for (row = 0; row < out->count; row += n)
		write_line(columns, width, n, out->cells + row);
}

void out_close(struct out *out)
{
	size_t i;

	if (out->format == OUT_TABLE)
		write_table(out);
#ifdef HAVE_JSON
	if (out->format == OUT_JSON) {
		json_write(out->rows, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
		json_object_put(out->rows);
	}
#endif
	for (i = 0; i < out->count; i++)
		free(out->cells[i]);
	free(out->cells);
	free(out);
}
