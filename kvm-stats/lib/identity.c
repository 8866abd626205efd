// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Identity of a VM, from the command line of its VMM and the cgroups that a manager of VMs
 * created. Other users choose these texts, so they can contain anything: the result is
 * valid UTF-8 and fits, but may contain terminal escapes. Output functions must escape
 * them.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "identity.h"

#define TEXT_MAX	32768

/* Return the size of the first character of text, 0 if it is not UTF-8. */
static size_t character(const char *text, size_t len)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t i, n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;

	if (c[0] < 0x80)
		return 1;
	if (c[0] < 0xc2 || c[0] >= 0xf5 || n > len ||
	    (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
	    (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90))
		return 0;
	for (i = 1; i < n; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

/* A text of len bytes, as many whole characters of it as there is room for. */
static void put_part(char *to, size_t size, const char *from, size_t len)
{
	static const char replacement[] = "\357\277\275";	/* U+FFFD */
	size_t i, n = 0, bytes;

	for (i = 0; i < len; i += bytes ? bytes : 1) {
		const char *put = from + i;
		size_t put_bytes;

		bytes = character(put, len - i);
		put_bytes = bytes;
		if (!bytes) {
			put = replacement;
			put_bytes = 3;
		}
		if (n + put_bytes >= size)
			break;
		memcpy(to + n, put, put_bytes);
		n += put_bytes;
	}
	to[n] = '\0';
}

#define PUT(to, from, len)	put_part(to, sizeof(to), from, len)

static void put_uuid(char to[37], const char *from, size_t len)
{
	size_t i;

	if (len != 36)
		return;
	for (i = 0; i < len; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? from[i] != '-' && from[i] != '_' :
			   !isxdigit((unsigned char)from[i]))
			return;
	}
	for (i = 0; i < len; i++)
		to[i] = from[i] == '_' ? '-' : tolower((unsigned char)from[i]);
	to[i] = '\0';
}

struct args {
	const char *at, *end;
};

static const char *next_arg(struct args *args)
{
	const char *arg = args->at;

	if (arg >= args->end)
		return NULL;
	args->at += strlen(arg) + 1;
	return arg;
}

/* The value of "--name VALUE" or "--name=VALUE", if arg is that. */
static const char *option(struct args *args, const char *arg, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(arg, name, len))
		return NULL;
	if (arg[len] == '=')
		return arg + len + 1;
	return arg[len] ? NULL : next_arg(args);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* key=VALUE of a list with commas, in which ",," is a comma. */
static bool list_value(const char *list, const char *key, char *to, size_t size)
{
	size_t len = strlen(key), n;

	while (*list) {
		bool found = !strncmp(list, key, len) && list[len] == '=';
		char value[512];

		if (found)
			list += len + 1;
		for (n = 0; *list; list++) {
			if (*list == ',' && *++list != ',')
				break;
			if (n < sizeof(value))
				value[n++] = *list;
		}
		if (found) {
			put_part(to, size, value, n);
			return true;
		}
	}
	return false;
}

/* -name demo,debug-threads=on or -name guest=demo,... */
static void qemu_name(const char *list, struct kvmstats_identity *identity)
{
	size_t len = strcspn(list, ",=");

	if (list[len] == '=') {
		list_value(list, "guest", identity->name, sizeof(identity->name));
		return;
	}
	/* the first value needs no key: give it one */
	if (*list) {
		char copy[512];

		snprintf(copy, sizeof(copy), "guest=%s", list);
		list_value(copy, "guest", identity->name, sizeof(identity->name));
	}
}

static void qemu(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;
	char uuid[64] = "";

	while ((arg = next_arg(args))) {
		/* QEMU takes one dash or two */
		if (arg[0] == '-' && arg[1] == '-')
			arg++;
		if (!strcmp(arg, "-name") && (value = next_arg(args)))
			qemu_name(value, identity);
		else if (!strcmp(arg, "-uuid") && (value = next_arg(args)))
			put_uuid(identity->uuid, value, strlen(value));
		else if (!strcmp(arg, "-smbios") && (value = next_arg(args)) &&
			 !*identity->uuid && list_value(value, "uuid", uuid, sizeof(uuid)))
			put_uuid(identity->uuid, uuid, strlen(uuid));
	}
}

static void firecracker(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;

	while ((arg = next_arg(args))) {
		value = option(args, arg, "--id");
		if (value)
			PUT(identity->name, value, strlen(value));
	}
}

/*
 * A VMM without names is known by its socket: NAME.sock, NAME-socket, or NAME/
 * with a file in it that all of them call the same.
 */
static void socket_name(const char *path, struct kvmstats_identity *identity)
{
	static const char * const same[] = {
		"clh-api.sock", "clh.sock", "ch.sock", "api.sock",
		"cloud-hypervisor.sock", "crosvm.sock", "control.sock",
	};
	static const char * const ends[] = { ".sock", ".socket", "-socket", "-api" };
	const char *name = base_name(path);
	size_t i, len = strlen(name), end;

	for (i = 0; i < sizeof(same) / sizeof(*same); i++) {
		if (strcmp(name, same[i]) || name - path < 2)
			continue;
		len = name - path - 1;
		for (name--; name > path && name[-1] != '/'; name--)
			;
		PUT(identity->name, name, path + len - name);
		return;
	}
	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		end = strlen(ends[i]);
		if (len > end && !strcmp(name + len - end, ends[i]))
			len -= end;
	}
	PUT(identity->name, name, len);
}

