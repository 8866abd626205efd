/* SPDX-License-Identifier: GPL-2.0-only */
/* What the commands have in common. */
#ifndef APP_H
#define APP_H

#include "structures.h"
#include "out.h"
#include "text.h"

enum status {
	STATUS_OK = 0,
	STATUS_NOTHING = 1,	/* nothing matched, or could be read or written */
	STATUS_USAGE = 2,
	STATUS_PARTIAL = 3,	/* something could not be read */
};

struct serve_settings;

/* How the exits of a VM are separated, besides by reason */
enum exits_by {
	EXITS_BY_REASON,
	EXITS_BY_VCPU,
	EXITS_BY_ADDRESS,
	EXITS_BY_REASON_AND_ADDRESS,	/* all of them, for "why" */
};

/* How blame adds up the threads of the host */
enum blame_by {
	BLAME_BY_UNIT,		/* or command, if that is in no unit */
	BLAME_BY_VM,		/* all other processes are one owner */
	BLAME_BY_THREAD,	/* command, and unit */
};

/* How much of the sums of each BPF program a command writes; 0: the program is not loaded */
#define OWNERS_MAX	32
#define EXIT_REASONS_MAX	10
struct program_options {
	unsigned int owners;	/* blame: of the waits of each VM, at most OWNERS_MAX */
	unsigned int exits;	/* exits: the most expensive reasons of each VM, at most EXIT_REASONS_MAX */
	bool stalls;
};

struct settings {
	enum out_format format;
	bool zeros;
	bool vcpus;
	bool histogram;
	const char *by;		/* argument of --by, or NULL */
	bool keep_priority;
	bool help;
	const char *output;	/* argument of --output, or NULL */
	uint64_t interval;	/* nanoseconds */
	unsigned long count;	/* 0: unlimited */
	const char *sort;	/* title of a column */
	bool reverse;
	bool opens;		/* top: open the VM that is selected */
	const char *file;	/* to write to instead of standard output, or NULL */
	const char *from;	/* a recording to read instead of this host, or NULL */
	/* times in the recording, nanoseconds since 1970, or 0 */
	uint64_t at, until;
	uint64_t against[2];
	uint64_t max_size;	/* limit of a recording, bytes */
	struct program_options programs;	/* log, record and serve */
	struct serve_settings *serve;
	char **args;		/* arguments after the command */
	int nr_args;
};

/* The commands; each returns the status to exit with. */
int command_top(const struct settings *settings);
int command_list(const struct settings *settings);
int command_show(const struct settings *settings);
int command_log(const struct settings *settings);
int command_record(const struct settings *settings);
int command_export(const struct settings *settings);
int command_serve(const struct settings *settings);
int command_describe(const struct settings *settings);
int command_blame(const struct settings *settings);
int command_exits(const struct settings *settings);
int command_diff(const struct settings *settings);
int command_stalls(const struct settings *settings);
int command_why(const struct settings *settings);
int command_doctor(const struct settings *settings);

/* The command, for messages */
extern const char *app_command;

/*
 * Open the best source and take one sample. If no source works, exit with the reason for each of
 * them; with wait, print the reasons and continue.
 */
struct kvmstats *app_open(bool wait);

/* Take a sample, or exit with a message. */
void app_sample(struct kvmstats *k);

/*
 * Return the exit status of a command that showed this many VMs of those that args select;
 * print why it is not 0 on standard error.
 */
int app_status(const struct kvmstats *k, unsigned int shown, char **args, int n);

/* Print that no VM or statistic matches any of args. */
void app_warn_unmatched(const char *what, char **args, int n);

/* Write everything out. Ends the program with a message if it cannot be. */
void app_flush(void);

/* Exit with status 2 if one of args is neither a valid selector nor the name of a VM. */
void app_check_selectors(const struct kvmstats_vm *first, char **args, int n);

/* Return true if one of args selects this VM, or if there are none. */
bool app_selects(char **args, int n, const struct kvmstats_vm *vm);

/* Return true if any VM of this list is selected. */
bool app_selects_any(char **args, int n, const struct kvmstats_vm *first);

/*
 * Arguments that are patterns for names of statistics, starting with args[from]. Exit with status 2
 * for an invalid pattern. Return true if a pattern matches, or without patterns.
 */
void app_check_patterns(const struct settings *settings, int from);
bool app_matches(const struct settings *settings, int from, const char *name);

/* The name of the source, with " (partial)" if the last sample reached a bound; valid until the next call */
const char *app_source(const struct kvmstats *k);

/* The label of its identity; with #? if it is several of them (mixed) */
#define LABEL_SIZE	144
const char *app_label(const struct kvmstats_vm *vm, char *buf);

/* A selector for only this VM in the list that begins with first, in printable characters */
#define SELECTOR_SIZE	TEXT_SHOWN(2 * LABEL_SIZE)
void app_selector(const struct kvmstats_vm *first, const struct kvmstats_vm *vm, char *buf);

/* A random time until the next sample, at which source_note() is called once */
#define NOTED	UINT64_MAX
uint64_t app_note_time(uint64_t next);

/*
 * Sleep until the time of the next interval, or until stop_requested(); skips those that have
 * passed. Stops the program when it is asked to (SIGTSTP).
 */
void app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval);

/* For those that wait in another way. A program that is stopped holds no VM. */
bool app_stop_asked(void);
void app_stop(struct kvmstats *k);

#define SECOND	1000000000ULL	/* nanoseconds */
uint64_t app_now(void);	/* CLOCK_MONOTONIC, nanoseconds */

/*
 * Open or create a file to write. A symbolic link is not followed where another user can have
 * placed it, whatever fs.protected_symlinks is: -1 with ELOOP.
 */
int app_create(const char *path, int flags, mode_t mode);

/* What the clock on the wall showed at a time of CLOCK_MONOTONIC, since 1970 */
uint64_t app_wall(uint64_t monotonic);

/* A time since 1970 in UTC, such as 2026-11-22T03:00:00.000Z */
#define TIME_SIZE	32
void app_time_text(uint64_t time, char buf[TIME_SIZE]);

/* Return the description of a statistic, "" if none is known. */
const char *app_stat_description(enum kvmstats_scope scope, const char *name);

#endif /* APP_H */
