// SPDX-License-Identifier: LGPL-2.1-or-later
/* Take a sample: ask the source, then compute what it does not report. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"
#include "identity.h"
#include "probe_vm.h"
#include "uevent.h"

#define PROBE_MAX_NS	1000000000ULL	/* time that a probe usually takes, by far */
#define START_MAX_NS	10000000000ULL	/* time that a program usually takes to start, by far */
#define PROBE_EXITS_MAX	1000		/* exits of a probe, by far */
#define PROBE_RUN_MAX_NS	200000000ULL	/* CPU time of one that leaves the guest all the time, by far */

/* Move vCPUs that were not reported to the end of the list: they can be added again. */
static void drop_vcpus(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i, n = 0;

	for (i = 0; i < vm->pub.vcpus; i++) {
		struct core_vcpu *vcpu = vm->vcpu[i];

		if (!vcpu->seen) {
			if (vcpu->summed)
				activity_drop(k, vm, vcpu);
			core_vcpu_close(vcpu);
			vcpu->files_tid = 0;
			continue;
		}
		/* Exchanging with a vCPU that was dropped keeps the order of the others. */
		vm->vcpu[i] = vm->vcpu[n];
		vm->vcpu[n++] = vcpu;
	}
	vm->pub.vcpus = n;
	for (i = 0; i < n; i++)
		vm->pub_vcpu[i] = &vm->vcpu[i]->pub;
	vm->pub.vcpu = vm->pub_vcpu;
}

/* Estimate when the VM was created, from the start of its process. */
static void estimate_start_time(const struct kvmstats *k, struct core_vm *vm)
{
	uint64_t now = read_clock(CLOCK_BOOTTIME);

	vm->started = vm->process_started;
	/* The process existed at the previous sample, but the VM did not. */
	if (vm->started && k->sampled_before && now - vm->started > k->sampled - k->sampled_before)
		vm->started = now;
}

/* The offset between the clocks drifts with NTP: change times only for a step. */
#define CLOCK_STEP_NS	1000000000LL

/* Start times follow a step of the clock, such as the first one of a host without an RTC. */
static void set_start_times(struct kvmstats *k)
{
	int64_t booted = read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
	unsigned int i;

	if (llabs(booted - k->booted) > CLOCK_STEP_NS)
		k->booted = booted;
	for (i = 0; i < k->vms; i++) {
		if (k->vm[i]->started)
			k->vm[i]->pub.identity.started = k->booted + k->vm[i]->started;
	}
}

/* Keep the values of a VM that has ended, or whose source failed. */
static void keep_last_values(struct kvmstats *k, struct core_vm *vm, bool ended)
{
	unsigned int i;

	vm->pub.first_sample = true;
	vm->pub.elapsed = 0;
	vm->pub.ended = ended;
	memset(&vm->pub.sum, 0, sizeof(vm->pub.sum));
	if (vm->growth)
		memset(vm->growth, 0, k->table[KVMSTATS_VCPU]->data_size);
	for (i = 0; i < vm->pub.vcpus; i++) {
		vm->vcpu[i]->pub.first_sample = true;
		memset(&vm->vcpu[i]->pub.last, 0, sizeof(vm->vcpu[i]->pub.last));
	}
}

/* Return true if a VM that was not reported exists as far as is known. */
static bool may_exist(const struct kvmstats *k, const struct core_vm *vm)
{
	return k->partial && (!kill(vm->pub.identity.pid, 0) || errno != ESRCH);
}

static void begin_sample(struct kvmstats *k)
{
	unsigned int i, j;

	k->problem[0] = '\0';
	k->why = "";
	k->unread = 0;
	k->partial = false;
	for (i = 0; i < KVMSTATS_REASONS; i++) {
		k->reason[i].count = 0;
		k->reason[i].why[0] = '\0';
	}
	k->self = getpid();
	k->sampled_before = k->sampled;
	k->sampled = core_now(k);
	for (i = 0; i < k->vms;) {
		struct core_vm *vm = k->vm[i];

		if (vm->pub.ended && k->sampled - vm->pub.ended_at >= k->keep) {
			core_forget(k, i);
			continue;
		}
		vm->seen = false;
		for (j = 0; j < vm->pub.vcpus; j++)
			vm->vcpu[j]->seen = false;
		i++;
	}
	k->cursor = 0;
}

