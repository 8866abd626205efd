/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recording: what a source of statistics reported, sample by sample. "record" writes it to a file
 * or a pipe; --from reads it as a source, so that recorded samples become VMs by the same
 * functions as those of a live host.
 *
 * It starts with RECORDING_MAGIC and the format version, 4 bytes. Chunks follow. The head of a
 * chunk consists of the letters "KVSC", a letter for its kind, 3 bytes that key samples and the
 * chunks that depend on them have in common, the length of the contents, the CRC-32 of head and
 * contents, and nanoseconds since 1970.
 *	'K'	a key sample: tables, identities, and all values
 *	'S'	a sample: differences from the key sample before it. It needs no other chunk, so a
 *		damaged one loses one sample.
 *	'B'	with "record --blame": for VMs whose vCPUs waited for a CPU since the last 'B', the
 *		owners of these waits, and how long the waits were
 *	'X'	with "record --exits": the most expensive exits since the last 'X'
 *	'Z'	with "record --stalls": why vCPUs slept outside of halts since the last 'Z'
 *	'R'	only from the process of "serve" that samples: see serve/sampler.h
 * 'B', 'X', 'Z' and 'R' come before the sample that ends their time. Readers skip other kinds. A
 * lower-case letter stands for the same kind with packed contents: see rec_chunk.c. Numbers in
 * heads are little-endian. Numbers in contents have 7 bits per byte, the lowest first, and bit 7
 * if more follow, so that recordings are portable.
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
#define RECORDING_FORMAT	2

/* Kinds of chunks before a sample */
#define RECORDED_BLAME	'B'
#define RECORDED_EXITS	'X'
#define RECORDED_REPORT	'R'
#define RECORDED_STALLS	'Z'

/*
 * A sample contains the number of CPUs and the load of the host, problems, and the VMs. Each VM
 * begins with words (see below), then come the values of table KVMSTATS_VM and its vCPUs, each with
 * words and values.
 * Words and values are 64-bit, and only those that differ from the key sample are stored.
 * Words that are times, except for VCPU_BORN, are in the unit that the key sample has.
 */
enum vm_word {
	VM_TIME,		/* when it was read: time before the sample */
	VM_FLAGS,
	VM_OTHERS,		/* CPU time of other threads */
	VM_ROLE,		/* of these, by role */
	VM_WORDS = VM_ROLE + KVMSTATS_ROLES,
};

#define VM_ENDED	1
#define VM_AMBIGUOUS	2
#define VM_HAS_VALUES	4
#define VM_HAS_OTHERS	8
#define VM_HAS_WAITS	16
#define VM_WAITS_SHIFT	8	/* time for which other threads waited for a CPU */

/* What source.h calls struct thread_times */
enum vcpu_word {
	VCPU_TID,
	VCPU_FLAGS,
	VCPU_TIME,		/* time before the VM was read */
	VCPU_BORN,
	VCPU_RUN,
	VCPU_READY,
	VCPU_TURNS,
	VCPU_THROTTLED,
	VCPU_CPU,
	VCPU_LOST,
	VCPU_SLEEPS,
	VCPU_ASLEEP,		/* since when: CLOCK_MONOTONIC, or 0; it stays while the thread sleeps */
	VCPU_WORDS,
};

#define VCPU_HAS_RUN		0x01
#define VCPU_HAS_READY		0x02
#define VCPU_HAS_THROTTLED	0x04
#define VCPU_HAS_SLEEPS		0x08
#define VCPU_UP_TO_DATE		0x10
#define VCPU_LOADED		0x20
#define VCPU_ASSUMED		0x40
#define VCPU_THREAD_EXITED	0x80
#define VCPU_STATE_SHIFT	8	/* enum thread_state */

/* Writing, to a file, or to standard output if path is "-". Ends the program if it cannot. */
struct recorder;
struct recorder *recorder_open(const char *path, uint64_t max_size);
/*
 * The unit of times, nanoseconds. In a file, digits beyond it are noise that cannot be packed. A pipe
 * has exact times: "serve" continues totals with them.
 */
uint64_t recorder_unit(const struct recorder *r);
/* Return false if the sample was not written; the first failure is printed. */
bool recorder_sample(struct recorder *r, const struct kvmstats *k, struct host host,
		     uint64_t time);
/* Add what is not in struct kvmstats, to be written before the next sample, as a chunk. */
struct bytes;
void recorder_add(struct recorder *r, char kind, const struct bytes *contents);
/* The next sample is a key sample: a new reader has not read those before it. */
void recorder_restart(struct recorder *r);
/* Closes it. Bytes, samples of VMs, and samples that could not be written. */
struct recorder_totals {
	uint64_t bytes, vms, samples, lost;
} recorder_close(struct recorder *r);

/*
 * Reading, from a file and FILE.1, or from standard input if path is "-": *k is at the first
 * sample, and kvmstats_close() closes the recording. Ends the program with one line and status 2
 * if there is no sample.
 */
struct recording;
struct recording *recording_open(const char *path, struct kvmstats **k);

/*
 * For a process that writes to its standard output what it samples, and reads it from its
 * standard input to give it to a child: k is the host that it samples. recording_fetch() gets
 * what recording_added() finds, and recording_skip() replaces kvmstats_sample(). The child calls
 * recording_continue(); its first sample must be a key sample.
 */
struct recording *recording_of_own(struct kvmstats *k);
void recording_skip(struct recording *rec, struct host host);
void recording_continue(struct recording *rec);

/*
 * Get the sample that the next kvmstats_sample() reports; from a pipe, wait for it. Return false
 * if there are no more.
 */
bool recording_fetch(struct recording *rec);
uint64_t recording_fetched(const struct recording *rec);	/* its time since 1970 */

/* The number of samples so far; 0 if it is not a file: only the next sample can be read. */
unsigned long recording_count(const struct recording *rec);
uint64_t recording_time(const struct recording *rec, unsigned long sample);

/* Number, time (nanoseconds since 1970) and host of the present sample */
unsigned long recording_position(const struct recording *rec);
uint64_t recording_now(const struct recording *rec);
struct host recording_host(const struct recording *rec);

/* Find chunk number i of a kind that was written since the sample before this one. */
struct rec_bytes;
bool recording_added(const struct recording *rec, size_t i, char kind, struct rec_bytes *contents);

/* Return true if the recording has chunks of this kind; of a pipe, so far. */
bool recording_has(const struct recording *rec, char kind);

/*
 * Let recording_added() find what was written in this time until the present sample. Return the
 * time, which is shorter at the start of the recording.
 */
uint64_t recording_collect(struct recording *rec, uint64_t nanoseconds);

/* Go to a sample, from 0 on, and to the one before it, so that there is growth. */
void recording_seek(struct recording *rec, unsigned long sample);

/*
 * For a reader that follows FILE while it is written: how often another file has replaced it, and
 * FILE.1 is the one before. Go to the last sample of FILE.1, or, without it, to the first of FILE.
 */
unsigned int recording_replaced(const struct recording *rec);
void recording_seek_file(struct recording *rec);

/* Return the problem with a part of the recording, "" if there is none. */
const char *recording_problem(const struct recording *rec);

/* For tests: read bytes as the contents of a sample. Return false if they are invalid. */
bool recording_try(const void *bytes, size_t size, char kind);

#endif /* RECORDING_H */
