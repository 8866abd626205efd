/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The command line: a command is one row of commands[], an option one row of options[]. The
 * parser, --help and the completion of all shells use these rows; tests/manual compares the
 * manuals with --help.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "app.h"

/* How an argument of a command or option is completed */
enum complete {
	COMPLETE_NOTHING,
	COMPLETE_FILE,
	COMPLETE_FORMAT,	/* one of the command's formats */
	COMPLETE_COLUMN,
	COMPLETE_SELECTOR,
	COMPLETE_STATISTIC,
	COMPLETE_EXPORTED,	/* a statistic for --stats */
	COMPLETE_VCPU,		/* the word "vcpu" */
	COMPLETE_BY,		/* what exits or owners are separated by */
	COMPLETE_LOG_LEVEL,
	COMPLETE_LOG_FORMAT,
};

enum command_index {
	COMMAND_TOP,
	COMMAND_LIST,
	COMMAND_SHOW,
	COMMAND_LOG,
	COMMAND_RECORD,
	COMMAND_DIFF,
	COMMAND_WHY,
	COMMAND_BLAME,
	COMMAND_EXITS,
	COMMAND_STALLS,
	COMMAND_EXPORT,
	COMMAND_SERVE,
	COMMAND_DESCRIBE,
	COMMAND_DOCTOR,
	COMMANDS,
};

struct command {
	const char *name;
	int (*run)(const struct settings *settings);
	const char *arguments;	/* as in the usage; "" if the command takes none */
	const char *help;	/* one sentence, as in the manual */
	const char *formats;	/* for --output, separated by blanks; the default is first */
	const char *delay;	/* default of --delay */
	enum complete first, others;	/* arguments */
};

struct option_row {
	char letter;		/* '\0' if the option has none */
	const char *name;
	const char *argument;	/* as in the usage; NULL if the option takes none */
	unsigned int commands;	/* mask of 1 << COMMAND_... */
	/* Store the argument, or exit with status 2 and one line if it is invalid. */
	void (*set)(struct settings *settings, const char *name, const char *value);
	enum complete complete;
	const char *help;	/* one sentence, the first one of the manual's entry */
	const char *value;	/* default, as the user would type it; NULL if there is none */
};

extern const struct command commands[COMMANDS];
extern const struct option_row options[];
extern const unsigned int nr_options;

/* Return the command with this name, NULL if there is none. */
const struct command *find_command(const char *name);
bool option_is_allowed(const struct option_row *option, const struct command *command);

/* Parse a command line. Exits with status 2 and one line if it is invalid. */
const struct command *parse_options(int argc, char **argv, struct settings *settings);

/* Print the completions of the last word of a command line, which begins after the program. */
int complete(int argc, char **argv);

#endif /* OPTIONS_H */
