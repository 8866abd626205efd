/* SPDX-License-Identifier: GPL-2.0-only */
/* Find the chunks of a file, past those that are damaged. */
#ifndef REC_SCAN_H
#define REC_SCAN_H

#include "rec_chunk.h"

/* Return why the file is not a recording, NULL if it is one. */
const char *scan_begins(int fd);

/* Called for each whole chunk, and for each run of other bytes with chunk NULL. */
typedef void scan_found(void *arg, const struct chunk *chunk, uint64_t at, uint64_t size);

/*
 * Find the chunks from offset at on. Return the end of the last one that is whole. The work is
 * bounded by the size: what a hostile file has after that counts as damaged.
 */
uint64_t scan_chunks(int fd, uint64_t at, uint64_t size, scan_found *found, void *arg);

/* Read the chunk at an offset into *data, of *room bytes. Return false if it is not whole. */
bool scan_read(int fd, uint64_t at, struct chunk *chunk, unsigned char **data, size_t *room);

/* Like scan_read() and lseek(), from a pipe. Return false at its end; *skipped: other bytes. */
bool scan_read_next(int fd, struct chunk *chunk, unsigned char **data, size_t *room,
		    uint64_t *skipped);

#endif /* REC_SCAN_H */
