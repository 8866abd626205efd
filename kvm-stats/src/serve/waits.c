// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame_sum.h"
#include "recent.h"
#include "waits.h"

_Static_assert(sizeof(((struct wait_owner *)0)->name) >= OWNER_NAME_SIZE, "names fit");

/* A name as a label shows it: different names that look alike are one owner. */
static void clean_name(const char *from, char *to, size_t size)
{
	size_t n, at = 0;

	for (; *from && at + 4 < size; from += n ? n : 1) {
		n = utf8_length(from);
		if (!n || (unsigned char)*from < ' ' || *from == 0x7f) {
			to[at++] = '?';
		} else {
			memcpy(to + at, from, n);
			at += n;
		}
	}
	to[at] = '\0';
}

static struct wait_owner *find_owner(struct waits *waits, const struct blame_share *share)
{
	char name[sizeof(waits->owner->name)];
	unsigned int i;

	clean_name(share->name, name, sizeof(name));
	for (i = 0; i < waits->count; i++) {
		if (!strcmp(waits->owner[i].kind, share->kind) &&
		    !strcmp(waits->owner[i].name, name))
			return &waits->owner[i];
	}
	return NULL;
}

static void add_to_owner(struct wait_owner *owner, const struct blame_share *share)
{
	owner->new_ns += share->ns;
	owner->recent += share->recent;
}

/* Export an owner, instead of another one if there are max owners. */
static struct wait_owner *place_owner(struct waits *waits, const struct blame_share *share,
				      unsigned int max)
{
	struct wait_owner *place = waits->owner;
	unsigned int i;

	if (waits->count < max) {
		place = &waits->owner[waits->count++];
	} else {
		for (i = 1; i < waits->count; i++) {
			if (waits->owner[i].recent < place->recent)
				place = &waits->owner[i];
		}
		if (!recent_replaces(share->recent, place->recent))
			return NULL;
	}
	memset(place, 0, sizeof(*place));
	place->kind = share->kind;
	clean_name(share->name, place->name, sizeof(place->name));
	return place;
}

static int compare_owners(const void *x, const void *y)
{
	const struct wait_owner *a = x, *b = y;

	return a->recent < b->recent ? 1 : a->recent > b->recent ? -1 : strcmp(a->name, b->name);
}

void waits_update(struct waits *waits, struct blame_victim *victim, unsigned int max,
		  uint64_t elapsed)
{
	struct wait_owner *owner;
	size_t i;

	waits->recent = 0;
	for (i = 0; i < waits->count; i++)
		waits->owner[i].new_ns = waits->owner[i].recent = 0;
	for (i = 0; i < victim->count; i++) {
		struct blame_share *share = &victim->shares[i];

		share->recent = recent_add(share->recent, share->growth, elapsed);
		waits->recent += share->recent;
		owner = find_owner(waits, share);
		share->listed = owner;
		if (owner)
			add_to_owner(owner, share);
	}
	for (i = 0; i < victim->count; i++) {
		struct blame_share *share = &victim->shares[i];
		const uint64_t growth = share->growth;

		share->growth = 0;
		if (share->listed)
			continue;
		owner = find_owner(waits, share);
		if (!owner && strcmp(share->kind, "other"))
			owner = place_owner(waits, share, max);
		if (owner)
			add_to_owner(owner, share);
		else
			waits->other_ns += growth;
	}
	for (i = 0; i < waits->count; i++)
		waits->owner[i].ns = waits->owner[i].new_ns;
	qsort(waits->owner, waits->count, sizeof(*waits->owner), compare_owners);
}

void waits_summary(struct buf *b, const struct waits *waits)
{
	const struct wait_owner *first = waits->owner;
	char percent[24];

	if (!waits->count || !waits->recent)
		return;
	snprintf(percent, sizeof(percent), "%u %%",
		 (kvmstats_permille(first->recent, waits->recent) + 5) / 10);
	buf_str(b, "<small>short of CPU: ");
	if (!strcmp(first->kind, "quota")) {
		buf_str(b, "its quota was used up for ");
	} else {
		buf_html(b, first->name);
		buf_str(b, !strcmp(first->kind, "idle") || !strcmp(first->kind, "unknown") ?
			" was " : " ran ");
	}
	buf_str(b, percent);
	buf_str(b, " of the time it waited</small>");
}
