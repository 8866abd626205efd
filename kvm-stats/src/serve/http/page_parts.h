/* SPDX-License-Identifier: GPL-2.0-only */
/* Parts that the HTML pages have in common */
#ifndef SERVE_PAGE_PARTS_H
#define SERVE_PAGE_PARTS_H

#include "page.h"
#include "rows.h"

/* A page has at most 60 kB, even if 1,000 VMs have problems: no more rows after so many bytes. */
#define PAGE_ROOM	(50 * 1000)

/*
 * Write everything until the content: the head, the heading, and the state of the host and the
 * sample. vm: label of the VM that the page is about, or NULL
 */
void put_head(struct buf *b, const struct model *m, const struct page_request *request,
	      const struct rows *rows, const char *vm);

/* Write a link to the page of a VM. */
void put_vm_link(struct buf *b, const char *label);

void put_problem(struct buf *b, const struct row *row);
void put_number(struct buf *b, const char *class, uint64_t n, unsigned int digits, bool known);
/* Return how many modes the tables of a page show. The mode unknown is the last one. */
static inline unsigned int shown_modes(const struct rows *rows)
{
	return rows->unknown ? MODES : KVMSTATS_UNKNOWN;
}

/* Write the column heads from the bar to the exits. */
void put_mode_heads(struct buf *b, unsigned int modes);
void put_bar(struct buf *b, const uint16_t share[MODES]);
/* A square in the colour of a mode, and the name of the mode */
void put_mode(struct buf *b, enum kvmstats_mode mode);
/* Write what a mode is, as part of a sentence. */
void put_meaning(struct buf *b, enum kvmstats_mode mode);

/* Write a time, nanoseconds since 1970, by the clock of the host; format: of strftime(3) */
void put_time(struct buf *b, uint64_t time, const char *format);

#endif /* SERVE_PAGE_PARTS_H */
