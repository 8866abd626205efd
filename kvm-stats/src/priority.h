/* SPDX-License-Identifier: GPL-2.0-only */
/* CPU time for kvm-stats on a host whose CPUs are all in use */
#ifndef PRIORITY_H
#define PRIORITY_H

/*
 * Raise the priority of this thread, and of threads and processes that it creates, as far as the
 * user may: to the lowest real-time priority, until a thread runs for one second without
 * sleeping, and to a nice value of -20. A priority that the user has changed stays.
 */
void raise_priority(void);

/* Return from a raised priority, also one that the user has set, to the default one. */
void lower_priority(void);

#endif /* PRIORITY_H */
