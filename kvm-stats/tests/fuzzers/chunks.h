/* SPDX-License-Identifier: GPL-2.0-only */
/* Chunks of a recording that a fuzzer has made */
#ifndef FUZZERS_CHUNKS_H
#define FUZZERS_CHUNKS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/rec_chunk.h"
#include "../../src/recording.h"

/* Return a copy of size bytes of chunks, with the checksums that their contents have. */
static unsigned char *copy_chunks(const uint8_t *data, size_t size)
{
	unsigned char *bytes = malloc(size + 1);
	struct chunk chunk;
	size_t at = 0;
	uint32_t crc;

	memcpy(bytes, data, size);
	while (size - at >= CHUNK_HEAD && chunk_read_head(bytes + at, &chunk) &&
	       chunk.size <= size - at - CHUNK_HEAD) {
		crc = bytes_crc(0, bytes + at, 12);
		crc = bytes_crc(crc, bytes + at + 16, 8);
		put_le32(bytes + at + 12, bytes_crc(crc, bytes + at + CHUNK_HEAD, chunk.size));
		at += CHUNK_HEAD + chunk.size;
	}
	return bytes;
}

/* Write a recording with these chunks to a file in memory. */
static inline void write_chunks(int fd, const uint8_t *data, size_t size)
{
	unsigned char head[FILE_HEAD] = RECORDING_MAGIC, *bytes = copy_chunks(data, size);

	put_le32(head + 12, RECORDING_FORMAT);
	if (ftruncate(fd, 0) || pwrite(fd, head, sizeof(head), 0) < 0 || pwrite(fd, bytes, size, sizeof(head)) < 0)
		abort();
	free(bytes);
}

#endif /* FUZZERS_CHUNKS_H */
