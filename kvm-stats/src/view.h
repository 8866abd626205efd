/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What "top" shows, as lines of text: the VMs of the host; of one of them, its
 * vCPUs; of one of these, its statistics. Needs no terminal.
 */
#ifndef VIEW_H
#define VIEW_H

#include "feed.h"

enum view_level {
	VIEW_HOST,
	VIEW_VM,
	VIEW_STATISTICS,
	VIEW_LEVELS,
};

/* A VM, or a vCPU of it, whatever line it is on */
struct view_key {
	const struct kvmstats_vm *vm;	/* NULL: none */
	pid_t pid;
	uint64_t number;
	unsigned int nth;
	int vcpu;			/* id, -1: the VM, and the sum */
};

struct view_line {
	char *text;
	struct view_key key;
	/* a vCPU waits for a CPU; READY% is in these columns of the text */
	enum { HEAT_NONE, HEAT_NOTICED, HEAT_HURTS } heat;
	unsigned int heat_at, heat_width;
};

struct view {
	const struct settings *settings;
	enum view_level level;
	struct view_key in;		/* what one is in */
	struct view_key chosen[VIEW_LEVELS];
	unsigned int selected;		/* the line of what is chosen */
	unsigned int sort;		/* column */
	bool reverse;
	char filter[64];		/* part of a name, or pattern */
	/* made by view_make() */
	char *head, *second, *titles;
	char *sums;			/* in the columns of titles; NULL: there are none */
	struct view_line *lines;
	unsigned int count, room;
	unsigned int vms;		/* selected, on the host */
};

/* Sorted as the settings say, without filter */
void view_init(struct view *view, const struct settings *settings);
void view_free(struct view *view);

/*
 * The lines, each of at most width columns, 0: as long as they are. If the VM or
 * vCPU that one is in has gone, one is out of it again.
 */
void view_make(struct view *view, const struct feed *f, unsigned int width);

/* Choose a line: what is on it stays chosen wherever it goes. */
void view_choose(struct view *view, unsigned int line);

/* Into what is chosen, and out of it; true if there is a way. */
bool view_enter(struct view *view);
bool view_leave(struct view *view);

/* Sort by the next column, -1: by the one before; its title is in head. */
void view_sort(struct view *view, int step);

#endif /* VIEW_H */
