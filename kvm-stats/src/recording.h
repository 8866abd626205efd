/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all VMs of a host did, sample by sample, in a file: by "record", for --from.
 *
 * The file begins with RECORDING_MAGIC and the number of the format, 4 bytes. Then
 * come chunks: the letters "KVSC", a letter for what it is, 'k' if no chunk before
 * it needs to be read but tables, 2 bytes 0, the length of what follows the head, its
 * CRC-32 together with that of the head, and nanoseconds since 1970.
 *	'T'	a table of statistics
 *	'S'	a sample: of values, what has changed since the one before
 * A reader skips what it does not know. Numbers in heads are little-endian, those in
 * chunks have 7 bits to a byte, the lowest first, and bit 7 if there are more: a
 * recording can be read on any machine.
 *
 * Each sample is one write, so that a recorder that is killed leaves whole ones, and
 * at most a part of one at the end. A file that has reached half of what is allowed
 * becomes FILE.1, instead of the one before.
 */
#ifndef RECORDING_H
#define RECORDING_H

#include "host.h"
#include "kvmstats.h"

#define RECORDING_MAGIC		"KVMSTATSREC\n"	/* 12 bytes, no 0 at the end */
#define RECORDING_FORMAT	1

/*
 * Which events (lib/events.h) of a sample have a number in it: has is a mask of those that
 * are known. A reader leaves out what it does not know.
 */
static inline bool event_recorded(uint64_t has, unsigned int event)
{
	return event < 4 || has >> event & 1;
}

/* Writing. Ends the program if the file cannot be a recording. */
struct recorder;
struct recorder *recorder_open(const char *path, uint64_t max_size);
/* False: it was not written; standard error says why, once. */
bool recorder_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		     uint64_t time);
/* Closes it. Bytes, samples of VMs, and samples that could not be written. */
struct recorder_totals {
	uint64_t bytes, vms, samples, lost;
} recorder_close(struct recorder *r);

/* Reading. Ends the program with one line and status 2 if there is no sample. */
struct recording;
struct recording *recording_open(const char *path);
void recording_close(struct recording *rec);
unsigned long recording_count(const struct recording *rec);
uint64_t recording_time(const struct recording *rec, unsigned long sample);

/* Go to a sample, from 0 on. What follows is of it, until the next one. */
void recording_seek(struct recording *rec, unsigned long sample);
struct kvmstats_vm *recording_first(const struct recording *rec);
const struct kvmstats_table *recording_table(const struct recording *rec,
					     enum kvmstats_scope scope);
const char *recording_source(const struct recording *rec);
unsigned int recording_unread(const struct recording *rec, const char **why);
struct host recording_host(const struct recording *rec);
/* What is wrong with a part of it, "" if nothing */
const char *recording_problem(const struct recording *rec);

/* For tests: read bytes as one sample or table. False: it is none. */
bool recording_try(const void *bytes, size_t size, char what);

#endif /* RECORDING_H */
