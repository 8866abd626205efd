// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "exits_sum.h"
#include "write.h"

const char *const format_types[FORMATS] = {
	[FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

struct metrics_writer {
	struct buf *b;
	struct model *m;
	bool openmetrics;
	const struct vm_series *end;	/* the first VM that is excluded, or NULL */
};

static void put_head(struct metrics_writer *w, const struct metric *metric)
{
	static const char *const types[][2] = {
		[METRIC_COUNTER] = { "counter", "counter" },
		[METRIC_GAUGE] = { "gauge", "gauge" },
		[METRIC_HISTOGRAM] = { "histogram", "histogram" },
		[METRIC_INFO] = { "gauge", "info" },
	};
	/* The text format names the samples here, OpenMetrics the family. */
	const char *end = w->openmetrics ? "" : metric->type == METRIC_COUNTER ? "_total" :
			  metric->type == METRIC_INFO ? "_info" : "";

	buf_str(w->b, "# HELP ");
	buf_str(w->b, metric->name);
	buf_str(w->b, end);
	buf_char(w->b, ' ');
	buf_str(w->b, metric->help);
	buf_str(w->b, "\n# TYPE ");
	buf_str(w->b, metric->name);
	buf_str(w->b, end);
	buf_char(w->b, ' ');
	buf_str(w->b, types[metric->type][w->openmetrics]);
	if (w->openmetrics && *metric->unit) {
		buf_str(w->b, "\n# UNIT ");
		buf_str(w->b, metric->name);
		buf_char(w->b, ' ');
		buf_str(w->b, metric->unit);
	}
	buf_char(w->b, '\n');
}

static void put_number(struct metrics_writer *w, uint64_t n, unsigned int digits)
{
	if (digits)
		buf_fixed(w->b, n, digits);
	else
		buf_u64(w->b, n);
	buf_char(w->b, '\n');
}

static const struct vm_series *first_vm_series(const struct metrics_writer *w)
{
	return w->m->first == w->end ? NULL : w->m->first;
}

static const struct vm_series *next_vm_series(const struct metrics_writer *w, const struct vm_series *e)
{
	return e->next == w->end ? NULL : e->next;
}

static void put_label(struct metrics_writer *w, const char *name, const char *value)
{
	buf_str(w->b, ",");
	buf_str(w->b, name);
	buf_str(w->b, "=\"");
	buf_label(w->b, value);
	buf_char(w->b, '"');
}

#define PUT_LABEL(id)	put_label(w, #id, identity->id);

static void put_info(struct metrics_writer *w, const struct metric *metric)
{
	const struct kvmstats_identity *identity;
	const struct vm_series *e;
	char number[24];

	if (!first_vm_series(w))
		return;
	put_head(w, metric);
	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		identity = &e->identity;
		buf_str(w->b, "kvm_vm_info");
		buf_put(w->b, e->labels, e->labels_len);
		snprintf(number, sizeof(number), "%d", identity->pid);
		put_label(w, "pid", number);
		snprintf(number, sizeof(number), "%llu", (unsigned long long)identity->vm_id);
		put_label(w, "vm_id", identity->vm_id ? number : "");
		INFO_LABELS(PUT_LABEL)
		buf_str(w->b, "} 1\n");
	}
}

static void put_gauge(struct metrics_writer *w, const struct metric *metric,
		      uint64_t (*get)(const struct vm_series *e), unsigned int digits)
{
	const struct vm_series *e;
	bool head = false;

	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		if (digits && !get(e))
			continue;
		if (!head)
			put_head(w, metric);
		head = true;
		buf_str(w->b, metric->name);
		buf_put(w->b, e->labels, e->labels_len);
		buf_str(w->b, "} ");
		put_number(w, get(e), digits);
	}
}

static uint64_t get_start(const struct vm_series *e)
{
	return e->start;
}

static uint64_t get_series_vcpus(const struct vm_series *e)
{
	return e->ended ? 0 : e->vcpus;
}

/* Write {vm="NAME" or {vm="NAME",vcpu="0". */
static void put_vm_labels(struct metrics_writer *w, const struct vm_series *e, const struct vcpu_series *v)
{
	buf_put(w->b, e->labels, e->labels_len);
	if (v) {
		buf_str(w->b, ",vcpu=\"");
		buf_u64(w->b, v->id);
		buf_char(w->b, '"');
	}
}

