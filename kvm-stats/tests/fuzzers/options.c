// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the option parser with libFuzzer: words are separated by a zero byte. Commands do not run,
 * and a program that exits returns to the fuzzer.
 */
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "columns.h"
#include "options.h"
#include "serve/settings.h"

#define MAX_WORDS	64

const char *app_command;
static jmp_buf exited;
static int exit_status;
static bool parsing;

#define COMMAND(name)	int command_##name(const struct settings *settings) { abort(); }
COMMAND(top) COMMAND(list) COMMAND(show) COMMAND(log) COMMAND(record) COMMAND(describe)
COMMAND(doctor) COMMAND(blame) COMMAND(exits) COMMAND(stalls) COMMAND(diff) COMMAND(serve)
COMMAND(export) COMMAND(complete) COMMAND(why)

void app_flush(void) {}

void app_time_text(uint64_t time, char buf[TIME_SIZE])
{
	*buf = '\0';
}

/* Statistics of this kernel, the columns of top, and rates do not matter here. */
const struct column columns[] = { { .title = "RUN" } };
const unsigned int columns_count = 1;
int column_by_title(const char *title)
{
	return strcmp(title, columns->title) ? -1 : 0;
}

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu, char *why, size_t size)
{
	return -1;
}

void kvmstats_free_table(struct kvmstats_table *table) {}
uint64_t kvmstats_rate(uint64_t growth, uint64_t elapsed) { return 0; }

const char *model_unmatched(const struct serve_options *options, const struct kvmstats_table *vm,
			    const struct kvmstats_table *vcpu)
{
	return NULL;
}

void __real_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status)
{
	if (!parsing)
		__real_exit(status);
	exit_status = status;
	longjmp(exited, 1);
}

void __wrap_err(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_err(int status, const char *format, ...)
{
	__wrap_exit(status);
}

/* The message is one line. */
void __wrap_errx(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_errx(int status, const char *format, ...)
{
	char text[100000];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (status != STATUS_USAGE || !*text)
		abort();
	__wrap_exit(status);
}

static void check(const struct command *command, const struct settings *settings, int argc)
{
	if (!command || settings->nr_args < 0 || settings->nr_args >= argc ||
	    settings->serve->nr_listen > LISTEN_MAX || settings->serve->nr_hosts > HOSTS_MAX ||
	    (settings->interval && settings->interval < SECOND / 10))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char name[] = "kvm-stats";
	static struct serve_settings serve;
	static struct settings settings;
	char *argv[MAX_WORDS + 2] = { name }, *text = malloc(size + 1), *word = text;
	volatile int argc = 1;

	memcpy(text, data, size);
	text[size] = '\0';
	for (; word < text + size && argc <= MAX_WORDS; word += strlen(word) + 1)
		argv[argc++] = word;
	memset(&serve, 0, sizeof(serve));
	settings = (struct settings){ .serve = &serve };
	optind = 0;
	parsing = true;
	if (!setjmp(exited))
		check(parse_options(argc, argv, &settings), &settings, argc);
	else if (exit_status != STATUS_OK && exit_status != STATUS_USAGE)
		abort();
	parsing = false;
	free(serve.model.stats);
	free(text);
	return 0;
}
