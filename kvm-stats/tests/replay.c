// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program with a recording as this host. The environment variable KVM_STATS_REPLAY names a
 * directory: "recording" is what "record" has written, "proc" a procfs with the processes, from
 * which the identities of VMs are read. After the last sample, it is repeated. Linked instead of
 * lib/sources.c, lib/describe.c, src/rec_source.c, src/host.c and src/stat_description.c.
 */
#include "core.h"
#include "programs.h"
#include "recorded.h"

/* Ignore recorded identities except after --from: the core reads the procfs instead. */
#define core_vm_identity(vm, identity, nth)				\
	(core_is_recorded(rec->k) ? (core_vm_identity)(vm, identity, nth) : (void)0)
#include "../src/rec_source.c"

static int replay_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	const char *dir = getenv("KVM_STATS_REPLAY");
	struct recording *rec = new_recording(NULL);
	static char path[4096];
	int proc;

	snprintf(path, sizeof(path), "%s/proc", dir ? dir : "none");
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/recording", dir ? dir : "none");
	if (!rec || proc < 0 || dup2(proc, k->proc) < 0 || access(path, R_OK)) {
		snprintf(p->why, sizeof(p->why), "%.200s: %s", path, strerror(errno));
		free(rec);
		return -ENODEV;
	}
	close(proc);
	rec->path = path;
	rec->k = k;
	open_files(rec);
	*state = rec;
	return 0;
}

static int replay_sample(struct kvmstats *k, void *state)
{
	struct recording *rec = state;

	if (!recording_fetch(rec))
		rec->next = rec->samples - 1;
	return sample_recording(k, rec);
}

static const struct source_ops source_replay = {
	.name = "replay",
	.what = "a recording, for the tests",
	.open = replay_open,
	.sample = replay_sample,
	.close = close_recording,
};

const struct source_ops *const source_list[] = { &source_replay, NULL };

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size)
{
	struct kvmstats *k;
	int ret = kvmstats_open(&k, NULL, NULL, 0);

	*vm = *vcpu = NULL;
	if (!ret) {
		kvmstats_sample(k);
		*vm = k->table[KVMSTATS_VM];
		*vcpu = k->table[KVMSTATS_VCPU];
		k->table[KVMSTATS_VM] = k->table[KVMSTATS_VCPU] = NULL;
		kvmstats_close(k);
		ret = *vm && *vcpu ? 0 : -ENOSYS;
	}
	if (ret)
		snprintf(why, size, "nothing to describe: %s", strerror(-ret));
	return ret;
}

struct host host_now(void)
{
	return (struct host){ .cpus = 4, .load = 125 };
}

void __wrap_probe_program(enum program program, struct kvmstats_probe *probe);
void __wrap_probe_program(enum program program, struct kvmstats_probe *probe)
{
	probe->name = program_names[program];
	snprintf(probe->why, sizeof(probe->why), "this is a recording");
}

/* Only some statistics have a description. */
const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	return scope == KVMSTATS_VM ? "What \"it\" counts, in words" : "";
}
