// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "ascii.h"
#include "clock.h"
#include "privileges.h"
#include "source.h"
#include "stop.h"
#include "text.h"
#include "xalloc.h"

const char *app_command = "";

static volatile sig_atomic_t stop_asked;

static void ask_stop(int signal)
{
	stop_asked = 1;
}

static void catch_stop(void)
{
	const struct sigaction action = { .sa_handler = ask_stop };
	struct sigaction old;

	/* a shell without job control has it ignored */
	if (!sigaction(SIGTSTP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &action, NULL);
}

bool app_stop_asked(void)
{
	return stop_asked;
}

void app_stop(struct kvmstats *k)
{
	kvmstats_release_files(k);
	stop_asked = 0;
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	catch_stop();
}

static void print_sources(void)
{
	struct kvmstats_probe probe;
	unsigned int i;

	warnx("no source of statistics works");
	for (i = 0; !probe_source(i, NULL, &probe); i++)
		fprintf(stderr, "  %s: %s%s%s\n", probe.name, probe.why,
			*probe.help ? ": " : "", probe.help);
}

/* If the source files is used, which sees few VMs: return true and why bpf does not work. */
static bool probe_better_source(const struct kvmstats *k, struct kvmstats_probe *better)
{
	unsigned int i = 0;

	if (strcmp(kvmstats_source(k), "files"))
		return false;
	while (!probe_source(i++, NULL, better)) {
		if (!strcmp(better->name, "bpf"))
			return !better->works;
	}
	return false;
}

/*
 * Tell an ordinary user what is missing and the command that helps, instead of showing an
 * empty table. A user who sees at least one VM gets this from app_status().
 */
static void check_permission(const struct kvmstats *k, bool wait)
{
	struct kvmstats_probe better;

	if (!geteuid() || kvmstats_first(k) ||
	    !kvmstats_failed_reads_by_reason(k, KVMSTATS_PERMISSION, NULL))
		return;
	if (privileges_capable(CAP_BPF) && probe_better_source(k, &better))
		warnx("VMs of other users are hidden, and source bpf does not work: %s; %s", better.why, better.help);
	else
		warnx("VMs of other users are hidden: CAP_BPF and CAP_PERFMON required; "
		      "run: sudo kvm-stats %s", app_command);
	if (!wait)
		exit(STATUS_NOTHING);
}

struct kvmstats *app_open(bool wait)
{
	struct kvmstats *k;
	int ret;

	ret = kvmstats_open(&k, NULL, NULL, wait ? KVMSTATS_WAIT : 0);
	if (ret && ret != -ENODEV)
		errx(STATUS_NOTHING, "%s", strerror(-ret));
	if (ret) {
		print_sources();
		exit(STATUS_NOTHING);
	}
	if (!strcmp(kvmstats_source(k), "none")) {
		print_sources();
		warnx("waiting for one");
	}
	catch_stop();
	app_sample(k);
	check_permission(k, wait);
	return k;
}

void app_sample(struct kvmstats *k)
{
	if (kvmstats_sample(k))
		errx(STATUS_NOTHING, "%s", kvmstats_problem(k));
}

const char *app_source(const struct kvmstats *k)
{
	static char text[32];
	const char *why;

	snprintf(text, sizeof(text), "%s%s", kvmstats_source(k),
		 kvmstats_failed_reads_by_reason(k, KVMSTATS_TOO_MANY, &why) ? " (partial)" : "");
	return text;
}

/* Print what the source cannot see, and why a better one is not used. */
static void warn_nothing_found(const struct kvmstats *k, bool unread)
{
	struct kvmstats_probe probe;
	unsigned int i;

	if (probe_better_source(k, &probe))
		warnx("source %s does not work: %s%s%s", probe.name, probe.why, *probe.help ? "; " : "",
		      probe.help);
	if (unread) {
		warnx("no VM can be read (source: %s)", kvmstats_source(k));
		return;
	}
	for (i = 0; !probe_source(i, NULL, &probe); i++) {
		if (strcmp(probe.name, kvmstats_source(k)) || !*probe.why)
			continue;
		warnx("no VMs found (source: %s, %s)", probe.name, probe.why);
		return;
	}
	warnx("no VMs found (source: %s)", kvmstats_source(k));
}

void app_warn_unmatched(const char *what, char **args, int n)
{
	char list[256] = "", word[128];
	int i;

	for (i = 0; i < n && strlen(list) + sizeof(word) < sizeof(list); i++) {
		text_line(args[i], word, sizeof(word) - 8);
		sprintf(list + strlen(list), "%s'%s'", i ? " or " : "", word);
	}
	warnx("no %s matches %s%s", what, list, i < n ? " or the others" : "");
}

int app_status(const struct kvmstats *k, unsigned int shown, char **args, int n)
{
	unsigned int unread;
	const char *why;

	app_flush();
	unread = kvmstats_failed_reads(k, &why);
	if (!shown && n && kvmstats_first(k))
		app_warn_unmatched("VM", args, n);
	else if (!shown)
		warn_nothing_found(k, unread);
	if (unread)
		warnx("%u could not be read: %s\n"
		      "kvm-stats: \"kvm-stats doctor\" says what would help", unread, why);
	if (!shown)
		return STATUS_NOTHING;
	return unread ? STATUS_PARTIAL : STATUS_OK;
}

void app_flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		err(STATUS_NOTHING, "cannot write");
}

