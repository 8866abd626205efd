// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

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
	const struct metric *metric;	/* whose series are written */
	bool has_head;
	/* Name of the next series, with its suffix; that of a metric has less than 128 bytes. */
	char name[160];
	size_t name_len;
};

static void put_family_head(struct metrics_writer *w)
{
	static const char *const types[][2] = {
		[METRIC_COUNTER] = { "counter", "counter" },
		[METRIC_GAUGE] = { "gauge", "gauge" },
		[METRIC_HISTOGRAM] = { "histogram", "histogram" },
		[METRIC_INFO] = { "gauge", "info" },
	};
	const struct metric *metric = w->metric;
	/* The text format names the samples here, OpenMetrics the family. */
	const char *end = w->openmetrics ? "" : metric_suffix(metric);

	buf_printf(w->b, "# HELP %s%s %s\n# TYPE %s%s %s\n", metric->name, end, metric->help,
		   metric->name, end, types[metric->type][w->openmetrics]);
	if (w->openmetrics && *metric->unit)
		buf_printf(w->b, "# UNIT %s %s\n", metric->name, metric->unit);
}

static void set_suffix(struct metrics_writer *w, const char *suffix)
{
	w->name_len = stpcpy(stpcpy(w->name, w->metric->name), suffix) - w->name;
}

static void begin_metric(struct metrics_writer *w, const struct metric *metric)
{
	w->metric = metric;
	w->has_head = false;
	set_suffix(w, metric_suffix(metric));
}

/* Write the name of a series, after the head if it is the first one of its metric. */
static void put_name(struct metrics_writer *w)
{
	if (!w->has_head)
		put_family_head(w);
	w->has_head = true;
	buf_put(w->b, w->name, w->name_len);
}

static void put_label(struct metrics_writer *w, const char *name, const char *value)
{
	buf_char(w->b, ',');
	buf_str(w->b, name);
	buf_str(w->b, "=\"");
	buf_label(w->b, value);
	buf_char(w->b, '"');
}

static void put_id(struct metrics_writer *w, const char *label, uint64_t id)
{
	buf_str(w->b, label);
	buf_u64(w->b, id);
	buf_char(w->b, '"');
}

/* Begin a series of a VM or vCPU. More labels and put_end() follow. */
static void put_begin(struct metrics_writer *w, const struct vm_series *series,
		      const struct vcpu_series *v)
{
	put_name(w);
	buf_put(w->b, series->labels, series->labels_len);
	if (v)
		put_id(w, ",vcpu=\"", v->id);
}

static void put_end(struct metrics_writer *w, uint64_t n, unsigned int digits)
{
	buf_str(w->b, "} ");
	buf_fixed(w->b, n, digits);
	buf_char(w->b, '\n');
}

/* Write a series with one more label, whose value needs no escapes. Most series are such. */
static void put_labelled(struct metrics_writer *w, const struct vm_series *series,
			 const struct vcpu_series *v, const char *label, const char *value,
			 uint64_t n)
{
	put_begin(w, series, v);
	buf_str(w->b, label);
	buf_str(w->b, value);
	buf_char(w->b, '"');
	put_end(w, n, w->metric->digits);
}

static void put_plain(struct metrics_writer *w, const struct vm_series *series,
		      const struct vcpu_series *v, uint64_t n)
{
	put_begin(w, series, v);
	put_end(w, n, w->metric->digits);
}

#define PUT_LABEL(id, size)	put_label(w, #id, identity->id);

static void put_info(struct metrics_writer *w, const struct vm_series *series)
{
	const struct kvmstats_identity *identity = &series->identity;

	put_begin(w, series, NULL);
	put_id(w, ",pid=\"", identity->pid);
	if (identity->vm_id)
		put_id(w, ",vm_id=\"", identity->vm_id);
	else
		put_label(w, "vm_id", "");
	IDENTITY_FACTS(PUT_LABEL)
	put_label(w, "cgroup", identity_cgroup(identity));
	put_end(w, 1, 0);
}

static uint64_t since(const struct family *family, const uint64_t *value, const uint64_t *base,
		      unsigned int i)
{
	i += family->first;
	return (family->grows ? value[i] - base[i] : value[i]) * family->factor;
}

