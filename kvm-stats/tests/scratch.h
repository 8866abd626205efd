/* SPDX-License-Identifier: GPL-2.0-only */
/* A directory with files that a test makes up, such as those of /proc and of cgroups */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <err.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/kvm-stats-test-XXXXXX";

static inline void make_top(void)
{
	if (!mkdtemp(top))
		err(1, "%s", top);
}

static inline void remove_top(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r -- %s", top);
	if (system(command))
		err(1, "%s", command);
}

/* Write a file and create the directories above it, or, without a text, remove it. The name begins with "/". */
static inline void put(const char *text, const char *format, ...)
{
	char name[2 * PATH_MAX], *slash;
	va_list arguments;
	FILE *f;

	strcpy(name, top);
	va_start(arguments, format);
	vsnprintf(name + strlen(top), sizeof(name) - strlen(top), format, arguments);
	va_end(arguments);
	if (!text) {
		unlink(name);
		return;
	}
	for (slash = name + strlen(top); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(name, 0755);
		*slash = '/';
	}
	f = fopen(name, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		err(1, "%s", name);
}

#endif /* SCRATCH_H */