/* What a selector is about, before its ':' */
static const struct field {
	const char *prefix;
	size_t offset;		/* in struct kvmstats_identity */
	int flags;		/* of fnmatch() */
} fields[] = {
	{ "pod:", offsetof(struct kvmstats_identity, pod_uid), 0 },
	{ "cgroup:", offsetof(struct kvmstats_identity, cgroup), 0 },
	{ "vmm:", offsetof(struct kvmstats_identity, vmm), 0 },
	{ "uuid:", offsetof(struct kvmstats_identity, uuid), FNM_CASEFOLD },
	{ "machine:", offsetof(struct kvmstats_identity, machine), 0 },
	{ "container:", offsetof(struct kvmstats_identity, container_id), 0 },
};

/* Return the pattern of a selector; set its field, or NULL if it is about the name. */
static const char *pattern_of(const char *word, const struct field **field)
{
	for (*field = fields; *field < fields + sizeof(fields) / sizeof(*fields); (*field)++) {
		const size_t len = strlen((*field)->prefix);

		if (!strncmp(word, (*field)->prefix, len))
			return word + len;
	}
	*field = NULL;
	return word;
}

/* \x1b, \u202e and \U000e0001 become that character again. */
static void unescape_selector(const char *word, char *to, size_t size)
{
	static const struct {
		char letter;
		int digits;
	} kinds[] = { { 'x', 2 }, { 'u', 4 }, { 'U', 8 } };
	size_t n = 0, i;

	while (*word && n + 5 < size) {
		for (i = 0; word[0] == '\\' && i < 3; i++) {
			char digits[9] = "";
			uint32_t code;

			if (word[1] != kinds[i].letter)
				continue;
			strncat(digits, word + 2, kinds[i].digits);
			if ((int)strspn(digits, "0123456789abcdefABCDEF") != kinds[i].digits)
				continue;
			code = strtoul(digits, NULL, 16);
			if (!code || code > 0x10ffff)
				continue;
			n += text_put(code, to + n);
			word += 2 + kinds[i].digits;
			break;
		}
		if (word[0] == '\\' && i < 3)
			continue;
		/* also the character after another backslash */
		if (word[0] == '\\' && word[1])
			to[n++] = *word++;
		if (*word)
			to[n++] = *word++;
	}
	to[n] = '\0';
}

static bool is_number(const char *word)
{
	return *word && !word[strspn(word, "0123456789")];
}

