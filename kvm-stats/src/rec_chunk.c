// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>

#include "rec_chunk.h"
#include "recording.h"

static const char magic[] = { 'K', 'V', 'S', 'C' };

static uint32_t checksum(const unsigned char *head, const void *data, size_t size)
{
	uint32_t crc = bytes_crc(0, head, 12);

	crc = bytes_crc(crc, head + 16, 8);
	return bytes_crc(crc, data, size);
}

void chunk_seal(struct bytes *b, size_t at, char kind, uint32_t key, uint64_t time)
{
	const size_t size = b->size - at - CHUNK_HEAD;
	unsigned char *head = b->data + at;

	memcpy(head, magic, sizeof(magic));
	put_le32(head + 4, key << 8);
	head[4] = kind;
	put_le32(head + 8, size);
	put_le64(head + 16, time);
	put_le32(head + 12, checksum(head, head + CHUNK_HEAD, size));
}

bool chunk_read_head(const unsigned char *head, struct chunk *chunk)
{
	*chunk = (struct chunk){
		.kind = head[4], .key = get_le32(head + 4) >> 8, .time = get_le64(head + 16),
		.size = get_le32(head + 8),
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
