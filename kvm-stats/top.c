// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "screen.h"
#include "show.h"
#include "top.h"

#define TYPE_CUMULATIVE	(KVM_STATS_TYPE_CUMULATIVE >> KVM_STATS_TYPE_SHIFT)

struct row {
	const struct source *source;
	const struct stats_desc *desc;
	double rate;		/* negative: has none */
	bool zero;
	unsigned int order;
};

enum event {
	ROUND,
	QUIT,
	GONE,
};

static bool on_screen;

static void put_line(const char *line)
{
	if (on_screen)
		screen_line(line);
	else
		puts(line);
}

static bool all_zero(const struct stats_desc *desc, const void *data)
{
	unsigned int i;

	for (i = 0; i < desc->size; i++) {
		if (stats_value(desc, data, i))
			return false;
	}
	return true;
}

static double get_rate(const struct source *source, const struct stats_desc *desc)
{
	double elapsed = source->time - source->time_before;
	__u64 now, before;

	if (desc->type != TYPE_CUMULATIVE || desc->size != 1 ||
	    !source->time_before || elapsed <= 0)
		return -1;
	now = stats_value(desc, source->data, 0);
	before = stats_value(desc, source->before, 0);
	/* debugfs can set it back to 0 */
	if (now < before)
		return -1;
	return (now - before) / stats_factor(desc) / elapsed;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->rate > 0 || y->rate > 0) {
		if (x->rate != y->rate)
			return x->rate > y->rate ? -1 : 1;
	}
	if (x->zero != y->zero)
		return x->zero ? 1 : -1;
	return x->order < y->order ? -1 : 1;
}

static unsigned int fill_rows(const struct sources *s, struct row *rows)
{
	unsigned int i, j, n = 0;

	for (i = 0; i < s->count; i++) {
		const struct source *source = &s->source[i];

		for (j = 0; j < source->table->count; j++) {
			struct row *row = &rows[n];

			row->source = source;
			row->desc = &source->table->desc[j];
			row->rate = get_rate(source, row->desc);
			row->zero = all_zero(row->desc, source->data);
			row->order = n++;
		}
	}
	qsort(rows, n, sizeof(*rows), compare_rows);
	return n;
}

static void draw(const struct sources *s, struct row *rows, const char *title)
{
	unsigned int i, used, n = fill_rows(s, rows);
	struct stats_text text;
	char line[256], rate[32];
	int width = 0;

	for (used = 0; used < n && !rows[used].zero; used++)
		width = wider_name(width, rows[used].desc);

	if (on_screen)
		screen_clear();
	snprintf(line, sizeof(line), "%d (%s): %s", s->pid, s->comm, title);
	put_line(line);
	snprintf(line, sizeof(line), "%-7s %-*s %-11s %-6s %13s %10s",
		 "SCOPE", width, "NAME", "TYPE", "UNIT", "VALUE", "RATE/S");
	put_line(line);

	for (i = 0; i < used; i++) {
		const struct stats_desc *desc = rows[i].desc;

		stats_text(desc, rows[i].source->data, &text);
		strcpy(rate, "-");
		if (rows[i].rate >= 0)
			snprintf(rate, sizeof(rate), "%.*f",
				 stats_factor(desc) > 1 ? 6 : 1, rows[i].rate);
		snprintf(line, sizeof(line),
			 "%-7s %-*s %-11s %-6s %13s %10s",
			 rows[i].source->label, width, desc->name, text.type,
			 text.unit, text.value, rate);
		put_line(line);
	}
	snprintf(line, sizeof(line), "and %u that are 0", n - used);
	put_line(line);
	if (on_screen) {
		screen_show();
	} else {
		putchar('\n');
		fflush(stdout);
	}
}

static enum event wait_for(int pidfd, double seconds)
{
	struct pollfd fds[] = {
		{ .fd = pidfd, .events = POLLIN },
		{ .fd = on_screen ? STDIN_FILENO : -1, .events = POLLIN },
	};
	double left, end = monotonic() + seconds;

	while ((left = end - monotonic()) > 0) {
		/* a new size of the terminal interrupts it */
		if (poll(fds, 2, left * 1000 + 1) < 0 && errno != EINTR)
			err(1, "poll");
		if (fds[0].revents)
			return GONE;
		if (on_screen && screen_quit())
			return QUIT;
		if (fds[1].revents & ~POLLIN)
			return QUIT;
	}
	return ROUND;
}

void top(struct sources *s, double seconds, unsigned long count)
{
	unsigned long round = 0;
	unsigned int i, n = 0;
	enum event event;
	struct row *rows;
	char title[64];

	for (i = 0; i < s->count; i++)
		n += s->source[i].table->count;
	rows = calloc(n, sizeof(*rows));
	if (!rows)
		err(1, NULL);

	sources_read(s);
	on_screen = screen_open();
	/* Elsewhere a table without rates would only be in the way. */
	if (on_screen)
		draw(s, rows, "q quits");

	do {
		event = wait_for(s->pidfd, seconds);
		if (event == QUIT)
			break;
		sources_read(s);
		if (event == GONE)
			break;
		snprintf(title, sizeof(title), "the last %.3f s%s",
			 s->source[0].time - s->source[0].time_before,
			 on_screen ? ", q quits" : "");
		draw(s, rows, title);
	} while (++round != count);

	if (on_screen)
		screen_close();
	on_screen = false;
	if (event == GONE)
		draw(s, rows, "the process has ended, these are its last values");
	free(rows);
}
