/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What "top" shows, as lines of text: the VMs of the host; of one of them, its
 * vCPUs; of one of these, its statistics. Needs no terminal.
 */
#ifndef VIEW_H
#define VIEW_H

#include "app.h"

enum view_level {
	VIEW_HOST,
	VIEW_VM,
	VIEW_STATISTICS,
};

struct view_line {
	char *text;
	const struct kvmstats_vm *vm;
	int vcpu;		/* index, -1: all of the VM */
};

struct view {
	const struct settings *settings;
	enum view_level level;
	const struct kvmstats_vm *vm;	/* that one is in, and its vCPU */
	pid_t pid;
	uint64_t number;
	int vcpu;			/* id, -1: the VM, and the sum */
	unsigned int sort;		/* column */
	char filter[64];		/* part of a name, or pattern */
	/* made by view_make() */
	char *head, *sums, *titles;
	struct view_line *lines;
	unsigned int count, room;
	unsigned int vms;		/* selected, on the host */
};

/* Sorted by RUN, without filter */
void view_init(struct view *view, const struct settings *settings);
void view_free(struct view *view);

/*
 * The lines, each of at most width columns, 0: as long as they are. If the VM or
 * vCPU that one is in has gone, one is out of it again.
 */
void view_make(struct view *view, const struct kvmstats *k, unsigned int width);

/* Into what a line shows, and out of it; true if there is a way. */
bool view_enter(struct view *view, const struct view_line *line);
bool view_leave(struct view *view);

/* Sort by the next column, -1: by the one before; its title is in head. */
void view_sort(struct view *view, int step);

#endif /* VIEW_H */
