// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clock of tests/replay. If the environment variable KVM_STATS_REPLAY_STEP is set, the
 * clock is stopped, so that no result depends on the speed of the build host:
 *
 * - Commands other than top on a terminal take their samples without waiting; each sample
 *   advances the clock by the interval.
 * - On a terminal, top takes the next sample when it reads Ctrl-N, which it has no other use
 *   for. Before it waits for a key, it sets the title of the terminal to "keys N": it has
 *   handled N keys, and the screen is complete.
 *
 * If KVM_STATS_REPLAY_BAD is set, the disk cannot read the block of 512 bytes at this offset.
 *
 * The linker replaces the functions that the program calls (--wrap).
 */
#ifdef HAVE_NCURSES
#include <curses.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../src/app.h"

static uint64_t stopped_clock;

static bool is_stepped(void)
{
	return getenv("KVM_STATS_REPLAY_STEP");
}

ssize_t __real_pread64(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t size, off_t at)
{
	const char *text = getenv("KVM_STATS_REPLAY_BAD");
	const off_t bad = text ? atoi(text) : 0;

	/* Like a disk, it reads until there. */
	if (text && at < bad && at + (off_t)size > bad)
		size = bad - at;
	if (!text || at < bad || at >= bad + 512)
		return __real_pread64(fd, to, size, at);
	errno = EIO;
	return -1;
}

uint64_t __real_app_now(void);
uint64_t __wrap_app_now(void);
uint64_t __wrap_app_now(void)
{
	if (!is_stepped())
		return __real_app_now();
	if (!stopped_clock)
		stopped_clock = __real_app_now();
	return stopped_clock;
}

void __real_app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval);
void __wrap_app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval);
void __wrap_app_wait(struct kvmstats *k, uint64_t *next, uint64_t interval)
{
	if (!is_stepped()) {
		__real_app_wait(k, next, interval);
		return;
	}
	*next += interval;
	stopped_clock = *next;
}

#ifdef HAVE_NCURSES
#define STEP_KEY	('N' & 0x1f)
/* longer than the interval of any test */
#define STEP		(3600 * SECOND)

int __real_wgetch(WINDOW *window);
int __wrap_wgetch(WINDOW *window);
int __wrap_wgetch(WINDOW *window)
{
	static unsigned int handled;
	int key;

	if (!is_stepped())
		return __real_wgetch(window);
	dprintf(STDOUT_FILENO, "\033]2;keys %u\a", handled);
	key = __real_wgetch(window);
	handled += key != ERR;
	if (key != STEP_KEY)
		return key;
	stopped_clock += STEP;
	return ERR;
}
#endif
