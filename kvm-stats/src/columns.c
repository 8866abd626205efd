// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>

#include "ascii.h"
#include "columns.h"
#include "events.h"
#include "window.h"

static const char *get_name(const struct item *item, char buf[LABEL_SIZE])
{
	if (!item->vm)
		return "ALL";
	if (!item->vcpu)
		return app_label(item->vm, buf);
	snprintf(buf, LABEL_SIZE, "vcpu%u", item->vcpu->id);
	return buf;
}

static const char *get_vmm(const struct item *item, char buf[LABEL_SIZE])
{
	return item->vm ? item->vm->identity.vmm : "";
}

static bool get_pid(const struct item *item, uint64_t *value)
{
	*value = !item->vm ? 0 : item->vcpu ? item->vcpu->tid : item->vm->identity.pid;
	return *value;
}

static bool get_vcpus(const struct item *item, uint64_t *value)
{
	*value = item->vcpus;
	return true;
}

/* A wait that has not ended counts as one if there is no other. */
static bool get_mean_wait(const struct item *item, uint64_t *value)
{
	const struct kvmstats_times *times = &item->activity->times;
	const uint64_t waited = times->mode[KVMSTATS_READY] + times->mode[KVMSTATS_THROTTLED];

	*value = waited / (times->turns ?: 1);
	return times->known & KVMSTATS_TURNS_KNOWN && (waited || times->turns);
}

/* The reason instead of "stuck" */
static const char *get_problem(const struct item *item, char buf[LABEL_SIZE])
{
	switch (item->judgement.problem == PROBLEM_STUCK ? item->place.state : '\0') {
	case 'F':
		return "frozen";
	case 'T':
	case 't':
		return "stopped";
	case 'D':
		return "blocked";
	default:
		return problem_name(item->judgement.problem);
	}
}

static const char *get_state(const struct item *item, char buf[LABEL_SIZE])
{
	buf[0] = item->vcpu ? item->place.state : '\0';
	buf[1] = '\0';
	return buf;
}

static bool get_cpu(const struct item *item, uint64_t *value)
{
	*value = item->place.cpu;
	return item->vcpu && item->place.state;
}

static bool get_node(const struct item *item, uint64_t *value)
{
	*value = item->place.node;
	return item->vcpu && item->place.state && item->place.node >= 0;
}

static const char *get_affinity(const struct item *item, char buf[LABEL_SIZE])
{
	snprintf(buf, LABEL_SIZE, "%.*s", LABEL_SIZE - 1, item->place.affinity);
	return buf;
}

