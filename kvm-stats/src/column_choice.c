// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "column_choice.h"
#include "columns.h"

static bool find_path(char path[PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = 0;

	if (config && *config == '/')
		n = snprintf(path, PATH_MAX, "%s/kvm-stats/columns", config);
	else if (home && *home == '/')
		n = snprintf(path, PATH_MAX, "%s/.config/kvm-stats/columns", home);
	return n > 0 && n < PATH_MAX;
}

uint32_t read_hidden_columns(char *problem, size_t size)
{
	char path[PATH_MAX], title[64];
	unsigned int line = 0;
	uint32_t hidden = 0;
	FILE *f = NULL;
	int fd, i;

	if (!find_path(path))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		f = fdopen(fd, "r");
	if (!f) {
		if (errno != ENOENT)
			snprintf(problem, size, "cannot read %s: %s", path, strerror(errno));
		return 0;
	}
	while (fgets(title, sizeof(title), f)) {
		line++;
		title[strcspn(title, "\n")] = '\0';
		i = column_by_title(title);
		/* The name is never hidden. */
		if (i <= 0) {
			snprintf(problem, size, "%s:%u: not a column; all are shown", path, line);
			hidden = 0;
			break;
		}
		hidden |= 1U << i;
	}
	if (ferror(f))
		snprintf(problem, size, "cannot read %s: %s", path, strerror(errno));
	fclose(f);
	return hidden;
}

static void make_directories(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

static bool write_titles(int fd, uint32_t hidden)
{
	unsigned int i;
	FILE *f = fdopen(fd, "w");

	if (!f) {
		close(fd);
		return false;
	}
	for (i = 1; i < columns_count; i++) {
		if (hidden >> i & 1)
			fprintf(f, "%s\n", columns[i].title);
	}
	return !fclose(f);
}

void write_hidden_columns(uint32_t hidden, char *problem, size_t size)
{
	char path[PATH_MAX], temporary[PATH_MAX + 8];
	int fd;

	if (!find_path(path)) {
		snprintf(problem, size, "the columns are not kept: HOME is not set");
		return;
	}
	make_directories(path);
	snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd >= 0 && write_titles(fd, hidden) && !rename(temporary, path))
		return;
	snprintf(problem, size, "cannot write %s: %s", path, strerror(errno));
	if (fd >= 0)
		unlink(temporary);
}
