// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "json.h"
#include "out.h"
#include "text.h"
#include "xalloc.h"

struct out {
	enum out_format format;
	const struct out_column *columns;
	unsigned int width, at;		/* number of columns; index of the next one */
	char **cells;			/* cells of the table, row by row */
	size_t count, room;
	struct buf text;		/* JSON: the row so far, or the array */
	struct json json;
};

/*
 * RFC 4180, one line per row. Spreadsheets interpret text that begins with one of these as a
 * formula, unless a ' precedes it.
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
		out->cells = check_alloc(realloc(out->cells, out->room * sizeof(*out->cells)));
	}
	text_shown(name, text, sizeof(text));
	out->cells[out->count++] = check_alloc(strdup(text));
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
	struct out *out = check_alloc(calloc(1, sizeof(*out)));

	out->format = format == OUT_CSV_MORE ? OUT_CSV : format;
	out->columns = columns;
	while (columns[out->width].title || columns[out->width].key)
		out->width++;
	if (format == OUT_CSV)
		out_keys(out);
	out->json.buf = &out->text;
	if (format == OUT_JSON)
		json_open(&out->json, NULL, '[');
	return out;
}

enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_BOOL, CELL_NONE };

/* JSON is indented in an array, and one line per object otherwise. */
static void json_cell(struct out *out, const char *key, enum cell_kind kind, const char *text)
{
	const bool array = out->format == OUT_JSON;
	struct json *j = &out->json;

	if (j->depth == array) {
		j->line = array ? "\n  " : NULL;
		json_open(j, NULL, '{');
	}
	j->line = array ? "\n    " : NULL;
	if (kind == CELL_TEXT)
		json_text(j, key, text);
	else
		json_literal(j, key, kind == CELL_NONE ? "null" : kind == CELL_NUMBER ? text :
			     *text == 'y' ? "true" : "false");
}

static void end_json_row(struct out *out)
{
	struct json *j = &out->json;

	if (out->format == OUT_JSON)
		j->line = "\n  ";
	json_close(j, '}');
	if (!j->depth)
		json_print_line(j);
}

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
	if ((out->format == OUT_JSON || out->format == OUT_JSON_LINES) && column->key)
		json_cell(out, column->key, kind, text);
	if (out->at < out->width)
		return;
	out->at = 0;
	if (out->format == OUT_CSV)
		putchar('\n');
	comma = false;
	if (out->json.depth > (out->format == OUT_JSON))
		end_json_row(out);
}

void out_text(struct out *out, const char *text)
{
	cell(out, CELL_TEXT, text);
}

void out_text_or_none(struct out *out, const char *text)
{
	cell(out, *text ? CELL_TEXT : CELL_NONE, text);
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

void out_short(struct out *out, uint64_t ns, uint64_t unit)
{
	char text[TEXT_SIZE];

	text_decimal(out->format == OUT_TABLE ? ns * 10 / unit : ns, out->format == OUT_TABLE ? 1 : 9, text);
	out_number(out, text);
}

void out_seconds(struct out *out, uint64_t ns)
{
	char text[TEXT_SIZE];

	text_decimal(out->format == OUT_TABLE ? ns / 1000000 : ns, out->format == OUT_TABLE ? 3 : 9, text);
	out_number(out, text);
}

void out_share(struct out *out, uint64_t share)
{
	char text[TEXT_SIZE];

	if (out->format == OUT_TABLE) {
		text_permille((share + 500) / 1000, text);
		strcat(text, "%");
	} else {
		text_decimal(share, 6, text);
	}
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
	if (out->format == OUT_JSON) {
		out->json.line = "\n";
		json_close(&out->json, ']');
		json_print_line(&out->json);
	}
	buf_free(&out->text);
	for (i = 0; i < out->count; i++)
		free(out->cells[i]);
	free(out->cells);
	free(out);
}
