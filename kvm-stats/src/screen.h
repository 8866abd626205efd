/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCREEN_H
#define SCREEN_H

#include "view.h"

/*
 * "top" on a terminal, until 'q' or settings->count samples. False: there is no
 * terminal, or one that cannot move its cursor; nothing was done.
 */
#ifdef HAVE_NCURSES
bool screen_run(struct view *view, struct feed *f);
#else
static inline bool screen_run(struct view *view, struct feed *f)
{
	return false;
}
#endif

#endif /* SCREEN_H */
