// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of cgroups, and files of cgroups that vanish or cannot be read, in a directory that has a procfs
 * and cgroups of the test. Prints TAP.
 */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroups.h"
#include "remedy.h"
#include "scratch.h"
#include "tap.h"

#define TID	7


/* Open a procfs with one mounted cgroup hierarchy, whose thread is in this cgroup. */
static struct cgroups *open_with(const char *type, const char *options, const char *path)
{
	char text[4 * PATH_MAX];
	int proc;

	snprintf(text, sizeof(text), "30 24 0:26 / %s/tree rw,nosuid shared:9 - %s cgroup rw,%s\n", top, type, options);
	put(text, "/proc/self/mountinfo");
	snprintf(text, sizeof(text), "%s%s\n", strcmp(type, "cgroup2") ? "4:cpu,cpuacct:" : "0::", path);
	put(text, "/proc/%d/cgroup", TID);
	strcat(strcpy(text, top), "/proc");
	proc = open(text, O_RDONLY | O_DIRECTORY);
	if (proc < 0)
		err(1, "%s", text);
	return find_cgroups(proc);
}

static struct cgroup cgroup;

static bool find(const struct cgroups *cgroups)
{
	return find_thread_cgroup(cgroups, TID, HIERARCHY_CPU, &cgroup);
}

/* Return a path with this number of components. */
static char *make_path(unsigned int components, unsigned int length)
{
	char *path = calloc(components, length + 2), *at = path;

	while (components--) {
		*at++ = '/';
		memset(at, 'a' + components % 26, length);
		at += length;
	}
	return path;
}

static void test_lengths(void)
{
	static const struct {
		const char *text;
		unsigned int components, length;
		bool known;
	} cases[] = {
		{ "100 levels", 100, 8, true },
		{ "components of 255 characters", 12, 255, true },
		{ "a path that no file can have", 100, 255, false },
	};
	unsigned int i, levels;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *path = make_path(cases[i].components, cases[i].length);
		struct cgroups *cgroups = open_with("cgroup", "cpu,cpuacct", path);
		struct cgroup_limits limits;
		bool found = find(cgroups);

		tap_result(found == cases[i].known && (!found || !strcmp(cgroup.path, path)), "%s: the cgroup is %s",
			   cases[i].text, cases[i].known ? "found" : "not known");
		for (levels = 0; found && *cgroup.path && !read_cgroup_limits(cgroups, &cgroup, &limits); levels++)
			leave_cgroup(&cgroup);
		tap_result(levels == (found ? cases[i].components : 0), "%s: each level is visited, and none has limits",
			   cases[i].text);
		free_cgroups(cgroups);
		free(path);
	}
}

/* Return true if a shell reads the same word. */
static bool shell_reads(const char *word)
{
	char *text, command[PATH_MAX], output[PATH_MAX] = "";
	size_t size;
	FILE *f = open_memstream(&text, &size), *shell;

	put_quoted(f, word);
	fclose(f);
	snprintf(command, sizeof(command), "printf %%s %s", text);
	free(text);
	shell = popen(command, "r");
	output[fread(output, 1, sizeof(output) - 1, shell)] = '\0';
	return !pclose(shell) && !strcmp(output, word);
}

static void test_names(void)
{
	static const char *const names[] = {
		"$(x)", "$(touch x)", "`x`", "it's", "\"quoted\"", "-n", "--root=x", "a b", "*", "\\", "~", "#a", "a;b", "a\tb", "ä",
	};
	char path[PATH_MAX], file[PATH_MAX];
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct cgroups *cgroups;
		char unit[NAME_MAX + 1];
		long long weight = 0;
		const char *text;

		snprintf(path, sizeof(path), "/%s", names[i]);
		put("77\n", "/tree%s/cpu.shares", path);
		cgroups = open_with("cgroup", "cpu", path);
		text = find(cgroups) ? read_cgroup(cgroups, &cgroup, "cpu.shares") : NULL;
		tap_result(text && sscanf(text, "%lld", &weight) == 1 && weight == 77 &&
			   cgroup_file_path(cgroups, &cgroup, "cpu.shares", file) && shell_reads(file),
			   "name %s: its file is read, and a shell reads its path", names[i]);
		tap_result(find_manager(cgroups, &cgroup, unit) == MANAGER_NONE, "name %s: it is not a unit", names[i]);
		free_cgroups(cgroups);
	}
}

