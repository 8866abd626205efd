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
#include <stdlib.h>
#include <string.h>

#include "identity.h"
#include "identity_reader.h"
#include "utf8.h"

/*
 * Store as many whole characters of a text of len bytes as fit; "..." as one character shows that the
 * rest was cut off. More bytes or a 0 follow the text.
 */
static void put_part(char *to, size_t size, const char *from, size_t len)
{
	static const char replacement[] = "\357\277\275";	/* U+FFFD */
	static const char mark[] = UTF8_ELLIPSIS;
	size_t i, n = 0, whole = 0, bytes;

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
		if (n + put_bytes >= size) {
			strcpy(to + whole, mark);
			return;
		}
		memcpy(to + n, put, put_bytes);
		n += put_bytes;
		if (n + sizeof(mark) <= size)
			whole = n;
	}
	to[n] = '\0';
}

#define PUT(to, from, len)	put_part(to, sizeof(to), from, len)

/* Longer than any text of an identity or a socket's path, so put_part() cuts off the rest */
#define VALUE_SIZE	512

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

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Store VALUE of key=VALUE in a list with commas, in which ",," is a comma. */
static bool list_value(const char *list, const char *key, char *to, size_t size)
{
	const size_t len = strlen(key);
	char value[VALUE_SIZE];
	size_t n;

	while (*list) {
		bool found = !*key || (!strncmp(list, key, len) && list[len] == '=');

		if (found && *key)
			list += len + 1;
		for (n = 0; *list; list++) {
			if (*list == ',' && *++list != ',')
				break;
			if (found && n + 1 < sizeof(value))
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
	/* The first value needs no key. */
	list_value(list, list[strcspn(list, ",=")] == '=' ? "guest" : "", identity->name,
		   sizeof(identity->name));
}

static void qemu(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;
	char uuid[64] = "";
	bool named = false;

	while ((arg = next_arg(args))) {
		/* QEMU takes one dash or two */
		if (arg[0] == '-' && arg[1] == '-')
			arg++;
		if (!strcmp(arg, "-name") && (value = next_arg(args))) {
			qemu_name(value, identity);
			named = *identity->name;
		} else if (!named && ((!strcmp(arg, "-avd") && (value = next_arg(args))) ||
				      (*arg == '@' && (value = arg + 1)))) {
			/* Android's emulator: -avd NAME or @NAME */
			PUT(identity->name, value, strlen(value));
		} else if (!strcmp(arg, "-uuid") && (value = next_arg(args))) {
			put_uuid(identity->uuid, value, strlen(value));
		} else if (!strcmp(arg, "-smbios") && (value = next_arg(args)) &&
			   !*identity->uuid && list_value(value, "uuid", uuid, sizeof(uuid))) {
			put_uuid(identity->uuid, uuid, strlen(uuid));
		}
	}
}

/* Return true if all VMs can share the last directory of a path with len bytes. */
static bool is_common_directory(const char *path, size_t len)
{
	static const char *const common[] = { "run", "tmp", "var", "root", "home", "etc", "shm" };
	size_t i, start = len;

	while (start && path[start - 1] != '/')
		start--;
	for (i = 0; i < sizeof(common) / sizeof(*common); i++) {
		if (len - start == strlen(common[i]) && !strncmp(path + start, common[i], len - start))
			return true;
	}
	return start == len;
}

/*
 * A VMM without names is known by its socket or its configuration: NAME.sock, NAME-socket,
 * NAME.json, or NAME/ with a file in it that all of them call the same.
 */
static void file_name(const char *path, struct kvmstats_identity *identity)
{
	static const char *const same[] = {
		"api", "ch", "ch-api", "clh", "clh-api", "cloud-hypervisor", "config", "control",
		"crosvm", "fc", "firecracker", "firecracker-api", "qmp", "vm", "vm-config", "vm_config",
		"vmconfig",
	};
	static const char *const ends[] = { ".sock", ".socket", ".json", "-socket", "-api" };
	const char *name = last_component(path);
	size_t i, len = strlen(name), end, directory;

	for (i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		end = strlen(ends[i]);
		if (len > end && !strncmp(name + len - end, ends[i], end))
			len -= end;
	}
	for (i = 0; i < sizeof(same) / sizeof(*same); i++) {
		if (len != strlen(same[i]) || strncmp(name, same[i], len))
			continue;
		directory = name - path > 1 ? name - path - 1 : 0;
		if (is_common_directory(path, directory))
			return;
		for (name = path + directory; name > path && name[-1] != '/'; name--)
			;
		len = path + directory - name;
		break;
	}
	PUT(identity->name, name, len);
}

static void firecracker(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value, *config = NULL, *socket = NULL;

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--id")))
			PUT(identity->name, value, strlen(value));
		else if ((value = option(args, arg, "--api-sock")))
			socket = value;
		else if ((value = option(args, arg, "--config-file")))
			config = value;
	}
	if (!*identity->name && socket)
		file_name(socket, identity);
	if (!*identity->name && config)
		file_name(config, identity);
}

/* A gVisor sandbox: runsc-sandbox --root=... boot --bundle=... ID */
static void runsc(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *last = NULL;
	bool boots = false;

	while ((arg = next_arg(args))) {
		if (*arg != '-')
			last = boots ? arg : NULL;
		boots |= !strcmp(arg, "boot");
	}
	if (last)
		PUT(identity->name, last, strlen(last));
}

static void cloud_hypervisor(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;
	char text[VALUE_SIZE];

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--api-socket"))) {
			if (list_value(value, "path", text, sizeof(text)))
				value = text;
			else if (!strncmp(value, "fd=", 3))
				continue;
			file_name(value, identity);
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
				file_name(value, identity);
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

/* VirtualBox on KVM: VBoxHeadless --comment NAME --startvm UUID */
static void virtualbox(struct args *args, struct kvmstats_identity *identity)
{
	const char *arg, *value;

	while ((arg = next_arg(args))) {
		if ((value = option(args, arg, "--comment")))
			PUT(identity->name, value, strlen(value));
		else if ((value = option(args, arg, "--startvm")))
			put_uuid(identity->uuid, value, strlen(value));
	}
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_virtualbox(const char *program)
{
	return starts(program, "VBoxHeadless") || starts(program, "VirtualBoxVM") || starts(program, "VBoxSDL");
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
		"qemu", "firecracker", "cloud-hypervisor", "crosvm", "kvmtool", "runsc", "virtualbox", "stratovirt",
	};
	unsigned int i;

	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (!strcmp(identity->vmm, known[i]))
			return true;
	}
	return false;
}

static bool is_vmm_program(const char *program)
{
	static const char *const beginnings[] = { "firecracker", "cloud-hypervis", "crosvm", "runsc" };
	static const char *const names[] = { "lkvm", "kvmtool", "lkvm-static" };
	size_t i;

	for (i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++) {
		if (starts(program, beginnings[i]))
			return true;
	}
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(program, names[i]))
			return true;
	}
	return is_qemu(program) || is_virtualbox(program) || !strcmp(program, "stratovirt");
}

