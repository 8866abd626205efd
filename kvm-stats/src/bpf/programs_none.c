// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Replaces blame.c, exits.c, stalls.c and threads.c if the source "bpf" was not built: no program can be
 * opened, so the functions for one that is open are never called. They are weak, because a test has
 * its own ones of two programs.
 */
#include <stdlib.h>

#include "blame.h"
#include "exits.h"
#include "source.h"
#include "stalls.h"

#define WEAK	__attribute__((weak))

#define NONE(type, name, ...)							\
WEAK type name(__VA_ARGS__)							\
{										\
	abort();								\
}

#define NONE_OF(name)								\
NONE(void, name##_close, struct name *none)					\
NONE(int, name##_sample, struct name *none)					\
NONE(const struct name##_row *, name##_rows, const struct name *none, size_t *n)	\
NONE(const struct blame_thread *, name##_threads, const struct name *none, size_t *n)

NONE_OF(blame)
NONE_OF(exits)
NONE_OF(stalls)
NONE(void, threads_close, struct threads *none)
NONE(void, blame_enter, struct blame *blame, const struct kvmstats_vm *first)
NONE(void, stalls_enter, struct stalls *stalls, const struct kvmstats_vm *first)
NONE(size_t, blame_ended_waits, const struct blame *blame, const struct blame_vm **vms,
     const struct blame_waits **waits)
NONE(bool, blame_cgroup, const struct blame *blame, uint64_t id, struct blame_cgroup *cgroup)
NONE(struct blame_counts, blame_counts, const struct blame *blame)
NONE(bool, blame_lists, const struct blame *blame, uint32_t tid)
NONE(uint64_t, blame_take_exited, struct blame *blame, uint32_t tgid, uint64_t most)
NONE(struct exits_counts, exits_counts, const struct exits *exits)
NONE(uint64_t, stalls_lost, const struct stalls *stalls)

WEAK int threads_open(struct threads **threads, unsigned int counts, const struct kvmstats_vm *first,
		      struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK int blame_open(struct blame **blame, struct threads *shared, const struct kvmstats_vm *first,
		    struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK int exits_open(struct exits **exits, bool addresses, struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}

WEAK int stalls_open(struct stalls **stalls, struct threads *shared, const struct kvmstats_vm *first,
		     struct kvmstats_probe *p)
{
	return bpf_none_explain(p);
}
