/* SPDX-License-Identifier: GPL-2.0-only */
/* The BPF programs of blame, exits and stalls together, with the sums of each */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include "blame_sum.h"
#include "exits_sum.h"
#include "stalls_sum.h"

enum program { PROGRAM_BLAME, PROGRAM_STALLS, PROGRAM_EXITS, PROGRAMS };

struct programs {
	struct blame_sum blame;
	struct exits_sum exits;
	struct stalls_sum stalls;
	struct sums *open[PROGRAMS];	/* NULL: closed */
};

/* Their sums, kinds of their chunks in a recording, and names of their options without "--" */
extern const struct sums_type *const program_types[PROGRAMS];
extern const char program_kinds[PROGRAMS];
extern const char *const program_names[PROGRAMS];

/*
 * Open those whose bits, 1 << PROGRAM_..., are set; a VM does not continue the sums of another one. Blame
 * and stalls share a BPF program if both are opened. Of one that does not work, probe has the reason.
 */
void open_programs(struct programs *p, unsigned int wanted, enum exits_by by,
		   const struct kvmstats_vm *first, struct kvmstats_probe probe[PROGRAMS]);

/* As open_programs(), or print "DOING without --NAME:" and the reason. Return true if any is open. */
bool open_or_warn(struct programs *p, unsigned int wanted, const char *doing,
		  const struct kvmstats_vm *first);

/* Take the sums of one, or of all, from a recording instead. */
void read_recorded_program(struct programs *p, enum program program, struct recording *rec);
void open_recorded_programs(struct programs *p, struct recording *rec);

/* Check whether one works on this host: fill in all except what. */
void probe_program(enum program program, struct kvmstats_probe *probe);

/* For those that are open, in their order, as read_sums() and add_sums(); read returns false on errors. */
bool read_programs(struct programs *p);
void add_programs(struct programs *p, const struct kvmstats_vm *first, char **args, int n);

void close_programs(struct programs *p);

#endif /* PROGRAMS_H */