/* NixOS runs a program as .NAME-wrapped, from a script. */
static const char *skip_dot(const char *program)
{
	return program + (*program == '.');
}

/* Return the name of the program, for a VM that has none. */
static const char *from_cmdline(const char *comm, const char *cmdline, size_t size,
				pid_t pid, struct kvmstats_identity *identity)
{
	struct args args = { cmdline, cmdline + size };
	const char *first = next_arg(&args);
	const char *program = last_component(first ? first : comm);
	const char *shown = comm;

	/*
	 * The kernel cuts a command off after 15 characters, and a program that executes
	 * /proc/self/exe or a file descriptor has the command "exe" or a number.
	 */
	if (first && (starts(program, comm) || !strcmp(comm, "exe") ||
		      !comm[strspn(comm, "0123456789")]))
		shown = program;
	program = skip_dot(program);
	/* "exec -a NAME": the command is the file's name. */
	if (!is_vmm_program(program) && is_vmm_program(skip_dot(comm))) {
		shown = program;
		program = skip_dot(comm);
	}
	if (is_qemu(program)) {
		strcpy(identity->vmm, "qemu");
		qemu(&args, identity);
	} else if (!strcmp(program, "stratovirt")) {
		/* StratoVirt has QEMU's options. */
		strcpy(identity->vmm, "stratovirt");
		qemu(&args, identity);
	} else if (is_virtualbox(program)) {
		strcpy(identity->vmm, "virtualbox");
		virtualbox(&args, identity);
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
	} else if (starts(program, "runsc")) {
		strcpy(identity->vmm, "runsc");
		runsc(&args, identity);
	} else {
		PUT(identity->vmm, shown, strlen(shown));
	}
	return shown;
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

	for (p.text = path; p.text < end && place != OUTSIDE; p.text += p.len + 1) {
		p.len = strcspn(p.text, "/\n");
		/* We are in a cgroup namespace, as in a pod. */
		if (is(&p, ".."))
			place = PARENT;
		else if (p.len)
			place = parse_part(place, &p, identity);
	}
}

static bool put_cgroup_path(struct kvmstats_identity *identity, const char *path, size_t len)
{
	/* Each byte may be replaced by a character of three. */
	const size_t size = 3 * len + 1;
	char *text = malloc(size);
	bool set;

	if (!text)
		return false;
	put_part(text, size, path, len);
	set = identity_set_cgroup(identity, text, strlen(text));
	free(text);
	return set;
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

/* Lines "0::PATH" (v2) and "NUMBER:CONTROLLERS:PATH" (v1). Return false if out of memory. */
static bool from_cgroups(const char *text, struct kvmstats_identity *identity)
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
	if (!best)
		return true;
	from_cgroup(best, best_len, identity);
	if (is_kata_overhead(best))
		from_kata_threads(text, identity);
	return put_cgroup_path(identity, best, best_len);
}

void identity_set_name(struct kvmstats_identity *identity, const char *name)
{
	PUT(identity->name, name, strlen(name));
}

bool identity_from_proc(const char *comm, const char *cmdline, size_t size,
			const char *cgroups, pid_t pid, struct kvmstats_identity *identity)
{
	const char *program, *name;
	size_t len;

	memset(identity, 0, sizeof(*identity));
	if (!from_cgroups(cgroups, identity))
		return false;
	program = from_cmdline(comm, cmdline, size, pid, identity);
	/* A QEMU of libvirt without a name on its command line: it is in qemu-N-NAME. */
	if (!*identity->name && starts(identity->machine, "qemu-")) {
		name = strchr(identity->machine + 5, '-');
		if (name)
			PUT(identity->name, name + 1, strlen(name + 1));
	}
	if (!*identity->name) {
		PUT(identity->name, program, strlen(program));
		len = strlen(identity->name);
		/* A name may be in the rest of the command line. */
		if (size >= CMDLINE_MAX - 1 && len + sizeof(UTF8_ELLIPSIS) <= sizeof(identity->name))
			strcpy(identity->name + len, UTF8_ELLIPSIS);
	}
	if (starts(identity->machine, "qemu-"))
		strcpy(identity->domain, identity->name);
	return true;
}
