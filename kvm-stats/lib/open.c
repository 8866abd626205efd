// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which source is used, and which could be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"
#include "recorded.h"
#include "uevent.h"

static const struct source_ops *find_source(unsigned int i)
{
	unsigned int n;

	for (n = 0; source_list[n]; n++) {
		if (n == i)
			return source_list[n];
	}
	return NULL;
}

static int open_proc(const char *proc)
{
	int fd = open(proc ? proc : "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_source(struct kvmstats *k, const struct source_ops *source,
		       struct kvmstats_probe *probe)
{
	int ret;

	memset(probe, 0, sizeof(*probe));
	probe->name = source->name;
	probe->what = source->what;
	ret = source->open(k, &k->state, probe);
	probe->works = !ret;
	if (!ret)
		k->source = source;
	return ret;
}

/* The best that works; if it is not the first, why those before it do not. */
int source_choose(struct kvmstats *k)
{
	const struct source_ops *source;
	struct kvmstats_probe probe;
	unsigned int i;
	size_t len = 0;
	int ret = *k->only ? -EINVAL : -ENODEV;

	k->source_why[0] = '\0';
	for (i = 0; (source = find_source(i)); i++) {
		if (*k->only && strcmp(k->only, source->name))
			continue;
		if (!open_source(k, source, &probe))
			return 0;
		ret = -ENODEV;
		if (len < sizeof(k->source_why))
			len += snprintf(k->source_why + len, sizeof(k->source_why) - len,
					"%s%s: %s", len ? "; " : "", source->name, probe.why);
	}
	return ret;
}

/* Whether a source works that is before the one in use */
static bool better_works(const struct kvmstats *k)
{
	const struct source_ops *source;
	struct kvmstats_probe probe;
	unsigned int i;

	for (i = 0; !*k->only && (source = find_source(i)) && source != k->source; i++) {
		if (!probe_source(i, k->proc_path, &probe) && probe.works)
			return true;
	}
	return false;
}

static void close_source(struct kvmstats *k)
{
	if (k->source)
		k->source->close(k, k->state);
	k->source = NULL;
	k->state = NULL;
}

/*
 * Return a number that identifies the loaded KVM, which changes when the module is reloaded.
 * The device node does not identify it: other nodes and permissions lead to the same KVM.
 */
static uint64_t which_kvm(void)
{
	struct stat module;

	return stat("/sys/module/kvm", &module) ? 0 : module.st_ino;
}

/*
 * Return a number that changes with the permissions of /dev/kvm: udev sets them shortly after
 * the device appears, and a better source may work then.
 */
static uint64_t which_permissions(void)
{
	struct stat device;

	if (stat("/dev/kvm", &device))
		return 0;
	return (uint64_t)device.st_mode << 32 ^ device.st_gid;
}

/* Seconds after which a better source than the one in use is tried */
#define SOURCE_RETRY_S	60

void source_look(struct kvmstats *k, bool failed)
{
	const char *before = kvmstats_source(k);
	uint64_t kvm = which_kvm(), permissions = which_permissions();
	bool due = k->source != source_list[0] && k->looked &&
		   (k->sampled - k->looked >= SOURCE_RETRY_S * 1000000000ULL ||
		    permissions != k->permissions);

	k->permissions = permissions;
	if (k->source && kvm == k->kvm && !failed) {
		if (!due)
			return;
		k->looked = k->sampled;
		if (!better_works(k))
			return;
	}
	k->kvm = kvm;
	k->looked = 0;
	close_source(k);
	/* Tables, addresses and VM ids of another source differ. */
	core_forget_all(k);
	source_choose(k);
	k->changes += strcmp(before, "none") || k->source;
}

int kvmstats_open(struct kvmstats **opened, const char *source, const char *proc, unsigned int flags)
{
	struct kvmstats *k;
	int ret;

	/* A program that was built with a newer header may ask for more than is supported. */
	if (flags & ~KVMSTATS_WAIT)
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->why = "";
	k->wait = flags & KVMSTATS_WAIT;
	snprintf(k->proc_path, sizeof(k->proc_path), "%s", proc ? proc : "/proc");
	k->kvm = which_kvm();
	k->permissions = which_permissions();
	k->proc = open_proc(proc);
	readers_open(&k->readers, k->proc);
	ret = k->proc < 0 ? k->proc : 0;
	if (!ret && source)
		ret = snprintf(k->only, sizeof(k->only), "%s", source) <
		      (int)sizeof(k->only) ? 0 : -EINVAL;
	k->events = uevent_count_open();
	if (!ret)
		ret = source_choose(k);
	uevent_count_restart(k->events);
	if (ret == -ENODEV && k->wait)
		ret = 0;
	if (ret)
		kvmstats_close(k);
	else
		*opened = k;
	return ret;
}

void source_note(struct kvmstats *k)
{
	if (k->source && k->source->note)
		k->source->note(k->state);
}

int source_open(struct kvmstats **opened, const struct source_ops *source, void *state)
{
	struct kvmstats *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->why = "";
	k->recorded = true;
	k->proc = -1;
	k->source = source;
	k->state = state;
	*opened = k;
	return 0;
}

void source_replace(struct kvmstats *k, const struct source_ops *source, void *state)
{
	unsigned int i, j;

	snprintf(k->recorded_source, sizeof(k->recorded_source), "%s", kvmstats_source(k));
	close_source(k);
	uevent_count_close(k->events);
	k->events = NULL;
	k->proc = -1;
	/* The readers of the parent continue. */
	readers_open(&k->readers, -1);
	for (i = 0; i < k->vms; i++) {
		struct core_vm *vm = k->vm[i];

		/* The source has labels, and reports who hides. */
		vm->hidden = false;
		for (j = 0; j < vm->vcpus; j++)
			core_vcpu_close(vm->vcpu[j]);
	}
	k->recorded = true;
	k->source = source;
	k->state = state;
}

void kvmstats_close(struct kvmstats *k)
{
	if (!k)
		return;
	close_source(k);
	core_forget_all(k);
	readers_close(&k->readers);
	uevent_count_close(k->events);
	free(k->vm);
	free(k->threads);
	if (k->proc >= 0)
		close(k->proc);
	free(k);
}

int probe_source(unsigned int i, const char *proc, struct kvmstats_probe *probe)
{
	const struct source_ops *source = find_source(i);
	struct kvmstats *k = calloc(1, sizeof(*k));
	int ret = 0;

	if (!k)
		return -ENOMEM;
	k->proc = open_proc(proc);
	if (!source)
		ret = -ENOENT;
	else if (k->proc < 0)
		ret = k->proc;
	/* A source that does not work is a result, not an error. */
	else
		open_source(k, source, probe);
	kvmstats_close(k);
	return ret;
}

const char *kvmstats_source(const struct kvmstats *k)
{
	if (k->recorded)
		return k->recorded_source;
	return k->source ? k->source->name : "none";
}
