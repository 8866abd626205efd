// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ask the kernel's leak detector for memory that nothing points to any more,
 * see Documentation/dev-tools/kmemleak.rst.
 *
 * What the kernel lost before it started init, as ACPI does, is not counted: its
 * comm is "swapper/0", the task that boots.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* Objects younger than 5 s (MSECS_MIN_AGE in mm/kmemleak.c) are not reported. */
#define AGE_SECONDS	6
/* A scan reports what has not changed since the one before. */
#define SCANS		2

static bool scan(void)
{
	int fd = open(KMEMLEAK, O_WRONLY);
	bool done = fd >= 0 && write(fd, "scan", 4) == 4;

	if (!done)
		perror(KMEMLEAK);
	if (fd >= 0)
		close(fd);
	return done;
}

/* Show what was lost since the boot; returns how many objects, -1 for no list. */
static int list(void)
{
	static const char object[] = "unreferenced object ";
	char line[512], first[512] = "";
	FILE *report = fopen(KMEMLEAK, "r");
	bool shown = false;
	int count = 0;

	if (!report) {
		perror(KMEMLEAK);
		return -1;
	}
	/* The line with the comm is the second one of an object. */
	while (fgets(line, sizeof(line), report)) {
		if (!strncmp(line, object, strlen(object))) {
			strcpy(first, line);
			shown = false;
		} else if (!strncmp(line, "  comm ", 7)) {
			shown = !strstr(line, "comm \"swapper/");
			if (shown) {
				count++;
				printf("# %s# %s", first, line);
			}
		} else if (shown) {
			printf("# %s", line);
		}
	}
	fclose(report);
	return count;
}

int main(void)
{
	int i, lost;

	printf("TAP version 13\n1..1\n");
	fflush(stdout);
	sleep(AGE_SECONDS);
	for (i = 0; i < SCANS; i++)
		if (!scan())
			return 1;
	lost = list();
	if (lost < 0)
		return 1;
	printf("%sok 1 %d objects lost\n", lost ? "not " : "", lost);
	return !!lost;
}
