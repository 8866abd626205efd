/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watching: values and their rates, the most active first, again and again.
 */
#ifndef KVM_STATS_TOP_H
#define KVM_STATS_TOP_H

#include "source.h"

/*
 * Show a table every so many seconds, count times (0: until it is stopped, or
 * the process of the VM ends, of which the last values are shown). On a
 * terminal the table stays in place, else one is printed below the other.
 */
void top(struct sources *s, double seconds, unsigned long count);

#endif /* KVM_STATS_TOP_H */
