// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "app.h"
#include "rec_chunk.h"
#include "recording.h"
#include "xalloc.h"

static const char magic[] = { 'K', 'V', 'S', 'C' };

/* Limit of the work for a hostile file. Contents that can be packed better are not packed. */
#define PACKED_RATIO	64

static uint32_t checksum(const unsigned char *head, const void *data, size_t size)
{
	uint32_t crc = bytes_crc(0, head, 12);

	crc = bytes_crc(crc, head + 16, 8);
	return bytes_crc(crc, data, size);
}

/* Packed contents: their size before, 4 bytes, and the output of zlib's compress(). */
#ifdef HAVE_ZLIB
static bool pack(struct bytes *b, size_t at)
{
	const size_t size = b->size - at;
	uLongf packed_size = compressBound(size);
	unsigned char *packed = check_alloc(malloc(4 + packed_size));
	bool smaller;

	put_le32(packed, size);
	smaller = compress2(packed + 4, &packed_size, b->data + at, size,
			    Z_BEST_COMPRESSION) == Z_OK &&
		  4 + packed_size < size && size / (4 + packed_size) < PACKED_RATIO;
	if (smaller) {
		b->size = at;
		bytes_put(b, packed, 4 + packed_size);
	}
	free(packed);
	return smaller;
}

bool chunk_unpack(struct chunk *chunk, unsigned char **data, size_t *room)
{
	uLongf size = chunk->size > 4 ? get_le32(*data) : 0;
	const size_t announced = size;
	unsigned char *plain;

	if (!chunk->packed)
		return true;
	if (!size || size > CHUNK_MAX || size / chunk->size >= PACKED_RATIO)
		return false;
	plain = check_alloc(malloc(size));
	if (uncompress(plain, &size, *data + 4, chunk->size - 4) != Z_OK || size != announced) {
		free(plain);
		return false;
	}
	free(*data);
	*data = plain;
	chunk->size = *room = size;
	chunk->packed = false;
	return true;
}
#else
static bool pack(struct bytes *b, size_t at)
{
	return false;
}

bool chunk_unpack(struct chunk *chunk, unsigned char **data, size_t *room)
{
	if (chunk->packed)
		errx(STATUS_NOTHING, "the recording is packed; kvm-stats was built without zlib");
	return true;
}
#endif

void chunk_seal(struct bytes *b, size_t at, char kind, uint32_t key, uint64_t time, bool wants_packed)
{
	const bool packed = wants_packed && pack(b, at + CHUNK_HEAD);
	const size_t size = b->size - at - CHUNK_HEAD;
	unsigned char *head = b->data + at;

	memcpy(head, magic, sizeof(magic));
	put_le32(head + 4, key << 8);
	head[4] = packed ? tolower(kind) : kind;
	put_le32(head + 8, size);
	put_le64(head + 16, time);
	put_le32(head + 12, checksum(head, head + CHUNK_HEAD, size));
}

bool chunk_read_head(const unsigned char *head, struct chunk *chunk)
{
	*chunk = (struct chunk){
		.kind = toupper(head[4]), .key = get_le32(head + 4) >> 8,
		.time = get_le64(head + 16), .size = get_le32(head + 8),
		.packed = islower(head[4]),
	};
	return !memcmp(head, magic, sizeof(magic)) && chunk->size <= CHUNK_MAX;
}

bool chunk_is_whole(const unsigned char *head, const void *data, size_t size)
{
	return get_le32(head + 12) == checksum(head, data, size);
}

const char *chunk_bad_file(const unsigned char *data, size_t size)
{
	static char other[96];
	uint32_t format;

	if (size < FILE_HEAD)
		return size && memcmp(data, RECORDING_MAGIC, size < 12 ? size : 12) ?
		       "not a recording of kvm-stats" : "it is cut: there is no sample in it";
	if (memcmp(data, RECORDING_MAGIC, 12))
		return "not a recording of kvm-stats";
	format = get_le32(data + 12);
	if (!format || format & 0xffff0000)
		return "not a recording of kvm-stats: its format has no such number";
	if (format == RECORDING_FORMAT)
		return NULL;
	snprintf(other, sizeof(other), "recorded by %s kvm-stats: its format is %u, this one reads %u",
		 format > RECORDING_FORMAT ? "a newer" : "an older", format, RECORDING_FORMAT);
	return other;
}
