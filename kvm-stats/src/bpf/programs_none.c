// SPDX-License-Identifier: LGPL-2.1-or-later
/* Replaces blame.c, exits.c and stalls.c if the source "bpf" was not built. */
#include <errno.h>

#include "blame.h"
#include "exits.h"
#include "source.h"
#include "stalls.h"

int blame_open(struct blame **blame, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

void blame_close(struct blame *blame)
{
}

void blame_enter(struct blame *blame, const struct kvmstats_vm *first)
{
}

int blame_sample(struct blame *blame)
{
	return -EOPNOTSUPP;
}

const struct blame_row *blame_rows(const struct blame *blame, size_t *n)
{
	*n = 0;
	return NULL;
}

const struct blame_thread *blame_threads(const struct blame *blame, size_t *n)
{
	*n = 0;
	return NULL;
}

size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vms,
			 const struct blame_waits **waits)
{
	return 0;
}

bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup)
{
	return false;
}

struct blame_counts blame_counts(const struct blame *blame)
{
	return (struct blame_counts){ 0 };
}

bool blame_lists(const struct blame *blame, uint32_t tid)
{
	return false;
}

uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most)
{
	return 0;
}

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
