// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "columns.h"
#include "input.h"
#include "programs.h"
#include "rec_encode.h"
#include "stop.h"
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

static void make_columns(struct out_column to[MAX_COLUMNS], bool stalls)
{
	static char stall_keys[STALLS][32];
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
	for (i = STALL_STOPPED; i < STALLS && stalls; i++) {
		snprintf(stall_keys[i], sizeof(stall_keys[i]), "stall_%s_s", stall_name(i));
		add_column(to, stall_keys[i]);
	}
}

/* The sums of --stalls */
struct log_stalls {
	bool wanted, missing;
	struct programs programs;	/* with this one only */
};

/* Attach the program, and begin its sums; without it, the columns have no values. */
static void open_log_stalls(struct log_stalls *stalls, const struct settings *settings, const struct input *in)
{
	struct programs *p = &stalls->programs;

	stalls->wanted = settings->programs.stalls;
	if (!stalls->wanted)
		return;
	if (in->rec) {
		read_recorded_program(p, PROGRAM_STALLS, in->rec);
	} else if (open_or_warn(p, 1 << PROGRAM_STALLS, "logging", kvmstats_first(in->k))) {
		/* Loading takes some time: the first sample begins with the program. */
		app_sample(in->k);
	}
	stalls->missing = !p->open[PROGRAM_STALLS];
}

/* Take the next sample, and what stalls have lasted since the one before. Return false at the end. */
static bool take_log_sample(struct log_stalls *stalls, const struct settings *settings,
			    struct input *in, bool next)
{
	struct sums *sums = stalls->programs.open[PROGRAM_STALLS];

	if (!read_programs(&stalls->programs))
		errx(STATUS_NOTHING, "log: cannot read the sums of the BPF program");
	if (next && !input_next(in))
		return false;
	if (!sums)
		return true;
	clear_sums(sums);
	forget_sums(sums, NULL, NULL);
	add_sums(sums, kvmstats_first(in->k), settings->args, settings->nr_args);
	return true;
}

