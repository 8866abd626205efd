/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The screen of "top": a terminal that lines can be put on. Without ncurses
 * there is never one.
 */
#ifndef KVM_STATS_SCREEN_H
#define KVM_STATS_SCREEN_H

#include <stdbool.h>

#ifdef HAVE_NCURSES
/* false: standard output is no terminal, or one that cannot do it */
bool screen_open(void);
void screen_close(void);

/* A full screen has no place for more lines. */
void screen_clear(void);
void screen_line(const char *line);
void screen_show(void);

/* Has 'q' been pressed? */
bool screen_quit(void);
#else
static inline bool screen_open(void) { return false; }
static inline void screen_close(void) { }
static inline void screen_clear(void) { }
static inline void screen_line(const char *line) { }
static inline void screen_show(void) { }
static inline bool screen_quit(void) { return false; }
#endif

#endif /* KVM_STATS_SCREEN_H */