/* As it is, or as a pattern */
static bool matches_selector(const char *word, const char *text, int flags)
{
	const size_t size = strlen(word) + 6;	/* as unescape_selector() needs it */
	char *pattern;
	bool matches;

	if (!strcmp(word, text))
		return true;
	pattern = check_alloc(malloc(size));
	unescape_selector(word, pattern, size);
	matches = !fnmatch(pattern, text, flags);
	free(pattern);
	return matches;
}

/* NAME@PID, followed by #2 for the second VM of the process: selects one VM only */
static const char *pid_label(const struct kvmstats_vm *vm, char buf[LABEL_SIZE])
{
	char suffix[32] = "";

	if (vm->nth > 1)
		snprintf(suffix, sizeof(suffix), "#%u", vm->nth);
	snprintf(buf, LABEL_SIZE, "%s@%d%s", vm->identity.name, vm->identity.pid, suffix);
	return buf;
}

static bool selects_field(const struct field *field, const char *pattern,
			  const struct kvmstats_identity *identity)
{
	const bool is_cgroup = field->offset == offsetof(struct kvmstats_identity, cgroup);
	const char *text = is_cgroup ? identity_cgroup(identity) : (const char *)identity + field->offset;
	char *below;
	bool matches;

	if (matches_selector(pattern, text, field->flags))
		return true;
	/* as docker shows it */
	if (text == identity->container_id)
		return strlen(pattern) == 12 && !strncmp(pattern, text, 12);
	/* a cgroup and all in it */
	if (!is_cgroup)
		return false;
	if (asprintf(&below, "%s/*", pattern) < 0)
		err(STATUS_NOTHING, NULL);
	matches = matches_selector(below, text, 0);
	free(below);
	return matches;
}

static bool selects(const char *word, const struct kvmstats_vm *vm)
{
	const struct field *field;
	const char *pattern = pattern_of(word, &field);
	char label[LABEL_SIZE];

	if (field)
		return selects_field(field, pattern, &vm->identity);
	if (is_number(word) && strtoul(word, NULL, 10) == (unsigned long)vm->identity.pid)
		return true;
	if (*vm->identity.uuid && ascii_equal(word, vm->identity.uuid))
		return true;
	return matches_selector(word, vm->identity.name, 0) || matches_selector(word, vm->identity.label, 0) ||
	       matches_selector(word, app_label(vm, label), 0) ||
	       (strchr(word, '@') && matches_selector(word, pid_label(vm, label), 0));
}

bool app_selects(char **args, int n, const struct kvmstats_vm *vm)
{
	bool any = !n;

	while (n-- > 0 && !any)
		any = selects(*args++, vm);
	return any;
}

bool app_selects_any(char **args, int n, const struct kvmstats_vm *first)
{
	while (first && !app_selects(args, n, first))
		first = first->next;
	return first;
}

void app_check_selectors(const struct kvmstats_vm *first, char **args, int n)
{
	const struct kvmstats_vm *vm;
	const struct field *field;
	const char *wrong;

	for (; n > 0; n--, args++) {
		wrong = text_bad_glob(pattern_of(*args, &field));
		/* but a VM may be called so */
		for (vm = first; vm && wrong; vm = vm->next) {
			if (app_selects(args, 1, vm))
				wrong = NULL;
		}
		if (wrong)
			errx(STATUS_USAGE, "invalid selector '%s': it %s", *args, wrong);
	}
}

void app_check_patterns(const struct settings *settings, int from)
{
	const char *wrong;

	for (; from < settings->nr_args; from++) {
		wrong = text_bad_glob(settings->args[from]);
		if (wrong)
			errx(STATUS_USAGE, "invalid pattern '%s': it %s", settings->args[from],
			     wrong);
	}
}

