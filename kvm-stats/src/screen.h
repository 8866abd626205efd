/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SCREEN_H
#define SCREEN_H

#include "view.h"

/*
 * Run "top" on a terminal, until 'q' or for settings->count samples. Return false, without
 * any action, if there is no terminal or it cannot move its cursor.
 */
#ifdef HAVE_NCURSES
bool screen_run(struct view *view, struct input *in);
#else
static inline bool screen_run(struct view *view, struct input *in)
{
	return false;
}
#endif

#endif /* SCREEN_H */
