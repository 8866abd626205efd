// SPDX-License-Identifier: GPL-2.0-only
/* The file from which the memory of a process comes, in this process. Prints TAP. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_file.h"
#include "tap.h"

static void map(int fd, size_t size, int protection, int flags)
{
	if (fd < 0 || ftruncate(fd, size) || mmap(NULL, size, protection, flags, fd, 0) == MAP_FAILED)
		err(1, "mmap");
}

int main(void)
{
	const int proc = open("/proc", O_RDONLY | O_DIRECTORY);
	struct memory_file file;
	char path[] = "/var/tmp/memory file XXXXXX", other[] = "/var/tmp/other-XXXXXX";

	map(memfd_create("ram", 0), 64 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
	map(mkstemp(other), 32 << 20, PROT_READ, MAP_SHARED);
	tap_result(!find_memory_file(proc, getpid(), &file), "memory without a name, and a file that is read only, do not count");
	map(mkstemp(path), 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	tap_result(find_memory_file(proc, getpid(), &file) && !strcmp(file.path, path), "a private mapping of a file counts");
	tap_result(!find_memory_file(proc, 0x7fffffff, &file), "a process that does not exist has none");
	unlink(path);
	unlink(other);
	return tap_end();
}
