// SPDX-License-Identifier: GPL-2.0-only
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "screen.h"
#include "text.h"

#define HEAD_LINES	3	/* head, sums, titles */

struct screen {
	struct view *view;
	struct kvmstats *k;
	unsigned int selected, first;	/* line; and the one that is shown on top */
	bool paused, help, typing;
	char typed[sizeof(((struct view *)0)->filter)];
};

static const char * const help[] = {
	"Up, Down, PgUp, PgDn   choose a line",
	"Enter, Right           into the VM; into the statistics of a vCPU",
	"Esc, Left, Backspace   out again",
	"s, S                   sort by the next column, the one before",
	"/                      show only names with this in them, or a pattern: web*",
	"p, space               stop, and go on",
	"h, ?                   this; any key leaves it",
	"q                      quit",
	"",
	"RUN%    the vCPUs ran on a CPU (100 % for each)",
	"READY%  they could have run, but waited for a CPU: the guest's steal time",
	"HALT%   they slept, because the guest had nothing to do",
	"POLL%   the host polled for the end of such a halt",
	"What is missing to 100 % for each vCPU: it was in the VMM.",
	"EXITS/S exits from the guest; IO/S those for I/O; IRQ/S interrupts injected;",
	"TLB/S   TLBs flushed",
	NULL
};

