// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "input.h"
#include "screen.h"
#include "text.h"
#include "view.h"

/* Without a terminal that moves its cursor: one table below the other. */
static void print(const struct view *view, unsigned int width)
{
	const char *mark;
	unsigned int i;
	size_t fits;

	printf("%s\n%s\n%s\n%s%s", view->head, view->second, view->titles, view->sums ?: "", view->sums ? "\n" : "");
	for (i = 0; i < view->count; i++) {
		fits = text_fit_marked(view->lines[i].text, width ?: -1U, &mark);
		printf("%.*s%s\n", (int)fits, view->lines[i].text, mark);
	}
	putchar('\n');
	app_flush();
}

/* Return the width of the terminal, or 0 for another output. */
static unsigned int output_width(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

int command_top(const struct settings *settings)
{
	unsigned long round = 0, count = settings->count;
	unsigned int shown = 0;
	struct input in;
	struct view view;
	uint64_t next;
	int status;

	input_open(&in, settings, isatty(STDOUT_FILENO) ? INPUT_FIRST : INPUT_LAST, false,
		  settings->nr_args);
	view_init(&view, settings);
	if (settings->opens) {
		if (!app_selects_any(settings->args, settings->nr_args, kvmstats_first(in.k)))
			errx(STATUS_USAGE, "no command and no VM has the name '%s'; see kvm-stats --help",
			     settings->args[0]);
		view_open_selected(&view, &in);
	}
	if (screen_run(&view, &in)) {
		view_free(&view);
		input_close(&in);
		return STATUS_OK;
	}
	/* what reads a pipe waits for its end */
	if (!count && !isatty(STDOUT_FILENO))
		count = 1;
	next = app_now();
	do {
		if (!in.rec)
			app_wait(in.k, &next, settings->interval);
		/* The current sample of a recording is the first one. */
		if ((!in.rec || round) && !input_next(&in))
			break;
		view_make(&view, &in, output_width());
		if (view.vms)
			print(&view, output_width());
		shown += view.vms;
	} while (++round != count);
	status = input_status(&in, shown, settings->args, settings->nr_args);
	view_free(&view);
	input_close(&in);
	return status;
}
