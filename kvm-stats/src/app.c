// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "text.h"

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
	kvmstats_let_go(k);
	stop_asked = 0;
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	catch_stop();
}

struct kvmstats *app_open(void)
{
	struct kvmstats_probe probe;
	struct kvmstats *k;
	unsigned int i;
	int ret;

	ret = kvmstats_open(&k, NULL);
	if (ret && ret != -ENODEV)
		errx(STATUS_NOTHING, "%s", strerror(-ret));
	if (!ret) {
		catch_stop();
		app_sample(k);
		return k;
	}
	warnx("no source of statistics works");
	for (i = 0; !kvmstats_probe(i, NULL, &probe); i++)
		fprintf(stderr, "  %s: %s%s%s\n", probe.name, probe.why,
			*probe.help ? ": " : "", probe.help);
	exit(STATUS_NOTHING);
}

void app_sample(struct kvmstats *k)
{
	if (kvmstats_sample(k))
		errx(STATUS_NOTHING, "%s", kvmstats_problem(k));
}

int app_status(const struct kvmstats *k, unsigned int shown, bool selected)
{
	unsigned int unread;
	const char *why;

	app_flush();
	unread = kvmstats_unread(k, &why);
	if (!shown && selected && kvmstats_first(k))
		warnx("no VM matches");
	else if (!shown)
		warnx("no VM to be seen (source: %s)", kvmstats_source(k));
	if (unread)
		warnx("%u could not be read: %s\n"
		      "kvm-stats: \"kvm-stats doctor\" says what would help", unread, why);
	if (!shown)
		return STATUS_NOTHING;
	return unread ? STATUS_PART : STATUS_OK;
}

void app_flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		err(STATUS_NOTHING, "cannot write");
}

static const char * const fields[] = { "pod:", "cgroup:", "vmm:" };

static const char *pattern_of(const char *word, unsigned int *field)
{
	for (*field = 0; *field < 3; (*field)++) {
		size_t len = strlen(fields[*field]);

		if (!strncmp(word, fields[*field], len))
			return word + len;
	}
	return word;
}

void app_check_selectors(char **words, int n)
{
	unsigned int field;
	const char *wrong;

	for (; n > 0; n--, words++) {
		wrong = text_bad_glob(pattern_of(*words, &field));
		if (wrong)
			errx(STATUS_USAGE, "the selector '%s' %s", *words, wrong);
	}
}

static bool is_number(const char *word)
{
	return *word && !word[strspn(word, "0123456789")];
}

static bool selects(const char *word, const struct kvmstats_vm *vm)
{
	char label[LABEL_SIZE], cgroup[sizeof(vm->who.cgroup) + 4];
	unsigned int field;

	word = pattern_of(word, &field);
	switch (field) {
	case 0:
		return !fnmatch(word, vm->who.pod, 0);
	case 1:
		/* a cgroup and all in it */
		snprintf(cgroup, sizeof(cgroup), "%s/*", word);
		return !fnmatch(word, vm->who.cgroup, 0) ||
		       !fnmatch(cgroup, vm->who.cgroup, 0);
	case 2:
		return !fnmatch(word, vm->who.vmm, 0);
	}
	if (is_number(word) && strtoul(word, NULL, 10) == (unsigned long)vm->pid)
		return true;
	if (*vm->who.uuid && !strcasecmp(word, vm->who.uuid))
		return true;
	return !fnmatch(word, vm->who.name, 0) ||
	       !fnmatch(word, app_label(vm, label), 0);
}

bool app_selects(char **words, int n, const struct kvmstats_vm *vm)
{
	bool any = !n;

	while (n-- > 0 && !any)
		any = selects(*words++, vm);
	return any;
}

const char *app_label(const struct kvmstats_vm *vm, char *buf)
{
	if (vm->mixed)
		snprintf(buf, LABEL_SIZE, "%s#?", vm->who.name);
	else if (vm->nth)
		snprintf(buf, LABEL_SIZE, "%s#%u", vm->who.name, vm->nth);
	else
		snprintf(buf, LABEL_SIZE, "%s", vm->who.name);
	return buf;
}

uint64_t app_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

void app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval)
{
	uint64_t now = app_now();

	*next += interval;
	if (*next <= now)
		*next += (now - *next) / interval * interval + interval;
	for (; now < *next; now = app_now()) {
		/* a second at most: a signal may come just before */
		const uint64_t left = *next - now < SECOND ? *next - now : SECOND - 1;

		nanosleep(&(struct timespec){ .tv_nsec = left }, NULL);
		if (stop_asked)
			app_stop(k);
	}
}
