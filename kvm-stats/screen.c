// SPDX-License-Identifier: GPL-2.0-only
#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

#include "screen.h"

static int row;

bool screen_open(void)
{
	const char *cup;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return false;
	if (!newterm(NULL, stdout, stdin))
		return false;
	/* The bare minimum: moving the cursor. "dumb" cannot. */
	cup = tigetstr("cup");
	if (!cup || cup == (char *)-1) {
		screen_close();
		return false;
	}
	cbreak();
	noecho();
	curs_set(0);
	nodelay(stdscr, TRUE);
	return true;
}

void screen_close(void)
{
	endwin();
}

void screen_clear(void)
{
	erase();
	row = 0;
}

void screen_line(const char *line)
{
	if (row < LINES)
		mvaddnstr(row++, 0, line, COLS);
}

void screen_show(void)
{
	refresh();
}

bool screen_quit(void)
{
	int key;

	while ((key = getch()) != ERR) {
		if (key == 'q')
			return true;
	}
	return false;
}
