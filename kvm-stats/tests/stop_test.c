// SPDX-License-Identifier: GPL-2.0-only
/*
 * SIGTERM ends a command that waits in a state that only a fatal signal ends, as for a file
 * system that does not answer: vfork() waits in it for its child. Prints TAP.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stop.h"
#include "tap.h"

static int out[2];

static void write_last(void)
{
	if (write(out[1], "l", 1) < 0)
		_exit(1);
}

/* In a child: wait for the signal, or in a wait that it does not end. */
static void run(bool hang)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stop_catch(7, write_last);
	if (write(out[1], "s", 1) < 0)
		_exit(1);
	if (hang && !vfork()) {
		/* dies with the process that waits */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	poll(&(struct pollfd){ .fd = stop_fd(), .events = POLLIN }, 1, -1);
	_exit(stop_requested() ? 0 : 1);
}

/* Return the status of a child that got the signal, and what it wrote. */
static int stop(int number, bool hang, char last[2], double *seconds)
{
	struct timespec begin, end;
	int status;
	pid_t pid;

	if (pipe(out))
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid)
		run(hang);
	close(out[1]);
	if (read(out[0], last, 1) != 1 || pid < 0)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	kill(pid, number);
	waitpid(pid, &status, 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	*seconds = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
	last[1] = read(out[0], last, 1) == 1 ? last[0] : 0;
	close(out[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	const struct sched_param priority = { .sched_priority = 1 };
	double seconds = 0;
	char last[2];
	int status;

	/* Where that is allowed: otherwise a busy host adds waits for a CPU. */
	sched_setscheduler(0, SCHED_FIFO, &priority);
	status = stop(SIGTERM, false, last, &seconds);
	tap_result(!status && !last[1], "SIGTERM: the command ends itself: status %d", status);
	status = stop(SIGINT, false, last, &seconds);
	tap_result(!status && !last[1], "SIGINT: the command ends itself: status %d", status);
	status = stop(SIGTERM, true, last, &seconds);
	tap_result(status == 7 && last[1] == 'l', "a command that hangs is ended: status %d", status);
	tap_result(seconds > 1 && seconds < 2, "it is ended after %.1f s", seconds);
	return tap_end();
}
