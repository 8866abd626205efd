// SPDX-License-Identifier: GPL-2.0-only
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "blame_sum.h"
#include "buf.h"
#include "clock.h"
#include "exits_sum.h"
#include "model.h"
#include "problem.h"
#include "proc_vm.h"
#include "statistic.h"

struct model *model_new(const struct serve_options *options)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->options = options;
	m->source = "none";
	m->proc = -1;
	m->program_started = read_clock(CLOCK_REALTIME);
	m->served = mmap(NULL, sizeof(*m->served), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->served != MAP_FAILED)
		return m;
	free(m);
	return NULL;
}

static void free_vm_series(struct vm_series *series)
{
	unsigned int i;

	for (i = 0; i < series->nr_vcpu; i++) {
		free(series->vcpu[i].value);
		free(series->vcpu[i].base);
	}
	free(series->vcpu);
	free(series->waits);
	free(series->value);
	free(series->base);
	free(series->labels);
	identity_clear(&series->identity);
	free(series);
}

static uint64_t since_base(const struct vm_series *series, unsigned int column)
{
	return series->value[column] - series->base[column];
}

static void add_usage(const struct model *m, const struct vm_series *series, struct usage *to)
{
	unsigned int i;

	for (i = 0; m->modes && i < MODES; i++)
		to->mode[i] += since_base(series, m->modes->first + i);
	if (m->exits)
		to->exits += since_base(series, m->exits->first);
}

static void remove_vm_series(struct model *m, struct vm_series *series)
{
	struct vm_series **at = &m->first;

	while (*at != series)
		at = &(*at)->next;
	*at = series->next;
	add_usage(m, series, &m->usage_ended);
	free_vm_series(series);
}

static void free_columns(struct model *m)
{
	free(m->family);
	free(m->generated);
	free(m->generated_name);
	m->family = NULL;
	m->generated = NULL;
	m->generated_name = NULL;
	m->modes = m->exits = m->failures = NULL;
	m->nr_families = m->width = m->nr_generated = 0;
}

/* Free all values, and the columns that they have. */
static void free_values(struct model *m)
{
	while (m->first)
		remove_vm_series(m, m->first);
	free_columns(m);
}

void model_free(struct model *m)
{
	free_values(m);
	munmap(m->served, sizeof(*m->served));
	free(m);
}

/* Columns of the statistics that this kernel has */

static struct family *add_family(struct model *m, const struct metric *metric,
				 bool per_vcpu, unsigned int width)
{
	struct family *family = &m->family[m->nr_families++];

	memset(family, 0, sizeof(*family));
	family->metric = metric;
	family->per_vcpu = per_vcpu;
	family->grows = metric->type == METRIC_COUNTER || metric->type == METRIC_HISTOGRAM;
	family->factor = 1;
	family->first = m->width;
	family->width = width;
	family->shown = metric->in_rules;
	m->width += width;
	return family;
}

static bool is_time(const struct kvmstats_desc *desc)
{
	return desc->unit == KVMSTATS_SECONDS && desc->base == KVMSTATS_POW10 &&
	       desc->exponent <= 0 && desc->exponent >= -18;
}

/* Find a histogram of times in nanoseconds with buckets of powers of two. */
static const struct kvmstats_desc *find_histogram(const struct kvmstats_table *table,
						  const char *name)
{
	const struct kvmstats_desc *desc = kvmstats_find(table, name);

	return desc && desc->type == KVMSTATS_LOG_HIST && is_time(desc) &&
	       desc->exponent == -9 && desc->size > 1 && desc->size <= 65 ? desc : NULL;
}

static void add_histogram(struct model *m, const struct metric *metric,
			  const struct kvmstats_table *table, bool per_vcpu)
{
	const struct kvmstats_desc *desc = find_histogram(table, metric->statistics);
	struct family *family;

	if (!desc)
		return;
	family = add_family(m, metric, per_vcpu, HISTOGRAM_WIDTH);
	family->histogram = desc;
	if (metric->sum)
		family->nr_stats_summed = statistic_indexes(table, metric->sum, family->words, MAX_SUMMED_STATS);
}

static void add_statistic(struct model *m, const struct metric *metric,
			  const struct kvmstats_table *table, bool per_vcpu)
{
	uint16_t words[MAX_SUMMED_STATS];
	unsigned int n = statistic_indexes(table, metric->statistics, words, MAX_SUMMED_STATS);
	struct family *family;

	if (!n)
		return;
	family = add_family(m, metric, per_vcpu, 1);
	family->nr_stats_summed = n;
	memcpy(family->words, words, sizeof(words));
}

