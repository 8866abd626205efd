/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The exported values: VMs by name, with totals that never decrease, as of the last
 * sample. The model is separate from the library's state, so a slow sample does not
 * delay readers of the sample before.
 */
#ifndef SERVE_MODEL_H
#define SERVE_MODEL_H

#include "host.h"
#include "hour.h"
#include "metrics.h"
#include "stalls_sum.h"
#include "structures.h"
#include "waits.h"

#define MAX_SUMMED_STATS	48	/* statistics that are added up for one metric */
#define ENDED_VM_TTL_NS		(150 * 1000000000ULL)	/* see struct vm_series */

/*
 * Values for the page: of the VM in the last five minutes and in the last hour, 6 KB for each VM,
 * and of each vCPU since one of the last two marks, 240 bytes.
 */
#define HISTORY		61
#define HISTORY_STEP	(5 * 1000000000ULL)
#define HISTORY_EXITS	MODES		/* event counts follow the modes */
#define HISTORY_FAILED	(MODES + 1)
#define HISTORY_CPUS	(MODES + 2)	/* time of all online CPUs of the host: nanoseconds */
#define HISTORY_WIDTH	(MODES + 3)
#define MARK_INTERVAL	(30 * 1000000000ULL)

struct exits_sum;
struct exits_vm;

struct serve_options {
	const char **stats;		/* patterns of additional statistics */
	unsigned int nr_stats;
	bool vcpus;			/* export each vCPU */
	uint64_t max_series;
	bool absolute;			/* see struct vm_series */
	struct program_options programs;
};

/* A family of series, and the columns of its values in those of a VM or vCPU */
struct family {
	const struct metric *metric;
	bool per_vcpu;			/* one series per vCPU, with the label vcpu */
	bool grows;			/* counter or histogram */
	unsigned int nr_stats_summed;
	uint16_t words[MAX_SUMMED_STATS];	/* indices of u64 values */
	const struct kvmstats_desc *histogram;
	uint64_t factor;		/* by which values are multiplied */
	unsigned int first, width;	/* columns */
	/* Some value was not 0: until then, the family is omitted to save series. */
	bool shown;
};

/* Columns of a histogram: counts between the bounds, count beyond the last one, sum */
#define HISTOGRAM_WIDTH	(BOUNDS + 2)

/* Totals of a vCPU since it was first seen */
struct vcpu_totals {
	uint64_t mode[MODES], exits;
};

struct vcpu_series {
	uint32_t id;
	pid_t tid;			/* 0 if unknown */
	bool seen;
	struct vcpu_totals now, mark[2];	/* the older mark first: 30 to 60 s ago */
	uint64_t *value, *base;		/* with options.vcpus */
};

struct vm_series {
	struct vm_series *next;		/* the oldest VM first */
	const struct kvmstats_vm *vm;	/* identifies the VM; NULL after its end */
	bool seen;
	/*
	 * The last values of a destroyed VM stay until each known scraper has received
	 * them, at most ENDED_VM_TTL_NS. One bit per scraper.
	 */
	uint64_t ended;			/* CLOCK_MONOTONIC, 0 while the VM exists */
	uint64_t ended_sample;
	uint32_t pending_scrapers;
	bool had_scrapers;		/* when the VM was destroyed */
	char label[sizeof(((struct kvmstats_identity *)0)->label)];
	char *labels;			/* {vm="...", escaped, without the closing brace */
	size_t labels_len;
	struct kvmstats_identity identity;
	uint64_t start;			/* milliseconds since 1970, 0 if unknown */
	unsigned int vcpus;
	unsigned int modes;		/* 1 << KVMSTATS_..., those that are known */
	/*
	 * Exported values are totals since the VM was created, minus their value when the
	 * program started ("base"). Usage of vCPUs that were removed earlier is unknown,
	 * so totals could otherwise decrease slightly when the program restarts, which
	 * scrapers treat as a counter reset. With options.absolute, base is 0.
	 */
	uint64_t *value, *base;
	struct vcpu_series *vcpu;
	unsigned int nr_vcpu, vcpu_room;
	struct waits *waits;		/* NULL if they are not measured */
	const struct exits_vm *exits;	/* NULL if they are not measured; set by model_set_exits() */
	uint64_t stall[STALLS];	/* by reason; set by model_add_stalls() */
	uint64_t stall_mark[2][STALLS];	/* as the marks of vCPUs */
	char state, found_state;	/* find_stuck_state() while it is stuck; 0. The latter is not locked. */
	uint64_t state_time;		/* when it was found */
	uint64_t history[HISTORY][HISTORY_WIDTH];
	uint64_t history_time[HISTORY];	/* when the values were read, which is before the sample ends */
	unsigned int nr_history;	/* steps so far; the last is (nr_history - 1) % HISTORY */
	struct hour hour;
};

