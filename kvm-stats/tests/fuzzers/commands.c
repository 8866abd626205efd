// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz all commands that read a recording, with libFuzzer: the first byte is the command, the rest
 * are chunks, whose checksums are corrected. Nothing that is printed moves a cursor, changes the
 * direction of text or hides it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/options.h"
#include "../../src/serve/settings.h"
#include "../../src/text.h"
#include "chunks.h"

#define MAX_WORDS	12
#define FIRST_FREE_FD	40

/* Descriptors that stay open; a command that exits leaves others. */
enum { RECORDING_FD = 30, OUTPUT_FD, STDOUT_COPY, STDERR_COPY };

static const char *const lines[][MAX_WORDS] = {
	{ "list", "-v" }, { "list", "-o", "json" }, { "list", "-o", "csv" }, { "list", "-o", "selectors" },
	{ "top", "-n", "1" }, { "top", "-n", "1", "*" }, { "log" }, { "log", "-o", "json" },
	{ "log", "--stalls" }, { "show", "*" }, { "show", "-z", "-v", "*", "*" }, { "blame" },
	{ "blame", "-o", "json" }, { "exits" }, { "exits", "--by", "vcpu" }, { "exits", "--histogram" },
	{ "stalls" }, { "why" }, { "why", "-o", "json" }, { "export" }, { "export", "-o", "openmetrics" },
	{ "diff", "--at", "@1", "--until", "@1000000000", "--against", "@1,@2000000000" },
	/* the times and a VM of the recording "trouble" */
	{ "diff", "--at", "@1795316460", "--until", "@4000000000", "--against", "@1,@1795316460" },
	{ "second", "-n", "1" }, { "top", "-n", "1", "-s", "READY", "-r", "pod:*", "container:*" },
	{ "top", "-n", "1", "-s", "VM", "cgroup:/*", "vmm:qemu", "uuid:*", "machine:*" }, { "blame", "--by", "unit" },
	{ "blame", "--by", "vm", "-o", "csv" }, { "exits", "--by", "vcpu", "-o", "json" },
	{ "exits", "--by", "address" }, { "stalls", "-o", "json", "second" }, { "log", "-o", "csv", "--stalls", "second" },
};

static jmp_buf exited;
static bool running;

void __real_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status) __attribute__((noreturn));
void __wrap_exit(int status)
{
	if (!running)
		__real_exit(status);
	longjmp(exited, 1);
}

void __wrap_errx(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_errx(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	__wrap_exit(status);
}

void __wrap_err(int status, const char *format, ...) __attribute__((noreturn));
void __wrap_err(int status, const char *format, ...)
{
	__wrap_exit(status);
}

static void run(const char *const *words)
{
	static struct serve_settings serve;
	static struct settings settings;
	char name[] = "kvm-stats", *argv[MAX_WORDS + 4] = { name };
	const struct command *command;
	volatile int argc = 1;
	int i;

	for (i = 0; words[i]; i++)
		argv[argc++] = strdup(words[i]);
	argv[argc++] = strdup("--from=/proc/self/fd/30");
	memset(&serve, 0, sizeof(serve));
	settings = (struct settings){ .serve = &serve };
	optind = 0;
	running = true;
	if (!setjmp(exited)) {
		command = parse_options(argc, argv, &settings);
		if (command)
			command->run(&settings);
	}
	running = false;
	for (i = 1; i < argc; i++)
		free(argv[i]);
}

static void check_output(void)
{
	const off_t size = lseek(OUTPUT_FD, 0, SEEK_END);
	char *text = malloc(size + 1);
	const char *c;
	uint32_t code;
	size_t n;

	if (pread(OUTPUT_FD, text, size, 0) != size)
		abort();
	text[size] = '\0';
	for (c = text; *c; c += n) {
		n = text_character(c, &code);
		if (!n || (code != '\n' && text_hidden(code))) {
			dprintf(STDERR_COPY, "printed at offset %td of %zd: %s\n", c - text, (ssize_t)size, text);
			abort();
		}
	}
	free(text);
}

static void open_files(void)
{
	if (fcntl(RECORDING_FD, F_GETFD) >= 0)
		return;
	if (dup2(memfd_create("recording", 0), RECORDING_FD) < 0 ||
	    dup2(memfd_create("output", 0), OUTPUT_FD) < 0 || dup2(STDOUT_FILENO, STDOUT_COPY) < 0 ||
	    dup2(STDERR_FILENO, STDERR_COPY) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const *words;

	if (!size)
		return 0;
	words = lines[data[0] % (sizeof(lines) / sizeof(*lines))];
	open_files();
	write_chunks(RECORDING_FD, data + 1, size - 1);
	fflush(NULL);
	if (ftruncate(OUTPUT_FD, 0) || lseek(OUTPUT_FD, 0, SEEK_SET) ||
	    dup2(OUTPUT_FD, STDOUT_FILENO) < 0 || dup2(OUTPUT_FD, STDERR_FILENO) < 0)
		abort();
	run(words);
	fflush(NULL);
	dup2(STDOUT_COPY, STDOUT_FILENO);
	dup2(STDERR_COPY, STDERR_FILENO);
	syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0);
	/* Labels of metrics are for programs, and contain names unchanged. */
	if (strcmp(*words, "export"))
		check_output();
	return 0;
}
