/* SPDX-License-Identifier: GPL-2.0-only */
/* Sums are recorded in memory instead of a file, for programs that are linked with --wrap of these functions. */
#ifndef RECORDER_H
#define RECORDER_H

#include "rec_encode.h"
#include "recording.h"

/* What was recorded last, and how often a sample has it */
static struct bytes recorded;
static char recorded_kind;
static size_t recorded_times = 1;

void __wrap_recorder_add(struct recorder *r, char kind, const struct bytes *contents);
void __wrap_recorder_add(struct recorder *r, char kind, const struct bytes *contents)
{
	recorded_kind = kind;
	recorded.size = 0;
	bytes_put(&recorded, contents->data, contents->size);
}

bool __wrap_recording_added(const struct recording *rec, size_t i, char kind, struct rec_bytes *contents);
bool __wrap_recording_added(const struct recording *rec, size_t i, char kind, struct rec_bytes *contents)
{
	*contents = (struct rec_bytes){ .at = recorded.data, .end = recorded.data + recorded.size };
	return i < recorded_times && kind == recorded_kind && recorded.size;
}

#endif /* RECORDER_H */
