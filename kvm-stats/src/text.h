/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics as text. Values are exact: seconds that the kernel counts in
 * nanoseconds get a decimal point before the last nine digits, nothing is
 * rounded, and nothing is computed in floating point. A statistic of a type or
 * unit that is not known here is shown as the plain numbers it has.
 */
#ifndef TEXT_H
#define TEXT_H

#include "structures.h"

#define TEXT_SIZE	32	/* enough for each text here */

/* "cumulative", "seconds", "pow10", or a number */
const char *text_type(unsigned int type);
const char *text_unit(unsigned int unit);
const char *text_base(unsigned int base);

bool text_is_histogram(const struct kvmstats_desc *desc);

/* The unit of what text_value() writes: "s", "B", "2^12 B", or "-" for none */
void text_value_unit(const struct kvmstats_desc *desc, char *buf);
void text_value(const struct kvmstats_desc *desc, uint64_t value, char *buf);
/* value over elapsed nanoseconds, per second, in the same unit */
void text_rate(const struct kvmstats_desc *desc, uint64_t growth, uint64_t elapsed,
	       char *buf);

/* The lowest number that is counted in bucket i of a histogram, as text_value() */
void text_bucket(const struct kvmstats_desc *desc, unsigned int i, char *buf);

/* value with a decimal point before its last digits */
void text_decimal(uint64_t value, int digits, char *buf);

/* A rate of kvmstats_rate(): thousandths; one digit after the point */
void text_thousandths(uint64_t rate, char *buf);
/* Format with at most five characters: 12.3, 4567, 89.0k, 1.2M */
void text_short(uint64_t rate, char *buf);
/* part of all in millionths; 0 if all is 0 */
uint64_t text_share(uint64_t part, uint64_t all);
/* tenths of a per cent */
void text_permille(unsigned int permille, char *buf);

/*
 * Users choose VM names, which can contain anything. Return the size of the first UTF-8
 * character of text and store its code point; 0 if it is invalid, or at the end.
 */
size_t text_character(const char *text, uint32_t *code);

/* The other way round: up to 4 bytes, without a 0 at the end */
size_t text_put(uint32_t code, char *to);

/*
 * Format a name for a terminal: \x1b, \u202e... replace characters that move the cursor,
 * change the direction, hide text or are invisible, and blanks other than single ones within
 * the name. text_line() is for programs and ignores the capabilities of the terminal.
 */
#define TEXT_SHOWN(size)	(4 * (size))	/* room for any name of this size */
void text_shown(const char *name, char *to, size_t size);
void text_line(const char *name, char *to, size_t size);

/* Return true if this character must always be escaped. */
bool text_hidden(uint32_t code);

/* Columns of what text_shown() wrote, and how many bytes of it fit into some. */
unsigned int text_width(const char *shown);
size_t text_fit(const char *shown, unsigned int width);
/* The same, if mark follows these bytes: "", or the mark of a text that was cut off */
size_t text_fit_marked(const char *shown, unsigned int width, const char **mark);

/* Return what is wrong with a pattern of glob(7), NULL if it is valid. */
const char *text_bad_glob(const char *glob);

#endif /* TEXT_H */
