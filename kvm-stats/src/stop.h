/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SIGTERM and SIGINT, for commands that do something before they end. The thread that ends them
 * may wait for a file system or a terminal that does not answer, so another thread receives the
 * signals: if the command has not ended 1.5 seconds later, without the time in which it waited for
 * a CPU, it ends the process.
 */
#ifndef STOP_H
#define STOP_H

#include <stdbool.h>

/*
 * From now on, the signals make stop_fd() readable and stop_requested() true. Call this before
 * other threads are created. A child without these threads calls it again. A process that has to be ended exits with status, after it has
 * called last, if that is not NULL.
 */
void stop_catch(int status, void (*last)(void));

/* Ignore SIGHUP, unless it means that the terminal of the command was closed: services have none. */
void stop_ignore_hangup(void);

/* Do the same as a signal, except for the end of a process that waits for too long. */
void stop_request(void);

bool stop_requested(void);

/* A descriptor for poll(); -1 without stop_catch() */
int stop_fd(void);

#endif /* STOP_H */
