// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>

#include "bpf/threads.h"
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

void open_programs(struct programs *p, unsigned int wanted, enum exits_by by,
		   const struct kvmstats_vm *first, struct kvmstats_probe probe[PROGRAMS])
{
	const unsigned int both = 1 << PROGRAM_BLAME | 1 << PROGRAM_STALLS;
	struct threads *shared = NULL;
	struct kvmstats_probe unused;
	struct sums *sums;
	unsigned int i;

	/* If this fails, one of the two may work without the other, which has the reason. */
	if ((wanted & both) == both)
		threads_open(&shared, THREADS_WAITS | THREADS_STALLS, first, &unused);
	p->exits.by = by;
	for (i = 0; i < PROGRAMS; i++) {
		if (!(wanted >> i & 1))
			continue;
		sums = sums_of(p, i);
		p->open[i] = open_sums(sums, program_types[i], shared, first, &probe[i]) ? NULL : sums;
	}
	if (shared)
		threads_close(shared);
}

void read_recorded_program(struct programs *p, enum program program, struct recording *rec)
{
	read_recorded_sums(sums_of(p, program), program_types[program], rec);
	p->open[program] = sums_of(p, program);
}

bool open_or_warn(struct programs *p, unsigned int wanted, const char *doing,
		  const struct kvmstats_vm *first)
{
	struct kvmstats_probe probe[PROGRAMS] = { 0 };
	bool any = false;
	unsigned int i;

	open_programs(p, wanted, EXITS_BY_REASON, first, probe);
	for (i = 0; i < PROGRAMS; i++) {
		if (p->open[i])
			any = true;
		else if (wanted >> i & 1)
			warnx("%s without --%s: %s%s%s", doing, program_names[i], probe[i].why,
			      *probe[i].help ? "; " : "", probe[i].help);
	}
	return any;
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
	struct kvmstats_probe probes[PROGRAMS] = { 0 };
	struct programs p = { 0 };

	probes[program] = *probe;
	open_programs(&p, 1 << program, EXITS_BY_REASON, NULL, probes);
	*probe = probes[program];
	probe->name = program_names[program];
	probe->works = p.open[program];
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