static bool start(void)
{
	const char *cup;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return false;
	setlocale(LC_CTYPE, "");
	if (!newterm(NULL, stdout, stdin))
		return false;
	/* The bare minimum: moving the cursor. "dumb" cannot. */
	cup = tigetstr("cup");
	if (!cup || cup == (char *)-1) {
		endwin();
		return false;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	set_escdelay(50);
	return true;
}

static void put_line(int row, const char *text, bool reverse)
{
	if (row >= LINES)
		return;
	if (reverse)
		attron(A_REVERSE);
	move(row, 0);
	addnstr(text, text_fit(text, COLS));
	if (reverse) {
		for (int at = getcurx(stdscr); at < COLS && getcury(stdscr) == row; at++)
			mvaddch(row, at, ' ');
		attroff(A_REVERSE);
	}
}

static unsigned int visible(void)
{
	return LINES > HEAD_LINES + 1 ? LINES - HEAD_LINES - 1 : 1;
}

static void keep_in_sight(struct screen *s)
{
	unsigned int count = s->view->count;

	if (s->selected >= count)
		s->selected = count ? count - 1 : 0;
	if (s->first > s->selected)
		s->first = s->selected;
	if (s->selected >= s->first + visible())
		s->first = s->selected - visible() + 1;
	if (s->first + visible() > count)
		s->first = count > visible() ? count - visible() : 0;
}

static void draw_help(void)
{
	unsigned int i;

	put_line(0, "kvm-stats: keys and columns", true);
	for (i = 0; help[i]; i++)
		put_line(2 + i, help[i], false);
}

static void draw(struct screen *s)
{
	struct view *view = s->view;
	char line[512];
	unsigned int i, unread;
	const char *why;

	erase();
	if (s->help) {
		draw_help();
		refresh();
		return;
	}
	keep_in_sight(s);
	snprintf(line, sizeof(line), "%s%s%s%s", s->paused ? "PAUSED " : "", view->head,
		 *view->filter ? ", filter " : "", view->filter);
	put_line(0, line, false);
	put_line(1, view->sums, false);
	put_line(2, view->titles, true);
	for (i = 0; i < visible() && s->first + i < view->count; i++) {
		bool selected = s->first + i == s->selected &&
				view->level != VIEW_STATISTICS;

		put_line(HEAD_LINES + i, view->lines[s->first + i].text, selected);
	}
	unread = kvmstats_unread(s->k, &why);
	if (s->typing)
		snprintf(line, sizeof(line), "filter: %s_", s->typed);
	else if (*kvmstats_problem(s->k))
		snprintf(line, sizeof(line), "%s", kvmstats_problem(s->k));
	else if (unread)
		snprintf(line, sizeof(line), "%u not read: %s", unread, why);
	else if (!view->count && view->level == VIEW_HOST)
		snprintf(line, sizeof(line), "no VM%s; new ones are shown when they come",
			 *view->filter ? " of this name" : "");
	else
		snprintf(line, sizeof(line),
			 "q quit  h help  s sort  / filter  p pause  Enter into  Esc out");
	put_line(LINES - 1, line, false);
	refresh();
}

static void make(struct screen *s)
{
	enum view_level level = s->view->level;

	view_make(s->view, s->k, COLS);
	if (level != s->view->level)
		s->selected = s->first = 0;
}

/* true: it is over */
static bool type_key(struct screen *s, int key)
{
	size_t len = strlen(s->typed);

	if (key == '\n' || key == KEY_ENTER) {
		strcpy(s->view->filter, s->typed);
		s->typing = false;
	} else if (key == 27) {
		s->typing = false;
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		/* a character of several bytes as a whole */
		while (len && (s->typed[--len] & 0xc0) == 0x80)
			;
		s->typed[len] = '\0';
	} else if (key >= ' ' && key < 256 && key != 127 && len + 1 < sizeof(s->typed)) {
		s->typed[len] = key;
		s->typed[len + 1] = '\0';
	}
	return false;
}

static void choose(struct screen *s, long step)
{
	long to = (long)s->selected + step;

	/* statistics have nothing to choose: the page moves */
	if (s->view->level == VIEW_STATISTICS)
		to = (long)s->first + step + (step > 0 ? (long)visible() - 1 : 0);
	s->selected = to < 0 ? 0 : to;
	if (s->view->level == VIEW_STATISTICS && step < 0)
		s->first = s->selected;
}

static void enter(struct screen *s)
{
	if (s->selected < s->view->count &&
	    view_enter(s->view, &s->view->lines[s->selected]))
		s->selected = s->first = 0;
}

static bool press(struct screen *s, int key)
{
	if (s->typing)
		return type_key(s, key);
	if (s->help && key != KEY_RESIZE) {
		s->help = false;
		return key == 'q';
	}
	switch (key) {
	case 'q':
		return true;
	case 'h':
	case '?':
		s->help = true;
		break;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case 's':
	case 'S':
		view_sort(s->view, key == 's' ? 1 : -1);
		break;
	case '/':
		s->typing = true;
		strcpy(s->typed, s->view->filter);
		break;
	case KEY_UP:
	case 'k':
		choose(s, -1);
		break;
	case KEY_DOWN:
	case 'j':
		choose(s, 1);
		break;
	case KEY_PPAGE:
		choose(s, -(long)visible());
		break;
	case KEY_NPAGE:
		choose(s, visible());
		break;
	case '\n':
	case KEY_ENTER:
	case KEY_RIGHT:
		enter(s);
		break;
	case 27:
	case KEY_LEFT:
	case KEY_BACKSPACE:
	case 127:
		if (view_leave(s->view))
			s->selected = s->first = 0;
		break;
	}
	return false;
}

/* Keys until it is time for the next sample. true: quit */
static bool wait_keys(struct screen *s, uint64_t until)
{
	uint64_t now;
	int key;

	while ((now = app_now()) < until) {
		/* a second at most: a signal may come just before */
		timeout(until - now < SECOND ? (until - now) / 1000000 + 1 : 1000);
		key = getch();
		if (app_stop_asked()) {
			endwin();
			app_stop(s->k);
			draw(s);
		}
		if (key == ERR) {
			/* no more keys will come from a terminal that has gone */
			if (!isatty(STDIN_FILENO))
				return true;
			continue;
		}
		if (press(s, key))
			return true;
		make(s);
		draw(s);
	}
	return false;
}

bool screen_run(struct view *view, struct kvmstats *k)
{
	const struct settings *settings = view->settings;
	struct screen s = { .view = view, .k = k };
	unsigned long round = 0;
	uint64_t until;

	if (!start())
		return false;
	until = app_now();
	do {
		make(&s);
		draw(&s);
		until += settings->interval;
		if (until < app_now())
			until = app_now() + settings->interval;
		if (wait_keys(&s, until))
			break;
		/* an error stays on the screen, it may pass */
		if (!s.paused)
			kvmstats_sample(k);
	} while (!settings->count || ++round < settings->count);
	endwin();
	return true;
}
