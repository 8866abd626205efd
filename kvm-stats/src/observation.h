/* SPDX-License-Identifier: GPL-2.0-only */
/* What several samples together show of VMs and of their host: from this, why_rules.c finds causes. */
#ifndef OBSERVATION_H
#define OBSERVATION_H

#include "programs.h"
#include "why.h"

struct observation {
	struct window window;		/* the selected VMs */
	struct programs programs;	/* opened by the user of this structure */
	uint64_t elapsed, ran, ready;	/* sums for all VMs of the host */
};

/* Add a sample, after read_programs(). Exits without memory. */
void observation_add(struct observation *o, const struct kvmstats *k, char **args, int n);

/* Return what is known of VM number i of the window without examining the host. */
struct why_vm observed_vm(const struct observation *o, size_t i);

/* Set what VMs used and wanted. */
void set_observed_host(const struct observation *o, struct why_host *host);

/* Free everything, and close the programs. */
void observation_close(struct observation *o);

#endif /* OBSERVATION_H */
