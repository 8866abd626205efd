/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The HTML pages, which list the VMs by problem and show one of them, and /api/v1/vms. The pages
 * need no script and load nothing from other servers.
 */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include "buf.h"
#include "serve/model.h"

#define QUERY_MAX	128	/* bytes of an argument in a URL; labels are shorter */

/* The argument of a URL, and the state of the program */
struct page_request {
	const char *filter;		/* q: list only VMs that have this text; "" for all */
	bool all;			/* list VMs without problems as well */
	const char *vm;			/* label, "" if missing */
	uint64_t now, interval;		/* nanoseconds */
	const char *metrics_path;
};

void page_json(struct buf *b, const struct model *m, uint64_t now);
void page_list(struct buf *b, const struct model *m, const struct page_request *request);
/* Return false if no VM has this label. */
bool page_vm(struct buf *b, const struct model *m, const struct page_request *request);
/* The samples are too old to be shown; problem: the reason, or "" */
void page_too_old(struct buf *b, const struct model *m, const struct page_request *request,
		  const char *problem);
extern const char page_style[];

#endif /* SERVE_PAGE_H */
