/* SPDX-License-Identifier: GPL-2.0-only */
/* The table of all metrics: each metric is one row of metrics.c. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include <stdbool.h>

#include "structures.h"

struct model;

enum metric_type {
	METRIC_COUNTER,
	METRIC_GAUGE,
	METRIC_HISTOGRAM,
	METRIC_INFO,
};

/* Where the values of a metric come from */
enum metric_from {
	FROM_INFO,		/* identity of the VM */
	FROM_START,		/* start time of the VM */
	FROM_VCPUS,		/* number of vCPUs */
	FROM_WAITS,		/* owners of waits for a CPU, see waits.h */
	FROM_LENGTHS,		/* lengths of these waits */
	FROM_EXITS,		/* exits by reason, with --exits */
	FROM_STALLS,		/* sleeps outside of halts by reason, with --stalls */
	/* Each of the next five has families in the model. */
	FROM_MODES,		/* time of vCPUs by mode */
	FROM_STATISTIC,		/* kernel statistics of the VM, or sums over its vCPUs */
	FROM_PAGES,		/* kernel statistics that count pages */
	FROM_ROLES,		/* time of other threads by role */
	FROM_OTHER_WAITS,	/* time for which these waited for a CPU */
	FROM_PROGRAM,		/* get() */
};

#define MAX_CODES	16
struct codes {			/* responses by HTTP status */
	unsigned int code;
	uint64_t count;
};

/* What a process that serves has counted, in memory that it shares with its successors */
struct served {
	struct codes codes[MAX_CODES];
	uint64_t dropped;	/* series, counted by write_metrics() */
};

/* One series of a metric FROM_PROGRAM */
struct program_value {
	uint64_t n;
	const char *label;	/* value of the metric's only label */
	char text[24];		/* space for label */
};

struct metric {
	/* Without the suffix of its type: _total, _info, _bucket, _sum and _count */
	const char *name;
	enum metric_type type;
	const char *unit;	/* suffix of the name, or "" */
	const char *labels;
	const char *help;
	enum metric_from from;
	/*
	 * FROM_STATISTIC: names of statistics, as for statistic_indexes(); the values are
	 * added up.
	 */
	enum kvmstats_scope scope;
	const char *statistics;
	const char *sum;	/* statistic with the sum of a histogram */
	/* Name with --detail vcpu; NULL: as name, with kvm_vcpu_ instead of kvm_vm_ */
	const char *vcpu_name;
	/* Unit of the values, in 10^-digits of the metric's unit */
	unsigned int digits;
	/*
	 * Exported as 0 until the first event. Alerts use the metric: increase() of a series
	 * that starts with 1 is 0.
	 */
	bool in_rules;
	/*
	 * FROM_PROGRAM: set the series of this index; false after the last one. codes is
	 * NULL if the program does not serve.
	 */
	bool (*get)(const struct model *m, const struct codes *codes, unsigned int index,
		    struct program_value *value);
};

extern const struct metric metrics[];
extern const unsigned int nr_metrics;

/* Return the suffix of the samples, or "": those of histograms have several. */
const char *metric_suffix(const struct metric *metric);

/*
 * The modes of a vCPU's time: label "mode", named by kvmstats_mode_name(). UNKNOWN is
 * exported only if it is not 0.
 */
#define MODES	KVMSTATS_MODES

/* The sizes of pages: label "page_size" */
#define PAGE_SIZES	3
extern const struct page_size {
	const char *name;
	unsigned int shift;
	const char *statistics;
} page_sizes[PAGE_SIZES];

/*
 * Bounds of histograms. Bucket i of the kernel counts [2^(i-1), 2^i), so its inclusive
 * bound is 2^i - 1. Bound b is the end of bucket BOUND_BUCKET(b).
 */
#define BOUNDS		11
#define BOUND_BUCKET(b)	(2 * (b) + 10)
/* Label "le", in seconds, in the canonical form of both formats */
extern const char *const bound_names[BOUNDS];

/* Return the CPU time of this process or its children, as getrusage(), in microseconds. */
uint64_t read_cpu_time(int who);

#endif /* SERVE_METRICS_H */