/* The vCPU's thread was created since the previous sample. */
static bool is_newborn(const struct kvmstats *k, const struct core_vcpu *vcpu)
{
	return vcpu->pub.first_sample && k->sampled_before &&
	       vcpu->thread.born > k->sampled_before;
}

/* Return true if all vCPUs that have run are newborn. */
static bool is_newborn_vm(const struct kvmstats *k, const struct core_vm *vm)
{
	bool born = false;
	unsigned int i;

	for (i = 0; i < vm->pub.vcpus; i++) {
		if (is_newborn(k, vm->vcpu[i]))
			born = true;
		else if (vm->vcpu[i]->pub.tid || !vm->vcpu[i]->pub.first_sample)
			return false;
	}
	return born;
}

/* Count from the creation of VMs and vCPUs that were created since the previous sample. */
static void count_from_birth(const struct kvmstats *k, struct core_vm *vm)
{
	const bool first = vm->pub.first_sample;
	uint64_t age;
	unsigned int i;

	if (first && !is_newborn_vm(k, vm))
		return;
	vm->pub.first_sample = false;
	for (i = 0; i < vm->pub.vcpus; i++) {
		if (!is_newborn(k, vm->vcpu[i]))
			continue;
		age = growth_of(vm->pub.time, vm->vcpu[i]->thread.born);
		if (first && vm->pub.elapsed < age)
			vm->pub.elapsed = age;
		vm->vcpu[i]->pub.first_sample = false;
		times_begin_at_birth(vm->vcpu[i]);
	}
}

/* A vCPU that was unplugged does not belong to the VM any longer, even if its file exists. */
static void unplug_vcpus(struct core_vm *vm)
{
	unsigned int i;

	for (i = 0; i < vm->pub.vcpus && !vm->pub.ended; i++) {
		struct core_vcpu *vcpu = vm->vcpu[i];

		if (vcpu->thread_exited && (unchanged(vcpu) || vm->pub.first_sample))
			vcpu->seen = false;
	}
}

static void read_vcpu_threads(struct kvmstats *k, struct core_vm *vm)
{
	unsigned int i;

	if (vm->hidden && !vm->pub.ended)
		core_unread(k, KVMSTATS_HIDDEN, vm->has_identity ?
			    "process %d: /proc hides the identity of its VM" :
			    "process %d: it blocks reads of its command line in /proc, so the name of its VM is unknown",
			    vm->pub.identity.pid);
	for (i = 0; i < vm->pub.vcpus; i++) {
		if (vm->vcpu[i]->seen && !vm->vcpu[i]->thread_given)
			thread_read(k, vm, vm->vcpu[i]);
	}
	unplug_vcpus(vm);
	drop_vcpus(k, vm);
}

static void update_vm(struct kvmstats *k, struct core_vm *vm)
{
	count_from_birth(k, vm);
	activity_update(k, vm);
}

/* The check of blame has many exits, and little CPU time since the VM was created. */
static bool has_probe_exits(const struct kvmstats *k, const struct core_vm *vm)
{
	const struct kvmstats_desc *desc = kvmstats_find(k->table[KVMSTATS_VCPU], "exits");
	const struct kvmstats_times *times = &vm->vcpu[0]->pub.times;

	if (!desc || kvmstats_value(desc, vm->vcpu[0]->now, 0) <= PROBE_EXITS_MAX)
		return true;
	return times->known & 1 << KVMSTATS_RUN &&
	       times->mode[KVMSTATS_RUN] + times->mode[KVMSTATS_POLL] <= PROBE_RUN_MAX_NS;
}

/*
 * Programs that use this library create a VM with one vCPU of a certain id when they start, for
 * a moment, and hardly run it. Any process can create such a VM, and continue as a young one by
 * cloning itself: report the VM once it is old, its process is, or its guest has run. Never report
 * that of this process.
 */
