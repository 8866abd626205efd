// SPDX-License-Identifier: GPL-2.0-only
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exits_sum.h"
#include "identity_reader.h"
#include "xalloc.h"

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

/* Read it in a child process, for which the VMM cannot make this one wait. */
static void read_command_line(struct exits_cmdline *cmdline, pid_t pid)
{
	static struct proc_texts texts;
	int proc;

	if (cmdline->pid == pid && (cmdline->text || app_now() < cmdline->due))
		return;
	free(cmdline->text);
	cmdline->text = NULL;
	cmdline->tries = cmdline->pid == pid ? cmdline->tries + 1 : 0;
	cmdline->pid = pid;
	cmdline->due = app_now() + (cmdline->tries < 9 ? SECOND << cmdline->tries : 512 * SECOND);
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc >= 0 && reader_read_one(proc, pid, &texts)) {
		cmdline->size = texts.size;
		cmdline->text = check_alloc(malloc(texts.size + 1));
		memcpy(cmdline->text, texts.cmdline, texts.size + 1);
	}
	if (proc >= 0)
		close(proc);
}

static bool from_command_line(struct exits_vm *vm, uint64_t address, char buf[DEVICE_SIZE])
{
	const struct exits_cmdline *cmdline = &vm->cmdline;
	const char *c;

	read_command_line(&vm->cmdline, vm->sum.pid);
	for (c = cmdline->text; c && c < cmdline->text + cmdline->size; c += strlen(c) + 1)
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

const char *exits_device(struct exits_vm *vm, const struct exits_key *key, char buf[DEVICE_SIZE])
{
	if (!from_command_line(vm, key->address, buf) &&
	    !(key->space == EXITS_PORT && from_host(key->address, buf)))
		*buf = '\0';
	return buf;
}
