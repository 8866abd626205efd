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

const struct sums_type *const program_types[PROGRAMS] = {
	[PROGRAM_BLAME] = &blame_sums,
	[PROGRAM_EXITS] = &exits_sums,
	[PROGRAM_STALLS] = &stalls_sums,
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

int open_program(struct programs *p, enum program program, enum exits_by by,
		 const struct kvmstats_vm *first, struct kvmstats_probe *probe)
{
	int error;

	p->exits.by = by;
	error = open_sums(sums_of(p, program), program_types[program], first, probe);
	p->open[program] = error ? NULL : sums_of(p, program);
	return error;
}

void read_recorded_program(struct programs *p, enum program program, struct recording *rec)
{
	read_recorded_sums(sums_of(p, program), program_types[program], rec);
	p->open[program] = sums_of(p, program);
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

	for (i = 0; i < PROGRAMS; i++)
		read_recorded_program(p, i, rec);
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

void probe_program(enum program program, struct kvmstats_probe *probe)
{
	struct programs p = { 0 };

	probe->name = program_names[program];
	probe->works = !open_program(&p, program, EXITS_BY_REASON, NULL, probe);
	close_programs(&p);
}

void close_programs(struct programs *p)
{
	unsigned int i;

	for (i = 0; i < PROGRAMS; i++) {
		if (p->open[i])
			close_sums(p->open[i]);
	}
}
