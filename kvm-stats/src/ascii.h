/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Comparisons that ignore the case of ASCII letters in every locale. strcasecmp() uses that of the
 * environment, and in a Turkish one "i" and "I" are different letters.
 */
#ifndef ASCII_H
#define ASCII_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline int ascii_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : (unsigned char)c;
}

/* Return true if the first n characters of both texts are the same, or the texts are. */
static inline bool ascii_begins(const char *a, const char *b, size_t n)
{
	for (; n && ascii_lower(*a) == ascii_lower(*b); a++, b++, n--) {
		if (!*a)
			return true;
	}
	return !n;
}

static inline bool ascii_equal(const char *a, const char *b)
{
	return ascii_begins(a, b, strlen(a) + 1);
}

static inline bool ascii_contains(const char *text, const char *part)
{
	const size_t len = strlen(part);

	for (; !ascii_begins(text, part, len); text++) {
		if (!*text)
			return false;
	}
	return true;
}

#endif /* ASCII_H */
