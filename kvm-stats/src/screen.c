// SPDX-License-Identifier: GPL-2.0-only
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "columns.h"
#include "screen.h"
#include "text.h"

struct screen {
	struct view *view;
	struct feed *f;
	unsigned int first;	/* line that is shown on top */
	bool paused, help, typing;
	char typed[sizeof(((struct view *)0)->filter)];
};

/* With the columns they fit into 24 lines. */
static const char * const keys[] = {
	"Up, Down, PgDn, End... choose a VM or vCPU",
	"Enter, Right           into it; into the statistics of a vCPU",
	"Esc, Left, Backspace   out again",
	"s, S, r                sort by the next column, the one before; reverse",
	"/                      show only names with this in them, or a pattern: web*",
	"p, space               pause, and go on",
	"[ ] { }                in a recording: a sample back, on; ten minutes",
	"h, ?                   this; any key leaves it; q: quit",
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
	if (has_colors() && start_color() == OK && use_default_colors() == OK) {
		init_pair(HEAT_NOTICED, COLOR_YELLOW, -1);
		init_pair(HEAT_HURTS, COLOR_RED, -1);
	}
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

/* Lines before those of the VMs */
static unsigned int head_lines(const struct view *view)
{
	return view->sums ? 4 : 3;
}

static unsigned int visible(const struct view *view)
{
	const unsigned int others = head_lines(view) + 1;

	return LINES > (int)others ? LINES - others : 1;
}

static void keep_in_sight(struct screen *s)
{
	const struct view *view = s->view;

	if (view->level != VIEW_STATISTICS) {
		if (s->first > view->selected)
			s->first = view->selected;
		if (s->first + visible(view) <= view->selected)
			s->first = view->selected - visible(view) + 1;
	}
	if (s->first + visible(view) > view->count)
		s->first = view->count > visible(view) ? view->count - visible(view) : 0;
}

static void draw_help(void)
{
	const unsigned int nr_keys = sizeof(keys) / sizeof(*keys);
	char line[256];
	unsigned int i;

	put_line(0, "kvm-stats: keys; columns, and the letters that sort by them", true);
	for (i = 0; i < nr_keys; i++)
		put_line(1 + i, keys[i], false);
	for (i = 0; i < columns_count; i++) {
		snprintf(line, sizeof(line), "%c  %-8s %s", columns[i].letter,
			 columns[i].title, columns[i].what);
		put_line(1 + nr_keys + i, line, false);
	}
}

/* When this was, by the clock of whoever looks at it */
static void recorded(const struct feed *f, char *buf, size_t size)
{
	const time_t seconds = feed_time(f) / SECOND;

	strftime(buf, size, "%Y-%m-%d %H:%M:%S ", localtime(&seconds));
}

static void draw(struct screen *s)
{
	struct view *view = s->view;
	const unsigned int head = head_lines(view);
	char line[512], filter[TEXT_SHOWN(sizeof(view->filter))];
	unsigned int i, unread;
	char time[40] = "";
	const char *why;

	erase();
	if (s->help) {
		draw_help();
		refresh();
		return;
	}
	keep_in_sight(s);
	text_shown(view->filter, filter, sizeof(filter));
	if (s->f->rec)
		recorded(s->f, time, sizeof(time));
	snprintf(line, sizeof(line), "%s%s%s%s%s", time, s->paused ? "PAUSED " : "", view->head,
		 *filter ? ", filter " : "", filter);
	put_line(0, line, false);
	put_line(1, view->second, false);
	put_line(2, view->titles, true);
	if (view->sums)
		put_line(3, view->sums, false);
	for (i = 0; i < visible(view) && s->first + i < view->count; i++) {
		const struct view_line *shown = &view->lines[s->first + i];
		const bool selected = s->first + i == view->selected &&
				      view->level != VIEW_STATISTICS;

		put_line(head + i, shown->text, selected);
		if (shown->heat && has_colors())
			mvchgat(head + i, shown->heat_at, shown->heat_width,
				A_BOLD | (selected ? A_REVERSE : 0), shown->heat, NULL);
	}
	unread = feed_unread(s->f, &why);
	if (s->typing)
		snprintf(line, sizeof(line), "filter: %s_",
			 (text_shown(s->typed, filter, sizeof(filter)), filter));
	else if (*feed_problem(s->f))
		snprintf(line, sizeof(line), "%s", feed_problem(s->f));
	else if (unread)
		snprintf(line, sizeof(line), "%u not read: %s", unread, why);
	else if (!view->count && view->level == VIEW_HOST)
		snprintf(line, sizeof(line), "no VMs%s; new ones are shown when they come",
			 *view->filter ? " of this name" : "");
	else
		snprintf(line, sizeof(line),
			 "q quit  h help  s sort  r reverse  / filter  p %s  Enter into  Esc out%s",
			 s->paused ? "go on" : "pause", s->f->rec ? "  [ ] time" : "");
	put_line(LINES - 1, line, false);
	refresh();
}

static void make(struct screen *s)
{
	enum view_level level = s->view->level;

	view_make(s->view, s->f, COLS);
	if (level != s->view->level)
		s->first = 0;
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
	/* statistics have nothing to choose: the page moves */
	const bool page = s->view->level == VIEW_STATISTICS;
	const long from = page ? s->first : s->view->selected;
	const long to = from + step > 0 ? from + step : 0;

	if (page)
		s->first = to;
	else
		view_choose(s->view, to);
}

#define TEN_MINUTES	(600 * (int64_t)SECOND)

static void go(struct screen *s, int64_t nanoseconds)
{
	const uint64_t now = feed_time(s->f);

	if (s->f->rec)
		feed_go(s->f, nanoseconds < 0 && now < (uint64_t)-nanoseconds ? 0 :
			      now + nanoseconds);
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
	case 'r':
		s->view->reverse = !s->view->reverse;
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
		choose(s, -(long)visible(s->view));
		break;
	case KEY_NPAGE:
		choose(s, visible(s->view));
		break;
	case '[':
	case ']':
		if (s->f->rec)
			feed_step(s->f, key == '[' ? -1 : 1);
		break;
	case '{':
	case '}':
		go(s, key == '{' ? -TEN_MINUTES : TEN_MINUTES);
		break;
	case KEY_HOME:
		choose(s, -(long)s->view->count);
		break;
	case KEY_END:
		choose(s, s->view->count);
		break;
	case '\n':
	case KEY_ENTER:
	case KEY_RIGHT:
		if (view_enter(s->view))
			s->first = 0;
		break;
	case 27:
	case KEY_LEFT:
	case KEY_BACKSPACE:
	case 127:
		if (view_leave(s->view))
			s->first = 0;
		break;
	default:
		if (key > 0 && key < 256 && column_by_letter(key) >= 0) {
			s->view->sort = column_by_letter(key);
			s->view->reverse = false;
		}
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
			app_stop(s->f->k);
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

bool screen_run(struct view *view, struct feed *f)
{
	const struct settings *settings = view->settings;
	struct screen s = { .view = view, .f = f, .paused = f->rec };
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
		if (!s.paused && !feed_try(f))
			s.paused = true;
	} while (!settings->count || ++round < settings->count);
	endwin();
	return true;
}
