// SPDX-License-Identifier: GPL-2.0-only
/* Print the metrics once. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "app.h"
#include "options.h"

/* For those who make documents and tests of it: tabs between, in the table's order */
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
		printf("%s%s\t%s\t%s\t%s\n", metrics[i].name,
		       metrics[i].type == METRIC_COUNTER ? "_total" :
		       metrics[i].type == METRIC_INFO ? "_info" : "",
		       types[metrics[i].type], metrics[i].labels, metrics[i].help);
	app_flush();
}

int command_export(int argc, char **argv)
{
	struct serve_settings settings;
	struct kvmstats *k;
	struct buf b = { 0 };
	struct model *m;
	uint64_t begin;
	int status;

	serve_parse(argc, argv, false, &settings);
	if (settings.list) {
		list_metrics();
		return STATUS_OK;
	}
	begin = app_now();
	k = app_open();
	m = model_new(&settings.model);
	if (!m || !model_update(m, k, app_now(), app_now() - begin))
		errx(STATUS_NOTHING, "no memory");
	write_metrics(&b, m, settings.format, app_now(), NULL);
	if (b.failed)
		errx(STATUS_NOTHING, "no memory");
	fwrite(b.text, b.len, 1, stdout);
	app_flush();
	/* no VM is an answer, too */
	status = kvmstats_unread(k, NULL) ? app_status(k, m->vms, false) : STATUS_OK;
	buf_free(&b);
	model_free(m);
	kvmstats_close(k);
	free(settings.model.stats);
	return status;
}
