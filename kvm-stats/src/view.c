// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "view.h"

#define LINE_MAX_SIZE	512
#define NAME_MIN	16
#define NAME_MAX	40

/* What a line is about: a VM, or one of its vCPUs */
struct item {
	const struct kvmstats_vm *vm;
	int vcpu;			/* index, -1: all */
	const struct kvmstats_activity *activity;
};

enum column_name {
	COLUMN_NAME, COLUMN_PID, COLUMN_VMM, COLUMN_VCPUS, COLUMN_RUN, COLUMN_READY,
	COLUMN_HALT, COLUMN_POLL, COLUMN_EXITS, COLUMN_IO, COLUMN_INTERRUPTS,
	COLUMN_TLB, COLUMNS_COUNT,
};

/* A narrow terminal drops those with the highest number first; 0 stays. */
static const struct {
	const char *title;
	unsigned int width, drop;
	bool host;			/* only there */
} columns[COLUMNS_COUNT] = {
	[COLUMN_NAME]		= { "NAME", NAME_MIN, 0, false },
	[COLUMN_PID]		= { "PID", 7, 6, false },
	[COLUMN_VMM]		= { "VMM", 10, 8, true },
	[COLUMN_VCPUS]		= { "CPUS", 4, 2, true },
	[COLUMN_RUN]		= { "RUN%", 6, 0, false },
	[COLUMN_READY]		= { "READY%", 6, 0, false },
	[COLUMN_HALT]		= { "HALT%", 6, 1, false },
	[COLUMN_POLL]		= { "POLL%", 5, 5, false },
	[COLUMN_EXITS]		= { "EXITS/S", 7, 0, false },
	[COLUMN_IO]		= { "IO/S", 6, 3, false },
	[COLUMN_INTERRUPTS]	= { "IRQ/S", 6, 4, false },
	[COLUMN_TLB]		= { "TLB/S", 6, 7, false },
};

static void *need(void *memory)
{
	if (!memory)
		err(STATUS_NOTHING, NULL);
	return memory;
}

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
	view->sort = COLUMN_RUN;
	view->vcpu = -1;
}

static void clear(struct view *view)
{
	while (view->count)
		free(view->lines[--view->count].text);
	free(view->head);
	free(view->sums);
	free(view->titles);
	view->head = view->sums = view->titles = NULL;
}

void view_free(struct view *view)
{
	clear(view);
	free(view->lines);
}

/* Takes text over. */
static void add_line(struct view *view, char *text, unsigned int width,
		     const struct kvmstats_vm *vm, int vcpu)
{
	if (view->count == view->room) {
		view->room = view->room ? 2 * view->room : 64;
		view->lines = need(realloc(view->lines,
					   view->room * sizeof(*view->lines)));
	}
	if (width)
		text[text_fit(text, width)] = '\0';
	view->lines[view->count++] = (struct view_line){ text, vm, vcpu };
}

static uint64_t sort_value(const struct item *item, unsigned int column)
{
	const struct kvmstats_activity *a = item->activity;

	switch (column) {
	case COLUMN_VCPUS:
		return item->vm->vcpus;
	case COLUMN_RUN:
		return a->run;
	case COLUMN_READY:
		return a->ready;
	case COLUMN_HALT:
		return a->halt;
	case COLUMN_POLL:
		return a->poll;
	case COLUMN_EXITS:
		return a->exits;
	case COLUMN_IO:
		return a->io;
	case COLUMN_INTERRUPTS:
		return a->interrupts;
	case COLUMN_TLB:
		return a->tlb_flushes;
	}
	return 0;
}

static unsigned int sort_column;

static int compare_items(const void *x, const void *y)
{
	const struct item *a = x, *b = y;
	uint64_t left = sort_value(a, sort_column), right = sort_value(b, sort_column);
	int order = 0;

	if (left != right)
		return left > right ? -1 : 1;
	if (sort_column == COLUMN_VMM)
		order = strcmp(a->vm->who.vmm, b->vm->who.vmm);
	if (!order && sort_column != COLUMN_PID)
		order = strcmp(a->vm->who.name, b->vm->who.name);
	if (!order)
		order = (a->vm->pid > b->vm->pid) - (a->vm->pid < b->vm->pid);
	if (!order)
		order = (a->vm->nth > b->vm->nth) - (a->vm->nth < b->vm->nth);
	return order ? order : (a->vcpu > b->vcpu) - (a->vcpu < b->vcpu);
}

