/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdio.h>
#include <stdlib.h>

/* The value, unless it is negative: then the program ends. */
static inline int must_succeed(int value, const char *what)
{
	if (value < 0) {
		perror(what);
		exit(1);
	}
	return value;
}
