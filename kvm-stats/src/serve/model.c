// SPDX-License-Identifier: GPL-2.0-only
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "buf.h"
#include "model.h"
#include "statistic.h"

struct model *model_new(const struct serve_options *options)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->options = options;
	m->source = "none";
	return m;
}

static void free_entry(struct entry *e)
{
	unsigned int i;

	for (i = 0; i < e->nr_vcpu; i++) {
		free(e->vcpu[i].value);
		free(e->vcpu[i].base);
	}
	free(e->vcpu);
	free(e->value);
	free(e->base);
	free(e->labels);
	free(e);
}

static void forget_plan(struct model *m)
{
	free(m->family);
	free(m->made);
	free(m->made_name);
	m->family = NULL;
	m->made = NULL;
	m->made_name = NULL;
	m->nr_families = m->width = m->nr_made = 0;
}

/* The columns, and all values, which are of these columns */
static void forget(struct model *m)
{
	struct entry *e;

	while ((e = m->first)) {
		m->first = e->next;
		free_entry(e);
	}
	forget_plan(m);
}

void model_free(struct model *m)
{
	forget(m);
	free(m);
}

/* The columns: which statistics this kernel has, and where they go */

static struct family *add_family(struct model *m, const struct metric *metric,
				 bool per_vcpu, unsigned int width)
{
	struct family *c = &m->family[m->nr_families++];

	memset(c, 0, sizeof(*c));
	c->metric = metric;
	c->per_vcpu = per_vcpu;
	c->grows = metric->type == METRIC_COUNTER || metric->type == METRIC_HISTOGRAM;
	c->factor = 1;
	c->first = m->width;
	c->width = width;
	m->width += width;
	return c;
}

static bool is_time(const struct kvmstats_desc *desc)
{
	return desc->unit == KVMSTATS_SECONDS && desc->base == KVMSTATS_POW10 &&
	       desc->exponent <= 0 && desc->exponent >= -18;
}

/* A histogram can be had if it counts times in nanoseconds by powers of two. */
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
	struct family *c;

	if (!desc)
		return;
	c = add_family(m, metric, per_vcpu, HISTOGRAM_WIDTH);
	c->histogram = desc;
	if (metric->sum)
		c->nr_words = statistic_words(table, metric->sum, c->words, PARTS);
}

static void add_statistic(struct model *m, const struct metric *metric,
			  const struct kvmstats_table *table, bool per_vcpu)
{
	uint16_t words[PARTS];
	unsigned int n = statistic_words(table, metric->statistics, words, PARTS);
	struct family *c;

	if (!n)
		return;
	c = add_family(m, metric, per_vcpu, 1);
	c->nr_words = n;
	memcpy(c->words, words, sizeof(words));
}

static bool has_family(const struct model *m, const char *name)
{
	unsigned int i;

	for (i = 0; i < m->nr_families; i++) {
		if (!strcmp(m->family[i].metric->name, name))
			return true;
	}
	return false;
}

static bool wanted(const struct model *m, const char *statistic)
{
	unsigned int i;

	for (i = 0; i < m->options->nr_stats; i++) {
		if (!fnmatch(m->options->stats[i], statistic, 0))
			return true;
	}
	return false;
}

/*
 * A metric of a statistic that the table of metrics does not have, as its descriptor
 * tells. NULL: its type or unit is not known here, or there is one of this name.
 */
