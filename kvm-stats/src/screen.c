// SPDX-License-Identifier: GPL-2.0-only
#include <curses.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "column_choice.h"
#include "columns.h"
#include "parse.h"
#include "programs.h"
#include "screen.h"
#include "stop.h"
#include "text.h"
#include "why_output.h"
#include "xalloc.h"

#define KEY_WAIT_NS	(SECOND / 4)

/* In a recording, b, x and o show this time before the present sample. */
#define RECORDED_NS	(60 * SECOND)

/* b shows who ran in this time, besides all of it: in two parts, the second of which is not over. */
#define RECENT_NS	(10 * SECOND)

struct screen {
	struct view *view;
	struct input *in;
	unsigned int first;	/* line that is shown on top */
	bool paused, typing;
	enum { HELP_NONE, HELP_KEYS, HELP_COLUMNS } help;
	unsigned int column;	/* with the cursor, in HELP_COLUMNS */
	bool typing_time;	/* not a filter */
	char typed[sizeof(((struct view *)0)->filter)];
	/* Owners of waits instead of the view; the BPF program is attached in this time. */
	bool blaming;
	struct blame_sum blame;
	uint64_t blame_start, part_start[2];	/* parts of the recent time: the previous and the present one */
	uint64_t recorded;	/* time of a recording that b, x and o show */
	uint64_t recent;	/* time of it that b shows as recent */
	char why[560];		/* why blame or exits does not work, until the next key */
	/* Below the VM: its exits or stalls. NULL, or in struct exits_sum or stalls_sum. */
	struct sums *panel;
	enum program shown;
	uint64_t panel_start;
	struct why_output *reasons;	/* shown instead of the view, or NULL */
};

static const char * const keys[] = {
	"Up, Down, PgDn, End... choose a VM or vCPU; also by click and wheel",
	"Enter, Right           open it; open the statistics of a vCPU",
	"Esc, Left              go back",
	"x                      show its exits by reason, with their time; again: back",
	"o                      show why its vCPUs sleep outside of halts; again: back",
	"s, S, r                sort by the next column, the one before; reverse",
	"c                      choose columns, which are kept",
	"/                      show only names with this in them, or a pattern: web*",
	"b                      show which threads ran while vCPUs waited; again: back",
	"w                      why: what costs the chosen VM, or all, time, and what to do",
	"p, space               pause, and continue; h, ?: this; q: quit",
	"[ ] { }  n N  g        in a recording: a sample, ten minutes; a problem; a time",
};

/* See no-color.org. */
static bool wants_colors(void)
{
	const char *refused = getenv("NO_COLOR");

	return has_colors() && !(refused && *refused);
}

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
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	if (wants_colors() && start_color() == OK && use_default_colors() == OK) {
		init_pair(HEAT_NOTICED, COLOR_YELLOW, -1);
		init_pair(HEAT_CRITICAL, COLOR_RED, -1);
	}
	return true;
}

/* Write len bytes of text, and the mark. */
static void put_piece(int row, const char *text, size_t len, const char *mark, bool reverse)
{
	if (row >= LINES)
		return;
	if (reverse)
		attron(A_REVERSE);
	move(row, 0);
	addnstr(text, len);
	addstr(mark);
	if (reverse) {
		for (int at = getcurx(stdscr); at < COLS && getcury(stdscr) == row; at++)
			mvaddch(row, at, ' ');
		attroff(A_REVERSE);
	}
}

static void put_screen_line(int row, const char *text, bool reverse)
{
	const char *mark;
	const size_t fits = text_fit_marked(text, COLS, &mark);

	put_piece(row, text, fits, mark, reverse);
}

