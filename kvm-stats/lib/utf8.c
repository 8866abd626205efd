// SPDX-License-Identifier: LGPL-2.1-or-later
#include "utf8.h"

size_t utf8_length(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t i, n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;

	if (c[0] < 0x80)
		return c[0] != 0;
	/* neither overlong, nor half of a pair, nor beyond U+10ffff */
	if (c[0] < 0xc2 || c[0] > 0xf4 || (c[0] == 0xe0 && c[1] < 0xa0) ||
	    (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf0 && c[1] < 0x90) ||
	    (c[0] == 0xf4 && c[1] >= 0x90))
		return 0;
	for (i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}
