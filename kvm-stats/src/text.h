/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Statistics as text. Values are exact: seconds that the kernel counts in
 * nanoseconds get a decimal point before the last nine digits, nothing is
 * rounded, and nothing is computed in floating point. A statistic of a type or
 * unit that is not known here is shown as the plain numbers it has.
 */
#ifndef TEXT_H
#define TEXT_H

#include "kvmstats.h"

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

/* A rate of kvmstats_rate(): thousandths; one digit after the point */
void text_thousandths(uint64_t rate, char *buf);
/* The same in at most five characters: 12.3, 4567, 89.0k, 1.2M */
void text_short(uint64_t rate, char *buf);
/* tenths of a per cent */
void text_permille(unsigned int permille, char *buf);

/*
 * Names are chosen by others and may have anything in them. Bytes of the UTF-8
 * character at the start of text and its number; 0: it is none, or the end.
 */
size_t text_character(const char *text, uint32_t *code);

/* The other way round: up to 4 bytes, without a 0 at the end */
size_t text_put(uint32_t code, char *to);

/*
 * A name as a terminal may show it: \x1b, \u202e... instead of what moves the
 * cursor, turns around or hides what follows, or cannot be seen; of what
 * looks like a blank, too, unless it is a single one inside. To text_line(), for
 * programs, it does not matter what the terminal can show.
 */
#define TEXT_SHOWN(size)	(4 * (size))	/* room for any name of this size */
void text_shown(const char *name, char *to, size_t size);
void text_line(const char *name, char *to, size_t size);

/* Must this character not be written as it is, whoever reads it? */
bool text_hidden(uint32_t code);

/* Columns of what text_shown() wrote, and how many bytes of it fit into some. */
unsigned int text_width(const char *shown);
size_t text_fit(const char *shown, unsigned int width);

/* What is wrong with a pattern of glob(7), NULL: nothing */
const char *text_bad_glob(const char *glob);

#endif /* TEXT_H */
