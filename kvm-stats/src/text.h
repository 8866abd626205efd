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

/* What is wrong with a pattern of glob(7), NULL: nothing */
const char *text_bad_glob(const char *glob);

#endif /* TEXT_H */
