/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a VM or vCPU did between two samples, in columns: those of "top", its sums,
 * sorting and help, and those of "log". A new one is one row of columns.c; of what happens
 * in VMs, one of lib/internal/events.h.
 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "app.h"
#include "input.h"
#include "problem.h"
#include "proc_vm.h"
#include "thresholds.h"

/* What a line is about: a host, a VM or one of its vCPUs */
struct item {
	const struct kvmstats_vm *vm;		/* NULL for the sum over the host */
	const struct kvmstats_vcpu *vcpu;	/* NULL for the sum over the VM */
	const struct kvmstats_activity *activity;
	uint64_t elapsed;
	uint64_t vcpu_elapsed;	/* average interval of its vCPUs */
	unsigned int vcpus;
	struct judgement judgement;	/* filled in by judge_item() */
	/* Filled in by locate_item(). A VM has a state only: the one that all its vCPUs share, or F if frozen. */
	struct vcpu_place place;
};

struct item item_vm(const struct kvmstats_vm *vm);
struct item item_vcpu(const struct kvmstats_vm *vm, const struct kvmstats_vcpu *vcpu);

/* Judge what a VM did since the previous sample. */
void judge_item(const struct kvmstats *k, struct item *item);

/* Read where a vCPU runs; of a VM that is stuck, why, as far as /proc says so. */
void locate_item(const struct input *in, struct item *item);

/*
 * The largest part of its time, in tenths of a per cent, that a vCPU of the item spent in a mode,
 * such as waiting for a CPU: what a guest notices, whatever its other vCPUs do.
 */
unsigned int item_most(const struct item *item, enum kvmstats_mode mode);

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,
	COLUMN_PERCENT,		/* of vcpu_elapsed, in one mode; the value is in nanoseconds */
	COLUMN_EVENT,		/* per second; the value is a number of events */
	COLUMN_OTHERS,		/* of elapsed, other threads of the VMM ran (index 0) or waited (1); nanoseconds */
	COLUMN_PROBLEM,		/* judgement */
	COLUMN_TIME,		/* milliseconds; the value is in nanoseconds */
};

struct column {
	const char *title;
	char letter;		/* that sorts by it */
	unsigned char width;	/* the first column's: at least */
	unsigned char drop;	/* a narrow terminal drops the highest first; 0 stays */
	enum { OF_ALL, OF_VMS, OF_VCPUS } of;	/* lists that have it; of vCPUs, if it has any value */
	enum column_kind kind;
	unsigned int index;	/* enum kvmstats_mode or enum kvmstats_event */
	/* of COLUMN_NUMBER and COLUMN_TIME. Return false if the value is not known. */
	bool (*get)(const struct item *item, uint64_t *value);
	/* of COLUMN_TEXT; may have anything in it */
	const char *(*text)(const struct item *item, char buf[LABEL_SIZE]);
	const char *key;	/* key in "log", NULL if not shown there */
	const char *what;
};

extern const struct column columns[];
extern const unsigned int columns_count;

/* The column of this letter; of this title, in any case and without %, /S or -ms; or -1 */
int column_by_letter(char letter);
int column_by_title(const char *title);

/* false: it is not known, or has none */
bool column_get(const struct column *column, const struct item *item, uint64_t *value);

/* Return the time of which the value of a column is a part. */
uint64_t column_elapsed(const struct column *column, const struct item *item);

/* The value as text for people, "-" if it is not known; may be shown */
#define COLUMN_SIZE	(TEXT_SHOWN(LABEL_SIZE) + 16)
void column_cell(const struct column *column, const struct item *item,
		 char buf[COLUMN_SIZE]);

/* Sort: the largest first, the worst problem first, names from A on. */
int column_compare(const struct column *column, const struct item *a,
		   const struct item *b);

#endif /* COLUMNS_H */
