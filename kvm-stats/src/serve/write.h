/* SPDX-License-Identifier: GPL-2.0-only */
/* The metrics as text, in one of the formats that scrapers know */
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

#define MAX_CODES	16
struct codes {			/* answers to requests */
	unsigned int code;
	uint64_t count;
};

/* codes ends with a code 0; NULL: it does not serve */
void write_metrics(struct buf *b, struct model *m, enum format format, uint64_t now,
		   const struct codes *codes);

/*
 * The best format for what a client says it accepts (RFC 9110, 12.5.1); NULL: it says
 * nothing.
 */
enum format accept_format(const char *accept);

/* Does it accept gzip, and not prefer that nothing is done? */
bool accept_gzip(const char *accept_encoding);

#endif /* SERVE_WRITE_H */