/* Write a message that may need several lines, of which the last one is the screen's: its end has the remedy. */
static void put_message(const char *text)
{
	const int rows = LINES / 2 < 4 ? LINES / 2 : 4;
	const char *rest = text;
	int needed = 0, row;

	do {
		rest += text_fit(rest, COLS);
	} while (*rest && ++needed + 1 < rows);
	for (row = LINES - 1 - needed; row < LINES - 1; row++) {
		put_piece(row, text, text_fit(text, COLS), "", false);
		clrtoeol();
		text += text_fit(text, COLS);
	}
	put_screen_line(LINES - 1, text, false);
	clrtoeol();
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

/* Of count lines, room are shown from the first one on: "16 above, 7 below", or "" if that is all. */
static const char *describe_hidden(unsigned int first, unsigned int room, unsigned int count, char *buf, size_t size)
{
	const unsigned int below = count > first + room ? count - first - room : 0;

	*buf = '\0';
	if (first && below)
		snprintf(buf, size, "%u above, %u below", first, below);
	else if (first || below)
		snprintf(buf, size, "%u %s", first + below, below ? "below" : "above");
	return buf;
}

static void draw_columns(const struct screen *s)
{
	const unsigned int room = LINES > 2 ? LINES - 1 : 1;
	const unsigned int first = s->column >= room ? s->column - room + 1 : 0;
	char line[256];
	unsigned int i;

	put_screen_line(0, "kvm-stats: columns, and the letters that sort by them; space: hide (-), show", true);
	for (i = first; i < columns_count; i++) {
		snprintf(line, sizeof(line), "%c%c %-8s %s", columns[i].letter,
			 s->view->hidden >> i & 1 ? '-' : ' ', columns[i].title, columns[i].what);
		put_screen_line(1 + i - first, line, i == s->column);
	}
	if (*s->why) {
		put_screen_line(LINES - 1, s->why, false);
		clrtoeol();
	}
}

/* Keys, and problems, of which only the worst one of a VM is shown */
static void draw_help(const struct screen *s)
{
	const unsigned int nr_keys = sizeof(keys) / sizeof(*keys);
	char line[256];
	unsigned int i, row = nr_keys + 2;

	if (s->help == HELP_COLUMNS) {
		draw_columns(s);
		return;
	}
	put_screen_line(0, "kvm-stats: keys; h again: the columns; another key: back", true);
	for (i = 0; i < nr_keys; i++)
		put_screen_line(1 + i, keys[i], false);
	put_screen_line(row++, "Problems, the worst first; \"kvm-stats why\" has reasons and remedies:", true);
	for (i = PROBLEMS - 1; i > PROBLEM_NONE; i--) {
		snprintf(line, sizeof(line), "%-22s %s", problem_name(i), problem_meaning(i));
		put_screen_line(row++, line, false);
		if (i == PROBLEM_STUCK)
			put_screen_line(row++, "stopped frozen blocked the same, if /proc has the reason; "
					"blocked: state D", false);
	}
}

/* Format the time of the sample in local time. */
static void format_sample_time(const struct input *in, char *buf, size_t size)
{
	const time_t seconds = input_time(in) / SECOND;

	strftime(buf, size, "%Y-%m-%d %H:%M:%S ", localtime(&seconds));
}

/* Loading a BPF program can take seconds on a busy host. */
static void draw_loading(void)
{
	put_screen_line(LINES - 1, "loading and checking the BPF program ...", false);
	clrtoeol();
	refresh();
}

static void start_blame(struct screen *s)
{
	struct kvmstats_probe probe = { 0 };

	s->blaming = s->in->rec;
	if (s->blaming) {
		read_recorded_sums(&s->blame.sums, &blame_sums, s->in->rec);
		s->first = 0;
		return;
	}
	draw_loading();
	if (open_sums(&s->blame.sums, &blame_sums, NULL, kvmstats_first(s->in->k), &probe)) {
		snprintf(s->why, sizeof(s->why), "blame: %s%s%s", probe.why,
			 *probe.help ? "; " : "", probe.help);
		return;
	}
	s->blaming = true;
	s->blame_start = s->part_start[0] = s->part_start[1] = app_now();
	s->first = 0;
	add_sums(&s->blame.sums, kvmstats_first(s->in->k), s->view->settings->args,
				s->view->settings->nr_args);
}

static void stop_blame(struct screen *s)
{
	if (s->blaming)
		close_sums(&s->blame.sums);
	s->blaming = false;
	s->first = 0;
}

/* What a recording has of the time before the present sample */
static void collect_recorded(struct screen *s)
{
	const struct settings *settings = s->view->settings;
	const struct kvmstats_vm *vm;

	if (!s->in->rec || (!s->blaming && !s->panel))
		return;
	s->recorded = recording_collect(s->in->rec, RECORDED_NS);
	if (s->blaming) {
		clear_sums(&s->blame.sums);
		add_sums(&s->blame.sums, kvmstats_first(s->in->k), settings->args, settings->nr_args);
		keep_growth(&s->blame.sums);
		s->recent = recording_collect(s->in->rec, RECENT_NS);
		add_sums(&s->blame.sums, kvmstats_first(s->in->k), settings->args, settings->nr_args);
	}
	if (!s->panel)
		return;
	clear_sums(s->panel);
	add_sums(s->panel, kvmstats_first(s->in->k), NULL, 0);
	for (vm = kvmstats_first(s->in->k); vm; vm = vm->next)
		set_elapsed(s->panel, vm, vm->vcpus * s->recorded);
}

static void next_sample(struct screen *s)
{
	const struct settings *settings = s->view->settings;

	if (s->blaming && read_sums(&s->blame.sums)) {
		stop_blame(s);
		snprintf(s->why, sizeof(s->why), "cannot read the charges of the BPF program");
	}
	/* an error stays on the screen, it may pass */
	if (!input_next_nofail(s->in))
		s->paused = true;
	if (!s->blaming || s->in->rec)
		return;
	if (app_now() - s->part_start[1] >= RECENT_NS / 2) {
		keep_growth(&s->blame.sums);
		s->part_start[0] = s->part_start[1];
		s->part_start[1] = app_now();
	}
	add_sums(&s->blame.sums, kvmstats_first(s->in->k), settings->args, settings->nr_args);
	forget_sums(&s->blame.sums, NULL, NULL);
}

/* An owner of a VM's waits, with its times and those of the VM: recent, and all of them */
struct blame_line {
	const char *vm;
	const struct blame_share *owner;
	struct blame_times {
		uint64_t recent, all;
	} time, of;
};

static int compare_blame_times(const struct blame_times *a, const struct blame_times *b)
{
	if (a->recent != b->recent)
		return a->recent < b->recent ? 1 : -1;
	return (a->all < b->all) - (a->all > b->all);
}

/* Who runs now comes first. */
static int compare_blame_lines(const void *x, const void *y)
{
	const struct blame_line *a = x, *b = y;

	return compare_blame_times(&a->of, &b->of) ?: strcmp(a->vm, b->vm) ?:
	       compare_blame_times(&a->time, &b->time);
}

/* In a recording, collect_recorded() has added the recent time twice. */
static struct blame_times get_blame_times(const struct screen *s, const struct sum_item *item)
{
	return s->in->rec ? (struct blame_times){ item->growth, item->recent } :
			   (struct blame_times){ item->recent + item->growth, item->cost };
}

/* Within a VM, only this VM */
static bool is_in_view(const struct screen *s, const struct sum *sum)
{
	return s->view->level == VIEW_HOST || sum == find_sum(&s->blame.sums, s->view->in.vm);
}

/* Add the owners of a VM, and return their number. Owners without any share are left out. */
static size_t add_blame_lines(const struct screen *s, const struct blame_victim *victim, struct blame_line *to)
{
	struct blame_times of = { 0 };
	size_t i, n = 0;

	for (i = 0; i < victim->sum.count; i++) {
		const struct blame_times time = get_blame_times(s, &blame_share_at(victim, i)->item);

		of.recent += time.recent;
		of.all += time.all;
	}
	for (i = 0; i < victim->sum.count; i++) {
		const struct blame_share *owner = blame_share_at(victim, i);
		const struct blame_times time = get_blame_times(s, &owner->item);

		if (kvmstats_permille(time.recent, of.recent) || kvmstats_permille(time.all, of.all))
			to[n++] = (struct blame_line){ victim->sum.label, owner, time, of };
	}
	return n;
}

static struct blame_line *make_blame_lines(const struct screen *s, size_t *count)
{
	struct blame_line *lines;
	size_t i, room = 1;

	for (i = 0; i < s->blame.sums.count; i++)
		room += ((struct sum *)sum_at(&s->blame.sums, i))->count;
	lines = check_alloc(calloc(room, sizeof(*lines)));
	*count = 0;
	for (i = 0; i < s->blame.sums.count; i++) {
		if (is_in_view(s, sum_at(&s->blame.sums, i)))
			*count += add_blame_lines(s, sum_at(&s->blame.sums, i), lines + *count);
	}
	qsort(lines, *count, sizeof(*lines), compare_blame_lines);
	return lines;
}

static void draw_blame_line(const struct blame_line *blame, int row)
{
	char label[TEXT_SHOWN(LABEL_SIZE)], name[TEXT_SHOWN(OWNER_NAME_SIZE)], recent[TEXT_SIZE], all[TEXT_SIZE];
	char line[sizeof(label) + sizeof(name) + 80 + 2 * TEXT_SIZE];

	text_shown(blame->vm, label, sizeof(label));
	text_shown(blame->owner->key.name, name, sizeof(name));
	text_permille(kvmstats_permille(blame->time.recent, blame->of.recent), recent);
	text_permille(kvmstats_permille(blame->time.all, blame->of.all), all);
	snprintf(line, sizeof(line), "%s%*s %9.3f %6s%% %9.3f %6s%%  %-8s %s", label,
		 text_width(label) < 16 ? (int)(16 - text_width(label)) : 0, "", blame->time.recent / 1e9,
		 recent, blame->time.all / 1e9, all, blame->owner->key.kind, name);
	put_screen_line(row, line, false);
}

/* Owners that fit on the screen */
static unsigned int blame_room(void)
{
	return LINES > 3 ? LINES - 3 : 1;
}

static void draw_blame(struct screen *s)
{
	const unsigned int room = blame_room();
	char line[160], time[40] = "", typed[sizeof(s->typed) + 16], hidden[48];
	struct blame_line *lines;
	size_t i, count;

	lines = make_blame_lines(s, &count);
	/* Keep the last owner on the screen. */
	if (s->first + room > count)
		s->first = count > room ? count - room : 0;
	if (s->in->rec)
		format_sample_time(s->in, time, sizeof(time));
	snprintf(line, sizeof(line), "%s%sowners of waits for a CPU in %.0f s; recent: %.0f s",
		 time, s->paused ? "PAUSED " : "",
		 (s->in->rec ? s->recorded : app_now() - s->blame_start) / 1e9,
		 (s->in->rec ? s->recent : app_now() - s->part_start[0]) / 1e9);
	put_screen_line(0, line, false);
	put_screen_line(1, "NAME              RECENT-s   SHARE     ALL-s   SHARE  OWNER", true);
	for (i = s->first; i < count && i - s->first < room; i++)
		draw_blame_line(&lines[i], 2 + i - s->first);
	free(lines);
	describe_hidden(s->first, room, count, hidden, sizeof(hidden));
	snprintf(line, sizeof(line), "b back  q quit  p pause%s%s%s", s->in->rec ? "  [ ] n g time" : "",
		 *hidden ? "  Up, Down: " : "", hidden);
	snprintf(typed, sizeof(typed), "go to time: %s_", s->typed);
	put_screen_line(LINES - 1, s->typing ? typed : *s->why ? s->why : line, false);
	clrtoeol();
}

static void draw_exits(const struct exits_vm *vm, const char *when, unsigned int row)
{
	char line[256], share[TEXT_SIZE], name[EXIT_NAME_SIZE];
	size_t i;

	snprintf(line, sizeof(line), "REASON, %-10s %8s %8s %8s %7s %8s %8s %8s", when, "EXITS",
		 "KERNEL-s", "USER-s", "SHARE", "READY-s", "HALT-s", "MAX-us");
	put_screen_line(row++, line, true);
	for (i = 0; vm && i < vm->sum.count; i++) {
		const struct exits_total *total = exits_total_at(vm, i);
		const struct exits_cell *cell = &total->cell;

		text_permille((text_share(total->item.cost, vm->sum.elapsed) + 500) / 1000, share);
		snprintf(line, sizeof(line), "%-18s %8llu %8.3f %8.3f %6s%% %8.3f %8.3f %8.1f",
			 exit_name(cell->isa, total->key.reason, name), cell->count,
			 cell->kernel / 1e9, cell->user / 1e9, share, cell->ready / 1e9,
			 cell->halt / 1e9, cell->max / 1e3);
		put_screen_line(row++, line, false);
	}
}

static void draw_stalls(const struct stalls_vm *vm, const char *when, unsigned int row)
{
	char line[256], share[TEXT_SIZE];
	size_t i;

	snprintf(line, sizeof(line), "%-8s %9s %7s  MEANING, %s", "REASON", "TIME-s", "SHARE", when);
	put_screen_line(row++, line, true);
	for (i = 0; vm && i < vm->sum.count; i++) {
		const struct stall_share *stall = stall_share_at(&vm->sum, i);

		text_permille((text_share(stall->item.cost, vm->sum.elapsed) + 500) / 1000, share);
		snprintf(line, sizeof(line), "%-8s %9.3f %6s%%  %s", stall_name(stall->reason),
			 stall->item.cost / 1e9, share, stall_meaning(stall->reason));
		put_screen_line(row++, line, false);
	}
}

/* Exits or stalls of the VM that is open or chosen */
static void draw_panel(const struct screen *s, unsigned int row)
{
	const struct view *view = s->view;
	const struct view_key *key = view->level == VIEW_HOST ?
		&view->chosen[VIEW_HOST] : &view->in;
	const void *vm = key->vm ? find_sum(s->panel, key->vm) : NULL;
	char when[32];

	snprintf(when, sizeof(when), "%s %.0f s", s->in->rec ? "last" : "after",
		 (s->in->rec ? s->recorded : app_now() - s->panel_start) / 1e9);
	if (s->shown == PROGRAM_EXITS)
		draw_exits(vm, when, row);
	else
		draw_stalls(vm, when, row);
}

static void close_panel(struct screen *s)
{
	if (!s->panel)
		return;
	close_sums(s->panel);
	free(s->panel);
	s->panel = NULL;
}

/* Attach the program, or read the recording. Return false if that is not possible. */
static bool open_panel(struct screen *s, enum program program)
{
	const struct sums_type *type = program_types[program];
	struct sums *sums = check_alloc(calloc(1, type->all_size));
	struct kvmstats_probe probe = { 0 };

	s->panel = sums;
	if (s->in->rec) {
		read_recorded_sums(sums, type, s->in->rec);
		return true;
	}
	draw_loading();
	if (!open_sums(sums, type, NULL, kvmstats_first(s->in->k), &probe))
		return true;
	snprintf(s->why, sizeof(s->why), "%s: %s%s%.200s", program_names[program], probe.why,
		 *probe.help ? "; " : "", probe.help);
	free(sums);
	s->panel = NULL;
	return false;
}

/* A program is attached only while its sums are shown. */
static void toggle_panel(struct screen *s, enum program program)
{
	const bool shown = s->panel && s->shown == program;

	close_panel(s);
	if (shown || !open_panel(s, program))
		return;
	s->shown = program;
	s->panel_start = app_now();
	/* below its VM */
	if (!view_has_cursor(s->view))
		view_choose(s->view, s->first);
	/* Times of VMs begin with those of the program. */
	if (!s->in->rec && input_next_nofail(s->in))
		add_sums(s->panel, kvmstats_first(s->in->k), NULL, 0);
}

static void sample_panel(struct screen *s)
{
	if (s->panel && !s->in->rec && !read_sums(s->panel))
		add_sums(s->panel, kvmstats_first(s->in->k), NULL, 0);
}

/* Start the command "why" for the VM that is open or chosen, or for all. */
static void start_why(struct screen *s)
{
	const struct view *view = s->view;
	const struct view_key *key = view->level == VIEW_HOST ? &view->chosen[VIEW_HOST] : &view->in;

	s->reasons = why_output_start(s->in, view->settings, key->vm, s->why, sizeof(s->why));
	if (s->reasons)
		s->first = 0;
}

static void stop_why(struct screen *s)
{
	if (s->reasons)
		why_output_free(s->reasons);
	s->reasons = NULL;
	s->first = 0;
}

/* Lines of the output that fit on the screen */
static unsigned int why_room(void)
{
	return LINES > 2 ? LINES - 2 : 1;
}

/* Return how many bytes of a line fit on the screen, if possible whole words. */
static size_t fit_words(const char *text)
{
	const size_t fits = text_fit(text, COLS);
	size_t n = fits;

	if (!text[fits])
		return fits;
	while (n && text[n] != ' ')
		n--;
	/* Don't break the indentation. */
	return n > strspn(text, " ") ? n + 1 : fits;
}

/* Draw the lines from the first one on, and return the number of all lines. */
static unsigned int draw_reasons(const struct screen *s)
{
	const struct buf *text = &s->reasons->text;
	char *copy = check_alloc(strndup(text->len ? text->text : "", text->len)), *next = copy, *line;
	unsigned int row = 0;

	while ((line = strsep(&next, "\n"))) {
		if (!next && !*line)
			break;
		do {
			const size_t n = fit_words(line);
			const char end = line[n];

			line[n] = '\0';
			if (row >= s->first && row - s->first < why_room())
				put_screen_line(1 + row - s->first, line, false);
			line[n] = end;
			line += n;
			row++;
		} while (*line);
	}
	free(copy);
	return row;
}

static void draw_why(struct screen *s)
{
	unsigned int rows;
	char line[160];

	why_output_read(s->reasons);
	rows = draw_reasons(s);
	if (s->first + why_room() > rows && s->first) {
		s->first = rows > why_room() ? rows - why_room() : 0;
		erase();
		draw_reasons(s);
	}
	put_screen_line(0, s->reasons->pid ? "kvm-stats why: observing ..." : "kvm-stats why", true);
	snprintf(line, sizeof(line), "w back  q quit%s", rows > s->first + why_room() ? "  Down more" : "");
	put_screen_line(LINES - 1, *s->why ? s->why : line, false);
	clrtoeol();
}

static void draw(struct screen *s)
{
	struct view *view = s->view;
	const unsigned int head = head_lines(view);
	char line[sizeof(s->why)], filter[TEXT_SHOWN(sizeof(view->filter))];
	unsigned int i, unread;
	char time[40] = "", hidden[48];
	const struct view_mark *mark;
	const char *why;

	erase();
	if (s->help) {
		draw_help(s);
		refresh();
		return;
	}
	if (s->blaming || s->reasons) {
		if (s->blaming)
			draw_blame(s);
		else
			draw_why(s);
		refresh();
		return;
	}
	keep_in_sight(s);
	text_shown(view->filter, filter, sizeof(filter));
	if (s->in->rec)
		format_sample_time(s->in, time, sizeof(time));
	describe_hidden(s->first, visible(view), view->count, hidden, sizeof(hidden));
	snprintf(line, sizeof(line), "%s%s%s%s%s%s%s", time, s->paused ? "PAUSED " : "", view->head,
		 *filter ? ", filter " : "", filter, *hidden ? "; " : "", hidden);
	put_screen_line(0, line, false);
	put_screen_line(1, view->second, false);
	put_screen_line(2, view->titles, true);
	if (view->sums)
		put_screen_line(3, view->sums, false);
	if (s->panel)
		draw_panel(s, head + 1 + s->view->selected - s->first);
	for (i = 0; i < visible(view) && s->first + i < view->count &&
	     (!s->panel || s->first + i <= view->selected); i++) {
		const struct view_line *shown = &view->lines[s->first + i];
		const bool selected = s->first + i == view->selected && view_has_cursor(view);

		put_screen_line(head + i, shown->text, selected);
		for (mark = shown->mark; mark < shown->mark + 2 && mark->heat && wants_colors(); mark++)
			mvchgat(head + i, mark->at, mark->width, A_BOLD | (selected ? A_REVERSE : 0),
				mark->heat, NULL);
	}
	unread = kvmstats_failed_reads(s->in->k, &why);
	if (s->typing)
		snprintf(line, sizeof(line), "%s: %s_", s->typing_time ? "go to time" : "filter",
			 (text_shown(s->typed, filter, sizeof(filter)), filter));
	else if (*s->why)
		snprintf(line, sizeof(line), "%s", s->why);
	else if (*input_problem(s->in))
		snprintf(line, sizeof(line), "%s", input_problem(s->in));
	else if (unread)
		snprintf(line, sizeof(line), "%u not read: %s", unread, why);
	else if (!view->count && view->level == VIEW_HOST)
		snprintf(line, sizeof(line), "no VMs%s; new ones are shown when they come",
			 *view->filter || view->settings->nr_args ? " of these names" : "");
	else
		snprintf(line, sizeof(line),
			 "q quit  h help  w why  b blame  x exits  o stalls  %s/ filter  p %s%s",
			 s->in->rec ? "" : "c columns  ", s->paused ? "run" : "pause", s->in->rec ? "  [ ] n g" : "");
	put_message(line);
	refresh();
}

static void rebuild_view(struct screen *s)
{
	enum view_level level = s->view->level;

	collect_recorded(s);
	view_make(s->view, s->in, COLS);
	if (level != s->view->level)
		s->first = 0;
}

/* By how many lines a key moves; 0 if it does not */
static long find_step(int key, long page)
{
	switch (key) {
	case KEY_UP:
	case 'k':
		return -1;
	case KEY_DOWN:
	case 'j':
		return 1;
	case KEY_PPAGE:
		return -page;
	case KEY_NPAGE:
		return page;
	case KEY_HOME:
		return -INT_MAX;
	case KEY_END:
		return INT_MAX;
	default:
		return 0;
	}
}

static unsigned int add_step(unsigned int from, long step)
{
	return from + step > 0 ? from + step : 0;
}

static bool goes_back(int key)
{
	return key == 27 || key == KEY_LEFT || key == KEY_BACKSPACE || key == 127;
}

static void choose(struct screen *s, long step)
{
	/* The cursor appears with the first key, on the first line of the screen. */
	const bool appears = !view_has_cursor(s->view);
	/* statistics have nothing to choose: the page moves */
	const bool page = s->view->level == VIEW_STATISTICS;
	const long from = page ? s->first : s->view->selected;
	const unsigned int to = add_step(from, step);

	if (page)
		s->first = to;
	else if (appears && (step == 1 || step == -1))
		view_choose(s->view, s->first);
	else
		view_choose(s->view, to);
}

#define TEN_MINUTES	(600 * (int64_t)SECOND)

static void seek_by(struct screen *s, int64_t nanoseconds)
{
	const uint64_t now = input_time(s->in);

	input_seek_time(s->in, nanoseconds < 0 && now < (uint64_t)-nanoseconds ? 0 : now + nanoseconds);
}

/* The labels of the VMs that have a problem at a sample */
struct troubled {
	char (*label)[LABEL_SIZE];
	size_t count, room;
};

static void find_troubled(const struct screen *s, struct troubled *troubled)
{
	const struct kvmstats_vm *vm;
	struct item item;

	troubled->count = 0;
	for (vm = kvmstats_first(s->in->k); vm; vm = vm->next) {
		item = item_vm(vm);
		judge_item(s->in->k, &item);
		if (item.judgement.problem <= PROBLEM_ENDED || !view_has_vm(s->view, vm))
			continue;
		if (troubled->count == troubled->room) {
			troubled->room = 2 * troubled->room + 16;
			troubled->label = check_alloc(realloc(troubled->label, troubled->room *
							     sizeof(*troubled->label)));
		}
		app_label(vm, troubled->label[troubled->count++]);
	}
}

/* Return true if one of the VMs has no problem in the sample before; both are in the same order. */
static bool has_new(const struct troubled *now, const struct troubled *before)
{
	size_t i, tries, at = 0;

	for (i = 0; i < now->count; i++) {
		for (tries = 0; tries < before->count; tries++) {
			if (!strcmp(before->label[at++ % before->count], now->label[i]))
				break;
		}
		if (tries == before->count)
			return true;
	}
	return false;
}

static void exchange(struct troubled *a, struct troubled *b)
{
	const struct troubled other = *a;

	*a = *b;
	*b = other;
}

/* Go to the next sample in which a VM's problem begins; false if there is none. */
static bool seek_next_problem(struct screen *s, struct troubled *before, struct troubled *now)
{
	find_troubled(s, before);
	while (!stop_requested() && input_next_nofail(s->in)) {
		find_troubled(s, now);
		if (has_new(now, before))
			return true;
		exchange(before, now);
	}
	return false;
}

static bool seek_previous_problem(struct screen *s, struct troubled *before, struct troubled *now)
{
	const unsigned long from = recording_position(s->in->rec);

	find_troubled(s, now);
	while (!stop_requested() && input_seek_samples(s->in, -1)) {
		find_troubled(s, before);
		if (has_new(now, before) && recording_position(s->in->rec) + 1 < from) {
			input_seek_samples(s->in, 1);
			return true;
		}
		exchange(before, now);
	}
	/* The recording begins with it. */
	return now->count && from;
}

static void seek_problem(struct screen *s, bool next)
{
	const unsigned long from = recording_position(s->in->rec);
	struct troubled before = { 0 }, now = { 0 };
	bool found;

	found = next ? seek_next_problem(s, &before, &now) : seek_previous_problem(s, &before, &now);
	free(before.label);
	free(now.label);
	if (found)
		return;
	recording_seek(s->in->rec, from);
	snprintf(s->why, sizeof(s->why), "no %s problem of these VMs begins in the recording",
		 next ? "later" : "earlier");
}

static void put_typed_time(struct screen *s, uint64_t time)
{
	const time_t seconds = time / SECOND;
	char text[32];

	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime(&seconds));
	snprintf(s->why, sizeof(s->why), "the recording has no sample of %s", text);
}