/* Usage of all VMs of the host since the program started */
struct usage {
	uint64_t mode[MODES], exits;
};

struct model {
	const struct serve_options *options;
	struct family *family;
	unsigned int nr_families, width;
	const struct family *modes, *exits, *failures;	/* families, or NULL */
	struct metric *generated;	/* for statistics without a row in metrics[] */
	char (*generated_name)[2][128];
	unsigned int nr_generated;
	bool has_table[KVMSTATS_SCOPES];
	struct vm_series *first;
	bool began;			/* the first sample was taken */
	bool restart;			/* counters of the host restart with those of the VMs */
	struct blame_sum *blame;	/* as of the same sample; NULL: not measured */
	bool stalls;			/* they are measured */
	const struct observation *observed;	/* for the causes of lost time; NULL before a sample */
	int proc;			/* /proc of the VMs, or -1 */
	struct host host;		/* when the last sample was taken */
	uint64_t cpu_time, cpu_until;	/* time of all online CPUs, and until when: nanoseconds */
	uint64_t mark[2];		/* when the totals of vCPUs were marked, the older first */
	bool marks;			/* the last sample is a mark */

	/* from the last successful sample */
	uint64_t samples, time, duration;	/* CLOCK_MONOTONIC, nanoseconds */
	uint64_t timestamp;		/* nanoseconds since 1970 */
	uint64_t cpu;			/* microseconds that other processes of serve have used */
	const char *source;		/* "none" */
	unsigned int vms, vcpus, changes;
	unsigned int unread[KVMSTATS_REASONS];
	char why[KVMSTATS_REASONS][256];

	uint64_t program_started;	/* nanoseconds since 1970 */
	/* since the program started */
	uint64_t vms_started, vms_ended;
	uint64_t unobserved;
	bool has_unobserved;
	struct usage usage;		/* by all VMs, including destroyed ones */
	struct usage usage_ended;	/* by VMs without a series */
	unsigned int modes_known;
	struct served *served;
	uint32_t scrapers;		/* bits of known scrapers */
};

/* Return true if a VM has series, also after its end. */
bool model_has(const struct model *m, const char *label);

/*
 * Export these exits, at most options.programs.exits reasons of each VM; the sums must stay until the next
 * call. elapsed: since the call before
 */
void model_set_exits(struct model *m, struct exits_sum *exits, uint64_t elapsed);

/* Add the stalls since the last call to the VMs. */
void model_add_stalls(struct model *m, const struct sums *sums);

struct model *model_new(const struct serve_options *options);
void model_free(struct model *m);

/* Find why VMs are stuck, for the next update. It reads /proc, which may hang: no lock may be held. */
void model_find_states(struct model *m, const struct kvmstats *k, uint64_t now);

/* Copy a successful sample. Return false if memory ran out and the copy is incomplete. */
bool model_update(struct model *m, struct kvmstats *k, uint64_t now, uint64_t duration);

/* Record that a scraper, given as a bit, has received all of a sample. */
void model_scraped(struct model *m, uint32_t scraper, uint64_t sample);
/* The values that a scraper has not received are now for another one. */
void model_replace_scraper(struct model *m, uint32_t scraper, uint32_t other);
/* Remove destroyed VMs whose last values no scraper waits for. */
void model_prune(struct model *m, uint64_t now);

/* Return the first pattern that matches no statistic that can be exported, or NULL. */
const char *model_unmatched(const struct serve_options *options,
			    const struct kvmstats_table *vm,
			    const struct kvmstats_table *vcpu);

#endif /* SERVE_MODEL_H */
