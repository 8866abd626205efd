/* SPDX-License-Identifier: GPL-2.0-only */
#include <stdio.h>
#include <stdlib.h>

/* Return the value; exit with an error message if it is negative. */
static inline int must_succeed(int value, const char *what)
{
	if (value < 0) {
		perror(what);
		exit(1);
	}
	return value;
}
