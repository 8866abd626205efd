// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>

#include "rec_chunk.h"
#include "recording.h"

static const char magic[] = { 'K', 'V', 'S', 'C' };

static uint32_t checksum(const unsigned char *head, const unsigned char *data, size_t size)
{
	uint32_t crc = bytes_crc(0, head, 12);

	crc = bytes_crc(crc, head + 16, 8);
	return bytes_crc(crc, data, size);
}

void chunk_seal(struct bytes *b, size_t at, char what, bool key, uint64_t time)
{
	const size_t size = b->size - at - CHUNK_HEAD;
	unsigned char *head = b->data + at;

	memset(head, 0, CHUNK_HEAD);
	memcpy(head, magic, sizeof(magic));
	head[4] = what;
	head[5] = key ? 'k' : 0;
	put_le32(head + 8, size);
	put_le64(head + 16, time);
	put_le32(head + 12, checksum(head, head + CHUNK_HEAD, size));
}

size_t chunk_read(const unsigned char *at, size_t left, struct chunk *chunk)
{
	uint32_t size;

	if (left < CHUNK_HEAD || memcmp(at, magic, sizeof(magic)))
		return 0;
	size = get_le32(at + 8);
	if (size > CHUNK_MAX || size > left - CHUNK_HEAD ||
	    get_le32(at + 12) != checksum(at, at + CHUNK_HEAD, size))
		return 0;
	*chunk = (struct chunk){
		.what = at[4], .key = at[5] == 'k', .time = get_le64(at + 16),
		.data = at + CHUNK_HEAD, .size = size,
	};
	return CHUNK_HEAD + size;
}

const char *chunk_bad_file(const unsigned char *data, size_t size)
{
	static char newer[96];
	uint32_t format;

	if (size < FILE_HEAD)
		return size && memcmp(data, RECORDING_MAGIC, size < 12 ? size : 12) ?
		       "not a recording of kvm-stats" : "it is cut: there is no sample in it";
	if (memcmp(data, RECORDING_MAGIC, 12))
		return "not a recording of kvm-stats";
	format = get_le32(data + 12);
	if (!format || format & 0xffff0000)
		return "not a recording of kvm-stats: its format has no such number";
	if (format <= RECORDING_FORMAT)
		return NULL;
	snprintf(newer, sizeof(newer),
		 "recorded by a newer kvm-stats: its format is %u, this one reads up to %u",
		 format, RECORDING_FORMAT);
	return newer;
}
