// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "stop.h"

#define GRACE_NS	1500000000

static int fd = -1, forced_status;
static void (*call_last)(void);
static volatile sig_atomic_t requested;
static sigset_t signals;

static void *wait_for_signal(void *arg)
{
	static const char message[] = "kvm-stats: ended in a wait of more than 1.5 s\n";
	struct timespec left = { GRACE_NS / SECOND, GRACE_NS % SECOND };
	const uint64_t one = 1;
	ssize_t ignored;
	int signal;

	sigwait(&signals, &signal);
	requested = 1;
	ignored = write(fd, &one, sizeof(one));
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	if (call_last)
		call_last();
	ignored = write(STDERR_FILENO, message, strlen(message));
	(void)ignored;
	_exit(forced_status);
}

void stop_catch(int status, void (*last)(void))
{
	pthread_t thread;

	forced_status = status;
	call_last = last;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (fd < 0 || pthread_create(&thread, NULL, wait_for_signal, NULL))
		errx(STATUS_NOTHING, "cannot start a thread");
	pthread_detach(thread);
}

bool stop_requested(void)
{
	return requested;
}

int stop_fd(void)
{
	return fd;
}
