// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>

#include "programs.h"

const char program_kinds[PROGRAMS] = {
	[PROGRAM_BLAME] = RECORDED_BLAME,
	[PROGRAM_EXITS] = RECORDED_EXITS,
	[PROGRAM_STALLS] = RECORDED_STALLS,
};

const char *const program_names[PROGRAMS] = {
	[PROGRAM_BLAME] = "blame",
	[PROGRAM_EXITS] = "exits",
	[PROGRAM_STALLS] = "stalls",
};

static struct sums *sums_of(struct programs *p, enum program program)
{
	struct sums *const sums[PROGRAMS] = {
		[PROGRAM_BLAME] = &p->blame.sums,
		[PROGRAM_EXITS] = &p->exits.sums,
		[PROGRAM_STALLS] = &p->stalls.sums,
	};

	return sums[program];
}

static int open_sums(struct programs *p, enum program program, enum exits_by by,
		     const struct kvmstats_vm *first, struct kvmstats_probe *probe)
{
	switch (program) {
	case PROGRAM_BLAME:
		return blame_sum_open(&p->blame, false, first, probe);
	case PROGRAM_EXITS:
		return exits_sum_open(&p->exits, by, false, probe);
	default:
		return stalls_sum_open(&p->stalls, false, first, probe);
	}
}

int open_program(struct programs *p, enum program program, enum exits_by by,
		 const struct kvmstats_vm *first, struct kvmstats_probe *probe)
{
	const int error = open_sums(p, program, by, first, probe);

	p->open[program] = error ? NULL : sums_of(p, program);
	return error;
}

bool open_or_warn(struct programs *p, enum program program, const char *doing,
		  const struct kvmstats_vm *first)
{
	struct kvmstats_probe probe = { 0 };

	if (!open_program(p, program, EXITS_BY_REASON, first, &probe))
		return true;
	warnx("%s without --%s: %s%s%s", doing, program_names[program], probe.why,
	      *probe.help ? "; " : "", probe.help);
	return false;
}

void open_recorded_programs(struct programs *p, struct recording *rec)
{
	unsigned int i;

	blame_sum_read(&p->blame, rec);
	exits_sum_read(&p->exits, rec);
	stalls_sum_read(&p->stalls, rec);
	for (i = 0; i < PROGRAMS; i++)
		p->open[i] = sums_of(p, i);
}

bool read_programs(struct programs *p)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (p->open[i] && read_sums(p->open[i]))
			return false;
	}
	return true;
}

void add_programs(struct programs *p, const struct kvmstats_vm *first, char **args, int n)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (p->open[i])
			add_sums(p->open[i], first, args, n);
	}
}

void close_programs(struct programs *p)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (p->open[i])
			close_sums(p->open[i]);
	}
}
