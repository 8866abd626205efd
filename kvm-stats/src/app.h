/* SPDX-License-Identifier: GPL-2.0-only */
/* What the commands have in common. */
#ifndef APP_H
#define APP_H

#include <signal.h>

#include "kvmstats.h"
#include "out.h"
#include "text.h"

enum status {
	STATUS_OK = 0,
	STATUS_NOTHING = 1,	/* nothing matched, or could be read or written */
	STATUS_USAGE = 2,
	STATUS_PART = 3,	/* something could not be read */
};

struct settings {
	enum out_format format;
	bool zeros;
	bool vcpus;
	uint64_t interval;	/* nanoseconds */
	unsigned long count;	/* 0: no end */
	const char *sort;	/* title of a column, NULL: the usual one */
	bool reverse;
	const char *file;	/* to write to instead of standard output, or NULL */
	const char *from;	/* a recording to read instead of this host, or NULL */
	uint64_t at;		/* in it, nanoseconds since 1970; 0: not said */
	uint64_t max_size;	/* of a recording, bytes */
	char **words;		/* arguments after the command */
	int nr_words;
};

/* The commands; each returns the status to exit with. */
int command_top(const struct settings *settings);
int command_list(const struct settings *settings);
int command_show(const struct settings *settings);
int command_log(const struct settings *settings);
int command_record(const struct settings *settings);
int command_describe(const struct settings *settings);
int command_doctor(const struct settings *settings);

/*
 * The best source there is, and one sample of it; ends the program with the
 * reason for each source if none works.
 */
struct kvmstats *app_open(void);

/* The same, but if wait is set, samples go on without a source until one works. */
struct kvmstats *app_open_waiting(bool wait);

/* Sample; ends the program if it cannot. */
void app_sample(struct kvmstats *k);

/*
 * The status of a command that showed this many VMs, and on standard error why
 * it is none, or what is missing.
 */
int app_status(const struct kvmstats *k, unsigned int shown, bool selected);

/* Write everything out. Ends the program with a message if it cannot be. */
void app_flush(void);

/* Ends the program with status 2 if one of them is no selector, of these VMs or others. */
void app_check_selectors(const struct kvmstats_vm *first, char **words, int n);

/* Does one of the words select this VM? No words select all. */
bool app_selects(char **words, int n, const struct kvmstats_vm *vm);

/* The label of its identity; with #? if it is several of them (mixed) */
#define LABEL_SIZE	144
const char *app_label(const struct kvmstats_vm *vm, char *buf);

/* A selector for this VM alone, in printable characters */
#define SELECTOR_SIZE	TEXT_SHOWN(2 * LABEL_SIZE)
void app_selector(const struct kvmstats_vm *vm, char *buf);

/*
 * Sleep until the time of the next interval, or until a signal handler sets *end;
 * skips those that have passed. Stops the program when it is asked to (SIGTSTP).
 */
void app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval,
	      const volatile sig_atomic_t *end);

/* For those that wait in another way. A program that is stopped holds no VM. */
bool app_stop_asked(void);
void app_stop(struct kvmstats *k);

#define SECOND	1000000000ULL	/* nanoseconds */
/* Ends the program with status 2 if this is no time that samples may be apart. */
uint64_t app_seconds(const char *text);
uint64_t app_now(void);	/* CLOCK_MONOTONIC, nanoseconds */

/* What the clock on the wall showed at a time of CLOCK_MONOTONIC, since 1970 */
uint64_t app_wall(uint64_t monotonic);

/* What a statistic of this name counts, "" if we have no words for it */
const char *app_words(enum kvmstats_scope scope, const char *name);

#endif /* APP_H */
