// SPDX-License-Identifier: GPL-2.0-only
/* Print the metrics once. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "input.h"
#include "settings.h"
#include "write.h"

/* Print the table with tabs, for the manual page and tests. */
static void list_metrics(void)
{
	static const char *const types[] = {
		[METRIC_COUNTER] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
		[METRIC_INFO] = "info",
	};
	unsigned int i;

	for (i = 0; i < nr_metrics; i++)
		printf("%s%s\t%s\t%s\t%s\n", metrics[i].name, metric_suffix(&metrics[i]),
		       types[metrics[i].type], metrics[i].labels, metrics[i].help);
	app_flush();
}

int command_export(const struct settings *settings)
{
	struct serve_options options = settings->serve->model;
	struct input in;
	struct buf b = { 0 };
	struct model *m;
	uint64_t begin;
	int status;

	serve_check_settings(settings);
	if (settings->serve->list) {
		list_metrics();
		return STATUS_OK;
	}
	options.absolute = true;
	begin = app_now();
	input_open(&in, settings, INPUT_LAST, false, 0);
	m = model_new(&options);
	if (!m || !model_update(m, in.k, app_now(), app_now() - begin))
		errx(STATUS_NOTHING, "no memory");
	if (in.rec)
		m->timestamp = recording_now(in.rec);
	write_metrics(&b, m, settings->format == OUT_OPENMETRICS ? FORMAT_OPENMETRICS :
		      FORMAT_TEXT, NULL);
	if (b.failed)
		errx(STATUS_NOTHING, "no memory");
	fwrite(b.text, b.len, 1, stdout);
	app_flush();
	/* A host without VMs is not an error. */
	status = kvmstats_failed_reads(in.k, NULL) ? input_status(&in, m->vms, NULL, 0) : STATUS_OK;
	buf_free(&b);
	model_free(m);
	input_close(&in);
	free(options.stats);
	return status;
}
