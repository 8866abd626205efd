/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recording: a file with the values of all VMs of a host, written by "record" and read by
 * --from.
 *
 * The file starts with RECORDING_MAGIC and the format version, 4 bytes. Chunks follow. The
 * head of a chunk consists of the letters "KVSC", a letter for its kind, 'k' if it depends on
 * tables only and not on earlier chunks, 2 zero bytes, the length of its contents, the CRC-32
 * of head and contents, and nanoseconds since 1970.
 *	'T'	a table of statistics
 *	'S'	a sample: the values that changed since the previous sample
 * Readers skip other kinds. Numbers in heads are little-endian. Numbers in contents have 7
 * bits per byte, the lowest first, and bit 7 if more follow, so that recordings are portable.
 *
 * Each sample is one write: a recorder that is killed leaves complete samples and at most one
 * partial sample at the end. A file that reaches half of the allowed size is renamed to
 * FILE.1, which replaces the previous FILE.1.
 */
#ifndef RECORDING_H
#define RECORDING_H

#include "host.h"
#include "structures.h"

#define RECORDING_MAGIC		"KVMSTATSREC\n"	/* 12 bytes, no 0 at the end */
#define RECORDING_FORMAT	1

/* Writing. Ends the program if the file cannot be a recording. */
struct recorder;
struct recorder *recorder_open(const char *path, uint64_t max_size);
/* Return false if the sample was not written; the first failure is printed. */
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
unsigned int recording_failed_reads(const struct recording *rec, const char **why);
struct host recording_host(const struct recording *rec);
/* Return the problem with a part of the recording, "" if there is none. */
const char *recording_problem(const struct recording *rec);

/* For tests: decode bytes as one sample or table. Return false if they are invalid. */
bool recording_try(const void *bytes, size_t size, char what);

#endif /* RECORDING_H */
