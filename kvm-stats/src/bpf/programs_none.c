// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Replaces blame.c, exits.c and stalls.c if the source "bpf" was not built. The functions are weak,
 * because a test has its own ones of two programs.
 */
#include <errno.h>

#include "blame.h"
#include "exits.h"
#include "source.h"
#include "stalls.h"

#define WEAK	__attribute__((weak))

#define DEFINE_NONE(name)							\
WEAK void name##_close(struct name *none)						\
{										\
}										\
										\
WEAK int name##_sample(struct name *none)						\
{										\
	return -EOPNOTSUPP;							\
}										\
										\
WEAK const struct name##_row *name##_rows(const struct name *none, size_t *n)	\
{										\
	*n = 0;									\
	return NULL;								\
}										\
										\
WEAK const struct blame_thread *name##_threads(const struct name *none, size_t *n)	\
{										\
	*n = 0;									\
	return NULL;								\
}

DEFINE_NONE(blame)
DEFINE_NONE(exits)
DEFINE_NONE(stalls)

WEAK int blame_open(struct blame **blame, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK int stalls_open(struct stalls **stalls, const struct kvmstats_vm *first, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK void blame_enter(struct blame *blame, const struct kvmstats_vm *first)
{
}

WEAK void stalls_enter(struct stalls *stalls, const struct kvmstats_vm *first)
{
}

WEAK size_t blame_ended_waits(const struct blame *blame, const struct blame_vm **vms,
			 const struct blame_waits **waits)
{
	return 0;
}

WEAK bool blame_cgroup(const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup)
{
	return false;
}

WEAK struct blame_counts blame_counts(const struct blame *blame)
{
	return (struct blame_counts){ 0 };
}

WEAK bool blame_lists(const struct blame *blame, uint32_t tid)
{
	return false;
}

WEAK uint64_t blame_take_exited(struct blame *blame, uint32_t tgid, uint64_t most)
{
	return 0;
}

WEAK struct exits_counts exits_counts(const struct exits *exits)
{
	return (struct exits_counts){ 0 };
}

WEAK uint64_t stalls_lost(const struct stalls *stalls)
{
	return 0;
}
