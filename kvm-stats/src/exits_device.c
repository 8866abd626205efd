// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exits_sum.h"

/* Ports below this address have the same devices on all PCs. */
#define ISA_PORTS	0x400
/* Number of I/O ports of a serial port; other devices have fewer. */
#define DEVICE_PORTS	8

/* The driver of an argument such as "isa-serial,iobase=0x3f8" if it has the address */
static bool argument_has(const char *argument, uint64_t address, char buf[DEVICE_SIZE])
{
	static const char * const keys[] = { "iobase=", "ioport=" };
	unsigned long long base;
	const char *at;
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		at = strstr(argument, keys[i]);
		if (!at)
			continue;
		base = strtoull(at + strlen(keys[i]), NULL, 0);
		if (address < base || address >= base + DEVICE_PORTS)
			continue;
		snprintf(buf, DEVICE_SIZE, "%.*s", (int)strcspn(argument, ","), argument);
		return true;
	}
	return false;
}

static bool from_command_line(pid_t pid, uint64_t address, char buf[DEVICE_SIZE])
{
	char path[32], text[65536];
	ssize_t n = -1;
	const char *c;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	for (c = text; c < text + n; c += strlen(c) + 1)
		if (argument_has(c, address, buf))
			return true;
	return false;
}

static bool from_host(uint64_t address, char buf[DEVICE_SIZE])
{
	unsigned long first, last;
	char line[128], name[DEVICE_SIZE];
	FILE *f = fopen("/proc/ioports", "re");
	bool found = false;

	/* The last line that has it is the innermost range. */
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %lx-%lx : %63[^\n]", &first, &last, name) != 3 ||
		    !last || last >= ISA_PORTS || address < first || address > last)
			continue;
		snprintf(buf, DEVICE_SIZE, "%s", name);
		found = strcmp(name, "PCI Bus 0000:00") != 0;
	}
	if (f)
		fclose(f);
	return found;
}

const char *exits_device(pid_t pid, const struct exits_key *key, char buf[DEVICE_SIZE])
{
	if (!from_command_line(pid, key->address, buf) &&
	    !(key->space == EXITS_PORT && from_host(key->address, buf)))
		*buf = '\0';
	return buf;
}
