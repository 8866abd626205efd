/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef KVMSTATS_UTF8_H
#define KVMSTATS_UTF8_H

#include <stddef.h>

#define UTF8_ELLIPSIS	"\342\200\246"	/* ends a text that was cut off */

/* Return the length of the first UTF-8 character, or 0 if it is invalid or the end. */
size_t utf8_length(const char *text);

#endif /* KVMSTATS_UTF8_H */