static uint64_t since(const struct family *c, const uint64_t *value, const uint64_t *base,
		      unsigned int i)
{
	i += c->first;
	return (c->grows ? value[i] - base[i] : value[i]) * c->factor;
}

static void put_modes_series(struct metrics_writer *w, const struct family *c, const char *name,
		      const struct vm_series *e, const struct vcpu_series *v)
{
	const uint64_t *value = v ? v->value : e->value, *base = v ? v->base : e->base;
	unsigned int i;

	for (i = 0; i < MODES; i++) {
		if (!(e->modes & 1U << i))
			continue;
		buf_str(w->b, name);
		put_vm_labels(w, e, v);
		buf_str(w->b, ",mode=\"");
		buf_str(w->b, kvmstats_mode_name(i));
		buf_str(w->b, "\"} ");
		put_number(w, since(c, value, base, i), 9);
	}
}

static void put_roles(struct metrics_writer *w, const struct family *c, const char *name,
		      const struct vm_series *e)
{
	unsigned int i;

	for (i = 0; i < KVMSTATS_ROLES; i++) {
		buf_str(w->b, name);
		put_vm_labels(w, e, NULL);
		buf_str(w->b, ",role=\"");
		buf_str(w->b, kvmstats_role_name(i));
		buf_str(w->b, "\"} ");
		put_number(w, since(c, e->value, e->base, i), c->metric->digits);
	}
}

static void put_pages(struct metrics_writer *w, const struct family *c, const char *name,
		      const struct vm_series *e)
{
	unsigned int i;

	for (i = 0; i < PAGE_SIZES; i++) {
		if (c->words[i] == UINT16_MAX)
			continue;
		buf_str(w->b, name);
		put_vm_labels(w, e, NULL);
		buf_str(w->b, ",page_size=\"");
		buf_str(w->b, page_sizes[i].name);
		buf_str(w->b, "\"} ");
		put_number(w, since(c, e->value, e->base, i), 0);
	}
}

/* Write a histogram from the counts between its bounds; sum: NULL if it is unknown. */
static void put_histogram(struct metrics_writer *w, const char *name, const struct vm_series *e,
			  const uint64_t counts[BOUNDS + 1], const uint64_t *sum)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i <= BOUNDS; i++) {
		count += counts[i];
		buf_str(w->b, name);
		buf_str(w->b, "_bucket");
		put_vm_labels(w, e, NULL);
		buf_str(w->b, ",le=\"");
		buf_str(w->b, i < BOUNDS ? bound_names[i] : "+Inf");
		buf_str(w->b, "\"} ");
		put_number(w, count, 0);
	}
	/* OpenMetrics requires both _count and _sum, or neither. */
	if (!sum)
		return;
	buf_str(w->b, name);
	buf_str(w->b, "_count");
	put_vm_labels(w, e, NULL);
	buf_str(w->b, "} ");
	put_number(w, count, 0);
	buf_str(w->b, name);
	buf_str(w->b, "_sum");
	put_vm_labels(w, e, NULL);
	buf_str(w->b, "} ");
	put_number(w, *sum, 9);
}

static void put_statistic_histogram(struct metrics_writer *w, const struct family *c,
				    const char *name, const struct vm_series *e)
{
	const uint64_t sum = since(c, e->value, e->base, BOUNDS + 1);
	uint64_t counts[BOUNDS + 1];
	unsigned int i;

	for (i = 0; i <= BOUNDS; i++)
		counts[i] = since(c, e->value, e->base, i);
	put_histogram(w, name, e, counts, c->nr_stats_summed ? &sum : NULL);
}

static void put_values(struct metrics_writer *w, const struct family *c, const char *name,
		       const struct vm_series *e, const struct vcpu_series *v)
{
	if (c->metric->from == FROM_MODES) {
		put_modes_series(w, c, name, e, v);
	} else if (c->metric->from == FROM_ROLES) {
		put_roles(w, c, name, e);
	} else if (c->metric->from == FROM_PAGES) {
		put_pages(w, c, name, e);
	} else if (c->histogram) {
		put_statistic_histogram(w, c, name, e);
	} else {
		buf_str(w->b, name);
		put_vm_labels(w, e, v);
		buf_str(w->b, "} ");
		put_number(w, since(c, v ? v->value : e->value, v ? v->base : e->base, 0),
			   c->metric->digits);
	}
}

