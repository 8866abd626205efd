/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FUZZERS_PRINTABLE_H
#define FUZZERS_PRINTABLE_H

#include <stdlib.h>

#include "../../src/text.h"

/* Abort if a character moves a cursor, changes the direction of text, is invisible or is not UTF-8. */
static void check_printable(const char *text)
{
	uint32_t code;
	size_t n;

	for (; *text; text += n) {
		n = text_character(text, &code);
		if (!n || text_hidden(code))
			abort();
	}
}

#endif /* FUZZERS_PRINTABLE_H */
