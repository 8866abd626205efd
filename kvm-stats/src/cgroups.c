// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cgroups.h"
#include "proc.h"
#include "xalloc.h"

/* The host's systemd has a link "invocation:NAME" here for each service and scope that it started. */
#define SYSTEMD_UNITS		"/run/systemd/units"
/* Files of units that were started by a call, with their slices */
#define SYSTEMD_TRANSIENT	"/run/systemd/transient"

/* A mounted hierarchy: its directory, and the cgroup that is mounted there */
struct mounted {
	char *directory, *root;
	bool v2;
};

struct cgroups {
	int proc;
	struct mounted mounted[HIERARCHIES];
	void *files;		/* tree of struct cgroup_content, by path */
};

struct cgroup_content {
	char *path, *text;	/* text: NULL if it cannot be read */
};

static const char *const controllers[HIERARCHIES] = {
	[HIERARCHY_CPU] = "cpu", [HIERARCHY_CPUSET] = "cpuset", [HIERARCHY_FREEZER] = "freezer",
	[HIERARCHY_MEMORY] = "memory", [HIERARCHY_SYSTEMD] = "name=systemd", [HIERARCHY_V2] = "",
};

/* A file that each cgroup of v2 with the controller has, except for the root */
static const char *const controller_files[HIERARCHIES] = {
	[HIERARCHY_CPU] = "cpu.weight", [HIERARCHY_CPUSET] = "cpuset.cpus", [HIERARCHY_FREEZER] = "cgroup.freeze",
	[HIERARCHY_MEMORY] = "memory.high",
};

static bool lists_word(const char *list, const char *word)
{
	const size_t len = strlen(word);

	for (; list; list = strchr(list, ','), list = list ? list + 1 : NULL) {
		if (!strncmp(list, word, len) && (!list[len] || list[len] == ','))
			return true;
	}
	return false;
}