/* The time that was typed; without a date, on the day of the sample */
static void seek_typed(struct screen *s)
{
	bool twice;
	const uint64_t time = parse_time_text(s->typed, false, input_time(s->in) / SECOND, &twice);

	if (!time)
		snprintf(s->why, sizeof(s->why), "'%.60s': must be a time such as 03:00 or 2026-11-22T03:00",
			 s->typed);
	else if (!input_has_time(s->in, time))
		put_typed_time(s, time);
	else
		input_seek_time(s->in, time);
	if (time && twice)
		snprintf(s->why, sizeof(s->why), "clocks showed %.60s twice, this is the first; add Z or an offset",
			 s->typed);
}

/* Keys for recordings. Return true if it is one of them. */
static bool seek(struct screen *s, int key)
{
	if (!s->in->rec || !recording_count(s->in->rec))
		return false;
	switch (key) {
	case '[':
	case ']':
		input_seek_samples(s->in, key == '[' ? -1 : 1);
		return true;
	case '{':
	case '}':
		seek_by(s, key == '{' ? -TEN_MINUTES : TEN_MINUTES);
		return true;
	case 'n':
	case 'N':
		seek_problem(s, key == 'n');
		return true;
	case 'g':
		s->typing = s->typing_time = true;
		*s->typed = '\0';
		return true;
	default:
		return false;
	}
}

