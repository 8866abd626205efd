// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source of tests/serve/fleet: a host that was recorded by "kvm-stats record" lives
 * on. In the environment are KVM_STATS_PLAY, the recording; KVM_STATS_FIRST, the sample
 * of it to begin with, so that hosts played from one file differ; and KVM_STATS_HOST, a
 * directory whose "proc" is a procfs with the processes.
 *
 * Each sample advances by one sample of the recording, and from the last one to the first.
 * Counters grow by the same rates as in the recording, regardless of the interval. Linked instead of lib/sources.c, lib/describe.c and src/stat_description.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "core.h"
#include "recording.h"

struct played {
	uint64_t key;			/* VM and vCPU */
	uint64_t *values;
	uint64_t run, ready, throttled;
};

struct playing {
	struct recording *rec;
	unsigned long at;
	uint64_t time;			/* time of the last sample, or 0 */
	struct played *played;
	unsigned int count, cursor;
};

static int play_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	const char *file = getenv("KVM_STATS_PLAY"), *dir = getenv("KVM_STATS_HOST");
	const char *first = getenv("KVM_STATS_FIRST");
	const struct kvmstats_table *table;
	struct playing *host = calloc(1, sizeof(*host));
	char path[4096];
	int proc, scope;

	snprintf(path, sizeof(path), "%s/proc", dir ? dir : "none");
	proc = host && file ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (proc < 0 || dup2(proc, k->proc) < 0) {
		snprintf(p->why, sizeof(p->why), "there is no recorded host");
		free(host);
		return -ENODEV;
	}
	close(proc);
	host->rec = recording_open(file);
	host->at = first ? strtoul(first, NULL, 10) % recording_count(host->rec) : 0;
	recording_seek(host->rec, host->at);
	for (scope = 0; scope < KVMSTATS_SCOPES; scope++) {
		table = recording_table(host->rec, scope);
		if (table)
			core_set_table(k, scope, table_make(table->desc, table->count));
	}
	*state = host;
	return 0;
}

/* Entries are mostly in the order of the last sample. */
static struct played *find(struct playing *host, uint64_t key, size_t size)
{
	struct played *found;
	unsigned int i;

	for (i = 0; i < host->count; i++) {
		found = &host->played[host->cursor++ % host->count];
		if (found->key == key)
			return found;
	}
	host->played = realloc(host->played, (host->count + 1) * sizeof(*found));
	if (!host->played)
		abort();
	host->cursor = 0;
	found = &host->played[host->count++];
	memset(found, 0, sizeof(*found));
	found->key = key;
	found->values = calloc(1, size);
	if (!found->values)
		abort();
	return found;
}

/* Add the given share of the growth in the recording. */
static void grow(const struct kvmstats_table *table, uint64_t *values, const uint64_t *is,
		 const uint64_t *was, double share)
{
	unsigned int i, n;
	size_t w;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *d = &table->desc[i];
		bool instant = d->type == KVMSTATS_INSTANT || d->type == KVMSTATS_PEAK;

		for (n = 0; n < d->size; n++) {
			w = d->offset / sizeof(*is) + n;
			if (instant)
				values[w] = is[w];
			else if (was && is[w] > was[w])
				values[w] += (is[w] - was[w]) * share;
		}
	}
}

static void put_vm(struct kvmstats *k, struct playing *host, const struct kvmstats_vm *from,
		   uint64_t time, uint64_t passed)
{
	const struct kvmstats_table *table[] = { kvmstats_table(k, KVMSTATS_VM),
						 kvmstats_table(k, KVMSTATS_VCPU) };
	const bool fresh = from->first_sample || !from->elapsed || !host->time;
	const double share = fresh ? 0 : (double)passed / from->elapsed;
	const uint64_t key = (uint64_t)from->identity.pid << 32 | from->nth << 16;
	struct core_vm *vm = core_vm(k, key, from->identity.pid);
	struct played *p;
	unsigned int i;

	if (!vm)
		return;
	if (table[0] && from->values) {
		p = find(host, key, table[0]->data_size);
		grow(table[0], p->values, from->values, fresh ? NULL : from->before, share);
		memcpy(core_vm_values(vm), p->values, table[0]->data_size);
	}
	for (i = 0; i < from->vcpus; i++) {
		const struct kvmstats_vcpu *v = from->vcpu[i];
		const uint64_t *mode = v->last.times.mode;
		struct core_vcpu *vcpu;

		p = find(host, key | (v->id + 1), table[1]->data_size);
		grow(table[1], p->values, v->values, fresh || v->first_sample ? NULL : v->before, share);
		p->run += (mode[KVMSTATS_RUN] + mode[KVMSTATS_POLL]) * share;
		p->ready += (mode[KVMSTATS_READY] + mode[KVMSTATS_THROTTLED]) * share;
		p->throttled += mode[KVMSTATS_THROTTLED] * share;
		vcpu = core_vcpu(k, vm, v->id, v->tid);
		memcpy(core_vcpu_values(vcpu), p->values, table[1]->data_size);
		core_vcpu_times(vcpu, &(struct thread_times){
			.time = time, .has_run = true, .has_ready = true,
			.has_throttled = true, .run = p->run, .ready = p->ready,
			.throttled = p->throttled,
			.up_to_date = true, .state = THREAD_SLEEPS });
	}
}

static int play_sample(struct kvmstats *k, void *state)
{
	struct playing *host = state;
	const struct kvmstats_vm *vm;
	uint64_t time = read_clock(CLOCK_MONOTONIC);

	recording_seek(host->rec, host->at);
	host->cursor = 0;
	for (vm = recording_first(host->rec); vm; vm = vm->next)
		put_vm(k, host, vm, time, time - host->time);
	host->time = time;
	host->at = (host->at + 1) % recording_count(host->rec);
	return 0;
}

static void play_close(struct kvmstats *k, void *state)
{
	struct playing *host = state;

	while (host->count)
		free(host->played[--host->count].values);
	free(host->played);
	recording_close(host->rec);
	free(host);
}

static const struct source_ops source_play = {
	.name = "play",
	.what = "a host that was recorded",
	.open = play_open,
	.sample = play_sample,
	.close = play_close,
};

const struct source_ops *const source_list[] = { &source_play, NULL };

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu,
		      char *why, size_t size)
{
	return -ENOSYS;
}

const char *app_stat_description(enum kvmstats_scope scope, const char *name)
{
	return "";
}
