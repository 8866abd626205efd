/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Showing: statistics as text. Values are exact: seconds that the kernel counts
 * in nanoseconds get a decimal point before the last nine digits, nothing is
 * rounded. A statistic of a type or unit that is not known here is shown as the
 * plain numbers it has.
 */
#ifndef KVM_STATS_SHOW_H
#define KVM_STATS_SHOW_H

#include "source.h"

struct stats_text {
	const char *type;
	char unit[24];
	char value[32];
};

/* The words for one statistic; a histogram's value is how many samples. */
void stats_text(const struct stats_desc *desc, const void *data,
		struct stats_text *text);

/* One unit of the text's value is how many of the data's? As a factor. */
double stats_factor(const struct stats_desc *desc);

int wider_name(int width, const struct stats_desc *desc);

/* One line per descriptor, for programs. */
void show_table(const char *scope, const struct stats_table *table);

/* All values of a VM or vCPU, histograms with their buckets, for people. */
void show_source(const struct source *source);

#endif /* KVM_STATS_SHOW_H */
