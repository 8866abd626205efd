/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TIME_NAMESPACE_H
#define TIME_NAMESPACE_H

#include <stdint.h>
#include <time.h>

/*
 * Return by how many nanoseconds CLOCK_MONOTONIC or CLOCK_BOOTTIME of this process is ahead of the
 * same clock of the kernel, which BPF programs read. It is 0 outside of time namespaces.
 */
int64_t time_namespace_offset(clockid_t clock);

#endif /* TIME_NAMESPACE_H */
