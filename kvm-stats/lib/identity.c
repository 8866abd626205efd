// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Identity of a VM, from the command line of its VMM and the cgroups that a manager of VMs
 * created. Other users choose these texts, so they can contain anything: the result is
 * valid UTF-8 and fits, but may contain terminal escapes. Output functions must escape
 * them.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "identity.h"
#include "utf8.h"

/*
 * Store as many whole characters of a text of len bytes as fit. More bytes or a 0 follow the text.
 */
static void put_part(char *to, size_t size, const char *from, size_t len)
{
	static const char replacement[] = "\357\277\275";	/* U+FFFD */
	size_t i, n = 0, bytes;

	for (i = 0; i < len; i += bytes ? bytes : 1) {
		const char *put = from + i;
		size_t put_bytes;

		bytes = utf8_length(put);
		if (bytes > len - i)
			bytes = 0;
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
		char value[512 + 1];

		if (found)
			list += len + 1;
		for (n = 0; *list; list++) {
			if (*list == ',' && *++list != ',')
				break;
			if (n + 1 < sizeof(value))
				value[n++] = *list;
		}
		if (found) {
			value[n] = '\0';
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
static size_t unescape_unit(const char *from, size_t len, char *to, size_t size)
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

/* One directory in the path of a cgroup */
struct part {
	const char *text;
	size_t len;
};

static bool is(const struct part *p, const char *text)
{
	return p->len == strlen(text) && !strncmp(p->text, text, p->len);
}

static bool ends(const struct part *p, const char *with)
{
	return without(p->text, p->len, with) < p->len;
}

static bool is_one_of(const struct part *p, const char *const *names, size_t count)
{
	size_t i;

	for (i = 0; i < count && !is(p, names[i]); i++)
		;
	return i < count;
}

#define IS_ONE_OF(p, names)	is_one_of(p, names, sizeof(names) / sizeof(*(names)))

/* The directory that contains the one to parse: who creates directories in it is known. */
enum place {
	OUTSIDE,	/* any user, or the owner of a container or machine */
	TOP,		/* only the kubelet creates kubepods, anywhere in slices of the system */
	SYSTEM,		/* system.slice */
	RUNTIME,	/* the service of a container runtime */
	KUBEPODS,	/* the kubelet */
	CONTAINERS,	/* container runtimes */
	PARENT,		/* an ancestor of our cgroup: that of kubepods, kubepods, a QoS class or a pod */
	MACHINES,	/* libvirt and systemd-machined */
	PROXMOX,	/* qemu.slice */
};

/* cri-containerd-ID.scope, crio-ID, kata_ID, or ID; what is in it belongs to the container. */
static enum place parse_container(const struct part *p, struct kvmstats_identity *identity)
{
	static const char *const runtimes[] = {
		"", "cri-containerd-", "crio-", "docker-", "libpod-", "nerdctl-",
	};
	const size_t kata = p->len >= 5 && starts(p->text, "kata_") ? 5 : 0;
	const size_t end = without(p->text, p->len, ".scope");
	const struct part runtime = { p->text + kata, end < kata + 64 ? 0 : end - kata - 64 };

	if (end >= kata + 64 && is_hex(p->text + end - 64, 64) && IS_ONE_OF(&runtime, runtimes))
		PUT(identity->container_id, p->text + end - 64, 64);
	return OUTSIDE;
}

/*
 * kubepods; kubepods.slice; kubepods-burstable-podUID.slice, with a prefix if the kubelet has a
 * --cgroup-root; kubepods-...-podUID.slice:cri-containerd:ID of containerd without SystemdCgroup,
 * and with kata_ in Kata.
 */
static enum place parse_kubepods(const struct part *p, struct kvmstats_identity *identity)
{
	const char *colon = memchr(p->text, ':', p->len), *id = colon;
	const struct part slice = { p->text, colon ? (size_t)(colon - p->text) : p->len };
	const size_t end = without(slice.text, slice.len, ".slice");
	const char *name = memmem(slice.text, slice.len, "kubepods", 8), *pod = NULL;
	struct part container;

	if (is(p, "kubepods"))
		return KUBEPODS;
	if (!name || end == slice.len || (name > slice.text && !strchr("-_", name[-1])) ||
	    (name + 8 < slice.text + end && name[8] != '-'))
		return OUTSIDE;
	pod = memmem(name, slice.text + end - name, "-pod", 4);
	/* The UID of a static pod is a hash, which is not a UUID. */
	if (pod)
		put_uuid(identity->pod_uid, pod + 4, slice.text + end - pod - 4);
	if (!colon)
		return pod ? CONTAINERS : KUBEPODS;
	id = memrchr(colon, ':', p->text + p->len - colon) + 1;
	container = (struct part){ id, p->text + p->len - id };
	return parse_container(&container, identity);
}

/* burstable or podUID of the driver cgroupfs, or slices of the driver systemd */
static enum place parse_in_kubepods(const struct part *p, struct kvmstats_identity *identity)
{
	static const char *const classes[] = { "burstable", "besteffort" };

	if (IS_ONE_OF(p, classes))
		return KUBEPODS;
	if (p->len >= 35 && starts(p->text, "pod")) {
		put_uuid(identity->pod_uid, p->text + 3, p->len - 3);
		return CONTAINERS;
	}
	return parse_kubepods(p, identity);
}

/* machine-qemu\x2d1\x2ddemo.scope, or qemu-1-demo.libvirt-qemu without systemd-machined */
static enum place parse_machine(const struct part *p, struct kvmstats_identity *identity)
{
	const size_t end = without(p->text, p->len, ".scope");
	char text[256];

	/* partitions of libvirt */
	if (ends(p, ".partition") || (ends(p, ".slice") && starts(p->text, "machine-")))
		return MACHINES;
	if (end < p->len && starts(p->text, "machine-"))
		PUT(identity->machine, text, unescape_unit(p->text + 8, end - 8, text, sizeof(text)));
	else if (ends(p, ".libvirt-qemu"))
		PUT(identity->machine, p->text, without(p->text, p->len, ".libvirt-qemu"));
	else
		return parse_container(p, identity);	/* podman */
	return OUTSIDE;
}

static enum place parse_top(const struct part *p, struct kvmstats_identity *identity)
{
	static const char *const machines[] = { "machine", "machine.slice" };
	static const char *const containers[] = { "default", "docker", "k8s.io", "kata" };
	enum place place = parse_kubepods(p, identity);

	if (place != OUTSIDE || *identity->container_id)
		return place;
	if (IS_ONE_OF(p, machines))
		return MACHINES;
	if (IS_ONE_OF(p, containers))
		return CONTAINERS;
	if (is(p, "qemu.slice"))
		return PROXMOX;
	if (is(p, "system.slice"))
		return SYSTEM;
	/* Users have user.slice for themselves; all other slices at the top are root's. */
	return is(p, "kubelet") || (ends(p, ".slice") && !is(p, "user.slice")) ? TOP : OUTSIDE;
}

static enum place parse_part(enum place place, const struct part *p,
			     struct kvmstats_identity *identity)
{
	static const char *const runtimes[] = {
		"containerd.service", "crio.service", "docker.service", "k3s-agent.service",
		"k3s.service", "kubelet.service", "rke2-agent.service", "rke2-server.service",
	};

	switch (place) {
	case TOP:
		/* Kata: what is not a vCPU, by ID or by the whole path of the container */
		return is(p, "kata_overhead") ? RUNTIME : parse_top(p, identity);
	case SYSTEM:
		if (IS_ONE_OF(p, runtimes))
			return RUNTIME;
		/* fall through */
	case RUNTIME:
		place = parse_kubepods(p, identity);
		return place == OUTSIDE && !*identity->container_id ?
		       parse_container(p, identity) : place;
	case PARENT:
		place = parse_in_kubepods(p, identity);
		if (place == OUTSIDE && !*identity->container_id)
			place = parse_top(p, identity);
		return place == OUTSIDE && !*identity->container_id ?
		       parse_container(p, identity) : place;
	case KUBEPODS:
		return parse_in_kubepods(p, identity);
	case CONTAINERS:
		return parse_container(p, identity);
	case MACHINES:
		return parse_machine(p, identity);
	case PROXMOX:
		/* qemu.slice/100.scope */
		if (ends(p, ".scope"))
			PUT(identity->machine, p->text, p->len - strlen(".scope"));
		return OUTSIDE;
	default:
		return OUTSIDE;
	}
}

/*
 * Pod, container and machine, from directories that only their managers create: a user can create
 * others in a session, in a service or in a container, with any name.
 */
static void from_cgroup(const char *path, size_t len, struct kvmstats_identity *identity)
{
	const char *end = path + len;
	enum place place = TOP;
	struct part p;

	PUT(identity->cgroup, path, len);
	for (p.text = path; p.text < end && place != OUTSIDE; p.text += p.len + 1) {
		p.len = strcspn(p.text, "/\n");
		if (p.text + p.len > end)
			p.len = end - p.text;
		/* We are in a cgroup namespace, as in a pod. */
		if (is(&p, ".."))
			place = PARENT;
		else if (p.len)
			place = parse_part(place, &p, identity);
	}
}

/* Return true if Kata keeps only the vCPU threads of this process in the cgroup of its pod. */
static bool is_kata_overhead(const char *path)
{
	return starts(path, KATA_OVERHEAD);
}

/* Take pod and container from the first line that has a pod. */
static void from_kata_threads(const char *text, struct kvmstats_identity *identity)
{
	struct kvmstats_identity thread = { 0 };
	const char *line, *path;

	for (line = text; *line && !*thread.pod_uid; line += strcspn(line, "\n"), line += *line == '\n') {
		path = strstr(line, ":/");
		if (path)
			from_cgroup(path + 1, strcspn(path + 1, "\n"), &thread);
	}
	if (!*thread.pod_uid)
		return;
	strcpy(identity->pod_uid, thread.pod_uid);
	strcpy(identity->container_id, thread.container_id);
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
	if (is_kata_overhead(identity->cgroup))
		from_kata_threads(text, identity);
}

void identity_set_name(struct kvmstats_identity *identity, const char *name)
{
	PUT(identity->name, name, strlen(name));
}

void identity_from_proc(const char *comm, const char *cmdline, size_t size,
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
