// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "write.h"

const char *const format_types[FORMATS] = {
	[FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
	[FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

struct writer {
	struct buf *b;
	struct model *m;
	bool openmetrics;
	uint64_t now;
	const struct entry *end;	/* the first that is left out, NULL: none is */
};

static void put_head(struct writer *w, const struct metric *metric)
{
	static const char *const types[][2] = {
		[METRIC_COUNTER] = { "counter", "counter" },
		[METRIC_GAUGE] = { "gauge", "gauge" },
		[METRIC_HISTOGRAM] = { "histogram", "histogram" },
		[METRIC_INFO] = { "gauge", "info" },
	};
	/* the name is that of the samples in the one format, of the family in the other */
	const char *end = w->openmetrics ? "" : metric->type == METRIC_COUNTER ? "_total" :
			  metric->type == METRIC_INFO ? "_info" : "";

	buf_str(w->b, "# HELP ");
	buf_str(w->b, metric->name);
	buf_str(w->b, end);
	buf_char(w->b, ' ');
	buf_str(w->b, metric->help);
	buf_str(w->b, ".\n# TYPE ");
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

static void put_number(struct writer *w, uint64_t n, unsigned int digits)
{
	if (digits)
		buf_fixed(w->b, n, digits);
	else
		buf_u64(w->b, n);
	buf_char(w->b, '\n');
}

static const struct entry *first_entry(const struct writer *w)
{
	return w->m->first == w->end ? NULL : w->m->first;
}

static const struct entry *next_entry(const struct writer *w, const struct entry *e)
{
	return e->next == w->end ? NULL : e->next;
}

static void put_label(struct writer *w, const char *name, const char *value)
{
	buf_str(w->b, ",");
	buf_str(w->b, name);
	buf_str(w->b, "=\"");
	buf_label(w->b, value);
	buf_char(w->b, '"');
}

static void put_info(struct writer *w, const struct metric *metric)
{
	const struct entry *e;
	char number[24];

	if (!first_entry(w))
		return;
	put_head(w, metric);
	for (e = first_entry(w); e; e = next_entry(w, e)) {
		buf_str(w->b, "kvm_vm_info");
		buf_put(w->b, e->labels, e->labels_len);
		put_label(w, "name", e->who.name);
		put_label(w, "domain", e->who.domain);
		put_label(w, "uuid", e->who.uuid);
		put_label(w, "vmm", e->who.vmm);
		snprintf(number, sizeof(number), "%d", e->who.pid);
		put_label(w, "pid", number);
		put_label(w, "machine", e->who.machine);
		put_label(w, "pod", e->who.pod);
		put_label(w, "container", e->who.container);
		put_label(w, "cgroup", e->who.cgroup);
		snprintf(number, sizeof(number), "%llu", (unsigned long long)e->who.number);
		put_label(w, "number", e->who.number ? number : "");
		buf_str(w->b, "} 1\n");
	}
}

static void put_gauge(struct writer *w, const struct metric *metric,
		      uint64_t (*get)(const struct entry *e), unsigned int digits)
{
	const struct entry *e;
	bool head = false;

	for (e = first_entry(w); e; e = next_entry(w, e)) {
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

static uint64_t get_start(const struct entry *e)
{
	return e->start;
}

static uint64_t get_vcpus(const struct entry *e)
{
	return e->ended ? 0 : e->vcpus;
}

/* {vm="NAME",vcpu="0" */
static void put_who(struct writer *w, const struct entry *e, const struct vcpu_entry *v)
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

static void put_modes(struct writer *w, const struct family *c, const char *name,
		      const struct entry *e, const struct vcpu_entry *v)
{
	const uint64_t *value = v ? v->value : e->value, *base = v ? v->base : e->base;
	unsigned int i;

	for (i = 0; i < MODES; i++) {
		if (!(e->modes & 1U << i))
			continue;
		buf_str(w->b, name);
		put_who(w, e, v);
		buf_str(w->b, ",mode=\"");
		buf_str(w->b, kvmstats_mode_name(i));
		buf_str(w->b, "\"} ");
		put_number(w, since(c, value, base, i), 9);
	}
}

static void put_pages(struct writer *w, const struct family *c, const char *name,
		      const struct entry *e)
{
	unsigned int i;

	for (i = 0; i < PAGE_SIZES; i++) {
		if (c->words[i] == UINT16_MAX)
			continue;
		buf_str(w->b, name);
		put_who(w, e, NULL);
		buf_str(w->b, ",page_size=\"");
		buf_str(w->b, page_sizes[i].name);
		buf_str(w->b, "\"} ");
		put_number(w, since(c, e->value, e->base, i), 0);
	}
}

static void put_histogram(struct writer *w, const struct family *c, const char *name,
			  const struct entry *e)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i <= BOUNDS; i++) {
		count += since(c, e->value, e->base, i);
		buf_str(w->b, name);
		buf_str(w->b, "_bucket");
		put_who(w, e, NULL);
		buf_str(w->b, ",le=\"");
		buf_str(w->b, i < BOUNDS ? bound_names[i] : "+Inf");
		buf_str(w->b, "\"} ");
		put_number(w, count, 0);
	}
	/* OpenMetrics has either both of them or none */
	if (!c->nr_words)
		return;
	buf_str(w->b, name);
	buf_str(w->b, "_count");
	put_who(w, e, NULL);
	buf_str(w->b, "} ");
	put_number(w, count, 0);
	buf_str(w->b, name);
	buf_str(w->b, "_sum");
	put_who(w, e, NULL);
	buf_str(w->b, "} ");
	put_number(w, since(c, e->value, e->base, BOUNDS + 1), 9);
}

static void put_values(struct writer *w, const struct family *c, const char *name,
		       const struct entry *e, const struct vcpu_entry *v)
{
	if (c->metric->from == FROM_MODES) {
		put_modes(w, c, name, e, v);
	} else if (c->metric->from == FROM_PAGES) {
		put_pages(w, c, name, e);
	} else if (c->histogram) {
		put_histogram(w, c, name, e);
	} else {
		buf_str(w->b, name);
		put_who(w, e, v);
		buf_str(w->b, "} ");
		put_number(w, since(c, v ? v->value : e->value, v ? v->base : e->base, 0),
			   c->metric->digits);
	}
}

static void put_family(struct writer *w, const struct family *c)
{
	bool total = c->metric->type == METRIC_COUNTER;
	const struct entry *e;
	char name[160];
	unsigned int i;

	if (!c->shown || !first_entry(w))
		return;
	put_head(w, c->metric);
	snprintf(name, sizeof(name), "%s%s", c->metric->name, total ? "_total" : "");
	for (e = first_entry(w); e; e = next_entry(w, e)) {
		for (i = 0; c->per_vcpu && i < e->nr_vcpu; i++)
			put_values(w, c, name, e, &e->vcpu[i]);
		if (!c->per_vcpu)
			put_values(w, c, name, e, NULL);
	}
}

/* Series of a VM */
static uint64_t count_series(const struct model *m, const struct entry *e)
{
	uint64_t n = 2 + !!e->start;
	const struct family *c;
	unsigned int i, width;

	for (i = 0; i < m->nr_families; i++) {
		c = &m->family[i];
		if (!c->shown)
			continue;
		width = c->histogram ? BOUNDS + 1 + 2 * !!c->nr_words :
			c->metric->from == FROM_PAGES ? c->nr_words :
			c->metric->from == FROM_MODES ? __builtin_popcount(e->modes) : 1;
		n += c->per_vcpu ? width * e->nr_vcpu : width;
	}
	return n;
}

/* The oldest VMs, whole, until there are too many series */
static void cut(struct writer *w)
{
	uint64_t n = 0, more;
	struct entry *e;

	for (e = w->m->first; e; e = e->next) {
		more = count_series(w->m, e);
		if (!w->end && n + more > w->m->options->max_series)
			w->end = e;
		if (w->end)
			w->m->dropped += more;
		n += more;
	}
}

static void put_self(struct writer *w, const char *name, uint64_t n, unsigned int digits)
{
	const struct metric *metric = metric_find(name);

	put_head(w, metric);
	buf_str(w->b, name);
	buf_str(w->b, metric->type == METRIC_COUNTER ? "_total " : " ");
	put_number(w, n, digits);
}

static void put_program(struct writer *w, const struct codes *codes)
{
	const struct model *m = w->m;
	unsigned int i;

	put_head(w, metric_find("kvm_stats_build"));
	buf_str(w->b, "kvm_stats_build_info{version=\"" KVMSTATS_VERSION "\",source=\"");
	buf_label(w->b, m->source);
	buf_str(w->b, "\"} 1\n");
	put_self(w, "kvm_stats_vms", m->vms, 0);
	put_self(w, "kvm_stats_vcpus", m->vcpus, 0);
	put_head(w, metric_find("kvm_stats_unreadable"));
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		buf_str(w->b, "kvm_stats_unreadable{reason=\"");
		buf_str(w->b, kvmstats_reason_name(i));
		buf_str(w->b, "\"} ");
		put_number(w, m->unread[i], 0);
	}
	if (m->samples) {
		put_self(w, "kvm_stats_sample_age_seconds", w->now - m->time, 9);
		put_self(w, "kvm_stats_sample_duration_seconds", m->duration, 9);
	}
	put_self(w, "kvm_stats_samples", m->samples, 0);
	put_self(w, "kvm_stats_series_dropped", m->dropped, 0);
	if (!codes || !codes->code)
		return;
	put_head(w, metric_find("kvm_stats_scrapes"));
	for (; codes->code; codes++) {
		buf_str(w->b, "kvm_stats_scrapes_total{code=\"");
		buf_u64(w->b, codes->code);
		buf_str(w->b, "\"} ");
		put_number(w, codes->count, 0);
	}
}

void write_metrics(struct buf *b, struct model *m, enum format format, uint64_t now,
		   const struct codes *codes)
{
	struct writer w = {
		.b = b, .m = m, .openmetrics = format == FORMAT_OPENMETRICS, .now = now,
	};
	unsigned int i;

	buf_reset(b);
	cut(&w);
	put_info(&w, metric_find("kvm_vm"));
	put_gauge(&w, metric_find("kvm_vm_start_time_seconds"), get_start, 3);
	put_gauge(&w, metric_find("kvm_vm_vcpus"), get_vcpus, 0);
	for (i = 0; i < m->nr_families; i++)
		put_family(&w, &m->family[i]);
	put_program(&w, codes);
	if (w.openmetrics)
		buf_str(b, "# EOF\n");
}