static void cloud_hypervisor(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;
	char text[256];

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--api-socket"))) {
			if (list_value(value, "path", text, sizeof(text)))
				value = text;
			else if (!strncmp(value, "fd=", 3))
				continue;
			socket_name(value, identity);
		} else if ((value = option(args, arg, "--platform"))) {
			if (list_value(value, "uuid", text, sizeof(text)))
				put_uuid(identity->uuid, text, strlen(text));
		}
	}
}

static void crosvm(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;
	bool named = false;

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--name"))) {
			PUT(identity->name, value, strlen(value));
			named = true;
		} else if ((value = option(args, arg, "--socket")) ||
			   (value = option(args, arg, "-s"))) {
			if (!named)
				socket_name(value, identity);
		}
	}
}

static void kvmtool(struct args *args, pid_t pid, struct kvmstats_identity *identity)
{
	const char *arg, *value;

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--name")) ||
		    (value = option(args, arg, "-n")))
			PUT(identity->name, value, strlen(value));
	}
	/* the name that it gives itself, see "lkvm list" */
	if (!*identity->name && pid)
		snprintf(identity->name, sizeof(identity->name), "guest-%d", pid);
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_qemu(const char *program)
{
	/* "kvm": Debian's and Proxmox' link to it */
	return starts(program, "qemu-system-") || !strcmp(program, "qemu-kvm") ||
	       !strcmp(program, "kvm") || !strcmp(program, "qemu");
}

bool identity_is_vmm(const struct kvmstats_identity *identity)
{
	static const char *const known[] = {
		"qemu", "firecracker", "cloud-hypervisor", "crosvm", "kvmtool",
	};
	unsigned int i;

	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (!strcmp(identity->vmm, known[i]))
			return true;
	}
	return false;
}

static void from_cmdline(const char *comm, const char *cmdline, size_t size,
			 pid_t pid, struct kvmstats_identity *identity)
{
	struct args args = { cmdline, cmdline + size };
	const char *first = next_arg(&args);
	const char *program = base_name(first ? first : comm);

	if (is_qemu(program)) {
		strcpy(identity->vmm, "qemu");
		qemu(&args, identity);
	} else if (starts(program, "firecracker")) {
		strcpy(identity->vmm, "firecracker");
		firecracker(&args, identity);
	} else if (starts(program, "cloud-hypervis")) {
		strcpy(identity->vmm, "cloud-hypervisor");
		cloud_hypervisor(&args, identity);
	} else if (starts(program, "crosvm")) {
		strcpy(identity->vmm, "crosvm");
		crosvm(&args, identity);
	} else if (!strcmp(program, "lkvm") || !strcmp(program, "kvmtool") ||
		   !strcmp(program, "lkvm-static")) {
		strcpy(identity->vmm, "kvmtool");
		kvmtool(&args, pid, identity);
	} else {
		PUT(identity->vmm, comm, strlen(comm));
	}
	if (!*identity->name)
		PUT(identity->name, comm, strlen(comm));
}

/* systemd writes "-" in the name of a unit as "\x2d". */
static size_t unescape(const char *from, size_t len, char *to, size_t size)
{
	unsigned int c;
	size_t i, n = 0;

	for (i = 0; i < len && n + 1 < size; i++) {
		if (from[i] == '\\' && i + 3 < len && from[i + 1] == 'x' &&
		    sscanf(from + i + 2, "%2x", &c) == 1) {
			to[n++] = c;
			i += 3;
		} else {
			to[n++] = from[i];
		}
	}
	to[n] = '\0';
	return n;
}

static bool is_hex(const char *text, size_t len)
{
	while (len--) {
		if (!isxdigit((unsigned char)text[len]))
			return false;
	}
	return true;
}

static size_t without(const char *part, size_t len, const char *suffix)
{
	size_t end = strlen(suffix);

	return len > end && !strncmp(part + len - end, suffix, end) ? len - end : len;
}

/* Parse one directory in the path of a cgroup. */
static void from_cgroup_part(const char *part, size_t len, bool in_qemu_slice,
			     struct kvmstats_identity *identity)
{
	size_t end = without(part, len, ".scope"), i;
	const char *pod = NULL, *dash;
	char text[256];

