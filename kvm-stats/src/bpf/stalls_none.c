// SPDX-License-Identifier: LGPL-2.1-or-later
/* Replaces stalls.c if the source "bpf" was not built. */
#include <errno.h>

#include "source.h"
#include "stalls.h"

int stalls_open(struct stalls **stalls, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

void stalls_close(struct stalls *stalls)
{
}

void stalls_enter(struct stalls *stalls, const struct kvmstats_vm *first)
{
}

int stalls_sample(struct stalls *stalls)
{
	return -EOPNOTSUPP;
}

const struct stalls_row *stalls_rows(const struct stalls *stalls, size_t *n)
{
	*n = 0;
	return NULL;
}

const struct blame_thread *stalls_threads(const struct stalls *stalls, size_t *n)
{
	*n = 0;
	return NULL;
}

uint64_t stalls_lost(const struct stalls *stalls)
{
	return 0;
}
