/* SPDX-License-Identifier: GPL-2.0-only */
/* The HTML page and /api/v1/vms, which list the VMs by problem */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include "buf.h"
#include "model.h"

void page_json(struct buf *b, struct model *m, uint64_t now);
void page_html(struct buf *b, struct model *m, uint64_t now, const char *metrics_path);
extern const char page_style[];

#endif /* SERVE_PAGE_H */
