// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "rec_encode.h"
#include "text.h"
#include "xalloc.h"

void bytes_put(struct bytes *b, const void *data, size_t size)
{
	if (b->size + size > b->room) {
		b->room = 2 * (b->size + size);
		b->data = realloc(b->data, b->room);
		if (!b->data)
			err(1, NULL);
	}
	if (size)
		memcpy(b->data + b->size, data, size);
	b->size += size;
}

void bytes_number(struct bytes *b, uint64_t n)
{
	unsigned char out[10];
	size_t len = 0;

	do {
		out[len++] = (n & 0x7f) | (n > 0x7f ? 0x80 : 0);
		n >>= 7;
	} while (n);
	bytes_put(b, out, len);
}

/* 0, -1, 1, -2, 2... are 0, 1, 2, 3, 4... */
void bytes_signed(struct bytes *b, int64_t n)
{
	bytes_number(b, n < 0 ? 2 * ~(uint64_t)n + 1 : 2 * (uint64_t)n);
}

void bytes_text(struct bytes *b, const char *text)
{
	bytes_number(b, strlen(text));
	bytes_put(b, text, strlen(text));
}

void bytes_time(struct bytes *b, uint64_t nanoseconds)
{
	bytes_number(b, (nanoseconds + b->unit / 2) / b->unit);
}

uint64_t take_number(struct rec_bytes *t)
{
	unsigned int shift = 0;
	uint64_t n = 0;

	while (t->at < t->end && shift < 64) {
		const unsigned char byte = *t->at++;

		n |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return n;
		shift += 7;
	}
	t->wrong = true;
	t->at = t->end;
	return 0;
}

uint64_t take_most(struct rec_bytes *t, uint64_t most)
{
	const uint64_t n = take_number(t);

	if (n <= most)
		return n;
	t->wrong = true;
	t->at = t->end;
	return 0;
}

int64_t take_signed(struct rec_bytes *t)
{
	const uint64_t n = take_number(t);

	return n & 1 ? (int64_t)~(n / 2) : (int64_t)(n / 2);
}

uint64_t take_time(struct rec_bytes *t)
{
	return take_number(t) * t->unit;
}

/* Limited by the rest of the chunk */
static size_t take_length(struct rec_bytes *t)
{
	const uint64_t len = take_number(t);

	if (len <= (uint64_t)(t->end - t->at))
		return len;
	t->wrong = true;
	t->at = t->end;
	return 0;
}

static void take_characters(struct rec_bytes *t, size_t len, char *to, size_t size)
{
	size_t n = 0, bytes;
	uint32_t code;
	char one[5];

	while (n < len) {
		memset(one, 0, sizeof(one));
		memcpy(one, t->at + n, len - n < 4 ? len - n : 4);
		bytes = text_character(one, &code);
		if (!bytes || n + bytes >= size)
			break;
		memcpy(to + n, one, bytes);
		n += bytes;
	}
	to[n] = '\0';
	t->at += len;
}

void take_text(struct rec_bytes *t, char *to, size_t size)
{
	const size_t len = take_length(t);

	take_characters(t, len, to, size);
}

char *take_long_text(struct rec_bytes *t)
{
	const size_t len = take_length(t);
	char *text = check_alloc(malloc(len + 1));

	take_characters(t, len, text, len + 1);
	return text;
}

void take_message(struct rec_bytes *t, char *to, size_t size)
{
	char text[256];

	take_text(t, text, sizeof(text));
	text_line(text, to, size);
}

/* CRC-32 of IEEE 802.3; begin with 0 */
uint32_t bytes_crc(uint32_t crc, const void *data, size_t size)
{
	static uint32_t table[256];
	const unsigned char *c = data;
	uint32_t i, bit, n;

	for (i = 0; !table[255] && i < 256; i++) {
		for (n = i, bit = 0; bit < 8; bit++)
			n = n & 1 ? n >> 1 ^ 0xedb88320 : n >> 1;
		table[i] = n;
	}
	crc = ~crc;
	while (size--)
		crc = crc >> 8 ^ table[(crc ^ *c++) & 0xff];
	return ~crc;
}

void put_le32(unsigned char *to, uint32_t n)
{
	int i;

	for (i = 0; i < 4; i++, n >>= 8)
		to[i] = n & 0xff;
}

void put_le64(unsigned char *to, uint64_t n)
{
	put_le32(to, n);
	put_le32(to + 4, n >> 32);
}

uint32_t get_le32(const unsigned char *from)
{
	return from[0] | from[1] << 8 | from[2] << 16 | (uint32_t)from[3] << 24;
}

uint64_t get_le64(const unsigned char *from)
{
	return get_le32(from) | (uint64_t)get_le32(from + 4) << 32;
}
