// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "clock.h"
#include "stop.h"

#define GRACE_NS	1500000000LL

static int fd = -1, forced_status;
static void (*call_last)(void);
static volatile sig_atomic_t requested;
static sigset_t signals;
static sem_t started;

/* Return for how long the main thread has waited for a CPU, in nanoseconds; 0 if not known. */
static uint64_t read_ready_time(void)
{
	unsigned long long ready = 0;
	FILE *f = fopen("/proc/self/schedstat", "re");

	if (f) {
		if (fscanf(f, "%*u %llu", &ready) != 1)
			ready = 0;
		fclose(f);
	}
	return ready;
}

/* Wait for the end of the process; not for longer if the main thread had a CPU and still waits. */
static void wait_for_end(void)
{
	const uint64_t began = read_clock(CLOCK_MONOTONIC), ready = read_ready_time();
	/* The kernel adds a wait for a CPU when it ends, so this may be negative. */
	int64_t passed = 0;

	while (passed < GRACE_NS) {
		struct timespec left = { (GRACE_NS - passed) / SECOND, (GRACE_NS - passed) % SECOND };

		nanosleep(&left, NULL);
		passed = read_clock(CLOCK_MONOTONIC) - began - (read_ready_time() - ready);
	}
}

static void *wait_for_signal(void *arg)
{
	static const char message[] = "kvm-stats: ended in a wait of more than 1.5 s\n";
	ssize_t ignored;
	int signal;

	sem_post(&started);
	sigwait(&signals, &signal);
	stop_request();
	wait_for_end();
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
	sem_init(&started, 0, 0);
	if (fd < 0 || pthread_create(&thread, NULL, wait_for_signal, NULL))
		errx(STATUS_NOTHING, "cannot start a thread");
	pthread_detach(thread);
	/* A thread that starts may allocate memory: a fork must not copy a lock that it holds. */
	while (sem_wait(&started))
		;
}

void stop_ignore_hangup(void)
{
	if (!isatty(STDERR_FILENO))
		signal(SIGHUP, SIG_IGN);
}

void stop_request(void)
{
	const uint64_t one = 1;
	ssize_t ignored;

	requested = 1;
	ignored = write(fd, &one, sizeof(one));
	(void)ignored;
}

bool stop_requested(void)
{
	return requested;
}

int stop_fd(void)
{
	return fd;
}