	/* machine-qemu\x2d1\x2ddemo.scope */
	if (end < len && starts(part, "machine-")) {
		i = unescape(part + 8, end - 8, text, sizeof(text));
		PUT(identity->machine, text, i);
		return;
	}
	/* libvirt without systemd-machined: qemu-1-demo.libvirt-qemu */
	if (without(part, len, ".libvirt-qemu") < len) {
		PUT(identity->machine, part, without(part, len, ".libvirt-qemu"));
		return;
	}
	/* Proxmox: qemu.slice/100.scope */
	if (in_qemu_slice && end < len) {
		PUT(identity->machine, part, end);
		return;
	}
	/* kubepods-burstable-pod01234567_89ab_....slice, or pod01234567-89ab-... */
	end = without(part, len, ".slice");
	if (end >= 39 && !strncmp(part + end - 39, "pod", 3) &&
	    (end == 39 || part[end - 40] == '-'))
		pod = part + end - 36;
	if (pod) {
		put_uuid(identity->pod_uid, pod, 36);
		return;
	}
	/* cri-containerd-ID.scope, docker-ID.scope, libpod-ID.scope, or ID */
	end = without(part, len, ".scope");
	for (i = end; i && part[i - 1] != '-' && part[i - 1] != ':'; i--)
		;
	dash = part + i;
	if (end - i == 64 && is_hex(dash, 64))
		PUT(identity->container_id, dash, 64);
}

static void from_cgroup(const char *path, size_t len, struct kvmstats_identity *identity)
{
	const char *part = path, *end = path + len, *slash;
	bool in_qemu_slice = false;

	PUT(identity->cgroup, path, len);
	while (part < end) {
		slash = memchr(part, '/', end - part);
		if (!slash)
			slash = end;
		if (slash > part)
			from_cgroup_part(part, slash - part, in_qemu_slice, identity);
		in_qemu_slice = slash - part == 10 && starts(part, "qemu.slice");
		part = slash + 1;
	}
}

/* Lines "0::PATH" (v2) and "NUMBER:CONTROLLERS:PATH" (v1). */
static void from_cgroups(const char *text, struct kvmstats_identity *identity)
{
	const char *line, *end, *names, *path, *best = NULL;
	size_t best_len = 0;

	for (line = text; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		names = memchr(line, ':', end - line);
		path = names ? memchr(names + 1, ':', end - names - 1) : NULL;
		if (!path)
			continue;
		path++;
		/* v2, where it says something; with v1, what limits memory */
		if ((!strncmp(line, "0::", 3) && end - path > 1) ||
		    (!best && !strncmp(names + 1, "memory:", 7))) {
			best = path;
			best_len = end - path;
		}
	}
	if (best)
		from_cgroup(best, best_len, identity);
}

static void identify(const char *comm, const char *cmdline, size_t size,
		     const char *cgroups, pid_t pid, struct kvmstats_identity *identity)
{
	const char *name;

	memset(identity, 0, sizeof(*identity));
	from_cgroups(cgroups, identity);
	from_cmdline(comm, cmdline, size, pid, identity);
	/* A QEMU of libvirt that says no name: it is in qemu-N-NAME. */
	if (!strcmp(identity->name, comm) && starts(identity->machine, "qemu-")) {
		name = strchr(identity->machine + 5, '-');
		if (name && name[1])
			PUT(identity->name, name + 1, strlen(name + 1));
	}
	if (starts(identity->machine, "qemu-"))
		strcpy(identity->domain, identity->name);
}

void identity_set_name(struct kvmstats_identity *identity, const char *name)
{
	PUT(identity->name, name, strlen(name));
}

void identity_from_proc(const char *comm, const char *cmdline, size_t size,
	      const char *cgroups, struct kvmstats_identity *identity)
{
	identify(comm, cmdline, size, cgroups, 0, identity);
}

static size_t read_text(int proc, pid_t pid, const char *file, char *buf, size_t size)
{
	char path[48];
	size_t len = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%d/%s", pid, file);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while (len + 1 < size && (n = read(fd, buf + len, size - 1 - len)) > 0)
			len += n;
		close(fd);
	}
	buf[len] = '\0';
	return len;
}

void identity_read(int proc, pid_t pid, struct kvmstats_identity *identity)
{
	char comm[32], cmdline[TEXT_MAX], cgroups[4096], *newline;
	size_t size;

	read_text(proc, pid, "comm", comm, sizeof(comm));
	/* the last one: a process may have others in its name */
	newline = strrchr(comm, '\n');
	if (newline)
		*newline = '\0';
	size = read_text(proc, pid, "cmdline", cmdline, sizeof(cmdline));
	read_text(proc, pid, "cgroup", cgroups, sizeof(cgroups));
	identify(comm, cmdline, size, cgroups, pid, identity);
}