static const struct family *find_family(const struct model *m, const char *name)
{
	unsigned int i;

	for (i = 0; i < m->nr_families; i++) {
		if (!strcmp(m->family[i].metric->name, name))
			return &m->family[i];
	}
	return NULL;
}

static bool is_exported(const struct model *m, const char *statistic)
{
	unsigned int i;

	for (i = 0; i < m->options->nr_stats; i++) {
		if (!fnmatch(m->options->stats[i], statistic, 0))
			return true;
	}
	return false;
}

/*
 * Set the unit, digits and factor of a generated metric. Return false if the type or
 * unit of the statistic is not supported.
 */
static bool set_unit(struct metric *metric, const struct kvmstats_desc *desc,
		     uint64_t *factor)
{
	const bool pow2 = desc->base == KVMSTATS_POW2;
	int i;

	if (desc->type == KVMSTATS_LOG_HIST)
		metric->unit = "seconds";
	if (desc->type == KVMSTATS_LOG_HIST)
		return is_time(desc) && desc->exponent == -9;
	if (desc->size != 1 || desc->type > KVMSTATS_PEAK)
		return false;
	if (is_time(desc)) {
		metric->unit = "seconds";
		metric->digits = -desc->exponent;
		return true;
	}
	if (desc->unit != KVMSTATS_BYTES && desc->unit != KVMSTATS_CYCLES &&
	    desc->unit != KVMSTATS_NONE && desc->unit != KVMSTATS_BOOLEAN)
		return false;
	if (desc->exponent < 0 || desc->exponent > (pow2 ? 40 : 12) ||
	    desc->base > KVMSTATS_POW2)
		return false;
	metric->unit = desc->unit == KVMSTATS_BYTES ? "bytes" :
		       desc->unit == KVMSTATS_CYCLES ? "cycles" : "";
	for (i = 0; i < desc->exponent; i++)
		*factor *= pow2 ? 2 : 10;
	return true;
}

/* Remove end from name, unless nothing would be left. */
static void strip_end(char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	if (len > n && !strcmp(name + len - n, end))
		name[len - n] = '\0';
}

