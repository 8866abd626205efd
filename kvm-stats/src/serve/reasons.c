// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>

#include "exits_sum.h"
#include "reasons.h"
#include "recent.h"

/* The most expensive reason that is not listed; NULL if all are */
static struct exits_total *find_most(const struct exits_vm *vm)
{
	struct exits_total *most = NULL;
	size_t i;

	for (i = 0; i < vm->count; i++)
		if (!vm->totals[i].listed && (!most || vm->totals[i].recent > most->recent))
			most = &vm->totals[i];
	return most;
}

/* The cheapest reason that is listed */
static struct exits_total *find_least(const struct exits_vm *vm)
{
	struct exits_total *least = NULL;
	size_t i;

	for (i = 0; i < vm->count; i++)
		if (vm->totals[i].listed && (!least || vm->totals[i].recent < least->recent))
			least = &vm->totals[i];
	return least;
}

void reasons_update(struct exits_vm *vm, unsigned int max, uint64_t elapsed)
{
	struct exits_total *most, *least;
	size_t i;

	for (i = 0; i < vm->count; i++) {
		struct exits_total *total = &vm->totals[i];

		total->recent = recent_add(total->recent, total->growth, elapsed);
		total->growth = 0;
	}
	while ((most = find_most(vm))) {
		if (vm->listed < max) {
			vm->listed++;
		} else {
			least = find_least(vm);
			if (!least || !recent_replaces(most->recent, least->recent))
				break;
			least->listed = false;
		}
		most->listed = true;
	}
}