/* Write a histogram from the counts between its bounds; sum: NULL if it is unknown. */
static void put_histogram(struct metrics_writer *w, const struct vm_series *series,
			  const uint64_t counts[BOUNDS + 1], const uint64_t *sum)
{
	uint64_t count = 0;
	unsigned int i;

	set_suffix(w, "_bucket");
	for (i = 0; i <= BOUNDS; i++) {
		count += counts[i];
		put_begin(w, series, NULL);
		buf_str(w->b, ",le=\"");
		buf_str(w->b, i < BOUNDS ? bound_names[i] : "+Inf");
		buf_char(w->b, '"');
		put_end(w, count, 0);
	}
	/* OpenMetrics requires both _count and _sum, or neither. */
	if (!sum)
		return;
	set_suffix(w, "_count");
	put_begin(w, series, NULL);
	put_end(w, count, 0);
	set_suffix(w, "_sum");
	put_begin(w, series, NULL);
	put_end(w, *sum, 9);
}

static void put_statistic_histogram(struct metrics_writer *w, const struct family *family,
				    const struct vm_series *series)
{
	const uint64_t sum = since(family, series->value, series->base, BOUNDS + 1);
	uint64_t counts[BOUNDS + 1];
	unsigned int i;

	for (i = 0; i <= BOUNDS; i++)
		counts[i] = since(family, series->value, series->base, i);
	put_histogram(w, series, counts, family->nr_stats_summed ? &sum : NULL);
}

/* Write the series of a family for a VM, or for one of its vCPUs. */
static void put_family(struct metrics_writer *w, const struct family *family, const struct vm_series *series,
		       const struct vcpu_series *v)
{
	const uint64_t *value = v ? v->value : series->value, *base = v ? v->base : series->base;
	unsigned int i;

	switch (w->metric->from) {
	case FROM_MODES:
		for (i = 0; i < MODES; i++)
			if (series->modes & 1U << i)
				put_labelled(w, series, v, ",mode=\"", kvmstats_mode_name(i),
					     since(family, value, base, i));
		break;
	case FROM_ROLES:
		for (i = 0; i < KVMSTATS_ROLES; i++)
			put_labelled(w, series, v, ",role=\"", kvmstats_role_name(i),
				     since(family, value, base, i));
		break;
	case FROM_PAGES:
		for (i = 0; i < PAGE_SIZES; i++)
			if (family->words[i] != UINT16_MAX)
				put_labelled(w, series, v, ",page_size=\"", page_sizes[i].name,
					     since(family, value, base, i));
		break;
	default:
		if (family->histogram)
			put_statistic_histogram(w, family, series);
		else
			put_plain(w, series, v, since(family, value, base, 0));
	}
}

/* Write a series of a VM with two more labels. */
static void put_labelled2(struct metrics_writer *w, const struct vm_series *series, const char *label1,
			  const char *value1, const char *label2, const char *value2, uint64_t n)
{
	put_begin(w, series, NULL);
	put_label(w, label1, value1);
	put_label(w, label2, value2);
	put_end(w, n, w->metric->digits);
}

static void put_waits_series(struct metrics_writer *w, const struct vm_series *series)
{
	const struct wait_owner *owner;

	if (!series->waits)
		return;
	for (owner = series->waits->owner; owner < series->waits->owner + series->waits->count; owner++)
		put_labelled2(w, series, "kind", owner->key.kind, "owner", owner->key.name, owner->ns);
	put_labelled2(w, series, "kind", "other", "owner", "", series->waits->other_ns);
}

static void put_lengths_series(struct metrics_writer *w, const struct vm_series *series)
{
	uint64_t counts[BOUNDS + 1] = { 0 }, sum;
	unsigned int i, bound;

	if (!series->waits)
		return;
	sum = series->waits->ended.ns;
	for (i = bound = 0; i < BLAME_BUCKETS; i++) {
		if (bound < BOUNDS && i + BLAME_SHIFT >= BOUND_BUCKET(bound))
			bound++;
		counts[bound] += series->waits->ended.bucket[i];
	}
	put_histogram(w, series, counts, &sum);
}

static void put_exits(struct metrics_writer *w, const struct vm_series *series)
{
	char buf[EXIT_NAME_SIZE];
	const char *reason;
	size_t i;

	for (i = 0; series->exits && i < series->exits->sum.count; i++) {
		const struct exits_total *total = exits_total_at(series->exits, i);

		if (!total->item.listed)
			continue;
		reason = exit_name(total->cell.isa, total->key.reason, buf);
		if (w->metric->digits) {
			put_labelled2(w, series, "reason", reason, "phase", "kernel",
				      total->cell.kernel);
			put_labelled2(w, series, "reason", reason, "phase", "user",
				      total->cell.user);
		} else {
			put_labelled(w, series, NULL, ",reason=\"", reason, total->cell.count);
		}
	}
}

