// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"
#include "waits.h"

static int compare_listed(const void *x, const void *y)
{
	const struct wait_owner *a = x, *b = y;

	return a->recent < b->recent ? 1 : a->recent > b->recent ? -1 : strcmp(a->key.name, b->key.name);
}

void waits_update(struct waits *waits, const struct sums *sums, struct blame_victim *victim,
		  unsigned int max, uint64_t elapsed)
{
	size_t i;

	add_waits(&waits->ended, &victim->ended);
	memset(&victim->ended, 0, sizeof(victim->ended));
	waits->other_ns += list_items(sums, &victim->sum, max, elapsed);
	waits->recent = waits->count = 0;
	for (i = 0; i < victim->sum.count; i++) {
		const struct blame_share *share = blame_share_at(victim, i);

		waits->recent += share->item.recent;
		if (share->item.listed)
			waits->owner[waits->count++] = (struct wait_owner){
				share->key, share->item.cost, share->item.recent };
	}
	qsort(waits->owner, waits->count, sizeof(*waits->owner), compare_listed);
}

void waits_summary(struct buf *b, const struct waits *waits)
{
	const struct wait_owner *first = waits->owner;

	if (!waits->count || !waits->recent)
		return;
	buf_str(b, "<small>short of CPU: ");
	if (!strcmp(first->key.kind, "quota")) {
		buf_str(b, "its quota was used up for ");
	} else {
		buf_str(b, strcmp(first->key.kind, "self") ? "" : "its own ");
		buf_html(b, first->key.name);
		buf_str(b, !strcmp(first->key.kind, "idle") || !strcmp(first->key.kind, "unknown") ?
			" was " : " ran ");
	}
	buf_printf(b, "%u %% of the time it waited</small>",
		   (kvmstats_permille(first->recent, waits->recent) + 5) / 10);
}