static char *shown_label(const struct kvmstats_vm *vm, char *buf)
{
	char label[LABEL_SIZE];

	text_shown(app_label(vm, label), buf, TEXT_SHOWN(LABEL_SIZE));
	return buf;
}

static bool passes_filter(const struct view *view, const struct kvmstats_vm *vm)
{
	char label[LABEL_SIZE], shown[TEXT_SHOWN(LABEL_SIZE)];

	if (!app_selects(view->settings->words, view->settings->nr_words, vm))
		return false;
	app_label(vm, label);
	shown_label(vm, shown);
	return !*view->filter || strstr(label, view->filter) ||
	       strstr(shown, view->filter) ||
	       !fnmatch(view->filter, label, 0);
}

static void percent(bool has, uint64_t part, uint64_t elapsed, char *buf)
{
	if (has && elapsed)
		text_permille(kvmstats_permille(part, elapsed), buf);
	else
		strcpy(buf, "-");
}

static void rate(bool has, uint64_t growth, uint64_t elapsed, char *buf)
{
	if (has && elapsed)
		text_short(kvmstats_rate(growth, elapsed), buf);
	else
		strcpy(buf, "-");
}

#define CELL_SIZE	(TEXT_SHOWN(LABEL_SIZE) + 16)

/* text in this many columns, what is too long is cut */
static int put_left(char *to, const char *text, unsigned int width)
{
	const int bytes = text_fit(text, width);
	int n = sprintf(to, "%.*s", bytes, text);

	return n + sprintf(to + n, "%*s", (int)(width - text_width(to)), "");
}

static void cell(const struct item *item, unsigned int column, char *buf)
{
	const struct kvmstats_activity *a = item->activity;
	const struct kvmstats_vm *vm = item->vm;
	const struct kvmstats_vcpu *vcpu = item->vcpu < 0 ? NULL : vm->vcpu[item->vcpu];

	switch (column) {
	case COLUMN_NAME:
		if (vcpu)
			snprintf(buf, LABEL_SIZE, "vcpu%u", vcpu->id);
		else
			shown_label(vm, buf);
		if (vm->ended)
			strcat(buf, " (ended)");
		break;
	case COLUMN_PID:
		if (vcpu && !vcpu->tid)
			strcpy(buf, "-");
		else
			sprintf(buf, "%d", vcpu ? vcpu->tid : vm->pid);
		break;
	case COLUMN_VMM:
		text_shown(vm->who.vmm, buf, CELL_SIZE);
		break;
	case COLUMN_VCPUS:
		sprintf(buf, "%u", vm->vcpus);
		break;
	case COLUMN_RUN:
		percent(a->has_run, a->run, vm->elapsed, buf);
		break;
	case COLUMN_READY:
		percent(a->has_run, a->ready, vm->elapsed, buf);
		break;
	case COLUMN_HALT:
		percent(a->has_halt, a->halt, vm->elapsed, buf);
		break;
	case COLUMN_POLL:
		percent(a->has_halt, a->poll, vm->elapsed, buf);
		break;
	case COLUMN_EXITS:
		rate(a->has_exits, a->exits, vm->elapsed, buf);
		break;
	case COLUMN_IO:
		rate(a->has_io, a->io, vm->elapsed, buf);
		break;
	case COLUMN_INTERRUPTS:
		rate(a->has_interrupts, a->interrupts, vm->elapsed, buf);
		break;
	case COLUMN_TLB:
		rate(a->has_tlb_flushes, a->tlb_flushes, vm->elapsed, buf);
		break;
	}
}

/* Which columns there is room for; returns the width of the name's. */
static unsigned int choose_columns(const struct view *view, unsigned int width,
				   unsigned int name, bool *shown)
{
	unsigned int i, total = 0, worst;

	for (i = 0; i < COLUMNS_COUNT; i++) {
		shown[i] = view->level == VIEW_HOST || !columns[i].host;
		if (shown[i])
			total += columns[i].width + 1;
	}
	/* the last one needs no blank behind it */
	total--;
	while (width && total > width) {
		worst = 0;
		for (i = 1; i < COLUMNS_COUNT; i++) {
			if (shown[i] && columns[i].drop > columns[worst].drop)
				worst = i;
		}
		if (!worst)
			break;
		shown[worst] = false;
		total -= columns[worst].width + 1;
	}
	if (name <= NAME_MIN)
		return NAME_MIN;
	if (name > NAME_MAX)
		name = NAME_MAX;
	/* what is left over goes to long names */
	if (width && total + name - NAME_MIN > width)
		name = width > total ? NAME_MIN + width - total : NAME_MIN;
	return name;
}

