// SPDX-License-Identifier: LGPL-2.1-or-later
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "time_namespace.h"

int64_t time_namespace_offset(clockid_t clock)
{
	const char *name = clock == CLOCK_BOOTTIME ? "boottime" : "monotonic";
	/* Linux before 5.6 has no such file. */
	FILE *f = fopen("/proc/self/timens_offsets", "re");
	int64_t seconds, ns, offset = 0;
	char line[16];

	while (f && fscanf(f, "%15s %" SCNd64 " %" SCNd64, line, &seconds, &ns) == 3) {
		if (!strcmp(line, name))
			offset = seconds * 1000000000 + ns;
	}
	if (f)
		fclose(f);
	return offset;
}
