/* SPDX-License-Identifier: GPL-2.0-only */
/* Metrics as text in the formats that scrapers support */
#ifndef SERVE_WRITE_H
#define SERVE_WRITE_H

#include "buf.h"
#include "model.h"

enum format {
	FORMAT_TEXT,		/* Prometheus' text format 0.0.4 */
	FORMAT_OPENMETRICS,	/* OpenMetrics 1.0.0 */
	FORMATS,
};

extern const char *const format_types[FORMATS];	/* Content-Type */

/* codes is NULL if the program does not serve. */
void write_metrics(struct buf *b, struct model *m, enum format format,
		   const struct codes *codes);

/* Return the best format for an Accept header, or for NULL without one (RFC 9110, 12.5.1). */
enum format accept_format(const char *accept);

/* Return true if an Accept-Encoding header allows gzip and does not prefer identity. */
bool accept_gzip(const char *accept_encoding);

#endif /* SERVE_WRITE_H */
