// SPDX-License-Identifier: LGPL-2.1-or-later
/* Replaces exits.c if the source "bpf" was not built. */
#include <errno.h>

#include "exits.h"
#include "source.h"

int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

void exits_close(struct exits *exits)
{
}

int exits_sample(struct exits *exits)
{
	return -EOPNOTSUPP;
}

const struct exits_row *exits_rows(const struct exits *exits, size_t *n)
{
	*n = 0;
	return NULL;
}

const struct blame_thread *exits_threads(const struct exits *exits, size_t *n)
{
	*n = 0;
	return NULL;
}

struct exits_counts exits_counts(const struct exits *exits)
{
	return (struct exits_counts){ 0 };
}
