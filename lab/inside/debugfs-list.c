// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print mode and name of all files in KVM's debugfs directory, sorted. Print the directory
 * of the VM of process PID as VM: its real name, PID and file descriptor, differs between
 * boots.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *vm_prefix;

static const char *printed_name(const char *name)
{
	return strncmp(name, vm_prefix, strlen(vm_prefix)) ? name : "VM";
}

static void list(const char *folder, const char *printed_folder)
{
	struct dirent **entries;
	int i, n = scandir(folder, &entries, NULL, alphasort);

	if (n < 0) {
		perror(folder);
		exit(1);
	}
	for (i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		char path[PATH_MAX], printed[PATH_MAX];
		struct stat st;

		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, name);
		snprintf(printed, sizeof(printed), "%s%s", printed_folder,
			 printed_name(name));
		if (stat(path, &st)) {
			perror(path);
			exit(1);
		}
		if (S_ISDIR(st.st_mode))
			strcat(printed, "/");
		printf("%06o %s\n", st.st_mode, printed);
		if (S_ISDIR(st.st_mode))
			list(path, printed);
	}
}

int main(int argc, char **argv)
{
	char prefix[32];

	if (argc != 2) {
		fprintf(stderr, "usage: debugfs-list PID\n");
		return 2;
	}
	snprintf(prefix, sizeof(prefix), "%s-", argv[1]);
	vm_prefix = prefix;
	list("/sys/kernel/debug/kvm", "");
	return 0;
}
