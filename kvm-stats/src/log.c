// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "columns.h"
#include "vm_input.h"
#include "text.h"

/* Before the columns of "top" that have a key, and after them */
static const char * const keys_before[] = { "time", "vm", "pid", "uuid", "vcpus", "seconds" };
static const char * const keys_after[] = { "ended", "source" };

#define MAX_COLUMNS	64

static void add_column(struct out_column *to, const char *key)
{
	while (to->key)
		to++;
	*to = (struct out_column){ NULL, key, false };
}

static void make_columns(struct out_column to[MAX_COLUMNS])
{
	unsigned int i;

	memset(to, 0, MAX_COLUMNS * sizeof(*to));
	for (i = 0; i < sizeof(keys_before) / sizeof(*keys_before); i++)
		add_column(to, keys_before[i]);
	for (i = 0; i < columns_count; i++) {
		if (columns[i].key && columns[i].kind != COLUMN_OTHERS)
			add_column(to, columns[i].key);
	}
	for (i = 0; i < sizeof(keys_after) / sizeof(*keys_after); i++)
		add_column(to, keys_after[i]);
	/* Columns that were added later are last, so that the others keep their places. */
	for (i = 0; i < columns_count; i++) {
		if (columns[i].kind == COLUMN_OTHERS)
			add_column(to, columns[i].key);
	}
}

static void put_column(struct out *out, const struct column *column,
		       const struct item *item)
{
	char text[TEXT_SIZE];
	uint64_t value;

	if (!column_get(column, item, &value) || !item->elapsed) {
		out_none(out);
		return;
	}
	if (column->kind == COLUMN_PERCENT || column->kind == COLUMN_OTHERS)
		text_permille(kvmstats_permille(value, column_elapsed(column, item)), text);
	else
		text_thousandths(kvmstats_rate(value, item->elapsed), text);
	out_number(out, text);
}

static void log_vm(struct out *out, const char *now, const struct vm_input *f,
		   const struct kvmstats_vm *vm)
{
	const struct item item = item_vm(vm);
	char text[LABEL_SIZE];
	unsigned int i;

	out_text(out, now);
	out_text(out, app_label(vm, text));
	out_u64(out, vm->identity.pid);
	if (*vm->identity.uuid)
		out_text(out, vm->identity.uuid);
	else
		out_none(out);
	out_u64(out, vm->vcpus);
	if (vm->elapsed) {
		snprintf(text, sizeof(text), "%llu.%03llu",
			 (unsigned long long)vm->elapsed / 1000000000,
			 (unsigned long long)vm->elapsed / 1000000 % 1000);
		out_number(out, text);
	} else {
		out_none(out);
	}
	for (i = 0; i < columns_count; i++) {
		if (columns[i].key && columns[i].kind != COLUMN_OTHERS)
			put_column(out, &columns[i], &item);
	}
	out_bool(out, vm->ended);
	out_text(out, input_source(f));
	for (i = 0; i < columns_count; i++) {
		if (columns[i].kind == COLUMN_OTHERS)
			put_column(out, &columns[i], &item);
	}
}

static volatile sig_atomic_t reopen_asked;

static void ask_reopen(int signal)
{
	reopen_asked = 1;
}

/* Redirect standard output to the end of a file. Return true if the file is empty. */
static bool open_log(const char *path)
{
	int fd = app_create(path, O_WRONLY | O_APPEND, 0644);
	struct stat st;

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		err(STATUS_NOTHING, "cannot open %s", path);
	close(fd);
	return fstat(STDOUT_FILENO, &st) || !st.st_size;
}

/* What "log >>FILE" adds to has its keys. */
static bool is_begun(void)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);
	struct stat st;

	return flags >= 0 && flags & O_APPEND && !fstat(STDOUT_FILENO, &st) &&
	       S_ISREG(st.st_mode) && st.st_size;
}

/*
 * logrotate renames the file and sends SIGHUP. If standard output is a terminal, SIGHUP means
 * that it was closed: keep the default action.
 */
static void catch_hangup(void)
{
	const struct sigaction action = { .sa_handler = ask_reopen };

	if (!isatty(STDOUT_FILENO))
		sigaction(SIGHUP, &action, NULL);
}

int command_log(const struct settings *settings)
{
	enum out_format format = settings->format;
	struct out_column keys[MAX_COLUMNS];
	unsigned int shown = 0, unread = 0;
	const struct kvmstats_vm *vm;
	unsigned long round = 0;
	struct vm_input f;
	struct out *out;
	uint64_t next;
	char now[TIME_SIZE];

	input_open(&f, settings, INPUT_FIRST, !settings->count, settings->nr_args);
	if (format == OUT_CSV && (settings->file ? !open_log(settings->file) : is_begun()))
		format = OUT_CSV_MORE;
	else if (settings->file)
		open_log(settings->file);
	catch_hangup();
	make_columns(keys);
	out = out_open(format, keys);
	app_flush();
	next = app_now();
	do {
		if (f.k)
			app_wait(f.k, &next, settings->interval);
		if (reopen_asked) {
			reopen_asked = 0;
			if (settings->file && open_log(settings->file) &&
			    settings->format == OUT_CSV)
				out_keys(out);
		}
		if (!input_next(&f))
			break;
		unread |= input_failed_reads(&f, NULL);
		app_time_text(input_time(&f), now);
		for (vm = input_first(&f); vm; vm = vm->next) {
			if (!app_selects(settings->args, settings->nr_args, vm))
				continue;
			shown++;
			log_vm(out, now, &f, vm);
		}
		app_flush();
	} while (++round != settings->count);
	out_close(out);
	if (!shown || unread) {
		const int status = input_status(&f, shown, settings->nr_args);

		input_close(&f);
		return shown ? STATUS_PARTIAL : status;
	}
	input_close(&f);
	return STATUS_OK;
}