static void put_family(struct metrics_writer *w, const struct family *c)
{
	bool total = c->metric->type == METRIC_COUNTER;
	const struct vm_series *e;
	char name[160];
	unsigned int i;

	if (!c->shown || !first_vm_series(w))
		return;
	put_head(w, c->metric);
	snprintf(name, sizeof(name), "%s%s", c->metric->name, total ? "_total" : "");
	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		for (i = 0; c->per_vcpu && i < e->nr_vcpu; i++)
			put_values(w, c, name, e, &e->vcpu[i]);
		if (!c->per_vcpu)
			put_values(w, c, name, e, NULL);
	}
}

static void put_wait(struct metrics_writer *w, const struct metric *metric, const struct vm_series *e,
		     const char *kind, const char *owner, uint64_t ns)
{
	buf_str(w->b, metric->name);
	buf_str(w->b, "_total");
	buf_put(w->b, e->labels, e->labels_len);
	put_label(w, "kind", kind);
	put_label(w, "owner", owner);
	buf_str(w->b, "} ");
	put_number(w, ns, metric->digits);
}

static void put_waits_series(struct metrics_writer *w, const struct metric *metric)
{
	const struct vm_series *e;
	bool head = false;
	unsigned int i;

	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		if (!e->waits)
			continue;
		if (!head)
			put_head(w, metric);
		head = true;
		for (i = 0; i < e->waits->count; i++)
			put_wait(w, metric, e, e->waits->owner[i].key.kind,
				 e->waits->owner[i].key.name, e->waits->owner[i].ns);
		put_wait(w, metric, e, "other", "", e->waits->other_ns);
	}
}

static void put_lengths_series(struct metrics_writer *w, const struct metric *metric)
{
	const struct vm_series *e;
	bool head = false;
	unsigned int i, bound;

	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		uint64_t counts[BOUNDS + 1] = { 0 }, sum;

		if (!e->waits)
			continue;
		if (!head)
			put_head(w, metric);
		head = true;
		for (i = bound = 0; i < BLAME_BUCKETS; i++) {
			if (bound < BOUNDS && i + BLAME_SHIFT >= BOUND_BUCKET(bound))
				bound++;
			counts[bound] += e->waits->ended.bucket[i];
		}
		sum = e->waits->ended.ns;
		put_histogram(w, metric->name, e, counts, &sum);
	}
}

static void put_exit_series(struct metrics_writer *w, const struct metric *metric, const struct vm_series *e,
		     const struct exits_total *total, const char *phase, uint64_t n)
{
	char name[EXIT_NAME_SIZE];

	buf_str(w->b, metric->name);
	buf_str(w->b, "_total");
	buf_put(w->b, e->labels, e->labels_len);
	put_label(w, "reason", exit_name(total->cell.isa, total->key.reason, name));
	if (phase)
		put_label(w, "phase", phase);
	buf_str(w->b, "} ");
	put_number(w, n, metric->digits);
}

static void put_exits_series(struct metrics_writer *w, const struct metric *metric)
{
	const struct vm_series *e;
	bool head = false;
	size_t i;

	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		if (!e->exits || !e->exits->sum.listed)
			continue;
		if (!head)
			put_head(w, metric);
		head = true;
		for (i = 0; i < e->exits->sum.count; i++) {
			const struct exits_total *total = exits_total_at(e->exits, i);

			if (!total->item.listed)
				continue;
			if (!metric->digits) {
				put_exit_series(w, metric, e, total, NULL, total->cell.count);
				continue;
			}
			put_exit_series(w, metric, e, total, "kernel", total->cell.kernel);
			put_exit_series(w, metric, e, total, "user", total->cell.user);
		}
	}
}

