// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "text.h"
#include "view.h"
#include "xalloc.h"

#define NAME_MAX	40	/* in columns, where there is not room for all */
#define NAME_WIDTH	16	/* where there is room */
#define ENDED		" (ended)"

static char *format(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
static char *format(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		err(STATUS_NOTHING, NULL);
	va_end(args);
	return text;
}

void view_init(struct view *view, const struct settings *settings)
{
	memset(view, 0, sizeof(*view));
	view->settings = settings;
	view->sort = column_by_title(settings->sort ? settings->sort : "PROBLEM");
	view->reverse = settings->reverse;
}

static void clear(struct view *view)
{
	while (view->count)
		free(view->lines[--view->count].text);
	free(view->head);
	free(view->second);
	free(view->titles);
	free(view->sums);
	view->head = view->second = view->titles = view->sums = NULL;
}

void view_free(struct view *view)
{
	clear(view);
	free(view->lines);
}

static struct view_key key_of(const struct kvmstats_vm *vm, int vcpu)
{
	return (struct view_key){ vm, vm->identity.pid, vm->key, vcpu };
}

static bool is_same_vm(const struct view_key *key, const struct kvmstats_vm *vm)
{
	return key->vm && key->pid == vm->identity.pid && key->id == vm->key;
}

/* Takes text over. */
static struct view_line *add_line(struct view *view, char *text)
{
	if (view->count == view->room) {
		view->room = view->room ? 2 * view->room : 64;
		view->lines = check_alloc(realloc(view->lines,
					   view->room * sizeof(*view->lines)));
	}
	view->lines[view->count] = (struct view_line){ .text = text };
	return &view->lines[view->count++];
}

struct order {
	const struct column *column;
	bool reverse;
};

static int compare_items(const void *x, const void *y, void *arg)
{
	const struct item *a = x, *b = y;
	const struct order *how = arg;
	/* vcpu2 is before vcpu10 */
	int order = a->vcpu && b->vcpu && how->column == columns ?
		    (a->vcpu->id > b->vcpu->id) - (a->vcpu->id < b->vcpu->id) : column_compare(how->column, a, b);

	if (how->reverse)
		order = -order;
	if (!order)
		order = strcmp(a->vm->identity.name, b->vm->identity.name);
	if (!order)
		order = (a->vm->identity.pid > b->vm->identity.pid) - (a->vm->identity.pid < b->vm->identity.pid);
	if (!order)
		order = (a->vm->nth > b->vm->nth) - (a->vm->nth < b->vm->nth);
	if (!order && a->vcpu && b->vcpu)
		order = (a->vcpu->id > b->vcpu->id) - (a->vcpu->id < b->vcpu->id);
	return order;
}

/* A list of vCPUs has no PROBLEM, for example: they keep their places then. */
static const struct column *view_order(const struct view *view)
{
	return view->level != VIEW_HOST && columns[view->sort].of == OF_VMS ? &columns[0] : &columns[view->sort];
}

static void sort_view_items(const struct view *view, struct item *items, unsigned int n)
{
	struct order order = { view_order(view), view->reverse };

	qsort_r(items, n, sizeof(*items), compare_items, &order);
}

/* ", by RUN%" */
static const char *order_name(const struct view *view, char *buf, size_t size)
{
	snprintf(buf, size, ", by %s%s", view_order(view)->title,
		 view->reverse ? ", reversed" : "");
	return buf;
}

static char *shown_label(const struct kvmstats_vm *vm, char *buf)
{
	char label[LABEL_SIZE];

	text_shown(app_label(vm, label), buf, TEXT_SHOWN(LABEL_SIZE));
	return buf;
}

bool view_has_vm(const struct view *view, const struct kvmstats_vm *vm)
{
	char label[LABEL_SIZE], shown[TEXT_SHOWN(LABEL_SIZE)];

	if (!app_selects(view->settings->args, view->settings->nr_args, vm))
		return false;
	app_label(vm, label);
	shown_label(vm, shown);
	return !*view->filter || strstr(label, view->filter) ||
	       strstr(shown, view->filter) || !fnmatch(view->filter, label, 0);
}

/* Return true if the list has this column. */
static bool view_has_column(const struct view *view, const struct column *column, const struct item *items, unsigned int n)
{
	char text[COLUMN_SIZE];

	if (view->hidden >> (column - columns) & 1)
		return false;
	if (column->of != OF_VCPUS)
		return column->of == OF_ALL || view->level == VIEW_HOST;
	while (n--) {
		column_cell(column, &items[n], text);
		if (strcmp(text, "-"))
			return true;
	}
	return false;
}

/* Compute the width of each column, 0 if it does not fit. */
static void choose_columns(const struct view *view, const struct item *items, unsigned int n,
			   unsigned int width, unsigned int name, unsigned int *widths)
{
	unsigned int i, total = 0, worst;

	for (i = 0; i < columns_count; i++) {
		widths[i] = view_has_column(view, &columns[i], items, n) ? columns[i].width : 0;
		total += widths[i] ? widths[i] + 1 : 0;
	}
	/* the last one needs no blank after it */
	total--;
	while (width && total > width) {
		worst = 0;
		for (i = 1; i < columns_count; i++) {
			if (widths[i] && columns[i].drop > columns[worst].drop)
				worst = i;
		}
		if (!worst)
			break;
		total -= widths[worst] + 1;
		widths[worst] = 0;
	}
	/* what is left over goes to names */
	if (name < NAME_WIDTH)
		name = NAME_WIDTH;
	if (width && name > NAME_MAX)
		name = NAME_MAX;
	if (width && name > widths[0] && total + name - widths[0] > width)
		name = width > total ? widths[0] + width - total : widths[0];
	if (name > widths[0])
		widths[0] = name;
}

static unsigned int name_width(const struct item *item)
{
	char text[COLUMN_SIZE];

	column_cell(&columns[0], item, text);
	return text_width(text) + (item->vm->ended ? strlen(ENDED) : 0);
}

static void put_cell(FILE *f, unsigned int i, const struct item *item, unsigned int width)
{
	const char *after = !i && item && item->vm && item->vm->ended ? ENDED : "";
	const unsigned int room = width > strlen(after) ? width - strlen(after) : 0;
	const char *mark = "";
	char text[COLUMN_SIZE];
	int blanks;

	if (item)
		column_cell(&columns[i], item, text);
	else
		strcpy(text, columns[i].title);
	if (columns[i].text)
		text[text_fit_marked(text, room, &mark)] = '\0';
	else if (strlen(text) > width)
		text[strcspn(text, ".")] = '\0';	/* 128 vCPUs: 12800 instead of 12800.0 */
	blanks = (int)width - (int)(text_width(text) + text_width(mark) + strlen(after));
	if (columns[i].text)
		fprintf(f, "%s%s%s%*s", text, mark, after, blanks > 0 ? blanks : 0, "");
	else
		fprintf(f, "%*s%s", blanks > 0 ? blanks : 0, "", text);
}

/* How long a vCPU of the item was ready, or throttled if the column is THROT% */
static int find_heat(const struct column *column, const struct item *item)
{
	unsigned int most;

	if (!item || column->kind != COLUMN_PERCENT ||
	    (column->index != KVMSTATS_READY && column->index != KVMSTATS_THROTTLED))
		return HEAT_NONE;
	most = item_most(item, column->index);
	return most >= READY_CRITICAL_PERMILLE ? HEAT_CRITICAL : most >= READY_NOTICED_PERMILLE ? HEAT_NOTICED :
	       HEAT_NONE;
}

/* Format a row, or the titles if item is NULL. line gets its marks. */
static char *make_line(const struct item *item, const unsigned int *widths,
		       struct view_line *line)
{
	struct view_mark *mark = line ? line->mark : NULL;
	unsigned int i, at = 0;
	int heat = HEAT_NONE;
	char *text = NULL;
	size_t size;
	FILE *f = check_alloc(open_memstream(&text, &size));

	for (i = 0; i < columns_count; i++) {
		if (!widths[i])
			continue;
		if (i) {
			/* for those who see no colours */
			putc(heat ? '!' : ' ', f);
			at++;
		}
		heat = find_heat(&columns[i], item);
		if (heat && mark)
			*mark++ = (struct view_mark){ heat, at, widths[i] + 1 };
		put_cell(f, i, item, widths[i]);
		at += widths[i];
	}
	if (heat)
		putc('!', f);
	if (fclose(f) || !text)
		check_alloc(NULL);
	return text;
}

static void make_lines(struct view *view, const struct item *items, unsigned int n,
		       const struct item *sums, unsigned int width)
{
	unsigned int widths[columns_count], i, name = 0;

	for (i = 0; i < n; i++) {
		if (name_width(&items[i]) > name)
			name = name_width(&items[i]);
	}
	choose_columns(view, items, n, width, name, widths);
	view->titles = make_line(NULL, widths, NULL);
	if (sums)
		view->sums = make_line(sums, widths, NULL);
	for (i = 0; i < n; i++) {
		struct view_line marked = { 0 };
		char *text = make_line(&items[i], widths, &marked);
		struct view_line *line = add_line(view, text);

		marked.text = line->text;
		marked.key = key_of(items[i].vm, items[i].vcpu ? (int)items[i].vcpu->id : -1);
		*line = marked;
	}
}

static void add_vm_line(struct item *sums, struct kvmstats_activity *activity, const struct kvmstats_vm *vm)
{
	const struct item item = item_vm(vm);

	if (item.vcpus + sums->vcpus)
		sums->vcpu_elapsed = (sums->vcpu_elapsed * sums->vcpus + item.vcpu_elapsed * item.vcpus) /
				     (item.vcpus + sums->vcpus);
	sums->vcpus += item.vcpus;
	add_activity(activity, &vm->sum);
	if (vm->elapsed)
		sums->elapsed = vm->elapsed;
}

/* Add a part to a line, if it fits as a whole: a part of a number would be another number. */
static void add_part(char **line, unsigned int width, const char *part, ...)
	__attribute__((format(printf, 3, 4)));
static void add_part(char **line, unsigned int width, const char *part, ...)
{
	char *longer, *text;
	va_list args;

	va_start(args, part);
	if (vasprintf(&text, part, args) < 0)
		err(STATUS_NOTHING, NULL);
	va_end(args);
	longer = format("%s%s%s", *line, **line ? ", " : "", text);
	free(text);
	if (width && text_width(longer) > width) {
		free(longer);
		return;
	}
	free(*line);
	*line = longer;
}

/*
 * In per cent of one CPU, as in the columns. If the mode of some vCPUs is unknown, the sum of the
 * others is the least that it can be.
 */
static void add_mode_share(char **line, unsigned int width, const char *what, const struct item *sums,
			   enum kvmstats_mode mode)
{
	const bool known = sums->activity->times.known >> mode & 1;
	const uint64_t ns = sums->activity->times.mode[mode];
	char text[TEXT_SIZE];

	if (!sums->elapsed || (!known && !ns))
		return;
	text_permille(kvmstats_permille(ns, sums->vcpu_elapsed), text);
	add_part(line, width, "%s %s%s%%", what, known ? "" : "at least ", text);
}

/* Is the host too small for its guests? sums: of all VMs, also those that are not shown */
static char *host_line(const struct input *in, const struct item *sums, unsigned int width)
{
	const struct host host = input_host(in);
	char share[TEXT_SIZE], *line = check_alloc(strdup(""));

	if (!host.cpus)
		return line;
	text_permille(sums->vcpus * 10 / host.cpus, share);
	add_part(&line, width, "host: %u CPU%s", host.cpus, host.cpus == 1 ? "" : "s");
	add_mode_share(&line, width, "VMs run", sums, KVMSTATS_RUN);
	add_mode_share(&line, width, "ready", sums, KVMSTATS_READY);
	if (sums->activity->times.mode[KVMSTATS_THROTTLED])
		add_mode_share(&line, width, "throttled", sums, KVMSTATS_THROTTLED);
	if (host.cpu_pressure)
		add_part(&line, width, "PSI %u%%", (host.cpu_pressure + 50) / 100);
	add_part(&line, width, "load %u.%02u", host.load / 100, host.load % 100);
	add_part(&line, width, "%s vCPUs per CPU", share);
	return line;
}

static void make_host(struct view *view, const struct input *in, unsigned int width)
{
	struct kvmstats_activity activity = { 0 }, all = { 0 };
	struct item sums = { .activity = &activity }, host = { .activity = &all };
	const struct kvmstats_vm *vm;
	unsigned int n = 0;
	struct item *items;
	char by[64];

	for (vm = kvmstats_first(in->k); vm; vm = vm->next)
		n++;
	items = check_alloc(calloc(n + 1, sizeof(*items)));
	n = 0;
	for (vm = kvmstats_first(in->k); vm; vm = vm->next) {
		add_vm_line(&host, &all, vm);
		if (!view_has_vm(view, vm))
			continue;
		items[n] = item_vm(vm);
		judge_item(in->k, &items[n]);
		locate_item(in, &items[n++]);
		add_vm_line(&sums, &activity, vm);
	}
	if (!sums.vcpus)
		sums.vcpu_elapsed = sums.elapsed;
	sort_view_items(view, items, n);
	view->vms = n;
	view->head = format("kvm-stats: %u VM%s, %u vCPU%s, source %s%s", n,
			    n == 1 ? "" : "s", sums.vcpus, sums.vcpus == 1 ? "" : "s",
			    app_source(in->k), order_name(view, by, sizeof(by)));
	view->second = host_line(in, &host, width);
	make_lines(view, items, n, &sums, width);
	free(items);
}

static void make_vm(struct view *view, const struct input *in, unsigned int width)
{
	const struct kvmstats_vm *vm = view->in.vm;
	struct item *items = check_alloc(calloc(vm->vcpus + 1, sizeof(*items)));
	char label[TEXT_SHOWN(LABEL_SIZE)], vmm[64], machine[512], by[64];
	char uuid[TEXT_SHOWN(sizeof(vm->identity.uuid))], pod[TEXT_SHOWN(sizeof(vm->identity.pod_uid))];
	unsigned int i;

	items[0] = item_vm(vm);
	judge_item(in->k, &items[0]);
	for (i = 0; i < vm->vcpus; i++) {
		items[i + 1] = item_vcpu(vm, vm->vcpu[i]);
		locate_item(in, &items[i + 1]);
	}
	sort_view_items(view, items + 1, vm->vcpus);
	view->vms = 1;
	text_shown(vm->identity.vmm, vmm, sizeof(vmm));
	text_shown(vm->identity.machine, machine, sizeof(machine));
	/* A recording can contain anything. */
	text_shown(vm->identity.uuid, uuid, sizeof(uuid));
	text_shown(vm->identity.pod_uid, pod, sizeof(pod));
	view->head = format("%s: %s %d, %u vCPU%s, source %s%s%s", shown_label(vm, label),
			    vmm, vm->identity.pid, vm->vcpus, vm->vcpus == 1 ? "" : "s",
			    app_source(in->k), order_name(view, by, sizeof(by)),
			    vm->ended ? ", ENDED: the last values" : "");
	view->second = format("%s%s%s%s%s", uuid, *uuid ? "  " : "", machine, *pod ? "  pod " : "", pod);
	make_lines(view, items, vm->vcpus + 1, NULL, width);
	free(items);
}

struct view_statistic {
	const char *scope;
	const struct kvmstats_desc *desc;
	uint64_t value, rate, growth;
};

static int compare_statistics(const void *x, const void *y)
{
	const struct view_statistic *a = x, *b = y;

	if (a->rate != b->rate)
		return a->rate > b->rate ? -1 : 1;
	return strcmp(a->desc->name, b->desc->name);
}

/* A histogram is shown as how many samples it has. */
static uint64_t total(const struct kvmstats_desc *desc, const void *values)
{
	unsigned int i, n = text_is_histogram(desc) ? desc->size : 1;
	uint64_t sum = 0;

	for (i = 0; i < n; i++)
		sum += kvmstats_value(desc, values, i);
	return sum;
}

static unsigned int add_statistics(struct view_statistic *to, const char *scope,
				   const struct kvmstats_table *table,
				   const void *values, const void *before,
				   const void *growth, uint64_t elapsed)
{
	unsigned int i, n = 0;

	for (i = 0; table && values && i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		struct view_statistic *s = &to[n];
		bool grows = desc->type == KVMSTATS_CUMULATIVE || text_is_histogram(desc);

		s->scope = scope;
		s->desc = desc;
		s->value = total(desc, values);
		s->growth = 0;
		if (grows && growth)
			s->growth = total(desc, growth);
		else if (grows && before && total(desc, before) <= s->value)
			s->growth = s->value - total(desc, before);
		s->rate = kvmstats_rate(s->growth, elapsed);
		n += s->value != 0;
	}
	return n;
}

/* "run 99.8%, ready 28.7%, ... exits 7515/s ..." */
static char *activity_line(const struct item *item, unsigned int width)
{
	char cell[COLUMN_SIZE], title[COLUMN_SIZE], *line = check_alloc(strdup(""));
	unsigned int i, c;

	for (i = 0; i < columns_count; i++) {
		const bool percent = columns[i].kind == COLUMN_PERCENT;

		if (!percent && columns[i].kind != COLUMN_EVENT)
			continue;
		for (c = 0; columns[i].title[c] && !strchr("%/", columns[i].title[c]); c++)
			title[c] = tolower((unsigned char)columns[i].title[c]);
		column_cell(&columns[i], item, cell);
		add_part(&line, width, "%.*s %s%s", (int)c, title, cell, percent ? "%" : "/s");
	}
	return line;
}

static void make_statistics(struct view *view, const struct input *in,
			    const struct kvmstats_vcpu *vcpu, unsigned int width)
{
	const struct kvmstats_table *vms = kvmstats_table(in->k, KVMSTATS_VM);
	const struct kvmstats_table *vcpus = kvmstats_table(in->k, KVMSTATS_VCPU);
	const struct kvmstats_vm *vm = view->in.vm;
	char value[TEXT_SIZE], unit[TEXT_SIZE], growth[TEXT_SIZE];
	char label[TEXT_SHOWN(LABEL_SIZE)];
	const struct item item = vcpu ? item_vcpu(vm, vcpu) : item_vm(vm);
	struct view_statistic *list;
	unsigned int i, n = 0;

	list = check_alloc(calloc((vms ? vms->count : 0) + (vcpus ? vcpus->count : 0) + 1,
			   sizeof(*list)));
	if (vcpu) {
		n = add_statistics(list, "vcpu", vcpus, vcpu->values,
				   vcpu->first_sample ? NULL : vcpu->before, NULL, vm->elapsed);
	} else {
		n = add_statistics(list, "vm", vms, vm->values,
				   vm->first_sample ? NULL : vm->before, NULL, vm->elapsed);
		n += add_statistics(list + n, "vcpus", vcpus, vm->vcpu_sum, NULL,
				    vm->vcpu_growth, vm->elapsed);
	}
	qsort(list, n, sizeof(*list), compare_statistics);

	shown_label(vm, label);
	view->head = vcpu ? format("%s: vcpu%u, statistics, the most active first",
				   label, vcpu->id) :
			    format("%s: statistics of the VM and sums of its vCPUs, the most active first",
				   label);
	view->second = activity_line(&item, width);
	view->titles = format("%-5s %-30s %20s %-6s %14s", "SCOPE", "NAME", "VALUE",
			      "UNIT", "PER SECOND");
	for (i = 0; i < n; i++) {
		text_value(list[i].desc, list[i].value, value);
		text_value_unit(list[i].desc, unit);
		strcpy(growth, "-");
		if (vm->elapsed && list[i].growth)
			text_rate(list[i].desc, list[i].growth, vm->elapsed, growth);
		add_line(view, format("%-5s %-30s %20s %-6s %14s", list[i].scope,
				      list[i].desc->name, value,
				      text_is_histogram(list[i].desc) ? "times" : unit,
				      growth));
	}
	free(list);
}

static const struct kvmstats_vcpu *find_vcpu(const struct view_key *key)
{
	unsigned int i;

	for (i = 0; i < key->vm->vcpus; i++) {
		if (key->vm->vcpu[i]->id == (uint32_t)key->vcpu)
			return key->vm->vcpu[i];
	}
	return NULL;
}

/* Find the selected VM or vCPU, which may have moved; deselect it if it was removed. */
static void find_chosen(struct view *view)
{
	struct view_key *chosen = &view->chosen[view->level];
	unsigned int i;

	for (i = 0; chosen->vm && i < view->count; i++) {
		const struct view_key *key = &view->lines[i].key;

		if (key->vm && is_same_vm(chosen, key->vm) && key->vcpu == chosen->vcpu) {
			view->selected = i;
			chosen->vm = key->vm;
			return;
		}
	}
	/* Without a cursor, the first lines stay on the screen. */
	if (chosen->vm)
		view_choose(view, view->selected);
	else
		view->selected = 0;
}

bool view_has_cursor(const struct view *view)
{
	return view->level != VIEW_STATISTICS && view->chosen[view->level].vm;
}

void view_choose(struct view *view, unsigned int line)
{
	view->selected = line < view->count ? line : view->count ? view->count - 1 : 0;
	if (view->count)
		view->chosen[view->level] = view->lines[view->selected].key;
}

void view_make(struct view *view, const struct input *in, unsigned int width)
{
	const struct kvmstats_vcpu *vcpu = NULL;
	const struct kvmstats_vm *vm;

	clear(view);
	for (vm = kvmstats_first(in->k); vm && view->level != VIEW_HOST; vm = vm->next) {
		if (is_same_vm(&view->in, vm))
			break;
	}
	view->in.vm = vm;
	if (!vm)
		view->level = VIEW_HOST;
	if (view->level == VIEW_STATISTICS && view->in.vcpu >= 0) {
		vcpu = find_vcpu(&view->in);
		if (!vcpu)
			view->level = VIEW_VM;
	}
	switch (view->level) {
	case VIEW_HOST:
		make_host(view, in, width);
		break;
	case VIEW_VM:
		make_vm(view, in, width);
		break;
	default:
		make_statistics(view, in, vcpu, width);
		return;
	}
	find_chosen(view);
}

void view_open_selected(struct view *view, const struct input *in)
{
	const struct kvmstats_vm *vm, *only = NULL;

	for (vm = kvmstats_first(in->k); vm; vm = vm->next) {
		if (!app_selects(view->settings->args, view->settings->nr_args, vm))
			continue;
		if (only)
			return;
		only = vm;
	}
	if (!only)
		return;
	view->in = key_of(only, -1);
	view->level = VIEW_VM;
}

bool view_enter(struct view *view)
{
	if (view->level == VIEW_STATISTICS || view->selected >= view->count)
		return false;
	view->in = view->lines[view->selected].key;
	view->level++;
	view->selected = 0;
	memset(&view->chosen[view->level], 0, sizeof(view->chosen[view->level]));
	return true;
}

bool view_leave(struct view *view)
{
	if (view->level == VIEW_HOST)
		return false;
	view->level--;
	return true;
}

void view_sort(struct view *view, int step)
{
	/* Columns of another list than this one are left out. */
	do {
		view->sort = (view->sort + columns_count + step) % columns_count;
	} while (columns[view->sort].of == (view->level == VIEW_HOST ? OF_VCPUS : OF_VMS));
	view->reverse = false;
}
