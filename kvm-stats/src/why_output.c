// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "why_output.h"
#include "xalloc.h"

#define RECORDED_NS	(60 * SECOND)	/* time of a recording that is examined */
#define MAX_OPTIONS	8		/* arguments besides selectors */

/* Write the arguments of the command, which end with NULL. */
static void set_arguments(char **args, const struct input *in, const struct settings *settings,
			  char *selector, char at[TIME_SIZE], char until[TIME_SIZE])
{
	const uint64_t now = input_time(in);
	int i;

	*args++ = "kvm-stats";
	*args++ = "why";
	if (in->rec) {
		app_time_text(now > RECORDED_NS ? now - RECORDED_NS : 0, at);
		app_time_text(now + SECOND / 1000, until);
		*args++ = "--from";
		*args++ = (char *)settings->from;
		*args++ = "--at";
		*args++ = at;
		*args++ = "--until";
		*args++ = until;
	}
	if (*selector)
		*args++ = selector;
	for (i = 0; !*selector && i < settings->nr_args; i++)
		*args++ = settings->args[i];
	*args = NULL;
}

/* Run this program with its output in the pipe. Return an error number. */
static int spawn(struct why_output *output, char **args)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int pair[2], ret;

	if (pipe2(pair, O_CLOEXEC))
		return errno;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, pair[1], STDERR_FILENO);
	/* top blocks the signals that end a command. */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	ret = posix_spawn(&output->pid, "/proc/self/exe", &actions, &attributes, args, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(pair[1]);
	output->fd = pair[0];
	fcntl(output->fd, F_SETFL, O_NONBLOCK);
	return ret;
}

struct why_output *why_output_start(const struct input *in, const struct settings *settings,
				    const struct kvmstats_vm *vm, char *error, size_t size)
{
	char selector[SELECTOR_SIZE] = "", at[TIME_SIZE], until[TIME_SIZE];
	struct why_output *output;
	char **args;
	int ret;

	if (in->rec && !recording_count(in->rec)) {
		snprintf(error, size, "why: a pipe cannot be read again; run: kvm-stats why --from FILE");
		return NULL;
	}
	output = check_alloc(calloc(1, sizeof(*output)));
	args = check_alloc(calloc(MAX_OPTIONS + settings->nr_args + 2, sizeof(*args)));
	if (vm)
		app_selector(kvmstats_first(in->k), vm, selector);
	set_arguments(args, in, settings, selector, at, until);
	ret = spawn(output, args);
	free(args);
	if (!ret)
		return output;
	snprintf(error, size, "why: %s", strerror(ret));
	output->pid = 0;
	why_output_free(output);
	return NULL;
}

bool why_output_read(struct why_output *output)
{
	const size_t before = output->text.len;
	char part[4096];
	ssize_t n;

	if (!output->pid)
		return false;
	while ((n = read(output->fd, part, sizeof(part))) > 0)
		buf_put(&output->text, part, n);
	if (n < 0 && errno == EAGAIN)
		return output->text.len > before;
	waitpid(output->pid, NULL, 0);
	output->pid = 0;
	return true;
}

void why_output_free(struct why_output *output)
{
	if (output->pid) {
		kill(output->pid, SIGKILL);
		waitpid(output->pid, NULL, 0);
	}
	close(output->fd);
	buf_free(&output->text);
	free(output);
}
