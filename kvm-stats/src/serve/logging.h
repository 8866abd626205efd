/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of "serve" while it runs: lines of text or, for --log.format, with the keys that
 * Prometheus' exporters write. Errors that stop the program are printed as by other commands.
 */
#ifndef SERVE_LOGGING_H
#define SERVE_LOGGING_H

#include "settings.h"

/* Write messages of this level and above, in this format. */
void logging_configure(enum log_level level, enum log_format format);

__attribute__((format(printf, 2, 3)))
void log_message(enum log_level level, const char *format, ...);

#endif /* SERVE_LOGGING_H */