/* Decode \040 and the like of mountinfo, in place. */
static void decode_octal(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '\\' && strspn(text + 1, "01234567") >= 3) {
			*to++ = (text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* Keep a mount of a hierarchy: that of v1, and of these the first one, or one that has more of it. */
static void keep_mount(struct mounted *to, const char *root, const char *directory, bool v2)
{
	if (to->directory && (to->v2 < v2 || (to->v2 == v2 && strlen(to->root) <= strlen(root))))
		return;
	free(to->directory);
	free(to->root);
	to->v2 = v2;
	to->directory = check_alloc(strdup(strcmp(directory, "/") ? directory : ""));
	to->root = check_alloc(strdup(strcmp(root, "/") ? root : ""));
}

/* A line of mountinfo: ID PARENT DEVICE ROOT DIRECTORY OPTIONS [FIELD...] - TYPE SOURCE SUPEROPTIONS */
static void read_mount(struct cgroups *cgroups, char *line)
{
	char *field[6], *type, *options, *end = strstr(line, " - ");
	unsigned int i;

	line[strcspn(line, "\n")] = '\0';
	if (!end)
		return;
	*end = '\0';
	type = end + strlen(" - ");
	for (i = 0; i < 6; i++) {
		field[i] = strsep(&line, " ");
		if (!field[i])
			return;
	}
	decode_octal(field[3]);
	decode_octal(field[4]);
	options = strrchr(type, ' ');
	for (i = 0; options && i < HIERARCHIES; i++) {
		if (!strncmp(type, "cgroup2 ", 8))
			keep_mount(&cgroups->mounted[i], field[3], field[4], true);
		else if (!strncmp(type, "cgroup ", 7) && *controllers[i] && lists_word(options + 1, controllers[i]))
			keep_mount(&cgroups->mounted[i], field[3], field[4], false);
	}
}

struct cgroups *find_cgroups(int proc)
{
	struct cgroups *cgroups = check_alloc(calloc(1, sizeof(*cgroups)));
	FILE *f = proc_open(proc, "self/mountinfo");
	char *line = NULL;
	size_t size = 0;

	cgroups->proc = proc;
	while (f && getline(&line, &size, f) > 0)
		read_mount(cgroups, line);
	free(line);
	if (f)
		fclose(f);
	return cgroups;
}

static void free_cgroup_content(void *content)
{
	struct cgroup_content *c = content;

	free(c->path);
	free(c->text);
	free(c);
}

void free_cgroups(struct cgroups *cgroups)
{
	unsigned int i;

	if (!cgroups)
		return;
	for (i = 0; i < HIERARCHIES; i++) {
		free(cgroups->mounted[i].directory);
		free(cgroups->mounted[i].root);
	}
	tdestroy(cgroups->files, free_cgroup_content);
	free(cgroups);
}

bool is_in_cgroup(const char *path, const char *cgroup)
{
	const size_t len = strlen(cgroup);

	return !strncmp(path, cgroup, len) && (!path[len] || path[len] == '/');
}

/* Copy a path of /proc/TID/cgroup as a path below the mounted directory. */
static bool copy_below_mount(const struct mounted *mounted, const char *path, struct cgroup *cgroup)
{
	if (!strcmp(path, "/"))
		path = "";
	/* A cgroup outside of the namespace's root begins with "/..". */
	if (!is_in_cgroup(path, mounted->root) || is_in_cgroup(path, "/.."))
		return false;
	path += strlen(mounted->root);
	if (strlen(path) >= sizeof(cgroup->path))
		return false;
	strcpy(cgroup->path, path);
	cgroup->v2 = mounted->v2;
	return true;
}

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool leave_cgroup(struct cgroup *cgroup)
{
	char *slash = strrchr(cgroup->path, '/');

	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

bool cgroup_file_path(const struct cgroups *cgroups, const struct cgroup *cgroup, const char *file, char path[PATH_MAX])
{
	const char *directory = cgroups->mounted[cgroup->hierarchy].directory;

	return directory && snprintf(path, PATH_MAX, "%s%s%s%s", directory, cgroup->path, *file ? "/" : "", file) <
	       PATH_MAX;
}

/* Go up to the nearest cgroup of v2 that has the controller. */
static void find_controller(const struct cgroups *cgroups, struct cgroup *cgroup)
{
	const char *file = controller_files[cgroup->hierarchy];
	char path[PATH_MAX];

	if (!cgroup->v2 || !file)
		return;
	do {
		if (cgroup_file_path(cgroups, cgroup, file, path) && !access(path, F_OK))
			return;
	} while (leave_cgroup(cgroup));
}

bool find_thread_cgroup(const struct cgroups *cgroups, pid_t tid, enum hierarchy hierarchy, struct cgroup *cgroup)
{
	const struct mounted *mounted = &cgroups->mounted[hierarchy];
	char *text, *rest, *line, *list, *path;
	bool found = false;

	cgroup->hierarchy = hierarchy;
	if (!mounted->directory)
		return false;
	rest = text = check_alloc(malloc(PROC_CGROUP_SIZE));
	if (!proc_read(cgroups->proc, tid, "cgroup", text, PROC_CGROUP_SIZE))
		rest = NULL;
	while (!found && (line = strsep(&rest, "\n"))) {
		/* NUMBER:CONTROLLERS:PATH; v2 has no controllers here. */
		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (mounted->v2 ? !list[1] : lists_word(list + 1, controllers[hierarchy]))
			found = copy_below_mount(mounted, path, cgroup);
	}
	free(text);
	if (found)
		find_controller(cgroups, cgroup);
	return found;
}

static int compare_contents(const void *a, const void *b)
{
	return strcmp(((const struct cgroup_content *)a)->path, ((const struct cgroup_content *)b)->path);
}

/* Return the text of a file, NULL if it cannot be read; the caller frees it. */
static char *read_content(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t len;

	if (!f)
		return NULL;
	len = getdelim(&text, &size, '\0', f);
	if (ferror(f)) {
		free(text);
		text = NULL;
	} else if (len < 0) {
		free(text);
		text = check_alloc(strdup(""));
	}
	fclose(f);
	return text;
}

const char *read_cgroup(struct cgroups *cgroups, const struct cgroup *cgroup, const char *file)
{
	struct cgroup_content *content, **found;
	char path[PATH_MAX];

	if (!cgroup_file_path(cgroups, cgroup, file, path))
		return NULL;
	content = check_alloc(calloc(1, sizeof(*content)));
	content->path = check_alloc(strdup(path));
	found = check_alloc(tsearch(content, &cgroups->files, compare_contents));
	if (*found != content)
		free_cgroup_content(content);
	else
		content->text = read_content(path);
	return (*found)->text;
}

static bool read_cgroup_number(struct cgroups *cgroups, const struct cgroup *cgroup, const char *file,
			       long long *number)
{
	const char *text = read_cgroup(cgroups, cgroup, file);

	return text && sscanf(text, "%lld", number) == 1;
}

/* The root of a hierarchy has neither. */
static bool is_cgroup_root(const struct cgroups *cgroups, const struct cgroup *cgroup)
{
	return !*cgroup->path && !*cgroups->mounted[cgroup->hierarchy].root;
}

bool read_cgroup_limits(struct cgroups *cgroups, const struct cgroup *cgroup, struct cgroup_limits *limits)
{
	long long weight, quota, period, idle;
	const char *max;

	*limits = (struct cgroup_limits){ 0 };
	if (is_cgroup_root(cgroups, cgroup))
		return true;
	limits->idle = read_cgroup_number(cgroups, cgroup, "cpu.idle", &idle) && idle;
	if (!read_cgroup_number(cgroups, cgroup, cgroup->v2 ? "cpu.weight" : "cpu.shares", &weight) || weight < 0)
		return false;
	limits->weight = weight;
	if (cgroup->v2) {
		max = read_cgroup(cgroups, cgroup, "cpu.max");
		if (!max)
			return false;
		/* "max 100000" */
		if (sscanf(max, "%lld %lld", &quota, &period) != 2)
			return true;
	} else if (!read_cgroup_number(cgroups, cgroup, "cpu.cfs_quota_us", &quota) ||
		   !read_cgroup_number(cgroups, cgroup, "cpu.cfs_period_us", &period)) {
		/* The kernel may have no quotas. */
		return true;
	}
	if (quota > 0 && period > 0) {
		limits->quota_us = quota;
		limits->period_us = period;
	}
	return true;
}

bool is_cgroup_frozen(struct cgroups *cgroups, const struct cgroup *cgroup)
{
	long long frozen;

	return read_cgroup_number(cgroups, cgroup, cgroup->v2 ? "cgroup.freeze" : "freezer.self_freezing", &frozen) &&
	       frozen;
}

bool is_at_memory_high(struct cgroups *cgroups, const struct cgroup *cgroup)
{
	long long used, high;

	/* Without a limit, the file has "max". The kernel reclaims memory, so that the use can be somewhat less. */
	return cgroup->v2 && read_cgroup_number(cgroups, cgroup, "memory.high", &high) &&
	       read_cgroup_number(cgroups, cgroup, "memory.current", &used) && used >= high / 10 * 9;
}

static size_t component_end(const char *path, size_t at)
{
	return path[at] ? at + 1 + strcspn(path + at + 1, "/") : at;
}

size_t find_siblings(const char *a, const char *b, size_t *a_len, size_t *b_len)
{
	size_t common = 0, end;

	while (a[common] && b[common]) {
		end = component_end(a, common);
		if (end != component_end(b, common) || strncmp(a, b, end))
			break;
		common = end;
	}
	*a_len = component_end(a, common);
	*b_len = component_end(b, common);
	return common;
}

static bool has_suffix(const char *name, const char *suffix)
{
	const size_t len = strlen(name), n = strlen(suffix);

	return len > n && !strcmp(name + len - n, suffix);
}

bool looks_like_unit(const char *path)
{
	return has_suffix(path, ".service") || has_suffix(path, ".scope");
}

static bool has_unit_suffix(const char *name)
{
	return looks_like_unit(name) || has_suffix(name, ".slice");
}

/* systemd's names have these characters only: an option, or a pattern of systemctl, is not one of them. */
static bool is_unit_name(const char *name)
{
	const char *c;

	for (c = name; isalnum((unsigned char)*c) || (*c && strchr(":-_.\\@", *c)); c++)
		;
	return !*c && isalnum((unsigned char)*name) && has_unit_suffix(name);
}

/* Slice a-b.slice is in a.slice: the name must begin with that of the slice above, if there is one. */
static bool is_slice_below(const char *name, const char *above)
{
	const size_t len = strlen(above) - (*above ? strlen(".slice") : 0);
	const char *dash = strrchr(name, '-');

	if (!*above)
		return !dash;
	return !strncmp(name, above, len) && name[len] == '-' && dash == name + len;
}

/* Only root can have created what is in a directory that belongs to root, and that only root writes to. */
static bool is_roots_directory(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && !st.st_uid && !(st.st_mode & S_IWOTH) &&
	       (!(st.st_mode & S_IWGRP) || !st.st_gid);
}

/*
 * Return true if a transient unit of the host's systemd, as each scope is, has this name and is in this
 * slice. Only root can create the file.
 */
static bool is_transient_in(const char *name, const char *slice)
{
	char path[sizeof(SYSTEMD_TRANSIENT) + NAME_MAX + 2], line[NAME_MAX + 16];
	bool is_in = false;
	FILE *f;

	snprintf(path, sizeof(path), SYSTEMD_TRANSIENT "/%s", name);
	f = fopen(path, "re");
	while (f && !is_in && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		is_in = !strncmp(line, "Slice=", strlen("Slice=")) && !strcmp(line + strlen("Slice="), slice);
	}
	if (f)
		fclose(f);
	return is_in;
}

/*
 * systemd creates a link for each start of a service or scope. It writes the same id to an attribute of the
 * cgroup, which only root can set, unless it has created the cgroup before: then the name of the slice must
 * prove that the cgroup is the unit's.
 */
static bool is_started_by_systemd(const char *name, const char *slice, const char *directory)
{
	char path[sizeof(SYSTEMD_UNITS) + NAME_MAX + 32], link[64], attribute[64];
	ssize_t link_len, len;

	snprintf(path, sizeof(path), SYSTEMD_UNITS "/invocation:%s", name);
	link_len = readlink(path, link, sizeof(link));
	if (link_len <= 0)
		return false;
	len = getxattr(directory, "trusted.invocation_id", attribute, sizeof(attribute));
	if (len < 0)
		return errno == ENODATA && is_transient_in(name, slice);
	return len == link_len && !memcmp(link, attribute, len);
}

bool find_host_unit(struct cgroups *cgroups, const struct cgroup *cgroup, char name[NAME_MAX + 1], const char **rest)
{
	char directory[PATH_MAX], component[NAME_MAX + 1], slice[NAME_MAX + 1] = "";
	struct cgroup above = *cgroup;
	size_t at = 0, end;

	*name = '\0';
	/* The controllers of v1 have the same paths as the hierarchy that systemd owns. */
	above.hierarchy = HIERARCHY_SYSTEMD;
	/* In a namespace or a container, the first component is not one of the host's. */
	if (!cgroups->mounted[HIERARCHY_SYSTEMD].root || *cgroups->mounted[HIERARCHY_SYSTEMD].root ||
	    *cgroups->mounted[cgroup->hierarchy].root)
		return false;
	while (cgroup->path[at] && (!*name || has_suffix(name, ".slice"))) {
		end = component_end(cgroup->path, at);
		if (end - at - 1 > NAME_MAX)
			break;
		sprintf(component, "%.*s", (int)(end - at - 1), cgroup->path + at + 1);
		if (!is_unit_name(component) || (has_suffix(component, ".slice") && !is_slice_below(component, name)))
			break;
		above.path[at] = '\0';
		if (!cgroup_file_path(cgroups, &above, "", directory) || !is_roots_directory(directory))
			return false;
		strcpy(above.path, cgroup->path);
		strcpy(slice, name);
		strcpy(name, component);
		at = end;
	}
	*rest = cgroup->path + at;
	above.path[at] = '\0';
	if (!*name || !cgroup_file_path(cgroups, &above, "", directory))
		return false;
	return has_suffix(name, ".slice") ? !access(directory, F_OK) && !access(SYSTEMD_UNITS, F_OK) :
	       is_started_by_systemd(name, slice, directory);
}

enum manager find_manager(struct cgroups *cgroups, const struct cgroup *cgroup, char unit[NAME_MAX + 1])
{
	const char *rest;

	if (strstr(cgroup->path, "/kubepods"))
		return MANAGER_KUBERNETES;
	if (find_host_unit(cgroups, cgroup, unit, &rest) && !*rest)
		return MANAGER_SYSTEMD;
	return has_unit_suffix(cgroup->path) ? MANAGER_UNKNOWN : MANAGER_NONE;
}