/* true: it is over */
static bool type_key(struct screen *s, int key)
{
	size_t len = strlen(s->typed);

	if ((key == '\n' || key == KEY_ENTER) && s->typing_time) {
		s->typing = s->typing_time = false;
		seek_typed(s);
	} else if (key == '\n' || key == KEY_ENTER) {
		strcpy(s->view->filter, s->typed);
		s->typing = false;
	} else if (key == 27) {
		s->typing = s->typing_time = false;
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

/* Return true to quit. */
static bool press_blame(struct screen *s, int key)
{
	if (seek(s, key))
		return false;
	s->first = add_step(s->first, find_step(key, blame_room()));
	if (key == 'p' || key == ' ')
		s->paused = !s->paused;
	else if (key == 'b' || goes_back(key))
		stop_blame(s);
	return key == 'q';
}

/* Return true to quit. */
static bool press_why(struct screen *s, int key)
{
	s->first = add_step(s->first, find_step(key, why_room()));
	if (key == 'w' || goes_back(key))
		stop_why(s);
	return key == 'q';
}

/* Choose columns. Return true to quit. */
static bool press_columns(struct screen *s, int key)
{
	const long step = find_step(key, 0);

	if (step) {
		s->column = add_step(s->column, step);
		if (s->column >= columns_count)
			s->column = columns_count - 1;
	} else if (key != ' ') {
		s->help = HELP_NONE;
	} else if (s->column) {
		/* The name stays. */
		s->view->hidden ^= 1U << s->column;
		write_hidden_columns(s->view->hidden, s->why, sizeof(s->why));
	}
	return key == 'q';
}

#define WHEEL_LINES	3

static bool press(struct screen *s, int key);

static void press_mouse(struct screen *s)
{
	struct view *view = s->view;
	const unsigned int head = head_lines(view);
	unsigned int i, line;
	MEVENT event;

	if (getmouse(&event) != OK)
		return;
	for (i = 0; i < WHEEL_LINES && event.bstate & (BUTTON4_PRESSED | BUTTON5_PRESSED); i++)
		press(s, event.bstate & BUTTON4_PRESSED ? KEY_UP : KEY_DOWN);
	if (!(event.bstate & BUTTON1_PRESSED) || s->typing || s->blaming || s->reasons || s->help ||
	    view->level == VIEW_STATISTICS || event.y < (int)head || event.y - head >= visible(view))
		return;
	line = event.y - head + s->first;
	/* Below the chosen line are its exits or stalls. */
	if (line < view->count && (!s->panel || line <= view->selected))
		view_choose(view, line);
}

static bool press(struct screen *s, int key)
{
	if (key == KEY_MOUSE) {
		press_mouse(s);
		return false;
	}
	*s->why = '\0';
	if (s->typing)
		return type_key(s, key);
	if (s->blaming)
		return press_blame(s, key);
	if (s->reasons)
		return press_why(s, key);
	if (s->help == HELP_COLUMNS && key != KEY_RESIZE)
		return press_columns(s, key);
	if (s->help && key != KEY_RESIZE) {
		s->help = key == 'h' || key == '?' || key == 'c' ? HELP_COLUMNS : HELP_NONE;
		return key == 'q';
	}
	if (seek(s, key))
		return false;
	switch (key) {
	case 'q':
		return true;
	case 'x':
		toggle_panel(s, PROGRAM_EXITS);
		break;
	case 'o':
		toggle_panel(s, PROGRAM_STALLS);
		break;
	case 'h':
	case '?':
		s->help = HELP_KEYS;
		break;
	case 'b':
		start_blame(s);
		break;
	case 'w':
		start_why(s);
		break;
	case 'c':
		s->help = HELP_COLUMNS;
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
	case '\n':
	case KEY_ENTER:
	case KEY_RIGHT:
		if (view_enter(s->view))
			s->first = 0;
		break;
	default:
		if (find_step(key, visible(s->view))) {
			choose(s, find_step(key, visible(s->view)));
		} else if (goes_back(key)) {
			s->first = view_leave(s->view) ? 0 : s->first;
		} else if (key > 0 && key < 256 && column_by_letter(key) >= 0) {
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
		/* At most this long: a signal may arrive just before, and those that end the
		 * command do not interrupt the wait. */
		timeout(until - now < KEY_WAIT_NS ? (until - now) / 1000000 + 1 :
			KEY_WAIT_NS / 1000000);
		key = getch();
		if (stop_requested())
			return true;
		if (app_stop_asked()) {
			endwin();
			app_stop(s->in->k);
			draw(s);
		}
		if (key == ERR) {
			/* The terminal was closed: no more keys will arrive. */
			if (!isatty(STDIN_FILENO))
				return true;
			if (s->reasons && why_output_read(s->reasons))
				draw(s);
			continue;
		}
		if (press(s, key))
			return true;
		rebuild_view(s);
		draw(s);
	}
	return false;
}

static void restore_terminal(void)
{
	endwin();
}

bool screen_run(struct view *view, struct input *in)
{
	const struct settings *settings = view->settings;
	struct screen s = { .view = view, .in = in, .paused = in->rec };
	unsigned long round = 0;
	uint64_t until;

	if (!start())
		return false;
	stop_catch(STATUS_OK, restore_terminal);
	view->hidden = read_hidden_columns(s.why, sizeof(s.why));
	until = app_now();
	do {
		rebuild_view(&s);
		draw(&s);
		until += settings->interval;
		if (until < app_now())
			until = app_now() + settings->interval;
		if (wait_keys(&s, until))
			break;
		if (!s.paused)
			next_sample(&s);
		if (!s.paused)
			sample_panel(&s);
	} while (!settings->count || ++round < settings->count);
	stop_blame(&s);
	stop_why(&s);
	endwin();
	close_panel(&s);
	return true;
}