/* Write the name of a generated metric without its scope. False: invalid characters. */
static bool generate_name(char name[81], const struct metric *metric,
			  const struct kvmstats_desc *desc)
{
	const bool histogram = desc->type == KVMSTATS_LOG_HIST;
	const bool peak = desc->type == KVMSTATS_PEAK;
	const char *from = desc->name;
	char stripped[81];

	if (peak && !strncmp(from, "max_", 4))
		from += 4;
	snprintf(stripped, sizeof(stripped), "%.50s", from);
	if (histogram)
		strip_end(stripped, "_hist");
	if (is_time(desc))
		strip_end(stripped, "_ns");
	snprintf(name, 81, "%.50s%s%s%s%s", stripped, peak ? "_max" : "",
		 histogram ? "_duration" : "", *metric->unit ? "_" : "", metric->unit);
	return !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

/*
 * Generate a metric from the descriptor of a statistic. Return NULL if it is not
 * supported, or if there is a metric with this name.
 */
static struct metric *generate_metric(struct model *m, enum kvmstats_scope scope,
				      const struct kvmstats_desc *desc, uint64_t *factor)
{
	struct metric *metric = &m->generated[m->nr_generated];
	char *name = m->generated_name[m->nr_generated][0];
	char *help = m->generated_name[m->nr_generated][1];
	char stem[81], of_vm[96];

	*factor = 1;
	*metric = (struct metric){ .unit = "" };
	if (!set_unit(metric, desc, factor) || !generate_name(stem, metric, desc))
		return NULL;
	snprintf(name, sizeof(m->generated_name[0][0]), "kvm_%s_%s",
		 scope == KVMSTATS_VM ? "vm" : "vcpu", stem);
	/* The sum over all vCPUs may be exported as a metric of the VM. */
	snprintf(of_vm, sizeof(of_vm), "kvm_vm_%s", stem);
	if (find_family(m, name) || find_family(m, of_vm))
		return NULL;
	snprintf(help, sizeof(m->generated_name[0][1]), "Kernel statistic %.90s", desc->name);
	metric->name = name;
	metric->type = desc->type == KVMSTATS_LOG_HIST ? METRIC_HISTOGRAM :
		       desc->type == KVMSTATS_CUMULATIVE ? METRIC_COUNTER : METRIC_GAUGE;
	metric->help = help;
	metric->from = FROM_STATISTIC;
	metric->scope = scope;
	metric->statistics = desc->name;
	m->nr_generated++;
	return metric;
}

/* Generate the metric kvm_vcpu_NAME from kvm_vm_NAME. */
static const struct metric *vcpu_metric(struct model *m, const struct metric *of)
{
	struct metric *metric = &m->generated[m->nr_generated];
	char *name = m->generated_name[m->nr_generated][0];

	*metric = *of;
	metric->in_rules = false;
	snprintf(name, sizeof(*m->generated_name[0]), "kvm_vcpu_%s", of->name + strlen("kvm_vm_"));
	metric->name = of->vcpu_name ? of->vcpu_name : name;
	m->nr_generated++;
	return metric;
}

static void add_metric_columns(struct model *m, const struct metric *metric,
			const struct kvmstats_table *const *table)
{
	const struct kvmstats_table *from = table[metric->scope];
	struct family *family;
	unsigned int i;

	switch (metric->from) {
	case FROM_MODES:
		add_family(m, metric, false, MODES);
		if (m->options->vcpus)
			add_family(m, vcpu_metric(m, metric), true, MODES);
		break;
	case FROM_ROLES:
		add_family(m, metric, false, KVMSTATS_ROLES);
		break;
	case FROM_OTHER_WAITS:
		add_family(m, metric, false, 1);
		break;
	case FROM_PAGES:
		if (!table[KVMSTATS_VM])
			break;
		/* One column per size; sizes that the kernel does not count stay UINT16_MAX. */
		family = add_family(m, metric, false, PAGE_SIZES);
		for (i = 0; i < PAGE_SIZES; i++) {
			family->words[i] = UINT16_MAX;
			statistic_indexes(table[KVMSTATS_VM], page_sizes[i].statistics,
					&family->words[i], 1);
			family->nr_stats_summed += family->words[i] != UINT16_MAX;
		}
		break;
	case FROM_STATISTIC:
		if (!from)
			break;
		if (metric->type == METRIC_HISTOGRAM)
			add_histogram(m, metric, from, false);
		else
			add_statistic(m, metric, from, false);
		if (m->options->vcpus && metric->scope == KVMSTATS_VCPU &&
		    metric->type != METRIC_HISTOGRAM)
			add_statistic(m, vcpu_metric(m, metric), from, true);
		break;
	default:
		break;
	}
}

static void add_other_columns(struct model *m, enum kvmstats_scope scope,
			const struct kvmstats_table *table)
{
	unsigned int i, before;
	struct metric *metric;
	uint64_t factor;

	for (i = 0; table && i < table->count; i++) {
		if (!is_exported(m, table->desc[i].name))
			continue;
		metric = generate_metric(m, scope, &table->desc[i], &factor);
		if (!metric)
			continue;
		before = m->nr_families;
		if (metric->type == METRIC_HISTOGRAM)
			add_histogram(m, metric, table, false);
		else
			add_statistic(m, metric, table,
				      m->options->vcpus && scope == KVMSTATS_VCPU);
		if (m->nr_families > before)
			m->family[before].factor = factor;
		if (m->nr_families > before && table->desc[i].type == KVMSTATS_PEAK)
			m->family[before].grows = false;
	}
}

/* Tables exist once the source has found a VM; columns depend on them. */
static bool build_columns(struct model *m, const struct kvmstats_table *const *table)
{
	unsigned int i, room;

	if (m->family && !!table[0] == m->has_table[0] && !!table[1] == m->has_table[1])
		return true;
	free_values(m);
	room = 2 * nr_metrics + (table[0] ? table[0]->count : 0) +
	       (table[1] ? table[1]->count : 0);
	m->family = calloc(room, sizeof(*m->family));
	m->generated = calloc(room, sizeof(*m->generated));
	m->generated_name = calloc(room, sizeof(*m->generated_name));
	if (!m->family || !m->generated || !m->generated_name) {
		free_columns(m);
		return false;
	}
	for (i = 0; i < nr_metrics; i++)
		add_metric_columns(m, &metrics[i], table);
	m->modes = find_family(m, "kvm_vm_vcpu_seconds");
	m->exits = find_family(m, "kvm_vm_exits");
	m->failures = find_family(m, "kvm_vm_insn_emulation_fail");
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		add_other_columns(m, i, table[i]);
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		m->has_table[i] = table[i];
	return true;
}

const char *model_unmatched(const struct serve_options *options,
			    const struct kvmstats_table *vm,
			    const struct kvmstats_table *vcpu)
{
	const struct kvmstats_table *const table[KVMSTATS_SCOPES] = {
		[KVMSTATS_VM] = vm, [KVMSTATS_VCPU] = vcpu,
	};
	struct model *m = model_new(options);
	const char *unmatched = NULL;
	unsigned int i, j;

	for (i = 0; m && build_columns(m, table) && i < options->nr_stats && !unmatched; i++) {
		unmatched = options->stats[i];
		for (j = 0; j < m->nr_families && unmatched; j++) {
			if (m->family[j].metric->from == FROM_STATISTIC &&
			    !fnmatch(unmatched, m->family[j].metric->statistics, 0))
				unmatched = NULL;
		}
	}
	if (m)
		model_free(m);
	return unmatched;
}

bool model_has(const struct model *m, const char *label)
{
	const struct vm_series *series;

	for (series = m->first; series; series = series->next)
		if (!strcmp(series->label, label))
			return true;
	return false;
}

static int compare_labels(const void *x, const void *y)
{
	const struct sum *const *a = x, *const *b = y;

	return strcmp((*a)->label, (*b)->label);
}

static int compare_label(const void *label, const void *y)
{
	const struct sum *const *sum = y;

	return strcmp(label, (*sum)->label);
}

/* Sort pointers to sums by label; NULL without memory */
static struct sum **sort_sums(const struct sums *sums)
{
	struct sum **sorted = calloc(sums->count + 1, sizeof(*sorted));
	size_t i;

	for (i = 0; i < sums->count && sorted; i++)
		sorted[i] = sum_at(sums, i);
	if (sorted)
		qsort(sorted, sums->count, sizeof(*sorted), compare_labels);
	return sorted;
}

static struct sum *find_labelled(const struct sums *sums, struct sum **sorted, const char *label)
{
	struct sum **found = sorted ? bsearch(label, sorted, sums->count, sizeof(*sorted),
					      compare_label) : NULL;

	return found ? *found : NULL;
}

void model_set_exits(struct model *m, struct exits_sum *exits, uint64_t elapsed)
{
	struct sum **sorted = sort_sums(&exits->sums);
	struct vm_series *series;
	size_t i;

	for (i = 0; i < exits->sums.count; i++)
		list_items(&exits->sums, sum_at(&exits->sums, i), m->options->programs.exits, elapsed);
	for (series = m->first; series; series = series->next)
		series->exits = (struct exits_vm *)find_labelled(&exits->sums, sorted, series->label);
	free(sorted);
}

void model_add_stalls(struct model *m, const struct sums *sums)
{
	struct sum **sorted = sort_sums(sums), *sum;
	struct stall_share *share;
	struct vm_series *series;
	size_t i;

	for (series = m->first; series; series = series->next) {
		sum = find_labelled(sums, sorted, series->label);
		for (i = 0; sum && i < sum->count; i++) {
			share = stall_share_at(sum, i);
			series->stall[share->reason] += share->item.growth;
			share->item.growth = 0;
		}
		if (m->marks) {
			memcpy(series->stall_mark[0], series->stall_mark[1], sizeof(series->stall));
			memcpy(series->stall_mark[1], series->stall, sizeof(series->stall));
		}
	}
	free(sorted);
}

/* Names */

static bool set_series_label(struct vm_series *series, const char *label)
{
	struct buf b = { 0 };

	snprintf(series->label, sizeof(series->label), "%s", label);
	buf_str(&b, "{vm=\"");
	buf_label(&b, label);
	buf_char(&b, '"');
	if (b.failed) {
		buf_free(&b);
		return false;
	}
	free(series->labels);
	/* Without the room to grow, which is many times the text */
	series->labels = realloc(b.text, b.len) ?: b.text;
	series->labels_len = b.len;
	return true;
}

static struct vm_series *find_series(const struct model *m, const char *label)
{
	struct vm_series *series;

	for (series = m->first; series && strcmp(series->label, label); series = series->next)
		;
	return series;
}

/* Count from now on, after the counts of a VM that had the label; NULL if there are none. */
static void restart_series(struct model *m, struct vm_series *series, const struct vm_series *before)
{
	unsigned int i;

	add_usage(m, series, &m->usage_ended);
	for (i = 0; i < m->width; i++)
		series->base[i] = series->value[i] - (before ? since_base(before, i) : 0);
	for (i = 0; i < series->nr_vcpu && m->options->vcpus; i++)
		memcpy(series->vcpu[i].base, series->vcpu[i].value, m->width * sizeof(*series->vcpu[i].base));
}

/*
 * The VM has another label now. If a VM has ended that had it, such as the same guest before it
 * was rebooted, its counters continue: readers get its last values, and the growth of this one.
 */
static bool take_label(struct model *m, struct vm_series *series, const char *label)
{
	struct vm_series *holder = find_series(m, label), **at;

	if (holder && !holder->ended) {
		/* A live VM that gets another label in this sample */
		*holder->label = '\0';
		holder = NULL;
	}
	if (!m->options->absolute)
		restart_series(m, series, holder);
	if (holder && m->options->absolute) {
		remove_vm_series(m, holder);
	} else if (holder) {
		for (at = &m->first; *at != holder; at = &(*at)->next)
			;
		*at = holder->next;
		free_vm_series(holder);
	}
	return set_series_label(series, label);
}

/* VMs */

static struct vm_series *find_vm_series(struct vm_series *first, const struct kvmstats_vm *vm)
{
	for (; first; first = first->next) {
		if (first->vm == vm)
			return first;
	}
	return NULL;
}

static struct vm_series *add_vm_series(struct model *m, const struct kvmstats_vm *vm)
{
	struct vm_series *series = calloc(1, sizeof(*series)), **at;

	if (!series)
		return NULL;
	series->value = calloc(m->width + 1, sizeof(*series->value));
	series->base = calloc(m->width + 1, sizeof(*series->base));
	series->vm = vm;
	identity_copy(&series->identity, &vm->identity);
	series->start = vm->identity.started / 1000000;
	if (!series->value || !series->base || !take_label(m, series, vm->identity.label)) {
		free_vm_series(series);
		return NULL;
	}
	/* The oldest VM first: --max-series excludes the youngest ones. */
	for (at = &m->first; *at && (*at)->start <= series->start; at = &(*at)->next)
		;
	series->next = *at;
	*at = series;
	return series;
}

static uint64_t stat_value(const void *values, unsigned int n)
{
	return ((const uint64_t *)values)[n];
}

/*
 * Copy the values of one VM or vCPU to the columns of a family. Counters are totals of the
 * library, which never decrease when a vCPU is removed or statistics are reset.
 */
static void read_family_values(const struct family *family, uint64_t *to, const void *values)
{
	unsigned int i, bound = 0;
	uint64_t sum = 0;

	if (family->metric->from == FROM_PAGES) {
		for (i = 0; i < PAGE_SIZES; i++)
			to[i] = family->words[i] == UINT16_MAX ? 0 :
				stat_value(values, family->words[i]) << page_sizes[i].shift;
		return;
	}
	for (i = 0; i < family->nr_stats_summed; i++)
		sum += stat_value(values, family->words[i]);
	if (!family->histogram) {
		*to = sum;
		return;
	}
	memset(to, 0, HISTOGRAM_WIDTH * sizeof(*to));
	to[BOUNDS + 1] = sum;
	for (i = 0; i < family->histogram->size; i++) {
		/* The last bucket of the kernel is unbounded. */
		while (bound < BOUNDS && i > BOUND_BUCKET(bound))
			bound++;
		to[i == family->histogram->size - 1 ? BOUNDS : bound] +=
			stat_value(values, family->histogram->offset / sizeof(uint64_t) + i);
	}
}

static void copy_times(uint64_t *to, const struct kvmstats_times *times)
{
	memcpy(to, times->mode, MODES * sizeof(*to));
}

static void copy_roles(uint64_t *to, const struct kvmstats_vm *vm)
{
	unsigned int i;

	for (i = 0; i < KVMSTATS_ROLES; i++)
		to[i] = kvmstats_vm_other_threads(vm, i);
}

/* Find the series of a vCPU, which is probably at a place, or add them. */
static struct vcpu_series *find_vcpu_series(struct model *m, struct vm_series *series, uint32_t id,
					    unsigned int place)
{
	struct vcpu_series *v;
	unsigned int i;

	if (place < series->nr_vcpu && series->vcpu[place].id == id)
		return &series->vcpu[place];
	for (i = 0; i < series->nr_vcpu; i++) {
		if (series->vcpu[i].id == id)
			return &series->vcpu[i];
	}
	if (series->nr_vcpu == series->vcpu_room) {
		unsigned int room = series->vcpu_room ? 2 * series->vcpu_room : 4;

		v = realloc(series->vcpu, room * sizeof(*v));
		if (!v)
			return NULL;
		series->vcpu = v;
		series->vcpu_room = room;
	}
	v = &series->vcpu[series->nr_vcpu];
	memset(v, 0, sizeof(*v));
	v->id = id;
	v->value = m->options->vcpus ? calloc(m->width + 1, sizeof(*v->value)) : NULL;
	v->base = m->options->vcpus ? calloc(m->width + 1, sizeof(*v->base)) : NULL;
	if (m->options->vcpus && (!v->value || !v->base)) {
		free(v->value);
		free(v->base);
		return NULL;
	}
	series->nr_vcpu++;
	return v;
}

static void note_shown(struct model *m, const uint64_t *value, bool per_vcpu)
{
	unsigned int i, j;

	for (i = 0; i < m->nr_families; i++) {
		struct family *family = &m->family[i];

		if (family->shown || family->per_vcpu != per_vcpu)
			continue;
		for (j = 0; j < family->width && !family->shown; j++)
			family->shown = value[family->first + j];
	}
}

/* Read the values of a vCPU for the metrics. */
static void update_vcpu_values(struct model *m, struct vcpu_series *v,
			       const struct kvmstats_vcpu *vcpu, bool base)
{
	unsigned int i;

	for (i = 0; i < m->nr_families; i++) {
		const struct family *family = &m->family[i];

		if (!family->per_vcpu)
			continue;
		if (family->metric->from == FROM_MODES)
			copy_times(v->value + family->first, &vcpu->times);
		else if (vcpu->total)
			read_family_values(family, v->value + family->first, vcpu->total);
	}
	if (base)
		memcpy(v->base, v->value, m->width * sizeof(*v->base));
	note_shown(m, v->value, true);
}

static void update_vcpu_totals(struct vcpu_series *v, const struct kvmstats_vcpu *vcpu, bool mark)
{
	v->tid = vcpu->tid;
	copy_times(v->now.mode, &vcpu->times);
	v->now.exits += vcpu->last.event[KVMSTATS_EXITS];
	if (!mark)
		return;
	v->mark[0] = v->mark[1];
	v->mark[1] = v->now;
}

static bool update_vcpus(struct model *m, struct vm_series *series, const struct kvmstats_vm *vm,
			 bool old)
{
	unsigned int i, j, before;

	for (i = 0; i < series->nr_vcpu; i++)
		series->vcpu[i].seen = false;
	for (i = 0; i < vm->vcpus; i++) {
		struct vcpu_series *v;

		before = series->nr_vcpu;
		v = find_vcpu_series(m, series, vm->vcpu[i]->id, i);
		if (!v)
			return false;
		v->seen = true;
		update_vcpu_totals(v, vm->vcpu[i], m->marks);
		if (m->options->vcpus)
			update_vcpu_values(m, v, vm->vcpu[i], old && series->nr_vcpu > before);
	}
	/* Remove vCPUs that no longer exist. */
	for (i = j = 0; i < series->nr_vcpu; i++) {
		if (!series->vcpu[i].seen) {
			free(series->vcpu[i].value);
			free(series->vcpu[i].base);
		} else if (i == j++) {
			continue;
		} else {
			series->vcpu[j - 1] = series->vcpu[i];
		}
	}
	series->nr_vcpu = j;
	return true;
}

static bool update_waits(struct model *m, struct vm_series *series, const struct kvmstats_vm *vm,
			 uint64_t now)
{
	struct blame_victim *victim = m->blame ? find_sum(&m->blame->sums, vm) : NULL;

	if (!victim)
		return true;
	if (!series->waits)
		series->waits = calloc(1, sizeof(*series->waits));
	if (series->waits)
		waits_update(series->waits, &m->blame->sums, victim, m->options->programs.owners, now - m->time);
	return series->waits;
}

static bool update_vm_series(struct model *m, struct vm_series *series, const struct kvmstats_vm *vm,
			 bool first)
{
	const bool old = first && !m->began && !m->options->absolute;
	unsigned int i;

	series->seen = true;
	series->vcpus = vm->vcpus;
	series->start = vm->identity.started / 1000000;
	for (i = 0; i < m->nr_families; i++) {
		const struct family *family = &m->family[i];
		const void *from = family->metric->from == FROM_PAGES ||
				   family->metric->scope == KVMSTATS_VM ? vm->total : vm->vcpu_total;

		if (family->per_vcpu)
			continue;
		if (family->metric->from == FROM_MODES)
			copy_times(series->value + family->first, &vm->times);
		else if (family->metric->from == FROM_ROLES)
			copy_roles(series->value + family->first, vm);
		else if (family->metric->from == FROM_OTHER_WAITS)
			series->value[family->first] = vm_other_waits(vm);
		else if (from)
			read_family_values(family, series->value + family->first, from);
	}
	if (old)
		memcpy(series->base, series->value, m->width * sizeof(*series->base));
	/* Unknown modes have no series; UNKNOWN has one only if it is not 0. */
	series->modes |= vm->times.known;
	if (vm->times.mode[KVMSTATS_UNKNOWN])
		series->modes |= 1U << KVMSTATS_UNKNOWN;
	note_shown(m, series->value, false);
	return update_vcpus(m, series, vm, old);
}

static void note_history(struct model *m, struct vm_series *series, const struct kvmstats_vm *vm,
			 uint64_t now)
{
	unsigned int at = series->nr_history % HISTORY;

	if (m->modes)
		hour_add(&series->hour, series->value + m->modes->first, now);
	if (series->nr_history &&
	    vm->time - series->history_time[(series->nr_history - 1) % HISTORY] < HISTORY_STEP)
		return;
	series->history_time[at] = vm->time;
	series->history[at][HISTORY_CPUS] = m->cpu_time + m->host.cpus * (vm->time - m->cpu_until);
	if (m->modes)
		memcpy(series->history[at], series->value + m->modes->first, MODES * sizeof(uint64_t));
	if (m->exits)
		series->history[at][HISTORY_EXITS] = series->value[m->exits->first];
	if (m->failures)
		series->history[at][HISTORY_FAILED] = series->value[m->failures->first];
	series->nr_history++;
}

static void end_vm_series(struct model *m, struct vm_series *series, uint64_t now)
{
	series->vm = NULL;
	series->ended = now;
	m->vms_ended++;
	series->ended_sample = m->samples + 1;
	series->pending_scrapers = m->scrapers;
	series->had_scrapers = m->scrapers;
}

void model_prune(struct model *m, uint64_t now)
{
	struct vm_series *series, *next;

	for (series = m->first; series; series = next) {
		next = series->next;
		if (series->ended && (now - series->ended >= ENDED_VM_TTL_NS ||
				      (!series->pending_scrapers && series->had_scrapers)))
			remove_vm_series(m, series);
	}
}

void model_scraped(struct model *m, uint32_t scraper, uint64_t sample)
{
	struct vm_series *series;

	for (series = m->first; series; series = series->next) {
		if (series->ended && series->ended_sample <= sample)
			series->pending_scrapers &= ~scraper;
	}
}

void model_replace_scraper(struct model *m, uint32_t scraper, uint32_t other)
{
	struct vm_series *series;

	for (series = m->first; series; series = series->next) {
		if (series->pending_scrapers & scraper)
			series->pending_scrapers = (series->pending_scrapers & ~scraper) | other;
	}
}

static bool update_series_identity(struct model *m, struct vm_series *series, const struct kvmstats_vm *vm)
{
	const bool same_label = !strcmp(series->label, vm->identity.label);

	/* For example, the process has moved to another cgroup. */
	if (!identity_equals(&series->identity, &vm->identity))
		identity_copy(&series->identity, &vm->identity);
	return same_label || take_label(m, series, vm->identity.label);
}

/* Find the series of a VM, or add them. Return NULL if memory ran out. */
static struct vm_series *get_vm_series(struct model *m, struct vm_series *near,
				       const struct kvmstats_vm *vm, bool *first)
{
	/* VMs are mostly in the order of the last sample. */
	struct vm_series *series = find_vm_series(near, vm);

	series = series ? series : find_vm_series(m->first, vm);
	*first = !series;
	if (series)
		return update_series_identity(m, series, vm) ? series : NULL;
	series = add_vm_series(m, vm);
	m->vms_started += series && m->began;
	return series;
}

/* Many VMs can be stuck for long. */
#define STATE_INTERVAL	(10 * SECOND)

void model_find_states(struct model *m, const struct kvmstats *k, uint64_t now)
{
	struct vm_series *series, *near = m->first;
	const struct kvmstats_vm *vm;

	for (vm = kvmstats_first(k); vm && m->proc >= 0; vm = vm->next) {
		series = find_vm_series(near, vm) ?: find_vm_series(m->first, vm);
		if (!series)
			continue;
		near = series->next;
		if (judge_activity(&vm->sum, vm->elapsed, vm->vcpus, 0, false).problem != PROBLEM_STUCK) {
			series->found_state = '\0';
			series->state_time = 0;
		} else if (!series->state_time || now - series->state_time >= STATE_INTERVAL) {
			series->found_state = find_stuck_state(m->proc, vm);
			series->state_time = now;
		}
	}
}

/* Update the VMs that have ended, or those that have not. */
static bool update_series(struct model *m, const struct kvmstats_vm *vm, bool ended, uint64_t now)
{
	struct vm_series *series, *near = m->first;
	bool ok = true, first;

	for (; vm; vm = vm->next) {
		if (vm->ended != ended)
			continue;
		m->vms += !vm->ended;
		m->vcpus += vm->ended ? 0 : vm->vcpus;
		series = get_vm_series(m, near, vm, &first);
		if (!series) {
			ok = false;
			near = m->first;
			continue;
		}
		near = series->next;
		ok &= update_vm_series(m, series, vm, first);
		ok &= update_waits(m, series, vm, now);
		series->state = series->found_state;
		note_history(m, series, vm, now);
		if (vm->ended)
			end_vm_series(m, series, now);
	}
	return ok;
}

static bool update_all_series(struct model *m, struct kvmstats *k, uint64_t now)
{
	const struct kvmstats_vm *vm = kvmstats_first(k);
	struct vm_series *series, *next;
	bool ok;

	m->vms = m->vcpus = 0;
	for (series = m->first; series; series = series->next)
		series->seen = false;
	if (vm) {
		/* CPUs can be offline for a part of the history. */
		m->cpu_time += m->host.cpus * (vm->time - m->cpu_until);
		m->cpu_until = vm->time;
	}
	/* Update ended VMs first: live ones may have their labels now. */
	ok = update_series(m, vm, true, now);
	ok &= update_series(m, vm, false, now);
	for (series = m->first; series; series = next) {
		next = series->next;
		if (!*series->label) {
			remove_vm_series(m, series);
			continue;
		}
		if (!series->seen && !series->ended)
			end_vm_series(m, series, now);
	}
	return ok;
}

static void update_usage(struct model *m)
{
	const struct vm_series *series;

	m->usage = m->usage_ended;
	for (series = m->first; series; series = series->next) {
		add_usage(m, series, &m->usage);
		m->modes_known |= series->modes;
	}
}

/* Return when the last values were read, since 1970. */
static uint64_t sample_timestamp(struct kvmstats *k)
{
	uint64_t now = read_clock(CLOCK_MONOTONIC), time = 0;
	const struct kvmstats_vm *vm;

	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		if (!vm->ended && vm->time > time && vm->time <= now)
			time = vm->time;
	}
	return read_clock(CLOCK_REALTIME) - (time ? now - time : 0);
}

