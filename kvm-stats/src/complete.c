// SPDX-License-Identifier: GPL-2.0-only
/*
 * Completions for the shells: "kvm-stats complete WORD..." prints one completion of the last
 * word per line, with a description after a tab if there is one. A line with only a tab asks
 * the shell to complete file names.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "columns.h"
#include "input.h"
#include "options.h"
#include "serve/settings.h"

static void print_word(const char *typed, const char *word, int len, const char *description)
{
	if ((int)strlen(typed) <= len && !strncasecmp(word, typed, strlen(typed)))
		printf("%.*s%s%s\n", len, word, description ? "\t" : "",
		       description ? description : "");
}

static void print_words(const char *typed, const char *words)
{
	size_t len;

	for (; words && *words; words += len + !!words[len]) {
		len = strcspn(words, " ");
		print_word(typed, words, len, NULL);
	}
}

static void print_columns(const char *typed)
{
	unsigned int i;

	for (i = 0; i < columns_count; i++)
		print_word(typed, columns[i].title, strcspn(columns[i].title, "%/"),
			   columns[i].what);
}

static void print_statistics(const char *typed)
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
			if (scope == KVMSTATS_VM || !kvmstats_find(table[KVMSTATS_VM], name))
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
	struct input f;

	input_open(&f, &settings, INPUT_LAST, false, 0);
	for (vm = kvmstats_first(f.k); vm; vm = vm->next) {
		app_selector(kvmstats_first(f.k), vm, selector);
		if (!strncmp(selector, typed, strlen(typed)))
			puts(selector);
	}
	input_close(&f);
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

static const struct option_row *find_option(const char *word)
{
	unsigned int i;

	for (i = 0; i < nr_options; i++) {
		if (!strncmp(word, "--", 2) ? !strcmp(word + 2, options[i].name) :
		    word[0] == '-' && word[1] == options[i].letter && word[1] && !word[2])
			return &options[i];
	}
	return NULL;
}

int complete(int argc, char **argv)
{
	const struct command *command = NULL;
	const struct option_row *pending = NULL;
	const char *typed = argc ? argv[argc - 1] : "", *from = NULL;
	enum complete what;
	int i, arguments = 0;

	for (i = 0; i + 1 < argc; i++) {
		if (pending) {
			if (!strcmp(pending->name, "from"))
				from = argv[i];
			pending = NULL;
		} else if (argv[i][0] == '-') {
			pending = find_option(argv[i]);
			if (pending && !pending->argument)
				pending = NULL;
		} else if (!command) {
			command = find_command(argv[i]);
		} else {
			arguments++;
		}
	}
	what = pending ? pending->complete : !command ? COMPLETE_NOTHING :
	       arguments ? command->others : command->first;
	if (!pending && *typed == '-')
		print_options(typed, command ? command : &commands[COMMAND_TOP]);
	else if (!pending && !command)
		print_commands(typed);
	else if (what == COMPLETE_FILE)
		puts("\t");
	else if (what == COMPLETE_FORMAT)
		print_words(typed, command ? command->formats : NULL);
	else if (what == COMPLETE_COLUMN)
		print_columns(typed);
	else if (what == COMPLETE_SELECTOR)
		complete_selectors(typed, from);
	else if (what == COMPLETE_STATISTIC)
		print_statistics(typed);
	else if (what == COMPLETE_VCPU)
		print_words(typed, "vcpu");
	else if (what == COMPLETE_BY)
		print_words(typed, "vcpu address unit vm thread");
	else if (what == COMPLETE_LOG_LEVEL)
		print_words(typed, LOG_LEVELS);
	else if (what == COMPLETE_LOG_FORMAT)
		print_words(typed, LOG_FORMATS);
	app_flush();
	return STATUS_OK;
}