#define TEXT(title, letter, width, drop, of, name, what) \
	{ title, letter, width, drop, of, COLUMN_TEXT, 0, NULL, get_##name, NULL, what }
#define NUMBER(title, letter, width, drop, of, name, what) \
	{ title, letter, width, drop, of, COLUMN_NUMBER, 0, get_##name, NULL, NULL, what }
#define PERCENT(title, letter, width, drop, mode, key, what) \
	{ title, letter, width, drop, OF_ALL, COLUMN_PERCENT, mode, NULL, NULL, \
	  key "_percent", what }
#define EVENT(event, name, statistics, title, letter, width, drop, what) \
	{ title, letter, width, drop, OF_ALL, COLUMN_EVENT, KVMSTATS_##event, NULL, NULL, \
	  name "_per_second", what },

const struct column columns[] = {
	TEXT("NAME", 'N', 14, 0, OF_ALL, name, "the VM, or the vCPU"),
	NUMBER("PID", 'P', 7, 4, OF_ALL, pid, "its process; the thread of a vCPU"),
	TEXT("VMM", 'M', 11, 10, OF_VMS, vmm, "the virtual machine monitor that runs it"),
	{ "PROBLEM", 'J', 9, 3, OF_VMS, COLUMN_PROBLEM, 0, NULL, get_problem, NULL,
	  "the worst of its problems, see h" },
	NUMBER("CPUS", 'C', 4, 2, OF_VMS, vcpus, "how many vCPUs it has"),
	TEXT("STATE", 'Z', 5, 5, OF_VCPUS, state, "its thread runs (R), sleeps (S), is stopped (T, t), blocked (D)"),
	NUMBER("CPU", 'K', 4, 1, OF_VCPUS, cpu, "on which it ran last"),
	NUMBER("NODE", 'G', 4, 4, OF_VCPUS, node, "NUMA node of this CPU, if the host has several"),
	TEXT("AFFINITY", 'A', 9, 3, OF_VCPUS, affinity, "CPUs on which it may run, if these are not all"),
	PERCENT("RUN%", 'R', 6, 0, KVMSTATS_RUN, "run",
		"the vCPUs ran on a CPU; all modes of a vCPU add up to 100%"),
	PERCENT("READY%", 'Y', 6, 0, KVMSTATS_READY, "ready",
		"they could run, but waited for a CPU: steal time (! from 5% of one)"),
	PERCENT("THROT%", 'T', 6, 4, KVMSTATS_THROTTLED, "throttled",
		"they might not run: the quota of their cgroup was used up"),
	PERCENT("HALT%", 'H', 6, 1, KVMSTATS_HALT, "halt",
		"they slept, because the guest had nothing to do"),
	PERCENT("POLL%", 'L', 5, 6, KVMSTATS_POLL, "poll",
		"the host polled for the end of such a halt"),
	PERCENT("OTHER%", 'O', 6, 3, KVMSTATS_OTHER, "other",
		"they were blocked in the VMM, stopped or not yet started"),
	PERCENT("UNKN%", 'U', 6, 9, KVMSTATS_UNKNOWN, "unknown",
		"the kernel does not say which of these it was"),
	{ "WAIT-ms", 'W', 7, 7, OF_ALL, COLUMN_TIME, 0, get_mean_wait, NULL, "mean_wait_s",
	  "how long they waited each time they got a CPU, on average" },
	EVENTS(EVENT)
	{ "VMM%", 'V', 6, 7, OF_VMS, COLUMN_OTHERS, 0, NULL, NULL, "vmm_percent",
	  "other threads of the VMM ran: emulator, I/O, vhost" },
	{ "VMMRDY%", 'X', 7, 8, OF_VMS, COLUMN_OTHERS, 1, NULL, NULL, "vmm_ready_percent",
	  "these threads could run, but waited for a CPU: slow I/O" },
};

const unsigned int columns_count = sizeof(columns) / sizeof(columns[0]);
_Static_assert(sizeof(columns) / sizeof(columns[0]) <= 32, "view->hidden has a bit for each column");

bool column_get(const struct column *column, const struct item *item, uint64_t *value)
{
	const struct kvmstats_times *times = &item->activity->times;

	switch (column->kind) {
	case COLUMN_PERCENT:
		*value = times->mode[column->index];
		/* UNKNOWN is always available. */
		return column->index == KVMSTATS_UNKNOWN || times->known >> column->index & 1;
	case COLUMN_EVENT:
		*value = item->activity->event[column->index];
		return item->activity->known >> column->index & 1;
	case COLUMN_OTHERS:
		*value = column->index ? item->activity->other_waits : item->activity->other_threads;
		return item->activity->known & (column->index ? KVMSTATS_OTHER_WAITS_KNOWN : KVMSTATS_OTHER_THREADS_KNOWN);
	default:
		return column->get(item, value);
	}
}

/*
 * The time to which the modes of a vCPU add up. It differs from that of the VM, because vCPUs are
 * read one after the other. Use the VM's for a vCPU
 * that was created or destroyed in the meantime.
 */
static uint64_t elapsed_of(const struct kvmstats_vm *vm, const struct kvmstats_vcpu *vcpu)
{
	const uint64_t elapsed = vcpu->last.times.elapsed;

	return vm->ended || elapsed < vm->elapsed / 2 ? vm->elapsed : elapsed;
}

struct item item_vm(const struct kvmstats_vm *vm)
{
	struct item item = { vm, NULL, &vm->sum, vm->elapsed, 0, vm->vcpus, { 0 }, { 0 } };
	unsigned int i;

	for (i = 0; i < vm->vcpus; i++)
		item.vcpu_elapsed += elapsed_of(vm, vm->vcpu[i]);
	item.vcpu_elapsed = vm->vcpus ? item.vcpu_elapsed / vm->vcpus : vm->elapsed;
	return item;
}

struct item item_vcpu(const struct kvmstats_vm *vm, const struct kvmstats_vcpu *vcpu)
{
	return (struct item){ vm, vcpu, &vcpu->last, vm->elapsed, elapsed_of(vm, vcpu), 1,
			       { 0 }, { 0 } };
}

void judge_item(const struct kvmstats *k, struct item *item)
{
	item->judgement = judge_activity(item->activity, item->elapsed, item->vcpus,
					 count_failures(k, item->vm), item->vm->ended);
}

void locate_item(const struct input *in, struct item *item)
{
	const int proc = input_proc(in);

	if (proc < 0 || item->vm->ended)
		return;
	if (item->vcpu)
		read_place(proc, item->vcpu->tid, &item->place);
	else if (item->judgement.problem == PROBLEM_STUCK)
		item->place.state = find_stuck_state(proc, item->vm);
}

uint64_t column_elapsed(const struct column *column, const struct item *item)
{
	return column->kind == COLUMN_PERCENT ? item->vcpu_elapsed : item->elapsed;
}

static unsigned int vcpu_permille(const struct kvmstats_vm *vm, const struct kvmstats_vcpu *vcpu,
				  enum kvmstats_mode mode)
{
	return kvmstats_permille(vcpu->last.times.mode[mode], elapsed_of(vm, vcpu));
}

unsigned int item_most(const struct item *item, enum kvmstats_mode mode)
{
	unsigned int i, permille, most = 0;

	if (!item->vm)
		return 0;
	if (item->vcpu)
		return vcpu_permille(item->vm, item->vcpu, mode);
	for (i = 0; i < item->vm->vcpus; i++) {
		permille = vcpu_permille(item->vm, item->vm->vcpu[i], mode);
		if (most < permille)
			most = permille;
	}
	return most;
}

int column_by_letter(char letter)
{
	unsigned int i;

	for (i = 0; i < columns_count; i++) {
		if (columns[i].letter == letter)
			return i;
	}
	return -1;
}

int column_by_title(const char *title)
{
	unsigned int i;

	for (i = 0; i < columns_count; i++) {
		const size_t word = strcspn(columns[i].title, "%/-");

		if (ascii_equal(title, columns[i].title) ||
		    (strlen(title) == word && ascii_begins(title, columns[i].title, word)))
			return i;
	}
	return -1;
}

void column_cell(const struct column *column, const struct item *item,
		 char buf[COLUMN_SIZE])
{
	char text[LABEL_SIZE];
	uint64_t value;

	strcpy(buf, "-");
	if (column->text) {
		const char *name = column->text(item, text);

		if (*name)
			text_shown(name, buf, TEXT_SHOWN(LABEL_SIZE));
		return;
	}
	if (!column_get(column, item, &value))
		return;
	if (column->kind == COLUMN_NUMBER)
		snprintf(buf, COLUMN_SIZE, "%llu", (unsigned long long)value);
	else if ((column->kind == COLUMN_PERCENT || column->kind == COLUMN_OTHERS) && item->elapsed)
		text_permille(kvmstats_permille(value, column_elapsed(column, item)), buf);
	else if (column->kind == COLUMN_EVENT && item->elapsed)
		text_short(kvmstats_rate(value, item->elapsed), buf);
	else if (column->kind == COLUMN_TIME && item->elapsed)
		text_short(value / 1000, buf);
}

int column_compare(const struct column *column, const struct item *a,
		   const struct item *b)
{
	char text_a[LABEL_SIZE], text_b[LABEL_SIZE];
	uint64_t left = 0, right = 0;

	if (column->kind == COLUMN_TEXT)
		return strcmp(column->text(a, text_a), column->text(b, text_b));
	if (column->kind == COLUMN_PROBLEM) {
		left = a->activity->times.mode[KVMSTATS_RUN];
		right = b->activity->times.mode[KVMSTATS_RUN];
		return compare_judgements(&a->judgement, &b->judgement) ?: (left < right) - (left > right);
	}
	column_get(column, a, &left);
	column_get(column, b, &right);
	return (left < right) - (left > right);
}