static bool may_have_probe(const struct kvmstats *k, const struct core_vm *vm)
{
	const uint64_t seen = core_now(k) - vm->first_seen;
	const uint64_t age = vm->process_started ?
			     read_clock(CLOCK_BOOTTIME) - vm->process_started : seen;

	return vm->pub.identity.pid == k->self ||
	       (seen < START_MAX_NS && age < START_MAX_NS && has_probe_exits(k, vm));
}

/*
 * A VM that has not had a vCPU may be a probe before its vCPU is created or after it was
 * closed. Report such a VM after a while, and at once if its process is a VMM.
 */
static bool may_be_probe(const struct kvmstats *k, const struct core_vm *vm)
{
	if (vm->labelled || identity_is_vmm(&vm->pub.identity))
		return false;
	if (vm->vcpus)
		return vm->vcpus == 1 && vm->vcpu[0]->pub.id == PROBE_VCPU_ID &&
		       may_have_probe(k, vm);
	return vm->pub.ended || core_now(k) - vm->first_seen < PROBE_MAX_NS;
}

/* Link the VMs that are reported. */
static void link_vms(struct kvmstats *k)
{
	struct kvmstats_vm **at = &k->first;
	unsigned int i;

	for (i = 0; i < k->vms; i++) {
		if (k->vm[i]->is_pending)
			continue;
		*at = &k->vm[i]->pub;
		at = &k->vm[i]->pub.next;
	}
	*at = NULL;
}

static int read_source(struct kvmstats *k)
{
	if (k->source)
		return k->source->sample(k, k->state);
	return k->wait ? 0 : core_problem(k, -ENODEV, "no source works: %s", k->source_why);
}

/* Before the source is read: it does not find a VM that was destroyed by then. */
static void count_destroyed(struct kvmstats *k)
{
	k->has_destroyed = k->events && uevent_count_destroyed(k->events, &k->destroyed);
}

static void count_unobserved(struct kvmstats *k)
{
	if (k->has_destroyed && k->destroyed > k->ended + k->unobserved)
		k->unobserved = k->destroyed - k->ended;
}

bool kvmstats_unobserved(const struct kvmstats *k, uint64_t *vms)
{
	*vms = k->unobserved;
	return k->has_destroyed;
}

int kvmstats_sample(struct kvmstats *k)
{
	struct core_vm *vm;
	unsigned int i;
	int ret;

	begin_sample(k);
	if (!k->recorded) {
		source_look(k, false);
		count_destroyed(k);
	}
	ret = read_source(k);
	/* The source fails: choose another one, which shares no state with it. */
	if (ret && ret != -ENOMEM && k->source && !k->recorded) {
		source_look(k, true);
		ret = read_source(k);
	}
	/* The sources of the tests have their own clock. */
	if (k->time)
		k->sampled = k->time;
	if (!k->looked)
		k->looked = k->sampled;
	if (!k->recorded)
		identities_update(k);
	for (i = 0; i < k->vms; i++) {
		if (k->vm[i]->seen)
			read_vcpu_threads(k, k->vm[i]);
	}
	if (!vcpu_threads_attribute(k))
		ret = core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
	for (i = 0; i < k->vms; i++) {
		vm = k->vm[i];
		if (vm->seen)
			update_vm(k, vm);
		else
			keep_last_values(k, vm, vm->pub.ended || (!ret && !may_exist(k, vm)));
		if (vm->pub.ended && !vm->pub.ended_at) {
			vm->pub.ended_at = k->sampled;
			/* A VM that may be a probe is not reported, thus unobserved. */
			k->ended += !may_be_probe(k, vm) && vm->pub.identity.pid != k->self;
		}
	}
	others_update(k);
	for (i = k->vms; i--;) {
		vm = k->vm[i];
		vm->is_pending = may_be_probe(k, vm);
		if (vm->is_pending && vm->pub.ended)
			core_forget(k, i);
		else if (!vm->labelled)
			estimate_start_time(k, vm);
	}
	set_start_times(k);
	if (!label_vms(k))
		ret = core_problem(k, -ENOMEM, "%s", strerror(ENOMEM));
	link_vms(k);
	if (!k->recorded)
		count_unobserved(k);
	return ret;
}