static struct metric *make_metric(struct model *m, enum kvmstats_scope scope,
				  const struct kvmstats_desc *desc, uint64_t *factor)
{
	struct metric *metric = &m->made[m->nr_made];
	char *name = m->made_name[m->nr_made][0], *help = m->made_name[m->nr_made][1];
	bool histogram = desc->type == KVMSTATS_LOG_HIST, peak = desc->type == KVMSTATS_PEAK;
	const char *unit = "", *from = desc->name;
	size_t len;
	int i;

	*factor = 1;
	memset(metric, 0, sizeof(*metric));
	if (histogram ? !(is_time(desc) && desc->exponent == -9) :
			desc->size != 1 || desc->type > KVMSTATS_PEAK)
		return NULL;
	if (is_time(desc)) {
		unit = histogram ? "duration_seconds" : "seconds";
		metric->digits = -desc->exponent;
	} else if (desc->unit == KVMSTATS_BYTES || desc->unit == KVMSTATS_CYCLES ||
		   desc->unit == KVMSTATS_NONE || desc->unit == KVMSTATS_BOOLEAN) {
		unit = desc->unit == KVMSTATS_BYTES ? "bytes" :
		       desc->unit == KVMSTATS_CYCLES ? "cycles" : "";
		if (desc->exponent < 0 || desc->exponent > (desc->base == KVMSTATS_POW2 ? 40 : 12) ||
		    desc->base > KVMSTATS_POW2)
			return NULL;
		for (i = 0; i < desc->exponent; i++)
			*factor *= desc->base == KVMSTATS_POW2 ? 2 : 10;
	} else {
		return NULL;
	}
	len = strlen(from);
	if (peak && !strncmp(from, "max_", 4))
		from += 4, len -= 4;
	if (histogram && len > 5 && !strcmp(from + len - 5, "_hist"))
		len -= 5;
	if (is_time(desc) && len > 3 && !strncmp(from + len - 3, "_ns", 3))
		len -= 3;
	for (i = 0; i < (int)len; i++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
			    from[i]))
			return NULL;
	}
	snprintf(name, sizeof(*m->made_name[0]), "kvm_%s_%.80s%s%s%s",
		 scope == KVMSTATS_VM ? "vm" : "vcpu", from,
		 peak ? "_max" : "", *unit ? "_" : "", unit);
	/* the end of the kernel's name went: the one of the unit comes instead */
	if (len != strlen(from))
		snprintf(name, sizeof(*m->made_name[0]), "kvm_%s_%.*s%s%s%s",
			 scope == KVMSTATS_VM ? "vm" : "vcpu", (int)(len < 80 ? len : 80), from,
			 peak ? "_max" : "", *unit ? "_" : "", unit);
	/* sums over vCPUs may be there as the VM's */
	snprintf(help, sizeof(*m->made_name[0]), "kvm_vm_%s",
		 name + (scope == KVMSTATS_VM ? strlen("kvm_vm_") : strlen("kvm_vcpu_")));
	if (has_family(m, name) || has_family(m, help))
		return NULL;
	snprintf(help, sizeof(*m->made_name[0]), "The kernel's statistic %.90s", desc->name);
	metric->name = name;
	metric->type = histogram ? METRIC_HISTOGRAM :
		       desc->type == KVMSTATS_CUMULATIVE ? METRIC_COUNTER : METRIC_GAUGE;
	metric->unit = is_time(desc) ? "seconds" : unit;
	metric->help = help;
	metric->from = FROM_STATISTIC;
	metric->scope = scope;
	metric->statistics = desc->name;
	m->nr_made++;
	return metric;
}

/* The same metric for each vCPU: kvm_vcpu_ instead of kvm_vm_ */
static const struct metric *vcpu_metric(struct model *m, const struct metric *of)
{
	struct metric *metric = &m->made[m->nr_made];
	char *name = m->made_name[m->nr_made][0];

	*metric = *of;
	/* kvm_vm_vcpu_seconds and kvm_vm_vcpus_blocking are of vCPUs already */
	snprintf(name, sizeof(*m->made_name[0]), "kvm_vcpu_%s",
		 of->from == FROM_MODES ? "seconds" :
		 !strcmp(of->name, "kvm_vm_vcpus_blocking") ? "blocking" :
		 of->name + strlen("kvm_vm_"));
	metric->name = name;
	m->nr_made++;
	return metric;
}

