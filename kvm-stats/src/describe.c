// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "text.h"

static const struct out_column describe_columns[] = {
	{ "SCOPE", "scope", false },
	{ "NAME", "name", false },
	{ "TYPE", "type", false },
	{ "UNIT", "unit", false },
	{ NULL, "base", false },
	{ NULL, "exponent", false },
	{ NULL, "offset", false },
	{ NULL, "size", false },
	{ NULL, "bucket_size", false },
	{ "COUNTS", "counts", false },
	{ NULL, NULL, false }
};

static unsigned int put_descriptors(const struct settings *settings, struct out *out,
			      enum kvmstats_scope scope,
			      const struct kvmstats_table *table)
{
	unsigned int i, rows = 0;
	char text[TEXT_SIZE];

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *desc = &table->desc[i];
		const char *description = app_stat_description(scope, desc->name);

		if (!app_matches(settings, 0, desc->name))
			continue;
		rows++;
		out_text(out, scope == KVMSTATS_VM ? "vm" : "vcpu");
		out_text(out, desc->name);
		out_text(out, text_type(desc->type));
		if (settings->format == OUT_TABLE)
			text_value_unit(desc, text);
		else
			strcpy(text, text_unit(desc->unit));
		out_text(out, text);
		out_text(out, text_base(desc->base));
		snprintf(text, sizeof(text), "%d", desc->exponent);
		out_number(out, text);
		out_u64(out, desc->offset);
		out_u64(out, desc->size);
		out_u64(out, desc->bucket_size);
		out_text_or_none(out, description);
	}
	return rows;
}

int command_describe(const struct settings *settings)
{
	struct kvmstats_table *vm, *vcpu;
	unsigned int rows;
	struct out *out;
	char why[256];

	app_check_patterns(settings, 0);
	if (kvmstats_describe(&vm, &vcpu, why, sizeof(why)))
		errx(STATUS_NOTHING, "%s", why);
	out = out_open(settings->format, describe_columns);
	rows = put_descriptors(settings, out, KVMSTATS_VM, vm);
	rows += put_descriptors(settings, out, KVMSTATS_VCPU, vcpu);
	if (rows || settings->format != OUT_TABLE)
		out_close(out);
	app_flush();
	kvmstats_free_table(vm);
	kvmstats_free_table(vcpu);
	if (!rows)
		app_warn_unmatched("statistic", settings->args, settings->nr_args);
	return rows ? STATUS_OK : STATUS_NOTHING;
}