bool app_matches(const struct settings *settings, int from, const char *name)
{
	bool any = from >= settings->nr_args;

	for (; from < settings->nr_args && !any; from++)
		any = !fnmatch(settings->args[from], name, 0);
	return any;
}

/* Does the text without special characters select a VM other than this one? */
static bool is_shared(const struct kvmstats_vm *first, const struct kvmstats_vm *vm,
		      const char *text)
{
	char label[LABEL_SIZE];

	for (; first; first = first->next) {
		if (first != vm && (!strcmp(text, first->identity.name) ||
				    !strcmp(text, first->identity.label) ||
				    !strcmp(text, pid_label(first, label))))
			return true;
	}
	return false;
}

void app_selector(const struct kvmstats_vm *first, const struct kvmstats_vm *vm, char *buf)
{
	char label[LABEL_SIZE], shown[TEXT_SHOWN(LABEL_SIZE)], quoted[2 * LABEL_SIZE];
	const char *c = app_label(vm, label);
	const struct field *field;
	size_t n = 0;

	if (is_shared(first, vm, c))
		c = pid_label(vm, label);
	/* Quote a name that looks like a PID, an option or a field. */
	if (is_number(label) || *label == '-' || (pattern_of(label, &field), field))
		quoted[n++] = '\\';
	for (; *c; c++) {
		if (strchr("*?[\\", *c) && (c > label || !n))
			quoted[n++] = '\\';
		quoted[n++] = *c;
	}
	quoted[n] = '\0';
	text_line(quoted, shown, sizeof(shown));
	snprintf(buf, SELECTOR_SIZE, "%s", shown);
}

const char *app_label(const struct kvmstats_vm *vm, char *buf)
{
	snprintf(buf, LABEL_SIZE, "%s", vm->identity.label);
	return buf;
}

uint64_t app_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t app_wall(uint64_t monotonic)
{
	return read_clock(CLOCK_REALTIME) - (app_now() - monotonic);
}

void app_time_text(uint64_t time, char buf[TIME_SIZE])
{
	const time_t seconds = time / SECOND;
	struct tm tm = { 0 };
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(buf, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);

	snprintf(buf + n, TIME_SIZE - n, ".%03uZ", (unsigned int)(time % SECOND / 1000000));
}

uint64_t app_note_time(uint64_t next)
{
	const uint64_t now = app_now();
	uint64_t random = 0;

	getentropy(&random, sizeof(random));
	return next > now ? now + random % (next - now) : NOTED;
}

void app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval)
{
	struct pollfd stop = { .fd = stop_fd(), .events = POLLIN };
	uint64_t now = app_now(), note, left;

	*next += interval;
	if (*next <= now)
		*next += (now - *next) / interval * interval + interval;
	note = app_note_time(*next);
	for (; now < *next && !stop_requested(); now = app_now()) {
		if (note <= now) {
			source_note(k);
			note = NOTED;
		}
		/* a second at most: a signal may come just before */
		left = (note < *next ? note : *next) - now;
		left = left < SECOND ? left : SECOND - 1;

		ppoll(&stop, 1, &(struct timespec){ .tv_nsec = left }, NULL);
		if (stop_asked)
			app_stop(k);
	}
}

/* Return true if another user than root and this one can create or replace files here. */
static bool others_can_write(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	struct stat st, link;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	if (stat(dir, &st) || lstat(path, &link))
		return true;
	if (st.st_uid && st.st_uid != geteuid())
		return true;
	if (!(st.st_mode & (S_IWGRP | S_IWOTH)))
		return false;
	/* The sticky bit keeps links of root and of this user. */
	return !(st.st_mode & S_ISVTX) || (link.st_uid && link.st_uid != geteuid());
}

int app_create(const char *path, int flags, mode_t mode)
{
	int fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);

	if (fd >= 0 || errno != ELOOP)
		return fd;
	if (!others_can_write(path))
		return open(path, flags | O_CREAT | O_CLOEXEC, mode);
	errno = ELOOP;
	return -1;
}