static char *make_line(const struct item *item, const bool *shown, unsigned int name)
{
	char line[LINE_MAX_SIZE] = "", text[CELL_SIZE];
	unsigned int i;
	int n = 0;

	for (i = 0; i < COLUMNS_COUNT; i++) {
		if (!shown[i])
			continue;
		if (item)
			cell(item, i, text);
		else
			strcpy(text, columns[i].title);
		if (i == COLUMN_NAME)
			n += put_left(line + n, text, name);
		else if (i == COLUMN_VMM)
			n += put_left(strcat(line + n, " ") + 1, text, columns[i].width) + 1;
		else
			n += sprintf(line + n, " %*s", columns[i].width, text);
	}
	return need(strdup(line));
}

static void make_lines(struct view *view, struct item *items, unsigned int n,
		       unsigned int width)
{
	char label[CELL_SIZE];
	bool shown[COLUMNS_COUNT];
	unsigned int i, name = 0;

	for (i = 0; i < n; i++) {
		cell(&items[i], COLUMN_NAME, label);
		if (text_width(label) > name)
			name = text_width(label);
	}
	name = choose_columns(view, width, name, shown);
	view->titles = make_line(NULL, shown, name);
	for (i = 0; i < n; i++)
		add_line(view, make_line(&items[i], shown, name), width, items[i].vm,
			 items[i].vcpu);
}

/* One line that says it all, for a host or a VM */
static char *sums_line(const struct kvmstats_activity *a, uint64_t elapsed)
{
	char text[8][TEXT_SIZE];

	percent(a->has_run, a->run, elapsed, text[0]);
	percent(a->has_run, a->ready, elapsed, text[1]);
	percent(a->has_halt, a->halt, elapsed, text[2]);
	percent(a->has_halt, a->poll, elapsed, text[3]);
	rate(a->has_exits, a->exits, elapsed, text[4]);
	rate(a->has_io, a->io, elapsed, text[5]);
	rate(a->has_interrupts, a->interrupts, elapsed, text[6]);
	rate(a->has_tlb_flushes, a->tlb_flushes, elapsed, text[7]);
	return format("run %s%% ready %s%% halt %s%% poll %s%%  exits %s/s io %s/s irq %s/s tlb %s/s",
		      text[0], text[1], text[2], text[3], text[4], text[5], text[6],
		      text[7]);
}

static void make_host(struct view *view, const struct kvmstats *k, unsigned int width)
{
	struct kvmstats_activity sum = { 0 };
	const struct kvmstats_vm *vm;
	unsigned int n = 0, vcpus = 0;
	struct item *items;
	uint64_t elapsed = 0;

	for (vm = kvmstats_first(k); vm; vm = vm->next)
		n++;
	items = need(calloc(n + 1, sizeof(*items)));
	n = 0;
	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (!passes_filter(view, vm))
			continue;
		items[n++] = (struct item){ vm, -1, &vm->sum };
		vcpus += vm->vcpus;
		kvmstats_add_activity(&sum, &vm->sum);
		if (vm->elapsed)
			elapsed = vm->elapsed;
	}
	sort_column = view->sort;
	qsort(items, n, sizeof(*items), compare_items);
	view->vms = n;
	view->head = format("kvm-stats: %u VM%s, %u vCPU%s, source %s, by %s", n,
			    n == 1 ? "" : "s", vcpus, vcpus == 1 ? "" : "s",
			    kvmstats_source(k), columns[view->sort].title);
	view->sums = sums_line(&sum, elapsed);
	make_lines(view, items, n, width);
	free(items);
}

static void make_vm(struct view *view, const struct kvmstats *k, unsigned int width)
{
	const struct kvmstats_vm *vm = view->vm;
	struct item *items = need(calloc(vm->vcpus + 1, sizeof(*items)));
	char label[TEXT_SHOWN(LABEL_SIZE)], vmm[64], machine[512];
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		items[i + 1] = (struct item){ vm, i, &vm->vcpu[i]->last };
	items[0] = (struct item){ vm, -1, &vm->sum };
	sort_column = view->sort;
	qsort(items + 1, vm->vcpus, sizeof(*items), compare_items);
	text_shown(vm->who.vmm, vmm, sizeof(vmm));
	text_shown(vm->who.machine, machine, sizeof(machine));
	view->head = format("%s: %s %d, %u vCPU%s, source %s, by %s%s",
			    shown_label(vm, label), vmm, vm->pid, vm->vcpus,
			    vm->vcpus == 1 ? "" : "s", kvmstats_source(k),
			    columns[view->sort].title,
			    vm->ended ? ", ENDED: the last values" : "");
	view->sums = format("%s%s%s%s%s", vm->who.uuid, *vm->who.uuid ? "  " : "",
			    machine, *vm->who.pod ? "  pod " : "", vm->who.pod);
	make_lines(view, items, vm->vcpus + 1, width);
	free(items);
}