static void plan_metric(struct model *m, const struct metric *metric,
			const struct kvmstats_table *const *table)
{
	const struct kvmstats_table *from = table[metric->scope];
	struct family *c;
	unsigned int i;

	switch (metric->from) {
	case FROM_MODES:
		add_family(m, metric, false, MODES);
		if (m->options->vcpus)
			add_family(m, vcpu_metric(m, metric), true, MODES);
		break;
	case FROM_PAGES:
		if (!table[KVMSTATS_VM])
			break;
		/* one value each; those that the kernel does not have stay 0 words */
		c = add_family(m, metric, false, PAGE_SIZES);
		for (i = 0; i < PAGE_SIZES; i++) {
			c->words[i] = UINT16_MAX;
			statistic_words(table[KVMSTATS_VM], page_sizes[i].statistics,
					&c->words[i], 1);
			c->nr_words += c->words[i] != UINT16_MAX;
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

static void plan_others(struct model *m, enum kvmstats_scope scope,
			const struct kvmstats_table *table)
{
	unsigned int i, before;
	struct metric *metric;
	uint64_t factor;

	for (i = 0; table && i < table->count; i++) {
		if (!wanted(m, table->desc[i].name))
			continue;
		metric = make_metric(m, scope, &table->desc[i], &factor);
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

/* A table is there from the first VM on: until then there is nothing to export. */
static bool plan(struct model *m, const struct kvmstats_table *const *table)
{
	unsigned int i, room;

	if (m->family && !!table[0] == m->planned[0] && !!table[1] == m->planned[1])
		return true;
	forget(m);
	room = 2 * nr_metrics + (table[0] ? table[0]->count : 0) +
	       (table[1] ? table[1]->count : 0);
	m->family = calloc(room, sizeof(*m->family));
	m->made = calloc(room, sizeof(*m->made));
	m->made_name = calloc(room, sizeof(*m->made_name));
	if (!m->family || !m->made || !m->made_name) {
		forget_plan(m);
		return false;
	}
	for (i = 0; i < nr_metrics; i++)
		plan_metric(m, &metrics[i], table);
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		plan_others(m, i, table[i]);
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		m->planned[i] = table[i];
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

	for (i = 0; m && plan(m, table) && i < options->nr_stats && !unmatched; i++) {
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

/* Names */

static void remove_entry(struct model *m, struct entry *gone)
{
	struct entry **at = &m->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	free_entry(gone);
}

/* The library gives the name of a VM that has ended to the next that is called so. */
static void leave_label(struct model *m, const char *label)
{
	struct entry *e;

	for (e = m->first; e; e = e->next) {
		if (e->ended && !strcmp(e->label, label)) {
			remove_entry(m, e);
			return;
		}
	}
}

static bool put_labels(struct entry *e)
{
	struct buf b = { 0 };

	buf_str(&b, "{vm=\"");
	buf_label(&b, e->label);
	buf_char(&b, '"');
	if (b.failed) {
		buf_free(&b);
		return false;
	}
	e->labels = b.text;
	e->labels_len = b.len;
	return true;
}

/* VMs */

static struct entry *find_entry(struct entry *first, const struct kvmstats_vm *vm)
{
	for (; first; first = first->next) {
		if (first->vm == vm)
			return first;
	}
	return NULL;
}

static struct entry *add_entry(struct model *m, const struct kvmstats_vm *vm)
{
	struct entry *e = calloc(1, sizeof(*e)), **at;

	if (!e)
		return NULL;
	e->value = calloc(m->width + 1, sizeof(*e->value));
	e->base = calloc(m->width + 1, sizeof(*e->base));
	e->vm = vm;
	e->who = vm->who;
	e->start = vm->who.started / 1000000;
	leave_label(m, vm->who.label);
	snprintf(e->label, sizeof(e->label), "%s", vm->who.label);
	if (!e->value || !e->base || !put_labels(e)) {
		free_entry(e);
		return NULL;
	}
	/* the oldest first: they are the last to be left out */
	for (at = &m->first; *at && (*at)->start <= e->start; at = &(*at)->next)
		;
	e->next = *at;
	*at = e;
	return e;
}

static uint64_t word(const void *values, unsigned int n)
{
	return ((const uint64_t *)values)[n];
}

/*
 * Values of one VM or vCPU into a column: totals of what only grows, which do not fall
 * when a vCPU goes, or somebody sets them to 0.
 */
static void take(const struct family *c, uint64_t *to, const void *values)
{
	unsigned int i, bound = 0;
	uint64_t sum = 0;

	if (c->metric->from == FROM_PAGES) {
		for (i = 0; i < PAGE_SIZES; i++)
			to[i] = c->words[i] == UINT16_MAX ? 0 :
				word(values, c->words[i]) << page_sizes[i].shift;
		return;
	}
	for (i = 0; i < c->nr_words; i++)
		sum += word(values, c->words[i]);
	if (!c->histogram) {
		*to = sum;
		return;
	}
	memset(to, 0, HISTOGRAM_WIDTH * sizeof(*to));
	to[BOUNDS + 1] = sum;
	for (i = 0; i < c->histogram->size; i++) {
		/* the last one of the kernel has no end */
		while (bound < BOUNDS && i > BOUND_BUCKET(bound))
			bound++;
		to[i == c->histogram->size - 1 ? BOUNDS : bound] +=
			word(values, c->histogram->offset / sizeof(uint64_t) + i);
	}
}

static void take_times(uint64_t *to, const struct kvmstats_times *times)
{
	memcpy(to, times->mode, MODES * sizeof(*to));
}

static struct vcpu_entry *find_vcpu(struct model *m, struct entry *e, uint32_t id)
{
	struct vcpu_entry *v;
	unsigned int i;

	for (i = 0; i < e->nr_vcpu; i++) {
		if (e->vcpu[i].id == id)
			return &e->vcpu[i];
	}
	if (e->nr_vcpu == e->vcpu_room) {
		unsigned int room = e->vcpu_room ? 2 * e->vcpu_room : 4;

		v = realloc(e->vcpu, room * sizeof(*v));
		if (!v)
			return NULL;
		e->vcpu = v;
		e->vcpu_room = room;
	}
	v = &e->vcpu[e->nr_vcpu];
	memset(v, 0, sizeof(*v));
	v->id = id;
	v->value = calloc(m->width + 1, sizeof(*v->value));
	v->base = calloc(m->width + 1, sizeof(*v->base));
	if (!v->value || !v->base) {
		free(v->value);
		free(v->base);
		return NULL;
	}
	e->nr_vcpu++;
	return v;
}

static void note_shown(struct model *m, const uint64_t *value, bool per_vcpu)
{
	unsigned int i, j;

	for (i = 0; i < m->nr_families; i++) {
		struct family *c = &m->family[i];

		for (j = 0; j < c->width && !c->shown && c->per_vcpu == per_vcpu; j++)
			c->shown = value[c->first + j];
	}
}

static bool update_vcpus(struct model *m, struct entry *e, const struct kvmstats_vm *vm,
			 bool old)
{
	unsigned int i, j, before;

	for (i = 0; i < e->nr_vcpu; i++)
		e->vcpu[i].seen = false;
	for (i = 0; i < vm->vcpus; i++) {
		const struct kvmstats_vcpu *vcpu = vm->vcpu[i];
		struct vcpu_entry *v;

		before = e->nr_vcpu;
		v = find_vcpu(m, e, vcpu->id);
		if (!v)
			return false;
		v->seen = true;
		for (j = 0; j < m->nr_families; j++) {
			const struct family *c = &m->family[j];

			if (!c->per_vcpu)
				continue;
			if (c->metric->from == FROM_MODES)
				take_times(v->value + c->first, &vcpu->times);
			else if (vcpu->total)
				take(c, v->value + c->first, vcpu->total);
		}
		if (old && e->nr_vcpu > before)
			memcpy(v->base, v->value, m->width * sizeof(*v->base));
		note_shown(m, v->value, true);
	}
	/* the last values of a vCPU that has gone are no use without it */
	for (i = j = 0; i < e->nr_vcpu; i++) {
		if (e->vcpu[i].seen) {
			e->vcpu[j++] = e->vcpu[i];
		} else {
			free(e->vcpu[i].value);
			free(e->vcpu[i].base);
		}
	}
	e->nr_vcpu = j;
	return true;
}

static bool update_entry(struct model *m, struct entry *e, const struct kvmstats_vm *vm,
			 bool first)
{
	const bool old = first && !m->began && !m->options->absolute;
	unsigned int i;

	e->seen = true;
	e->vcpus = vm->vcpus;
	for (i = 0; i < m->nr_families; i++) {
		const struct family *c = &m->family[i];
		const void *from = c->metric->from == FROM_PAGES ||
				   c->metric->scope == KVMSTATS_VM ? vm->total : vm->vcpu_total;

		if (c->per_vcpu)
			continue;
		if (c->metric->from == FROM_MODES)
			take_times(e->value + c->first, &vm->times);
		else if (from)
			take(c, e->value + c->first, from);
	}
	if (old)
		memcpy(e->base, e->value, m->width * sizeof(*e->base));
	/* what is not known has no series; nor has the unknown where there is none */
	e->modes |= vm->times.known;
	if (vm->times.mode[KVMSTATS_UNKNOWN])
		e->modes |= 1U << KVMSTATS_UNKNOWN;
	note_shown(m, e->value, false);
	return !m->options->vcpus || update_vcpus(m, e, vm, old);
}

static void note_history(struct model *m, struct entry *e, uint64_t now)
{
	unsigned int i, at = e->nr_history % HISTORY;
	const struct family *c;

	if (e->nr_history &&
	    now - e->history_time[(e->nr_history - 1) % HISTORY] < HISTORY_STEP)
		return;
	e->history_time[at] = now;
	for (i = 0; i < m->nr_families; i++) {
		c = &m->family[i];
		if (c->metric->from == FROM_MODES && !c->per_vcpu)
			memcpy(e->history[at], e->value + c->first, MODES * sizeof(uint64_t));
		else if (!strcmp(c->metric->name, "kvm_vm_exits"))
			e->history[at][HISTORY_EXITS] = e->value[c->first];
		else if (!strcmp(c->metric->name, "kvm_vm_insn_emulation_fail"))
			e->history[at][HISTORY_FAILED] = e->value[c->first];
	}
	e->nr_history++;
}

static void end_entry(struct model *m, struct entry *e, uint64_t now)
{
	e->vm = NULL;
	e->ended = now;
	e->ended_sample = m->samples + 1;
	e->waiting = m->scrapers;
	e->waits = m->scrapers;
}

void model_prune(struct model *m, uint64_t now)
{
	struct entry *e, **at = &m->first;

	while ((e = *at)) {
		if (!e->ended || (now - e->ended < LINGER && (e->waiting || !e->waits))) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free_entry(e);
	}
}

void model_scraped(struct model *m, uint32_t scraper, uint64_t sample)
{
	struct entry *e;

	for (e = m->first; e; e = e->next) {
		if (e->ended && e->ended_sample <= sample)
			e->waiting &= ~scraper;
	}
}

bool model_update(struct model *m, struct kvmstats *k, uint64_t now, uint64_t duration)
{
	const struct kvmstats_table *table[KVMSTATS_SCOPES];
	const struct kvmstats_vm *vm;
	struct entry *e, *at;
	bool ok = true, first;
	const char *why;
	unsigned int i;

	if (m->changes != kvmstats_source_changes(k)) {
		/*
		 * The tables and VMs of the source before are gone, and what this one says
		 * is not compared with what was: counters begin from 0.
		 */
		m->changes = kvmstats_source_changes(k);
		forget(m);
		m->began = false;
	}
	for (i = 0; i < KVMSTATS_SCOPES; i++)
		table[i] = kvmstats_table(k, i);
	if (!plan(m, table))
		return false;
	m->vms = m->vcpus = 0;
	for (e = m->first; e; e = e->next)
		e->seen = false;
	at = m->first;
	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		m->vms += !vm->ended;
		m->vcpus += vm->ended ? 0 : vm->vcpus;
		/* mostly in the same order as the last time */
		e = find_entry(at, vm);
		e = e ? e : find_entry(m->first, vm);
		first = !e;
		if (first) {
			e = add_entry(m, vm);
			if (!e) {
				ok = false;
				continue;
			}
		}
		at = e->next;
		ok &= update_entry(m, e, vm, first);
		note_history(m, e, now);
		if (vm->ended)
			end_entry(m, e, now);
	}
	for (e = m->first; e; e = e->next) {
		if (!e->seen && !e->ended)
			end_entry(m, e, now);
	}
	model_prune(m, now);
	m->samples++;
	m->time = now;
	m->duration = duration;
	m->source = kvmstats_source(k);
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		m->unread[i] = kvmstats_unreadable(k, i, &why);
		snprintf(m->why[i], sizeof(m->why[i]), "%s", m->unread[i] ? why : "");
	}
	/* without a source there was nothing to see: what comes may be old */
	m->began = strcmp(m->source, "none");
	return ok;
}
