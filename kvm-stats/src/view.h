/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What "top" shows, as lines of text: the VMs of the host; of one of them, its
 * vCPUs; of one of these, its statistics. Needs no terminal.
 */
#ifndef VIEW_H
#define VIEW_H

#include "input.h"

enum view_level {
	VIEW_HOST,
	VIEW_VM,
	VIEW_STATISTICS,
	VIEW_LEVELS,
};

/* A VM, or a vCPU of it, whatever line it is on */
struct view_key {
	const struct kvmstats_vm *vm;	/* NULL if none; a seek in a recording moves VMs */
	pid_t pid;
	uint64_t id;			/* key of the VM */
	int vcpu;			/* vCPU id, -1 for the VM, or the sum */
};

struct view_line {
	char *text;
	struct view_key key;
	/* A vCPU waits for a CPU, or is throttled: READY% and THROT% are in these columns of the text. */
	struct view_mark {
		enum { HEAT_NONE, HEAT_NOTICED, HEAT_CRITICAL } heat;
		unsigned int at, width;
	} mark[2];
};

struct view {
	const struct settings *settings;
	enum view_level level;
	struct view_key in;		/* the VM or vCPU that is open */
	struct view_key chosen[VIEW_LEVELS];
	unsigned int selected;		/* index of the line with the cursor, or 0 */
	unsigned int sort;		/* column */
	bool reverse;
	uint32_t hidden;		/* mask of columns */
	char filter[64];		/* part of a name, or pattern */
	/* made by view_make() */
	char *head, *second, *titles;
	char *sums;			/* sums below the titles, NULL if there are none */
	struct view_line *lines;
	unsigned int count, room;
	unsigned int vms;		/* that are shown */
};

/* Return true if the arguments and the filter select the VM. */
bool view_has_vm(const struct view *view, const struct kvmstats_vm *vm);

/* Sorted as the settings say, without filter */
void view_init(struct view *view, const struct settings *settings);
void view_free(struct view *view);

/* Open the VM that the settings select, if it is one VM only. */
void view_open_selected(struct view *view, const struct input *in);

/*
 * Build the lines, each at most width columns wide, or unlimited if width is 0. Closes the
 * open VM or vCPU if it was removed.
 */
void view_make(struct view *view, const struct input *in, unsigned int width);

/* Choose a line: its VM or vCPU stays chosen when the order changes. */
void view_choose(struct view *view, unsigned int line);

/* Return true if a line was chosen. */
bool view_has_cursor(const struct view *view);

/* Open the chosen line, or the first one, or go back; return false if that is not possible. */
bool view_enter(struct view *view);
bool view_leave(struct view *view);

/* Sort by the next column, -1: by the one before; its title is in head. */
void view_sort(struct view *view, int step);

#endif /* VIEW_H */