struct statistic {
	const char *scope;
	const struct kvmstats_desc *desc;
	uint64_t value, rate, growth;
};

static int compare_statistics(const void *x, const void *y)
{
	const struct statistic *a = x, *b = y;

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

static unsigned int add_statistics(struct statistic *to, const char *scope,
				   const struct kvmstats_table *table,
				   const void *values, const void *before,
				   const void *growth, uint64_t elapsed)
{
	unsigned int i, n = 0;

	for (i = 0; table && values && i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		struct statistic *s = &to[n];
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

static void make_statistics(struct view *view, const struct kvmstats *k,
			    const struct kvmstats_vcpu *vcpu, unsigned int width)
{
	const struct kvmstats_table *vms = kvmstats_table(k, KVMSTATS_VM);
	const struct kvmstats_table *vcpus = kvmstats_table(k, KVMSTATS_VCPU);
	const struct kvmstats_vm *vm = view->vm;
	char value[TEXT_SIZE], unit[TEXT_SIZE], growth[TEXT_SIZE];
	char label[TEXT_SHOWN(LABEL_SIZE)];
	struct statistic *list;
	unsigned int i, n = 0;

	list = need(calloc((vms ? vms->count : 0) + (vcpus ? vcpus->count : 0) + 1,
			   sizeof(*list)));
	if (vcpu) {
		n = add_statistics(list, "vcpu", vcpus, vcpu->values,
				   vcpu->fresh ? NULL : vcpu->before, NULL, vm->elapsed);
	} else {
		n = add_statistics(list, "vm", vms, vm->values,
				   vm->fresh ? NULL : vm->before, NULL, vm->elapsed);
		n += add_statistics(list + n, "vcpus", vcpus, vm->vcpu_sum, NULL,
				    vm->vcpu_growth, vm->elapsed);
	}
	qsort(list, n, sizeof(*list), compare_statistics);

	shown_label(vm, label);
	view->head = vcpu ? format("%s: vcpu%u, statistics, the most active first",
				   label, vcpu->id) :
			    format("%s: statistics of the VM and sums of its vCPUs, the most active first",
				   label);
	view->sums = vcpu ? sums_line(&vcpu->last, vm->elapsed) :
			    sums_line(&vm->sum, vm->elapsed);
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
				      growth), width, NULL, -1);
	}
	free(list);
}

static const struct kvmstats_vcpu *find_vcpu(const struct view *view)
{
	unsigned int i;

	for (i = 0; i < view->vm->vcpus; i++) {
		if (view->vm->vcpu[i]->id == (uint32_t)view->vcpu)
			return view->vm->vcpu[i];
	}
	return NULL;
}

void view_make(struct view *view, const struct kvmstats *k, unsigned int width)
{
	const struct kvmstats_vcpu *vcpu = NULL;
	const struct kvmstats_vm *vm;

	clear(view);
	for (vm = kvmstats_first(k); vm && view->level != VIEW_HOST; vm = vm->next) {
		if (vm == view->vm && vm->pid == view->pid && vm->number == view->number)
			break;
	}
	if (!vm)
		view->level = VIEW_HOST;
	if (view->level == VIEW_STATISTICS && view->vcpu >= 0) {
		vcpu = find_vcpu(view);
		if (!vcpu)
			view->level = VIEW_VM;
	}
	switch (view->level) {
	case VIEW_HOST:
		make_host(view, k, width);
		break;
	case VIEW_VM:
		make_vm(view, k, width);
		break;
	case VIEW_STATISTICS:
		make_statistics(view, k, vcpu, width);
		break;
	}
}

bool view_enter(struct view *view, const struct view_line *line)
{
	if (view->level == VIEW_STATISTICS || !line->vm)
		return false;
	if (view->level == VIEW_HOST) {
		view->level = VIEW_VM;
		view->vm = line->vm;
		view->pid = line->vm->pid;
		view->number = line->vm->number;
	} else {
		view->level = VIEW_STATISTICS;
		view->vcpu = line->vcpu < 0 ? -1 : (int)line->vm->vcpu[line->vcpu]->id;
	}
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
	view->sort = (view->sort + COLUMNS_COUNT + step) % COLUMNS_COUNT;
}
