// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <unistd.h>

#include "app.h"
#include "screen.h"
#include "view.h"

/* Without a terminal that moves its cursor: one table below the other. */
static void print(const struct view *view)
{
	unsigned int i;

	printf("%s\n%s\n%s\n%s\n", view->head, view->second, view->titles, view->sums);
	for (i = 0; i < view->count; i++)
		puts(view->lines[i].text);
	putchar('\n');
	app_flush();
}

int command_top(const struct settings *settings)
{
	unsigned long round = 0, count = settings->count;
	unsigned int shown = 0;
	struct kvmstats *k;
	struct view view;
	uint64_t next;
	int status;

	k = app_open();
	app_check_selectors(k, settings->words, settings->nr_words);
	view_init(&view, settings);
	if (screen_run(&view, k)) {
		view_free(&view);
		kvmstats_close(k);
		return STATUS_OK;
	}
	/* what reads a pipe waits for its end */
	if (!count && !isatty(STDOUT_FILENO))
		count = 1;
	next = app_now();
	do {
		app_wait(k, &next, settings->interval);
		app_sample(k);
		view_make(&view, k, 0);
		print(&view);
		shown += view.vms;
	} while (++round != count);
	status = app_status(k, shown, settings->nr_words);
	view_free(&view);
	kvmstats_close(k);
	return status;
}
