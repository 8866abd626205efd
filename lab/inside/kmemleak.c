// SPDX-License-Identifier: GPL-2.0-only
/*
 * Report the memory leaks found by kmemleak, see Documentation/dev-tools/kmemleak.rst.
 *
 * Ignore leaks from before init was started, such as ACPI's: their comm is "swapper/0".
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
/* Objects younger than 5 s (MSECS_MIN_AGE in mm/kmemleak.c) are not reported. */
#define AGE_SECONDS	6
/* A scan reports only objects that have not changed since the previous one. */
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

/* Print the objects leaked since init was started; return their number, -1 on failure. */
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
	/* The second line of an object contains the comm. */
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
	printf("%sok 1 %d objects leaked\n", lost ? "not " : "", lost);
	return !!lost;
}
