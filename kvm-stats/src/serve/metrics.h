/* SPDX-License-Identifier: GPL-2.0-only */
/* The metrics that are exported: the one table of their names. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "kvmstats.h"

enum metric_type {
	METRIC_COUNTER,
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
	METRIC_INFO,
};

/* Where a metric's values are from */
enum metric_from {
	FROM_INFO,		/* whose VM it is */
	FROM_START,		/* when it began */
	FROM_VCPUS,		/* the number of them */
	FROM_MODES,		/* how the vCPUs spent their time */
	FROM_STATISTIC,		/* the kernel's, of the VM or summed up over its vCPUs */
	FROM_PAGES,		/* the kernel's numbers of pages */
	FROM_SELF,		/* the program's own */
};

struct metric {
	/* Without what its type adds: _total, _info, _bucket, _sum and _count */
	const char *name;
	enum metric_type type;
	const char *unit;	/* "": none; else the name ends in it */
	const char *labels;
	const char *help;
	enum metric_from from;
	/*
	 * FROM_STATISTIC: names of statistics, as for statistic_words(); the values are
	 * summed up.
	 */
	enum kvmstats_scope scope;
	const char *statistics;
	const char *sum;	/* of a histogram: the statistic with the sum */
	/* What one unit of the statistic is, in 10^-digits of the metric's unit */
	unsigned int digits;
};

extern const struct metric metrics[];
extern const unsigned int nr_metrics;

/* Number of a metric of the program itself in metrics[] */
const struct metric *metric_find(const char *name);

/*
 * The modes of a vCPU's time, label "mode", and kvmstats_mode_name(). UNKNOWN is shown
 * only where there is any.
 */
#define MODES	KVMSTATS_MODES

/* The sizes of pages, label "page_size" */
#define PAGE_SIZES	3
extern const struct page_size {
	const char *name;
	unsigned int shift;
	const char *statistics;
} page_sizes[PAGE_SIZES];

/*
 * Bounds of histograms: bucket i of the kernel counts [2^(i-1), 2^i), so up to 2^i - 1
 * is an exact one. Bound number b is the end of bucket BOUND_BUCKET(b).
 */
#define BOUNDS		11
#define BOUND_BUCKET(b)	(2 * (b) + 10)
/* as label "le", in seconds, in the form that is the canonical one in both formats */
extern const char *const bound_names[BOUNDS];

#endif /* SERVE_METRICS_H */