bool model_update(struct model *m, struct kvmstats *k, uint64_t now, uint64_t duration)
{
	const struct kvmstats_table *table[KVMSTATS_SCOPES];
	const char *why;
	unsigned int i;
	bool ok;

	if (m->changes != kvmstats_source_changes(k)) {
		/*
		 * The tables and VMs of the previous source are invalid, and values of two
		 * sources are not comparable: counters of VMs restart at 0.
		 */
		m->changes = kvmstats_source_changes(k);
		free_values(m);
		if (m->restart) {
			memset(&m->usage_ended, 0, sizeof(m->usage_ended));
			m->vms_started = m->vms_ended = 0;
			m->restart = false;
		}
		m->began = false;
		m->mark[0] = m->mark[1] = 0;
	}
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		table[i] = kvmstats_table(k, i);
	if (!build_columns(m, table))
		return false;
	m->marks = now - m->mark[1] >= MARK_INTERVAL;
	if (m->marks) {
		m->mark[0] = m->mark[1];
		m->mark[1] = now;
	}
	ok = update_all_series(m, k, now);
	model_prune(m, now);
	update_usage(m);
	m->samples++;
	m->time = now;
	m->timestamp = sample_timestamp(k);
	m->duration = duration;
	m->source = kvmstats_source(k);
	m->has_unobserved = kvmstats_unobserved(k, &m->unobserved);
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		m->unread[i] = kvmstats_failed_reads_by_reason(k, i, &why);
		snprintf(m->why[i], sizeof(m->why[i]), "%s", m->unread[i] ? why : "");
	}
	/* VMs that appear with a source may have been running before. */
	m->began = strcmp(m->source, "none");
	return ok;
}
