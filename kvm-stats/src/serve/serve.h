/* SPDX-License-Identifier: GPL-2.0-only */
/* Texts that are served, besides the metrics */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "buf.h"
#include "model.h"

/* /api/v1/vms, and the page for people: VMs by what hurts */
void page_json(struct buf *b, struct model *m, uint64_t now);
void page_html(struct buf *b, struct model *m, uint64_t now);
extern const char page_style[];

#endif /* SERVE_SERVE_H */