static void put_stalls(struct metrics_writer *w, const struct vm_series *series)
{
	unsigned int reason;

	for (reason = STALL_STOPPED; w->m->stalls && reason < STALLS; reason++)
		put_labelled(w, series, NULL, ",reason=\"", stall_name(reason), series->stall[reason]);
}

/* Write the series of a metric without a family for a VM. */
static void put_own_series(struct metrics_writer *w, const struct vm_series *series)
{
	switch (w->metric->from) {
	case FROM_INFO:
		put_info(w, series);
		break;
	case FROM_START:
		if (series->start)
			put_plain(w, series, NULL, series->start);
		break;
	case FROM_VCPUS:
		put_plain(w, series, NULL, series->ended ? 0 : series->vcpus);
		break;
	case FROM_WAITS:
		put_waits_series(w, series);
		break;
	case FROM_LENGTHS:
		put_lengths_series(w, series);
		break;
	case FROM_EXITS:
		put_exits(w, series);
		break;
	case FROM_STALLS:
		put_stalls(w, series);
		break;
	default:
		break;
	}
}

/* Write the series of a metric for all VMs; family: its family, or NULL. */
static void put_vms(struct metrics_writer *w, const struct metric *metric, const struct family *family)
{
	const struct vm_series *series;
	unsigned int i;

	begin_metric(w, metric);
	for (series = w->m->first; series != w->end; series = series->next) {
		for (i = 0; family && family->per_vcpu && i < series->nr_vcpu; i++)
			put_family(w, family, series, &series->vcpu[i]);
		if (!family)
			put_own_series(w, series);
		else if (!family->per_vcpu)
			put_family(w, family, series, NULL);
	}
}

/* Count the series of a VM. */
static uint64_t count_series(const struct model *m, const struct vm_series *series)
{
	uint64_t n = 2 + !!series->start + (series->waits ? series->waits->count + 1 + BOUNDS + 3 : 0) +
		     (series->exits ? 3 * series->exits->sum.listed : 0) +
		     (m->stalls ? STALLS - STALL_STOPPED : 0);
	const struct family *family;
	unsigned int i, width;

	for (i = 0; i < m->nr_families; i++) {
		family = &m->family[i];
		if (!family->shown)
			continue;
		width = family->histogram ? BOUNDS + 1 + 2 * !!family->nr_stats_summed :
			family->metric->from == FROM_ROLES ? KVMSTATS_ROLES :
			family->metric->from == FROM_PAGES ? family->nr_stats_summed :
			family->metric->from == FROM_MODES ? __builtin_popcount(series->modes) : 1;
		n += family->per_vcpu ? width * series->nr_vcpu : width;
	}
	return n;
}

/* Exclude the youngest VMs, beginning with the first that exceeds --max-series. */
static void apply_series_limit(struct metrics_writer *w)
{
	uint64_t n = 0, more;
	struct vm_series *series;

	for (series = w->m->first; series; series = series->next) {
		more = count_series(w->m, series);
		if (!w->end && n + more > w->m->options->max_series)
			w->end = series;
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

	begin_metric(w, metric);
	for (i = 0; metric->get(w->m, codes, i, &value); i++) {
		put_name(w);
		if (value.label) {
			buf_printf(w->b, "{%s=\"", metric->labels);
			buf_label(w->b, value.label);
			buf_str(w->b, "\"}");
		}
		buf_char(w->b, ' ');
		buf_fixed(w->b, value.n, metric->digits);
		buf_char(w->b, '\n');
	}
}

void write_metrics(struct buf *b, struct model *m, enum format format,
		   const struct codes *codes)
{
	struct metrics_writer w = { .b = b, .m = m, .openmetrics = format == FORMAT_OPENMETRICS };
	const struct family *family;
	unsigned int i;

	buf_reset(b);
	apply_series_limit(&w);
	for (i = 0; i < nr_metrics; i++)
		if (metrics[i].from < FROM_MODES)
			put_vms(&w, &metrics[i], NULL);
	for (family = m->family; family < m->family + m->nr_families; family++)
		if (family->shown)
			put_vms(&w, family->metric, family);
	for (i = 0; i < nr_metrics; i++)
		if (metrics[i].from == FROM_PROGRAM)
			put_program(&w, &metrics[i], codes);
	if (w.openmetrics)
		buf_str(b, "# EOF\n");
}
