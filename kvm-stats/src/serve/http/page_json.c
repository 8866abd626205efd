// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "page.h"
#include "rows.h"

static void write_waits(struct json *j, const struct waits *waits)
{
	unsigned int i;

	if (!waits)
		return;
	json_open(j, "waits", '[');
	for (i = 0; i < waits->count; i++) {
		const struct wait_owner *owner = &waits->owner[i];

		json_open(j, NULL, '{');
		json_text(j, "kind", owner->key.kind);
		json_text(j, "owner", owner->key.name);
		json_fixed(j, "percent", kvmstats_permille(owner->recent, waits->recent), 1);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void write_vm(struct json *j, const struct row *row)
{
	const struct vm_series *series = row->series;
	unsigned int i;

	j->line = "\n";
	json_open(j, NULL, '{');
	json_text(j, "vm", series->label);
	json_text(j, "name", series->identity.name);
	json_text(j, "uuid", series->identity.uuid);
	json_text(j, "vmm", series->identity.vmm);
	json_fixed(j, "pid", series->identity.pid, 0);
	json_text(j, "machine", series->identity.machine);
	json_text(j, "pod_uid", series->identity.pod_uid);
	json_text(j, "container_id", series->identity.container_id);
	json_text(j, "cgroup", identity_cgroup(&series->identity));
	json_fixed(j, "vcpus", series->vcpus, 0);
	json_literal(j, "ended", series->ended ? "true" : "false");
	json_text(j, "problem", problem_name(row->judgement.problem));
	json_fixed(j, "seconds", row->time, 9);
	for (i = 0; row->time && i < MODES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s_percent", kvmstats_mode_name(i));
		json_fixed(j, name, row->share[i], 1);
	}
	if (row->time)
		json_fixed(j, "exits_per_second", row->exits, 0);
	write_waits(j, series->waits);
	json_close(j, '}');
}

static void write_host(struct json *j, const struct model *m, const struct rows *rows)
{
	json_open(j, "host", '{');
	json_fixed(j, "cpus", m->host.cpus, 0);
	json_fixed(j, "load", m->host.load, 2);
	json_fixed(j, "cpu_pressure_percent", m->host.cpu_pressure, 2);
	json_fixed(j, "run_percent", rows->run, 1);
	json_fixed(j, "ready_percent", rows->ready, 1);
	json_close(j, '}');
}

void page_json(struct buf *b, const struct model *m, uint64_t now)
{
	struct rows rows = make_rows(m);
	struct json j = { .buf = b };
	unsigned int i;

	json_open(&j, NULL, '{');
	json_text(&j, "version", KVMSTATS_VERSION);
	json_text(&j, "source", m->source);
	json_fixed(&j, "samples", m->samples, 0);
	json_fixed(&j, "sample_time_seconds", m->timestamp, 9);
	json_fixed(&j, "sample_age_seconds", now - m->time, 9);
	write_host(&j, m, &rows);
	json_open(&j, "unreadable", '[');
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		if (!m->unread[i])
			continue;
		json_open(&j, NULL, '{');
		json_fixed(&j, "number", m->unread[i], 0);
		json_text(&j, "reason", kvmstats_reason_name(i));
		json_text(&j, "why", m->why[i]);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_fixed(&j, "problems", rows.problems, 0);
	json_open(&j, "vms", '[');
	for (i = 0; i < rows.count; i++)
		write_vm(&j, &rows.row[i]);
	j.line = "\n";
	json_close(&j, ']');
	json_close(&j, '}');
	buf_char(b, '\n');
	b->failed |= !rows.row;
	free(rows.row);
}