static void put_stalls_series(struct metrics_writer *w, const struct metric *metric)
{
	const struct vm_series *e;
	unsigned int reason;

	if (!w->m->stalls || !first_vm_series(w))
		return;
	put_head(w, metric);
	for (e = first_vm_series(w); e; e = next_vm_series(w, e)) {
		for (reason = STALL_STOPPED; reason < STALL_REASONS; reason++) {
			buf_str(w->b, metric->name);
			buf_str(w->b, "_total");
			buf_put(w->b, e->labels, e->labels_len);
			put_label(w, "reason", stall_name(reason));
			buf_str(w->b, "} ");
			put_number(w, e->stall[reason], metric->digits);
		}
	}
}

/* Count the series of a VM. */
static uint64_t count_series(const struct model *m, const struct vm_series *e)
{
	uint64_t n = 2 + !!e->start + (e->waits ? e->waits->count + 1 + BOUNDS + 3 : 0) +
		     (e->exits ? 3 * e->exits->sum.listed : 0) +
		     (m->stalls ? STALL_REASONS - STALL_STOPPED : 0);
	const struct family *c;
	unsigned int i, width;

	for (i = 0; i < m->nr_families; i++) {
		c = &m->family[i];
		if (!c->shown)
			continue;
		width = c->histogram ? BOUNDS + 1 + 2 * !!c->nr_stats_summed :
			c->metric->from == FROM_ROLES ? KVMSTATS_ROLES :
			c->metric->from == FROM_PAGES ? c->nr_stats_summed :
			c->metric->from == FROM_MODES ? __builtin_popcount(e->modes) : 1;
		n += c->per_vcpu ? width * e->nr_vcpu : width;
	}
	return n;
}

/* Exclude the youngest VMs, beginning with the first that exceeds --max-series. */
static void apply_series_limit(struct metrics_writer *w)
{
	uint64_t n = 0, more;
	struct vm_series *e;

	for (e = w->m->first; e; e = e->next) {
		more = count_series(w->m, e);
		if (!w->end && n + more > w->m->options->max_series)
			w->end = e;
		if (w->end)
			w->m->served->dropped += more;
		n += more;
	}
}

static void put_program(struct metrics_writer *w, const struct metric *metric,
			const struct codes *codes)
{
	struct program_value value = { 0 };
	unsigned int i;

	for (i = 0; metric->get(w->m, codes, i, &value); i++) {
		if (!i)
			put_head(w, metric);
		buf_str(w->b, metric->name);
		buf_str(w->b, metric->type == METRIC_COUNTER ? "_total" :
			metric->type == METRIC_INFO ? "_info" : "");
		if (value.label) {
			buf_char(w->b, '{');
			buf_str(w->b, metric->labels);
			buf_str(w->b, "=\"");
			buf_label(w->b, value.label);
			buf_str(w->b, "\"}");
		}
		buf_char(w->b, ' ');
		put_number(w, value.n, metric->digits);
	}
}

void write_metrics(struct buf *b, struct model *m, enum format format,
		   const struct codes *codes)
{
	struct metrics_writer w = { .b = b, .m = m, .openmetrics = format == FORMAT_OPENMETRICS };
	unsigned int i;

	buf_reset(b);
	apply_series_limit(&w);
	for (i = 0; i < nr_metrics; i++) {
		if (metrics[i].from == FROM_INFO)
			put_info(&w, &metrics[i]);
		else if (metrics[i].from == FROM_START)
			put_gauge(&w, &metrics[i], get_start, 3);
		else if (metrics[i].from == FROM_VCPUS)
			put_gauge(&w, &metrics[i], get_series_vcpus, 0);
		else if (metrics[i].from == FROM_WAITS)
			put_waits_series(&w, &metrics[i]);
		else if (metrics[i].from == FROM_LENGTHS)
			put_lengths_series(&w, &metrics[i]);
	}
	for (i = 0; i < m->nr_families; i++)
		put_family(&w, &m->family[i]);
	for (i = 0; i < nr_metrics; i++) {
		if (metrics[i].from == FROM_EXITS)
			put_exits_series(&w, &metrics[i]);
		if (metrics[i].from == FROM_STALLS)
			put_stalls_series(&w, &metrics[i]);
		if (metrics[i].from == FROM_PROGRAM)
			put_program(&w, &metrics[i], codes);
	}
	if (w.openmetrics)
		buf_str(b, "# EOF\n");
}
