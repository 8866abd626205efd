// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completions for the shells: "kvm-stats complete WORD..." prints one completion of the last
 * word per line, with a description after a tab if there is one. A line with only a tab asks
 * the shell to complete file names.
 */
#include <stdio.h>
#include <string.h>

#include "ascii.h"
#include "columns.h"
#include "input.h"
#include "options.h"
#include "serve/model.h"
#include "serve/settings.h"

/* The option of a word with both, such as --output=json: length of "--output=", and its text */
static int attached_len;
static const char *attached;

static void print_word(const char *typed, const char *word, int len, const char *description)
{
	if ((int)strlen(typed) <= len && ascii_begins(word, typed, strlen(typed)))
		printf("%.*s%.*s%s%s\n", attached_len, attached, len, word, description ? "\t" : "",
		       description ? description : "");
}

static void print_words(const char *typed, const char *choices)
{
	size_t len;

	for (; choices && *choices; choices += len + !!choices[len]) {
		len = strcspn(choices, " ");
		print_word(typed, choices, len, NULL);
	}
}

static void print_columns(const char *typed)
{
	unsigned int i;

	for (i = 0; i < columns_count; i++)
		print_word(typed, columns[i].title, strcspn(columns[i].title, "%/"),
			   columns[i].what);
}

/* Return true if --stats accepts this name: a statistic that has a metric already is not exported again. */
static bool can_export(struct kvmstats_table *const *table, const char *name)
{
	const struct serve_options options = { .stats = &name, .nr_stats = 1 };

	return !model_unmatched(&options, table[KVMSTATS_VM], table[KVMSTATS_VCPU]);
}

static void print_statistics(const char *typed, bool exported)
{
	struct kvmstats_table *table[KVMSTATS_SCOPES];
	unsigned int scope, i;
	char why[256];

	if (kvmstats_describe(&table[KVMSTATS_VM], &table[KVMSTATS_VCPU], why, sizeof(why)))
		return;
	for (scope = 0; scope < KVMSTATS_SCOPES; scope++) {
		for (i = 0; i < table[scope]->count; i++) {
			const char *name = table[scope]->desc[i].name;
			const char *description = app_stat_description(scope, name);

			/* A name in both scopes is listed once. */
			if ((scope == KVMSTATS_VM || !kvmstats_find(table[KVMSTATS_VM], name)) &&
			    (!exported || can_export(table, name)))
				print_word(typed, name, strlen(name),
					   *description ? description : NULL);
		}
	}
	kvmstats_free_table(table[KVMSTATS_VM]);
	kvmstats_free_table(table[KVMSTATS_VCPU]);
}

/* Selectors contain printable characters only; compare them with the case as typed. */
static void complete_selectors(const char *typed, const char *from)
{
	const struct settings settings = { .from = from };
	const struct kvmstats_vm *vm;
	char selector[SELECTOR_SIZE];
	struct input in;

	input_open(&in, &settings, INPUT_LAST, false, 0);
	for (vm = kvmstats_first(in.k); vm; vm = vm->next) {
		app_selector(kvmstats_first(in.k), vm, selector);
		if (!strncmp(selector, typed, strlen(typed)))
			puts(selector);
	}
	input_close(&in);
}

static void print_options(const char *typed, const struct command *command)
{
	char name[32];
	unsigned int i;

	for (i = 0; i < nr_options; i++) {
		snprintf(name, sizeof(name), "--%s", options[i].name);
		if (option_is_allowed(&options[i], command))
			print_word(typed, name, strlen(name), options[i].help);
	}
}

static void print_commands(const char *typed)
{
	unsigned int i;

	for (i = 0; i < COMMANDS; i++)
		print_word(typed, commands[i].name, strlen(commands[i].name), commands[i].help);
}

/* Find the option of a word; value is its argument if the word has that as well, or NULL. */
static const struct option_row *find_option(const char *word, const char **value)
{
	const bool is_long = !strncmp(word, "--", 2);
	const size_t len = is_long ? strcspn(word + 2, "=") : 0;
	unsigned int i;

	*value = is_long && word[2 + len] ? word + 2 + len + 1 : NULL;
	for (i = 0; i < nr_options; i++) {
		if (is_long ? !strncmp(word + 2, options[i].name, len) && !options[i].name[len] :
		    word[0] == '-' && word[1] == options[i].letter && word[1] && !word[2])
			return options[i].argument || !*value ? &options[i] : NULL;
	}
	return NULL;
}

static void complete_argument(enum complete what, const char *typed, const struct command *command, const char *from)
{
	switch (what) {
	case COMPLETE_NOTHING:
		break;
	case COMPLETE_FILE:
		puts("\t");
		break;
	case COMPLETE_FORMAT:
		print_words(typed, command ? command->formats : NULL);
		break;
	case COMPLETE_COLUMN:
		print_columns(typed);
		break;
	case COMPLETE_SELECTOR:
		complete_selectors(typed, from);
		break;
	case COMPLETE_STATISTIC:
	case COMPLETE_EXPORTED:
		print_statistics(typed, what == COMPLETE_EXPORTED);
		break;
	case COMPLETE_VCPU:
		print_words(typed, "vcpu");
		break;
	case COMPLETE_BY:
		print_words(typed, command == &commands[COMMAND_EXITS] ? "vcpu address" : "unit vm thread");
		break;
	case COMPLETE_LOG_LEVEL:
		print_words(typed, LOG_LEVELS);
		break;
	case COMPLETE_LOG_FORMAT:
		print_words(typed, LOG_FORMATS);
		break;
	}
}

int complete(int argc, char **argv)
{
	const struct command *command = NULL;
	const struct option_row *pending = NULL;
	const char *typed = argc ? argv[argc - 1] : "", *from = NULL, *value;
	int i, arguments = 0;

	for (i = 0; i + 1 < argc; i++) {
		if (pending) {
			if (!strcmp(pending->name, "from"))
				from = argv[i];
			pending = NULL;
		} else if (argv[i][0] == '-') {
			pending = find_option(argv[i], &value);
			if (pending && value && !strcmp(pending->name, "from"))
				from = value;
			if (pending && (value || !pending->argument))
				pending = NULL;
		} else if (command) {
			arguments++;
		} else if (strcmp(argv[i], "help")) {
			command = find_command(argv[i]);
			/* the name of a VM, which top opens */
			arguments = !command;
			command = command ?: &commands[COMMAND_TOP];
		}
	}
	if (!pending && *typed == '-') {
		pending = find_option(typed, &value);
		if (pending && value) {
			attached = typed;
			attached_len = value - typed;
			typed = value;
		} else {
			print_options(typed, command ?: &commands[COMMAND_TOP]);
			goto end;
		}
	}
	if (pending) {
		complete_argument(pending->complete, typed, command, from);
	} else if (command) {
		complete_argument(arguments ? command->others : command->first, typed, command, from);
	} else {
		print_commands(typed);
		/* Without a command, a name opens a VM. Before it is typed, the commands are enough. */
		if (*typed)
			complete_selectors(typed, from);
	}
end:
	app_flush();
	return STATUS_OK;
}
