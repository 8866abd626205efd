// SPDX-License-Identifier: GPL-2.0-only
/*
 * Set CPU 1 of a guest offline and online repeatedly: guest-hotplug TIMES
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ONLINE	"/sys/devices/system/cpu/cpu1/online"

static void set_online(const char *value)
{
	FILE *file = fopen(ONLINE, "w");

	if (!file || fputs(value, file) == EOF || fclose(file)) {
		perror("guest-hotplug: " ONLINE);
		exit(1);
	}
	usleep(100000);
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;

	while (times-- > 0) {
		set_online("0");
		set_online("1");
	}
	return 0;
}
