/* SPDX-License-Identifier: GPL-2.0-only */
/* Rows of values, as a table for people, as CSV or as JSON. */
#ifndef OUT_H
#define OUT_H

#include <stdbool.h>
#include <stdint.h>

enum out_format {
	OUT_TABLE,
	OUT_CSV,	/* RFC 4180, with a line of keys */
	OUT_CSV_MORE,	/* without it: of something that has it already */
	OUT_JSON,	/* an array of objects */
	OUT_JSON_LINES,	/* an object per line */
	OUT_SELECTORS,	/* list: a selector per line */
	OUT_TEXT,	/* export: Prometheus' text format */
	OUT_OPENMETRICS,	/* export */
};

struct out_column {
	const char *title;	/* title in the table, NULL if not shown there */
	const char *key;	/* key in CSV and JSON, NULL if not shown there */
	bool right;		/* aligned, in the table */
};

struct out;

/* The columns must stay there until out_close(). Ends the program without memory. */
struct out *out_open(enum out_format format, const struct out_column *columns);

/* The next value of a row; each row has one for each column. */
void out_text(struct out *out, const char *text);
/* As out_text(), or out_none() for "" */
void out_text_or_none(struct out *out, const char *text);
void out_number(struct out *out, const char *digits);
void out_u64(struct out *out, unsigned long long n);
/* Nanoseconds as seconds, with milliseconds in a table and all digits elsewhere */
void out_seconds(struct out *out, uint64_t ns);
/* Nanoseconds as seconds; in a table as so many nanoseconds each, with one digit more */
void out_short(struct out *out, uint64_t ns, uint64_t unit);
/* Millionths; a per cent in a table */
void out_share(struct out *out, uint64_t share);
void out_none(struct out *out);
/* JSON has true and false, the others yes and no. */
void out_bool(struct out *out, bool value);

/* The line of keys of CSV once more, as for a new file */
void out_keys(const struct out *out);

/* Write what a table or an array keeps until its end. */
void out_close(struct out *out);

#endif /* OUT_H */
