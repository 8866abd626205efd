// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "observation.h"

void observation_add(struct observation *o, const struct kvmstats *k, char **args, int n)
{
	const struct kvmstats_vm *vm;
	uint64_t elapsed = 0;

	add_programs(&o->programs, kvmstats_first(k), args, n);
	window_add(&o->window, k, args, n);
	for (vm = kvmstats_first(k); vm; vm = vm->next) {
		o->ran += vm->sum.times.mode[KVMSTATS_RUN] + vm->sum.times.mode[KVMSTATS_POLL];
		o->ready += vm->sum.times.mode[KVMSTATS_READY];
		elapsed = vm->elapsed > elapsed ? vm->elapsed : elapsed;
	}
	o->elapsed += elapsed;
}

static void *find_program_sum(const struct observation *o, enum program program, const char *label)
{
	const struct sums *sums = o->programs.open[program];

	return sums ? find_labelled_sum(sums, label) : NULL;
}

struct why_vm observed_vm(const struct observation *o, size_t i)
{
	const struct window_vm *vm = &o->window.vm[i];

	return (struct why_vm){
		.vm = vm,
		.waits = find_program_sum(o, PROGRAM_BLAME, vm->label),
		.stalls = find_program_sum(o, PROGRAM_STALLS, vm->label),
		.exits = find_program_sum(o, PROGRAM_EXITS, vm->label),
		.judgement = judge_activity(&vm->activity, vm->elapsed, vm->vcpus, vm->failed, vm->ended),
		.others.waited = vm->activity.other_waits,
	};
}

void set_observed_host(const struct observation *o, struct why_host *host)
{
	host->ran = kvmstats_permille(o->ran, o->elapsed);
	host->wanted = kvmstats_permille(o->ran + o->ready, o->elapsed);
}

void observation_close(struct observation *o)
{
	close_programs(&o->programs);
	window_free(&o->window);
	memset(o, 0, sizeof(*o));
}
