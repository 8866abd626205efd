// SPDX-License-Identifier: GPL-2.0-only
/* Fuzz the file of hidden columns with libFuzzer. What was read is the same after it was written. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/column_choice.h"
#include "printable.h"

static char home[] = "/tmp/fuzz-columns.XXXXXX";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[PATH_MAX], problem[256] = "";
	uint32_t hidden;
	int fd;

	snprintf(path, sizeof(path), "%s/kvm-stats", home);
	if (!getenv("XDG_CONFIG_HOME") &&
	    (!mkdtemp(home) || setenv("XDG_CONFIG_HOME", home, 1)))
		abort();
	snprintf(path, sizeof(path), "%s/kvm-stats", home);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/kvm-stats/columns", home);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
	hidden = read_hidden_columns(problem, sizeof(problem));
	check_printable(problem);
	if (hidden & 1 || (hidden && *problem))
		abort();
	unlink(path);
	*problem = '\0';
	write_hidden_columns(hidden, problem, sizeof(problem));
	if (*problem || read_hidden_columns(problem, sizeof(problem)) != hidden || *problem)
		abort();
	return 0;
}