/* The kernel refuses such names; a text with one must not be read as another cgroup's with more than its start. */
static void test_newline(void)
{
	struct cgroups *cgroups = open_with("cgroup", "cpu", "/a\n4:cpu:/ssh.service");

	tap_result(find(cgroups) && !strcmp(cgroup.path, "/a"), "newline: the first line counts");
	free_cgroups(cgroups);
}

static void test_vanishing(void)
{
	struct cgroups *cgroups = open_with("cgroup2", "nsdelegate", "/above/vm");
	struct cgroup_limits limits;
	char path[PATH_MAX];

	put("100\n", "/tree/above/vm/cpu.weight");
	put("max 100000\n", "/tree/above/vm/cpu.max");
	put("100\n", "/tree/above/cpu.weight");
	tap_result(find(cgroups) && !strcmp(cgroup.path, "/above/vm"), "vanishing: the cgroup is found before");
	cgroup_file_path(cgroups, &cgroup, "cpu.weight", path);
	unlink(path);
	tap_result(!read_cgroup_limits(cgroups, &cgroup, &limits), "vanishing: limits of a cgroup that vanished are unknown");
	tap_result(find(cgroups) && !strcmp(cgroup.path, "/above"), "vanishing: the nearest cgroup with the controller counts");
	cgroup_file_path(cgroups, &cgroup, "cpu.weight", path);
	unlink(path);
	tap_result(find(cgroups) && !*cgroup.path, "vanishing: the root counts without the controller");
	free_cgroups(cgroups);
	cgroups = open_with("cgroup2", "nsdelegate", "/above/vm");
	snprintf(path, sizeof(path), "%s/proc/%d/cgroup", top, TID);
	unlink(path);
	tap_result(!find(cgroups), "vanishing: the cgroup of a thread that exited is unknown");
	free_cgroups(cgroups);
}

static void test_unreadable(void)
{
	struct cgroups *cgroups = open_with("cgroup2", "nsdelegate", "/unreadable");
	struct cgroup_limits limits;

	/* Reading a directory fails for root as well. */
	put("", "/tree/unreadable/cpu.weight/x");
	tap_result(find(cgroups) && !strcmp(cgroup.path, "/unreadable") && !read_cgroup(cgroups, &cgroup, "cpu.weight") &&
		   !read_cgroup_limits(cgroups, &cgroup, &limits), "unreadable weight: the limits are unknown");
	free_cgroups(cgroups);
	put("100\n", "/tree/half/cpu.weight");
	put("", "/tree/half/cpu.max/x");
	cgroups = open_with("cgroup2", "nsdelegate", "/half");
	tap_result(find(cgroups) && !read_cgroup_limits(cgroups, &cgroup, &limits), "unreadable quota: the limits are unknown");
	free_cgroups(cgroups);
	put("-5\n", "/tree/odd/cpu.weight");
	put("max 100000\n", "/tree/odd/cpu.max");
	cgroups = open_with("cgroup2", "nsdelegate", "/odd");
	tap_result(find(cgroups) && !read_cgroup_limits(cgroups, &cgroup, &limits), "invalid weight: the limits are unknown");
	free_cgroups(cgroups);
}

static void test_namespace(void)
{
	struct cgroups *cgroups = open_with("cgroup2", "nsdelegate", "/../outside");

	tap_result(!find(cgroups), "namespace: a cgroup outside of it is not known");
	free_cgroups(cgroups);
}

static void test_siblings(void)
{
	static const struct {
		const char *a, *b;
		size_t common, a_len, b_len;
	} cases[] = {
		{ "/a/b", "/a/c", 2, 4, 4 }, { "/a/b", "/a/bc", 2, 4, 5 }, { "/a", "/a", 2, 2, 2 },
		{ "/a", "/a/b/c", 2, 2, 4 }, { "", "/a", 0, 0, 2 }, { "", "", 0, 0, 0 }, { "/x/y/z", "/w/y/z", 0, 2, 2 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t ends[2], common = find_siblings(cases[i].a, cases[i].b, &ends[0], &ends[1]);

		tap_result(common == cases[i].common && ends[0] == cases[i].a_len && ends[1] == cases[i].b_len,
			   "siblings of \"%s\" and \"%s\"", cases[i].a, cases[i].b);
	}
}

int main(void)
{
	make_top();
	test_lengths();
	test_names();
	test_newline();
	test_vanishing();
	test_unreadable();
	test_namespace();
	test_siblings();
	remove_top();
	return tap_end();
}