/* Recordings have stalls at some samples only. */
static void put_log_stalls(struct out *out, const struct log_stalls *stalls, const struct kvmstats_vm *vm)
{
	const struct sums *sums = stalls->programs.open[PROGRAM_STALLS];
	const struct stalls_vm *found = NULL;
	struct rec_bytes t;
	uint64_t reason, ns;
	size_t i;

	if (sums && vm->elapsed && (!sums->rec || recording_added(sums->rec, 0, RECORDED_STALLS, &t)))
		found = find_sum(sums, vm);
	for (reason = STALL_STOPPED; reason < STALLS && stalls->wanted; reason++) {
		if (!found) {
			out_none(out);
			continue;
		}
		ns = 0;
		for (i = 0; i < found->sum.count; i++) {
			if (stall_share_at(&found->sum, i)->reason == reason)
				ns = stall_share_at(&found->sum, i)->item.cost;
		}
		out_seconds(out, ns);
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
	if (column->kind == COLUMN_TIME) {
		out_seconds(out, value);
		return;
	}
	if (column->kind == COLUMN_PERCENT || column->kind == COLUMN_OTHERS)
		text_permille(kvmstats_permille(value, column_elapsed(column, item)), text);
	else
		text_thousandths(kvmstats_rate(value, item->elapsed), text);
	out_number(out, text);
}

static void log_vm(struct out *out, const char *now, const struct input *in, const struct log_stalls *stalls,
		   const struct kvmstats_vm *vm)
{
	const struct item item = item_vm(vm);
	char text[LABEL_SIZE];
	unsigned int i;

	out_text(out, now);
	out_text(out, app_label(vm, text));
	out_u64(out, vm->identity.pid);
	out_text_or_none(out, vm->identity.uuid);
	out_u64(out, vm->vcpus);
	if (vm->elapsed) {
		text_decimal(vm->elapsed / 1000000, 3, text);
		out_number(out, text);
	} else {
		out_none(out);
	}
	for (i = 0; i < columns_count; i++) {
		if (columns[i].key && columns[i].kind != COLUMN_OTHERS)
			put_column(out, &columns[i], &item);
	}
	out_bool(out, vm->ended);
	out_text(out, app_source(in->k));
	for (i = 0; i < columns_count; i++) {
		if (columns[i].kind == COLUMN_OTHERS)
			put_column(out, &columns[i], &item);
	}
	put_log_stalls(out, stalls, vm);
}

static volatile sig_atomic_t reopen_asked;

static void ask_reopen(int signal)
{
	reopen_asked = 1;
}

/* The file of --file, which is standard output */
struct log_file {
	const char *path;	/* NULL if it is not a file of ours */
	bool is_regular;	/* neither a FIFO nor a terminal, which have no size */
	off_t size;		/* before the present sample */
	bool failing;
	unsigned long lost;	/* samples */
};

static bool is_regular(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* Redirect standard output to the end of a file. */
static void open_log(struct log_file *file)
{
	int fd = app_create(file->path, O_RDWR | O_APPEND, 0644);
	char last = '\n';
	off_t size;

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		err(STATUS_NOTHING, "cannot open %s", file->path);
	close(fd);
	file->is_regular = is_regular(STDOUT_FILENO);
	/* a line that another log could not complete */
	size = lseek(STDOUT_FILENO, 0, SEEK_END);
	if (size > 0 && pread(STDOUT_FILENO, &last, 1, size - 1) == 1 && last != '\n')
		putchar('\n');
}

/* Start a sample; keys are printed again if the file was emptied. */
static void begin_log_sample(struct log_file *file, const struct out *out)
{
	struct stat st;

	if (!file->path)
		return;
	if (reopen_asked) {
		reopen_asked = 0;
		open_log(file);
	}
	file->size = fstat(STDOUT_FILENO, &st) ? 0 : st.st_size;
	if (file->is_regular && !file->size && out)
		out_keys(out);
}

/* Write a sample, or none of it if the disk is full: no line is torn. */
static void end_log_sample(struct log_file *file)
{
	bool failed;
	int error;

	if (!file->path) {
		app_flush();
		return;
	}
	failed = fflush(stdout);
	error = errno;
	failed |= ferror(stdout);
	if (failed) {
		__fpurge(stdout);
		clearerr(stdout);
		if (ftruncate(STDOUT_FILENO, file->size))
			error = errno;
		if (!file->failing)
			warnx("cannot write %s: %s; will retry", file->path, strerror(error));
		file->lost++;
	} else if (file->failing) {
		warnx("resumed writing %s, %lu samples lost", file->path, file->lost);
	}
	file->failing = failed;
}

/* What "log >>FILE" adds to has its keys. */
static bool is_begun(void)
{
	const int flags = fcntl(STDOUT_FILENO, F_GETFL);
	struct stat st;

	return flags >= 0 && flags & O_APPEND && is_regular(STDOUT_FILENO) &&
	       !fstat(STDOUT_FILENO, &st) && st.st_size;
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

static unsigned int log_sample(const struct settings *settings, const struct input *in,
			       const struct log_stalls *stalls, struct out *out)
{
	const struct kvmstats_vm *vm;
	unsigned int shown = 0;
	char now[TIME_SIZE];

	app_time_text(input_time(in), now);
	for (vm = kvmstats_first(in->k); vm; vm = vm->next) {
		if (!app_selects(settings->args, settings->nr_args, vm))
			continue;
		shown++;
		log_vm(out, now, in, stalls, vm);
	}
	return shown;
}

int command_log(const struct settings *settings)
{
	struct log_file file = { .path = settings->file };
	struct log_stalls stalls = { 0 };
	enum out_format format = settings->format;
	struct out_column keys[MAX_COLUMNS];
	unsigned int shown = 0, unread = 0;
	unsigned long round = 0;
	struct input in;
	struct out *out;
	uint64_t next;
	int status = STATUS_OK;

	input_open(&in, settings, INPUT_FIRST, !settings->count, settings->nr_args);
	if (settings->file) {
		open_log(&file);
		/* A signal ends it between two samples, not within a line. */
		stop_catch(STATUS_PARTIAL, NULL);
	}
	if (format == OUT_CSV && (file.is_regular || is_begun()))
		format = OUT_CSV_MORE;
	catch_hangup();
	open_log_stalls(&stalls, settings, &in);
	take_log_sample(&stalls, settings, &in, false);
	make_columns(keys, stalls.wanted);
	out = out_open(format, keys);
	if (!settings->file)
		app_flush();
	next = app_now();
	do {
		if (!in.rec)
			app_wait(in.k, &next, settings->interval);
		if (stop_requested())
			break;
		/* The present sample of a recording is the first one. */
		if (!take_log_sample(&stalls, settings, &in, !in.rec || round)) {
			if (stalls.programs.open[PROGRAM_STALLS] && !recording_has(in.rec, RECORDED_STALLS))
				stalls.missing = true;
			break;
		}
		unread |= kvmstats_failed_reads(in.k, NULL);
		begin_log_sample(&file, settings->format == OUT_CSV ? out : NULL);
		shown += log_sample(settings, &in, &stalls, out);
		end_log_sample(&file);
	} while (++round != settings->count);
	out_close(out);
	if (!shown || unread || in.rec)
		status = input_status(&in, shown, settings->args, settings->nr_args);
	if (stalls.missing && in.rec)
		warnx("%s has no stalls of this time; record --stalls writes them", settings->from);
	if (shown && (unread || file.lost || stalls.missing))
		status = STATUS_PARTIAL;
	close_programs(&stalls.programs);
	input_close(&in);
	return status;
}
