/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is exported: the VMs by name, with totals that do not fall, as of the last
 * sample. It is apart from the library's own state, so that a sample that takes long
 * keeps nobody from reading the one before.
 */
#ifndef SERVE_MODEL_H
#define SERVE_MODEL_H

#include "kvmstats.h"
#include "metrics.h"

#define PARTS	48		/* statistics that are summed up */
#define LINGER		(150 * 1000000000ULL)	/* nanoseconds, see struct entry */

/* The last minutes, for the page */
#define HISTORY		61
#define HISTORY_STEP	(5 * 1000000000ULL)
#define HISTORY_EXITS	MODES		/* numbers of events behind the modes */
#define HISTORY_FAILED	(MODES + 1)
#define HISTORY_WIDTH	(MODES + 2)

struct serve_options {
	const char **stats;		/* patterns of statistics that are wanted, too */
	unsigned int nr_stats;
	bool vcpus;			/* each vCPU, too */
	uint64_t max_series;
	bool absolute;			/* see struct entry */
};

/* A family of series, and where its values are in those of a VM or vCPU */
struct family {
	const struct metric *metric;
	bool per_vcpu;			/* it is in the vCPUs, and has the label vcpu */
	bool grows;			/* a counter or a histogram */
	unsigned int nr_words;		/* statistics that are summed up */
	uint16_t words[PARTS];
	const struct kvmstats_desc *histogram;
	uint64_t factor;		/* of the values */
	unsigned int first, width;	/* values */
	/* Not 0 at some time: what does not happen on a host is left out. */
	bool shown;
};

/* Of a histogram: the numbers between the bounds, those beyond the last, the sum */
#define HISTOGRAM_WIDTH	(BOUNDS + 2)

struct vcpu_entry {
	uint32_t id;
	bool seen;
	uint64_t *value, *base;
};

struct entry {
	struct entry *next;		/* the oldest VM first */
	const struct kvmstats_vm *vm;	/* to find it again; NULL: ended */
	bool seen;
	/*
	 * The last values of a VM that ended stay until each scraper that is known has
	 * had them, LINGER at most: bits of the scrapers that have not.
	 */
	uint64_t ended;			/* CLOCK_MONOTONIC, 0: it has not */
	uint64_t ended_sample;
	uint32_t waiting;
	bool waits;			/* there were scrapers */
	char label[sizeof(((struct kvmstats_who *)0)->label)];
	char *labels;			/* {vm="...", escaped, without an end */
	size_t labels_len;
	struct kvmstats_who who;
	uint64_t start;			/* milliseconds since 1970, 0: not known */
	unsigned int vcpus;
	unsigned int modes;		/* 1 << MODE_... that are known */
	/*
	 * Totals since the VM began, less what they were when the program did ("base"):
	 * what vCPUs did that have gone is not known of the time before, so that a total
	 * could be less after a restart by a little, which scrapers take for a start from
	 * 0. With options.absolute: since the VM began.
	 */
	uint64_t *value, *base;
	struct vcpu_entry *vcpu;
	unsigned int nr_vcpu, vcpu_room;
	uint64_t history[HISTORY][HISTORY_WIDTH];
	uint64_t history_time[HISTORY];
	unsigned int nr_history;	/* ever; the last is (nr_history - 1) % HISTORY */
};

struct model {
	const struct serve_options *options;
	struct family *family;
	unsigned int nr_families, width;
	struct metric *made;		/* of statistics that are not in the table */
	char (*made_name)[2][128];
	unsigned int nr_made;
	bool planned[KVMSTATS_SCOPES];
	struct entry *first;
	bool began;			/* there was a first sample */

	/* of the last sample that succeeded */
	uint64_t samples, time, duration;	/* CLOCK_MONOTONIC, nanoseconds */
	const char *source;		/* "none" */
	unsigned int vms, vcpus, changes;
	unsigned int unread[KVMSTATS_REASONS];
	char why[KVMSTATS_REASONS][256];
	/* counted by those who write */
	uint64_t dropped;
	uint32_t scrapers;		/* bits of those that are known */
};

struct model *model_new(const struct serve_options *options);
void model_free(struct model *m);

/* Take over a sample that has succeeded. False: no memory, and it is not whole. */
bool model_update(struct model *m, struct kvmstats *k, uint64_t now, uint64_t duration);

/*
 * This scraper, a bit, has got all of this sample; drop what nobody waits for any
 * more.
 */
void model_scraped(struct model *m, uint32_t scraper, uint64_t sample);
void model_prune(struct model *m, uint64_t now);

/* The first pattern that matches no statistic that can be exported; NULL: none */
const char *model_unmatched(const struct serve_options *options,
			    const struct kvmstats_table *vm,
			    const struct kvmstats_table *vcpu);

#endif /* SERVE_MODEL_H */
