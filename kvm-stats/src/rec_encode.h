/* SPDX-License-Identifier: GPL-2.0-only */
/* Numbers and texts as bytes: 7 bits of a number to each, the lowest first. */
#ifndef REC_ENCODE_H
#define REC_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	unsigned char *data;
	size_t size, room;
	uint64_t unit;		/* of times, nanoseconds */
};

/* Add to the end. Ends the program without memory. */
void bytes_put(struct bytes *b, const void *data, size_t size);
void bytes_number(struct bytes *b, uint64_t n);
void bytes_signed(struct bytes *b, int64_t n);
void bytes_text(struct bytes *b, const char *text);
/* Nanoseconds, rounded to the unit */
void bytes_time(struct bytes *b, uint64_t nanoseconds);

/* Take from the beginning; what is not there is 0 or "", and wrong is set. */
struct rec_bytes {
	const unsigned char *at, *end;
	bool wrong;
	uint64_t unit;
};

uint64_t take_number(struct rec_bytes *t);
/* Sets wrong if it is more than that. */
uint64_t take_most(struct rec_bytes *t, uint64_t most);
int64_t take_signed(struct rec_bytes *t);
uint64_t take_time(struct rec_bytes *t);
/* As much as there is room for, in whole characters of UTF-8 */
void take_text(struct rec_bytes *t, char *to, size_t size);
/* Return a text of any length; the caller frees it. */
char *take_long_text(struct rec_bytes *t);
/* Take a text that is printed as it is, unlike names: it cannot contain terminal escapes. */
void take_message(struct rec_bytes *t, char *to, size_t size);

uint32_t bytes_crc(uint32_t crc, const void *data, size_t size);

/* Little-endian */
void put_le32(unsigned char *to, uint32_t n);
void put_le64(unsigned char *to, uint64_t n);
uint32_t get_le32(const unsigned char *from);
uint64_t get_le64(const unsigned char *from);

#endif /* REC_ENCODE_H */
