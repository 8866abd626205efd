// SPDX-License-Identifier: GPL-2.0-only
/* kvm-stats: the statistics of all VMs of a host. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "priority.h"
#include "serve/settings.h"

/*
 * Otherwise the next file that is opened would be standard input, output or error. Output that
 * goes nowhere is an error.
 */
static void open_standard_files(void)
{
	static const int modes[] = { O_RDONLY, O_RDONLY, O_RDWR };
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", modes[fd]);
	}
}

int main(int argc, char **argv)
{
	static char name[] = "kvm-stats";
	struct serve_settings serve = { 0 };
	struct settings settings = { .serve = &serve };
	const struct command *command;
	sigset_t none;

	/* Messages have one prefix, however the program was started. */
	program_invocation_short_name = name;
	open_standard_files();
	/* Runtimes of other languages block signals in their threads, and programs inherit that. */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A limit of the size of files is an error of write(), as a full disk is. */
	signal(SIGXFSZ, SIG_IGN);
	setlocale(LC_CTYPE, "");
	if (argc > 1 && !strcmp(argv[1], "complete"))
		return complete(argc - 2, argv + 2);
	command = parse_options(argc, argv, &settings);
	if (!settings.from && !settings.keep_priority)
		raise_priority();
	return command->run(&settings);
}
