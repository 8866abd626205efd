// SPDX-License-Identifier: GPL-2.0-only
/*
 * The remedies of "why" that have a command. Each function writes a sentence, and a command only if
 * the facts prove that it wins something and changes nothing but what the sentence names.
 */
#include <stdlib.h>
#include <string.h>

#include "thresholds.h"
#include "why.h"

/* A command must win this much, in thousandths of a CPU. */
#define LEAST_GAIN	50
/* The VM's side gets the other side's weight times this, for each CPU that the VM uses. */
#define WEIGHT_FACTOR	10
/* Weights of a thread in the kernel: nice 0, a factor for each step of nice, SCHED_IDLE */
#define NICE_0_WEIGHT	1024.0
#define NICE_STEP	1.25
#define IDLE_WEIGHT	3.0

const struct blame_share *find_main_owner(const struct why_vm *vm)
{
	return find_owner(vm->waits, NOT_VMS);
}

bool is_main_process(const struct why_vm *vm, uint64_t took_ns)
{
	return took_ns >= vm->waits->sum.cost * MAIN_PROCESS_PERMILLE / 1000;
}

bool has_main_process(const struct why_vm *vm)
{
	return is_main_process(vm, find_main_owner(vm)->item.cost);
}

static unsigned int cpus_of_time(const struct why_vm *vm, double ns)
{
	return vm->vm->elapsed ? ns * 1000 / vm->vm->elapsed : 0;
}

/*
 * Return the thousandths of a CPU that the VM can win from an owner that took ns: if both want the same
 * CPUs, the owner keeps its share of the weights.
 */
static unsigned int estimate_gain(const struct why_vm *vm, uint64_t ns, double weight, double other)
{
	const uint64_t *mode = vm->vm->activity.times.mode;
	const double kept = (mode[KVMSTATS_RUN] + mode[KVMSTATS_READY]) * other / (weight + other);

	return ns > kept ? cpus_of_time(vm, ns - kept) : 0;
}

static double nice_weight(int nice)
{
	double weight = NICE_0_WEIGHT;

	for (; nice > 0; nice--)
		weight /= NICE_STEP;
	for (; nice < 0; nice++)
		weight *= NICE_STEP;
	return weight;
}

static double thread_weight(const struct thread_policy *t)
{
	return t->policy == SCHED_IDLE ? IDLE_WEIGHT : nice_weight(t->nice);
}

/* Return the weight of one side on a CPU that the VM uses. */
static double competitor_weight(const struct competitor *c, const struct thread_policy *thread)
{
	if (!c->is_group)
		return c->autogroup ? nice_weight(c->autogroup_nice) : thread_weight(thread);
	if (c->limits.idle)
		return IDLE_WEIGHT;
	return c->limits.weight * NICE_0_WEIGHT / WEIGHT_DEFAULT(c->cgroup.v2);
}

/* Return true if both sides are not cgroups, but each session is a group. */
static bool has_autogroups(const struct contest *c)
{
	return !c->vm.is_group && !c->owner.is_group && (c->vm.autogroup || c->owner.autogroup);
}

static void put_cgroup(FILE *f, const struct competitor *c)
{
	const char *name = strrchr(c->cgroup.path, '/');

	fputs(c->manager == MANAGER_SYSTEMD ? c->unit : name ? name + 1 : "its cgroup", f);
}

static void put_path(FILE *f, const struct why_vm *vm, const struct cgroup *cgroup, const char *file)
{
	char path[PATH_MAX];

	if (cgroup_file_path(vm->facts->cgroups, cgroup, file, path))
		put_quoted(f, path);
}

/* CPUWeight= of a weight; v1 has shares. */
static unsigned int unit_weight(unsigned int weight, bool v2)
{
	return v2 ? weight : weight * 100 / 1024 ?: 1;
}

/* Return the largest weight of a group: CPUWeight= has 10000 at most, on v1 as well. */
static unsigned int find_largest_weight(const struct competitor *c)
{
	return c->manager == MANAGER_SYSTEMD && !c->cgroup.v2 ? 10000 / 100 * 1024 : WEIGHT_MAX(c->cgroup.v2);
}

static void put_unit_property(FILE *f, const char *unit)
{
	fputs("systemctl set-property --runtime -- ", f);
	put_quoted(f, unit);
}

/* Set the weight of a group. Without one, CPUWeight= and cpu.weight have the default. */
static void put_weight(struct remedy_draft *d, const struct why_vm *vm, const struct competitor *c, unsigned int weight)
{
	const bool v2 = c->cgroup.v2;

	if (c->manager == MANAGER_SYSTEMD) {
		put_unit_property(d->part, c->unit);
		fprintf(d->part, " CPUWeight=%u", unit_weight(weight, v2));
		put_unit_property(d->undo, c->unit);
		if (c->limits.idle)
			fputs(" CPUWeight=idle", d->undo);
		else
			fprintf(d->undo, " CPUWeight=%u", unit_weight(c->limits.weight, v2));
		end_remedy_part(d, REMEDY_WEIGHT_UNIT);
		return;
	}
	if (c->limits.idle) {
		fputs("echo 0 >", d->part);
		put_path(d->part, vm, &c->cgroup, "cpu.idle");
		fputs("echo 1 >", d->undo);
		put_path(d->undo, vm, &c->cgroup, "cpu.idle");
		end_remedy_part(d, REMEDY_WEIGHT_FILE);
		if (weight == WEIGHT_DEFAULT(v2))
			return;
	}
	fprintf(d->part, "echo %u >", weight);
	put_path(d->part, vm, &c->cgroup, v2 ? "cpu.weight" : "cpu.shares");
	if (!c->limits.idle) {
		fprintf(d->undo, "echo %u >", c->limits.weight);
		put_path(d->undo, vm, &c->cgroup, v2 ? "cpu.weight" : "cpu.shares");
	}
	end_remedy_part(d, REMEDY_WEIGHT_FILE);
}

static bool can_set_limits(const struct competitor *c)
{
	return c->is_group && (c->limits.weight || c->limits.idle) && (c->manager == MANAGER_NONE || c->manager == MANAGER_SYSTEMD);
}

/* Return false and write the reason if another program sets the limits of this side. */
static void put_manager(FILE *f, const struct competitor *c)
{
	put_cgroup(f, c);
	if (c->manager == MANAGER_KUBERNETES)
		fputs(" belongs to Kubernetes: change the CPU requests of its pods", f);
	else
		fputs(" is not known to be a unit of this host's systemd: change its CPU weight where it is defined", f);
}

/* Return the number of CPUs among which the kernel divides the weight of the VM's side. */
static unsigned int used_cpus(const struct why_vm *vm, const struct why_host *host)
{
	const unsigned int vcpus = vm->facts->contest.vm.is_group ? vm->facts->contest.vm.vcpus : vm->vm->vcpus;

	return vcpus < host->cpus || !host->cpus ? vcpus : host->cpus;
}

/* A group that others share with the owner gets the default, if it has more. */
static bool reset_owner_weight(struct remedy_draft *d, const struct why_vm *vm, uint64_t ns, double vm_weight)
{
	const struct competitor *c = &vm->facts->contest.owner;
	const unsigned int weight = WEIGHT_DEFAULT(c->cgroup.v2);
	const unsigned int gain = estimate_gain(vm, ns, vm_weight, NICE_0_WEIGHT);

	if (!can_set_limits(c) || c->has_reader || c->limits.idle || c->limits.weight <= weight || gain < LEAST_GAIN)
		return false;
	fputs("lower the CPU weight of ", d->text);
	put_cgroup(d->text, c);
	fprintf(d->text, " from %u to the default %u, unless it is high on purpose", c->limits.weight, weight);
	put_weight(d, vm, c, weight);
	d->remedy.gain = gain;
	return true;
}

/* Lower the owner's group, if nothing else is in it; else raise the VM's. */
static bool change_weights(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host, uint64_t ns)
{
	const struct contest *c = &vm->facts->contest;
	const struct thread_policy none = { 0 };
	const bool v2 = c->owner.cgroup.v2;
	const double cpus = used_cpus(vm, host);
	const double vm_weight = competitor_weight(&c->vm, &vm->facts->slowest) / cpus;
	const double owner_weight = competitor_weight(&c->owner, c->nr_threads ? c->threads : &none);
	unsigned int gain, weight;

	if (can_set_limits(&c->owner) && !c->owner.is_shared && !c->owner.has_reader && !c->owner.limits.idle) {
		weight = WEIGHT_MIN(v2);
		gain = estimate_gain(vm, ns, vm_weight, weight * NICE_0_WEIGHT / WEIGHT_DEFAULT(v2));
		if (c->owner.limits.weight > weight && gain >= LEAST_GAIN) {
			fputs("lower the CPU weight of ", d->text);
			put_cgroup(d->text, &c->owner);
			fprintf(d->text, " from %u to %u", c->owner.limits.weight, weight);
			put_weight(d, vm, &c->owner, weight);
			d->remedy.gain = gain;
			return true;
		}
	}
	if (!can_set_limits(&c->vm))
		return reset_owner_weight(d, vm, ns, vm_weight);
	weight = WEIGHT_FACTOR * owner_weight * cpus * WEIGHT_DEFAULT(v2) / NICE_0_WEIGHT + 0.5;
	if (weight > find_largest_weight(&c->vm))
		weight = find_largest_weight(&c->vm);
	gain = estimate_gain(vm, ns, weight * NICE_0_WEIGHT / WEIGHT_DEFAULT(v2) / cpus, owner_weight);
	if (weight <= c->vm.limits.weight || gain < LEAST_GAIN)
		return reset_owner_weight(d, vm, ns, vm_weight);
	fputs("raise the CPU weight of ", d->text);
	put_cgroup(d->text, &c->vm);
	fprintf(d->text, " from %u to %u", c->vm.limits.weight, weight);
	if (c->owner.is_group) {
		fputs(": the VM competes there with ", d->text);
		put_cgroup(d->text, &c->owner);
	}
	put_weight(d, vm, &c->vm, weight);
	d->remedy.gain = gain;
	return true;
}

static void put_threads(FILE *f, const struct thread_policy *threads, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		fprintf(f, " %d", threads[i].tid);
}

/* Real-time threads come last. */
static int compare_policies(const void *a, const void *b)
{
	const struct thread_policy *x = a, *y = b;

	if (is_realtime(x) != is_realtime(y))
		return is_realtime(x) - is_realtime(y);
	if (x->policy != y->policy)
		return x->policy - y->policy;
	if (x->priority != y->priority)
		return x->priority - y->priority;
	return x->nice != y->nice ? x->nice - y->nice : x->tid - y->tid;
}

/* Return the number of threads at the start of a sorted list that have the same policy. */
static unsigned int count_equal(const struct thread_policy *threads, unsigned int n)
{
	unsigned int i;

	for (i = 1; i < n && threads[i].policy == threads->policy && threads[i].priority == threads->priority &&
	     threads[i].nice == threads->nice && threads[i].runtime == threads->runtime &&
	     threads[i].deadline == threads->deadline && threads[i].period == threads->period; i++)
		;
	return i;
}

/* renice(1) takes several threads, and has no "--": they are numbers. */
static void put_nice(struct remedy_draft *d, const struct thread_policy *threads, unsigned int n, int nice)
{
	unsigned int i, equal;

	for (i = 0; i < n; i += equal) {
		equal = count_equal(threads + i, n - i);
		fprintf(d->part, "renice -n %d -p", nice);
		put_threads(d->part, threads + i, equal);
		fprintf(d->undo, "renice -n %d -p", threads[i].nice);
		put_threads(d->undo, threads + i, equal);
		end_remedy_part(d, REMEDY_NICE);
	}
}

/* chrt(1) takes one thread. */
static void put_policy_option(FILE *f, const struct thread_policy *t)
{
	switch (t->policy) {
	case SCHED_FIFO:
		fprintf(f, "chrt --fifo --pid %d", t->priority);
		break;
	case SCHED_RR:
		fprintf(f, "chrt --rr --pid %d", t->priority);
		break;
	case SCHED_DEADLINE:
		fprintf(f, "chrt --deadline --sched-runtime %llu --sched-deadline %llu --sched-period %llu --pid 0",
			(unsigned long long)t->runtime, (unsigned long long)t->deadline, (unsigned long long)t->period);
		break;
	case SCHED_IDLE:
		fputs("chrt --idle --pid 0", f);
		break;
	default:
		fputs("chrt --other --pid 0", f);
	}
}

static void put_policy(struct remedy_draft *d, const struct thread_policy *threads, unsigned int n)
{
	unsigned int i, equal;

	for (i = 0; i < n; i += equal) {
		equal = count_equal(threads + i, n - i);
		fputs("for t in", d->part);
		put_threads(d->part, threads + i, equal);
		fputs("; do chrt --other --pid 0 \"$t\"; done", d->part);
		fputs("for t in", d->undo);
		put_threads(d->undo, threads + i, equal);
		fputs("; do ", d->undo);
		put_policy_option(d->undo, threads + i);
		fputs(" \"$t\"; done", d->undo);
		end_remedy_part(d, REMEDY_POLICY);
	}
}

static unsigned int count_realtime(const struct contest *c)
{
	unsigned int i, n = 0;

	for (i = 0; c->known && i < c->nr_threads; i++)
		n += is_realtime(&c->threads[i]);
	return n;
}

/* Threads with a real-time policy run before all others, whatever their weights are. */
static bool change_policy(struct remedy_draft *d, const struct why_vm *vm, uint64_t ns)
{
	struct contest *c = &vm->facts->contest;
	const unsigned int n = count_realtime(c);

	if (!n)
		return false;
	qsort(c->threads, c->nr_threads, sizeof(*c->threads), compare_policies);
	fprintf(d->text, "threads of %s (%u) have a real-time policy, so that weights do not count", c->comm, n);
	if (c->owner.has_reader)
		return true;
	fputs(": give them the normal one", d->text);
	put_policy(d, c->threads + c->nr_threads - n, n);
	/* A VM with a real-time policy then leaves nothing to them. */
	d->remedy.gain = is_realtime(&vm->facts->slowest) ? cpus_of_time(vm, ns) :
		estimate_gain(vm, ns, competitor_weight(&c->vm, &vm->facts->slowest),
			      competitor_weight(&c->owner, &(struct thread_policy){ 0 }));
	return true;
}

/* In one cgroup, nice decides. */
static bool change_nice(struct remedy_draft *d, const struct why_vm *vm, uint64_t ns)
{
	struct contest *c = &vm->facts->contest;
	const struct thread_policy lowest = { .nice = NICE_MAX };
	unsigned int i, n = 0, gain;

	if (c->vm.is_group || c->owner.is_group || c->vm.autogroup || c->owner.autogroup || c->owner.has_reader)
		return false;
	for (i = 0; i < c->nr_threads; i++)
		n += c->threads[i].policy != SCHED_IDLE && c->threads[i].nice < NICE_MAX;
	/* All of them may want the CPU. */
	gain = estimate_gain(vm, ns, thread_weight(&vm->facts->slowest), n * thread_weight(&lowest));
	if (!n || n != c->nr_threads || gain < LEAST_GAIN)
		return false;
	qsort(c->threads, n, sizeof(*c->threads), compare_policies);
	fprintf(d->text, "raise nice of %s to %d: it is in the cgroup of the VM", c->comm, NICE_MAX);
	put_nice(d, c->threads, n, NICE_MAX);
	d->remedy.gain = gain;
	return true;
}

/* In one cgroup with many owners, change nice of the VM's threads only. */
static bool raise_threads(struct remedy_draft *d, const struct why_vm *vm, uint64_t ns)
{
	const struct why_facts *facts = vm->facts;
	const uint64_t *mode = vm->vm->activity.times.mode;
	unsigned int i, gain;
	double observed;
	int nice = NICE_MIN;

	if (facts->contest.vm.is_group || facts->contest.owner.is_group || has_autogroups(&facts->contest) ||
	    !mode[KVMSTATS_RUN] || !facts->nr_threads)
		return false;
	for (i = 0; i < facts->nr_threads; i++) {
		if (is_realtime(&facts->threads[i]) || facts->threads[i].policy == SCHED_IDLE)
			return false;
	}
	observed = thread_weight(&facts->slowest) * mode[KVMSTATS_READY] / mode[KVMSTATS_RUN];
	while (nice < facts->slowest.nice && nice_weight(nice + 1) > WEIGHT_FACTOR * observed)
		nice++;
	gain = estimate_gain(vm, ns, nice_weight(nice), observed);
	if (nice >= facts->slowest.nice || gain < LEAST_GAIN)
		return false;
	fprintf(d->text, "lower nice of its vCPUs to %d: these processes are in its cgroup", nice);
	qsort(facts->threads, facts->nr_threads, sizeof(*facts->threads), compare_policies);
	put_nice(d, facts->threads, facts->nr_threads, nice);
	d->remedy.gain = gain;
	return true;
}

/* Name the process from which those of an owner come that have ended. */
static void put_starter(FILE *f, const struct blame_share *owner, const struct contest *c)
{
	fputs("; its processes end", f);
	if (*c->starter)
		fprintf(f, ", and %s (PID %u) starts them", c->starter, owner->starter);
	else if (owner->starter)
		fprintf(f, ", and process %u, which started them, has ended as well", owner->starter);
}

void put_limit_owner(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct blame_share *owner = find_main_owner(vm);
	struct contest *c;

	if (!has_main_process(vm)) {
		c = vm->facts && vm->facts->side_ns ? &vm->facts->contest : NULL;
		if (!c || !c->known || c->own ||
		    (!raise_threads(d, vm, vm->facts->side_ns) && !change_weights(d, vm, host, vm->facts->side_ns)))
			fputs("run fewer processes on this host, or give the VM a larger CPU weight", d->text);
		return;
	}
	if (!strcmp(owner->key.kind, "kernel")) {
		fprintf(d->text, "find out for whom the kernel's %s works", owner->key.name);
		return;
	}
	if (!vm->facts || vm->facts->owner != owner) {
		fprintf(d->text, "give %s less CPU time, or the VM more", owner->key.name);
		return;
	}
	c = &vm->facts->contest;
	if (c->own) {
		fprintf(d->text, "%s works for this VM: give the VM more CPUs, or such processes other ones than the vCPUs", c->comm);
		return;
	}
	if (c->known && (change_policy(d, vm, owner->item.cost) || change_nice(d, vm, owner->item.cost) ||
			 change_weights(d, vm, host, owner->item.cost)))
		return;
	if (c->owner.has_reader && c->owner.is_group)
		fprintf(d->text, "%s has the process that reads this: give it less CPU time", owner->key.name);
	else if (c->known && c->owner.is_group && !can_set_limits(&c->owner))
		put_manager(d->text, &c->owner);
	else if (c->known && c->vm.is_group && !can_set_limits(&c->vm))
		put_manager(d->text, &c->vm);
	else if (!c->known)
		fprintf(d->text, "find out why %s runs%s", owner->key.name, c->ended ? "" : ": the cgroups of both cannot be read");
	else if (has_autogroups(c))
		fprintf(d->text, "move the VM or %s to a cgroup: the kernel divides CPU time between their sessions",
			owner->key.name);
	else
		fprintf(d->text, "find out why %s runs: a larger weight of the VM would not help", owner->key.name);
	if (c->ended)
		put_starter(d->text, owner, c);
}

/* Of other VMs, only a real-time policy is changed: it takes the CPU from all others. */
void put_divide_cpus(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct blame_share *owner = vm->facts ? vm->facts->owner : NULL;

	if (!owner || strcmp(owner->key.kind, "vm") || !change_policy(d, vm, owner->item.cost))
		fputs("give these VMs different CPUs, or more of them", d->text);
}

bool has_low_weight(const struct why_vm *vm)
{
	const struct contest *c = vm->facts ? &vm->facts->contest : NULL;

	if (!c || !c->known || c->own || count_realtime(c))
		return false;
	if (c->vm.is_group)
		return c->vm.limits.idle ||
		       (c->vm.limits.weight && c->vm.limits.weight < WEIGHT_DEFAULT(c->vm.cgroup.v2));
	return !c->vm.autogroup && (vm->facts->slowest.policy == SCHED_IDLE || vm->facts->slowest.nice > 0);
}

void put_low_weight(FILE *f, const struct why_vm *vm)
{
	const struct contest *c = &vm->facts->contest;

	if (!c->vm.is_group && vm->facts->slowest.policy == SCHED_IDLE) {
		fputs("its threads have the policy SCHED_IDLE", f);
	} else if (!c->vm.is_group) {
		fprintf(f, "its threads have nice %d", vm->facts->slowest.nice);
	} else {
		put_cgroup(f, &c->vm);
		if (c->vm.limits.idle)
			fputs(" is idle (cpu.idle)", f);
		else
			fprintf(f, " has the CPU weight %u, and the default is %u", c->vm.limits.weight,
				WEIGHT_DEFAULT(c->vm.cgroup.v2));
	}
}

void put_raise_weight(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct contest *c = &vm->facts->contest;
	const struct thread_policy normal = { .nice = vm->facts->slowest.policy == SCHED_IDLE ? vm->facts->slowest.nice : 0 };
	const uint64_t *mode = vm->vm->activity.times.mode;
	const double cpus = used_cpus(vm, host);
	const double other = competitor_weight(&c->owner, c->nr_threads ? c->threads : &normal);
	double observed = 0;

	if (c->vm.is_group) {
		if (!can_set_limits(&c->vm)) {
			put_manager(d->text, &c->vm);
			return;
		}
		fprintf(d->text, "give it the default, unless it is low on purpose");
		put_weight(d, vm, &c->vm, WEIGHT_DEFAULT(c->vm.cgroup.v2));
		d->remedy.gain = estimate_gain(vm, vm->facts->owner->item.cost, NICE_0_WEIGHT / cpus, other);
		return;
	}
	fputs("give them the default, unless it is low on purpose", d->text);
	qsort(vm->facts->threads, vm->facts->nr_threads, sizeof(*vm->facts->threads), compare_policies);
	if (vm->facts->slowest.policy == SCHED_IDLE)
		put_policy(d, vm->facts->threads, vm->facts->nr_threads);
	else
		put_nice(d, vm->facts->threads, vm->facts->nr_threads, 0);
	/* Several threads of the owner, or of others, may want the CPU: the VM's share has their weight. */
	if (mode[KVMSTATS_RUN])
		observed = thread_weight(&vm->facts->slowest) * mode[KVMSTATS_READY] / mode[KVMSTATS_RUN];
	d->remedy.gain = estimate_gain(vm, vm->facts->owner->item.cost, thread_weight(&normal),
				       observed > other ? observed : other);
}

/* Quotas */

/* Return true if "blame" names this level: by the unit that the cgroup is, or is in, or else by the cgroup. */
static bool names_quota(const struct blame_share *share, const struct quota_level *level)
{
	const char *name = share->key.name, *base = base_name(level->cgroup.path);
	size_t len = strlen(name);

	if (strcmp(share->key.kind, "quota"))
		return false;
	return !strcmp(base, name) || (base - level->cgroup.path > (ptrdiff_t)len && base[-1] == '/' &&
				       base[-2 - (ptrdiff_t)len] == '/' && looks_like_unit(name) &&
				       !strncmp(base - 1 - len, name, len));
}

/* Return true if "blame" saw that the quota of a level stopped the VM. */
static bool has_stopped_vm(const struct why_vm *vm, const struct quota_level *level)
{
	size_t i;

	for (i = 0; vm->waits && i < vm->waits->sum.count; i++) {
		if (names_quota(blame_share_at(vm->waits, i), level))
			return true;
	}
	return false;
}

/*
 * Return true if the quota of a level was used up. Each counts as used up if it is unknown which one
 * was, because a name is not that of a level.
 */
static bool is_used_up(const struct why_vm *vm, const struct quota_level *level)
{
	bool known = false, named;
	size_t i, j;

	if (has_stopped_vm(vm, level))
		return true;
	for (i = 0; vm->waits && i < vm->waits->sum.count; i++) {
		const struct blame_share *share = blame_share_at(vm->waits, i);

		if (strcmp(share->key.kind, "quota"))
			continue;
		for (j = 0, named = false; j < vm->facts->nr_quotas; j++)
			named |= names_quota(share, &vm->facts->quotas[j]);
		if (!named)
			return true;
		known = true;
	}
	return !known;
}

const struct quota_level *find_used_quota(const struct why_vm *vm)
{
	const struct blame_share *used = find_owner(vm->waits, "quota");
	const struct quota_level *quotas = vm->facts->quotas;
	unsigned int i;

	for (i = 0; used && i < vm->facts->nr_quotas; i++) {
		if (names_quota(used, &quotas[i]))
			return &quotas[i];
	}
	return &quotas[vm->facts->nr_quotas - 1];
}

/* Return true if a level stops the VM, or would stop it if those that do were higher. */
static bool limits_vm(const struct why_vm *vm, const struct quota_level *level)
{
	return level->cpus * level->limits.period_us > level->limits.quota_us || is_used_up(vm, level);
}

/*
 * Return the quota in a period that the VMs in a cgroup can use, at most all CPUs. It is more than
 * today's. Return 0 if there should be no quota.
 */
static uint64_t wanted_quota(const struct quota_level *level, const struct why_host *host)
{
	const uint64_t period = level->limits.period_us, today = level->limits.quota_us;
	uint64_t quota = level->cpus * period;

	if (quota <= today)
		quota = today + period;
	if (host->cpus && quota > host->cpus * period)
		quota = host->cpus * period;
	return quota > today ? quota : 0;
}

static void put_percents(FILE *f, uint64_t quota, uint64_t period)
{
	const unsigned long long hundredths = quota * 10000 / period;

	if (hundredths % 100)
		fprintf(f, "%llu.%02llu%%", hundredths / 100, hundredths % 100);
	else
		fprintf(f, "%llu%%", hundredths / 100);
}

static void put_quota_value(FILE *f, const struct why_vm *vm, const struct quota_level *level, uint64_t quota)
{
	const bool v2 = level->cgroup.v2;

	if (level->manager == MANAGER_SYSTEMD) {
		put_unit_property(f, level->unit);
		fputs(" CPUQuota=", f);
		if (quota)
			put_percents(f, quota, level->limits.period_us);
		return;
	}
	if (!quota)
		fputs(v2 ? "echo max >" : "echo -1 >", f);
	else if (v2)
		fprintf(f, "echo %llu %llu >", (unsigned long long)quota, (unsigned long long)level->limits.period_us);
	else
		fprintf(f, "echo %llu >", (unsigned long long)quota);
	put_path(f, vm, &level->cgroup, v2 ? "cpu.max" : "cpu.cfs_quota_us");
}

/* Return the name of libvirt's quota for a domain, its emulator or its I/O threads; NULL for another level. */
static const char *name_libvirt_quota(const struct why_facts *facts, const struct quota_level *level)
{
	const char *path = level->cgroup.path, *name = base_name(path);

	if (!facts->domain || !is_in_cgroup(path, facts->domain))
		return NULL;
	if (!strcmp(path, facts->domain))
		return "global_quota";
	if (!strcmp(name, "emulator"))
		return "emulator_quota";
	return strncmp(name, "iothread", 8) ? NULL : "iothread_quota";
}

/* Each vCPU has a cgroup, and libvirt has one quota for all of them. */
static bool is_vcpu_of_libvirt(const struct why_facts *facts, const struct quota_level *level)
{
	return facts->domain && is_in_cgroup(level->cgroup.path, facts->domain) &&
	       !strncmp(base_name(level->cgroup.path), "vcpu", 4);
}

static void put_libvirt_quota(FILE *f, const struct why_vm *vm, const char *name, uint64_t quota)
{
	fprintf(f, "virsh schedinfo --live --domain %s --set %s=%lld", vm->facts->uuid, name, quota ? (long long)quota : -1);
}

static bool change_libvirt_quota(struct remedy_draft *d, const struct why_vm *vm)
{
	const struct quota_level *level, *one = NULL;
	unsigned int i, n = 0;

	for (i = 0; i < vm->facts->nr_quotas; i++) {
		level = &vm->facts->quotas[i];
		if (!is_vcpu_of_libvirt(vm->facts, level))
			continue;
		if (one && (one->limits.quota_us != level->limits.quota_us ||
			    one->limits.period_us != level->limits.period_us))
			return false;
		one = level;
		n++;
	}
	/* Otherwise, another program has set it. */
	if (n != vm->vm->vcpus)
		return false;
	put_libvirt_quota(d->part, vm, "vcpu_quota", one->limits.period_us);
	put_libvirt_quota(d->undo, vm, "vcpu_quota", one->limits.quota_us);
	end_remedy_part(d, REMEDY_QUOTA_LIBVIRT);
	return true;
}

static void put_cpu_count(FILE *f, uint64_t quota, uint64_t period)
{
	fprintf(f, "%llu.%02llu", (unsigned long long)(quota / period),
		(unsigned long long)(quota * 100 / period % 100));
}

/* Return true if no command raises the quota of a level, because another program sets it. */
static bool is_set_elsewhere(const struct quota_level *level)
{
	return level->manager == MANAGER_KUBERNETES || level->manager == MANAGER_UNKNOWN;
}

static void put_raise_elsewhere(FILE *f, const struct quota_level *level)
{
	if (level->manager == MANAGER_KUBERNETES)
		fprintf(f, "raise the CPU limit of %s, which Kubernetes sets", base_name(level->cgroup.path));
	else
		fprintf(f, "raise the quota of %s where it is defined: it is not known to be a unit of this host's systemd",
			base_name(level->cgroup.path));
}

/* Return the thousandths of a CPU that the VM can win until a level stops it. */
static unsigned int find_next_limit(const struct why_vm *vm, const struct quota_level *level)
{
	const unsigned int quota = level->limits.quota_us * 1000 / level->limits.period_us;
	const unsigned int used = cpus_of_time(vm, vm->vm->activity.times.mode[KVMSTATS_RUN]);

	return quota > used ? quota - used : 0;
}

static void raise_quota(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host,
			const struct quota_level *level, bool libvirt)
{
	const uint64_t quota = libvirt ? level->limits.period_us : wanted_quota(level, host);
	const char *name = name_libvirt_quota(vm->facts, level);

	fprintf(d->text, "%s from ", base_name(level->cgroup.path));
	put_cpu_count(d->text, level->limits.quota_us, level->limits.period_us);
	if (quota) {
		fputs(" to ", d->text);
		put_cpu_count(d->text, quota, level->limits.period_us);
		fputs(" CPUs", d->text);
	} else {
		fputs(" CPUs to none", d->text);
	}
	if (libvirt)
		return;
	if (name) {
		put_libvirt_quota(d->part, vm, name, quota);
		put_libvirt_quota(d->undo, vm, name, level->limits.quota_us);
		end_remedy_part(d, REMEDY_QUOTA_LIBVIRT);
		return;
	}
	put_quota_value(d->part, vm, level, quota);
	put_quota_value(d->undo, vm, level, level->limits.quota_us);
	end_remedy_part(d, level->manager == MANAGER_SYSTEMD ? REMEDY_QUOTA_UNIT : REMEDY_QUOTA_FILE);
}

/* Each quota that is less than its VMs can use is raised: otherwise, the next one would stop them. */
void put_raise_quota(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct quota_level *levels = vm->facts ? vm->facts->quotas : NULL, *next = NULL;
	const unsigned int n = vm->facts ? vm->facts->nr_quotas : 0;
	unsigned int i, left, named = 0;
	bool libvirt;

	if (!n) {
		fputs("raise the quota of its cgroup, or the run time of its threads (chrt --deadline)", d->text);
		return;
	}
	if (!vm->facts->quotas_complete) {
		fputs("raise the quotas of its cgroups, some of which cannot be read", d->text);
		return;
	}
	d->most = UINT_MAX;
	for (i = 0; i < n; i++) {
		if (!is_set_elsewhere(&levels[i]) || !limits_vm(vm, &levels[i]))
			continue;
		left = is_used_up(vm, &levels[i]) ? 0 : find_next_limit(vm, &levels[i]);
		if (left < LEAST_GAIN) {
			put_raise_elsewhere(d->text, &levels[i]);
			return;
		}
		if (left < d->most) {
			next = &levels[i];
			d->most = left;
		}
	}
	libvirt = change_libvirt_quota(d, vm);
	fputs("raise the quota", d->text);
	for (i = 0; i < n; i++) {
		if (limits_vm(vm, &levels[i]) && !is_set_elsewhere(&levels[i])) {
			fputs(named++ ? ", of " : " of ", d->text);
			raise_quota(d, vm, host, &levels[i], libvirt && is_vcpu_of_libvirt(vm->facts, &levels[i]));
		}
	}
	if (next) {
		fputs("; for more, ", d->text);
		put_raise_elsewhere(d->text, next);
	}
	d->ends_cause = true;
}

void put_raise_other_quota(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	if (is_set_elsewhere(vm->facts->other_quota)) {
		put_raise_elsewhere(d->text, vm->facts->other_quota);
		return;
	}
	fputs("raise the quota of ", d->text);
	raise_quota(d, vm, host, vm->facts->other_quota, false);
	d->ends_cause = true;
}

void bound_by_quotas(struct remedy_draft *d, const struct why_vm *vm)
{
	const struct quota_level *levels = vm->facts ? vm->facts->quotas : NULL, *next = NULL;
	unsigned int i, left, least = d->remedy.gain;

	for (i = 0; levels && i < vm->facts->nr_quotas; i++) {
		left = has_stopped_vm(vm, &levels[i]) ? 0 : find_next_limit(vm, &levels[i]);
		if (left < least) {
			next = &levels[i];
			least = left;
		}
	}
	if (!next)
		return;
	d->remedy.gain = least;
	if (least < LEAST_GAIN) {
		drop_remedy_command(d);
		fputs("; but first, ", d->text);
	} else {
		fputs("; for more, ", d->text);
	}
	fprintf(d->text, "raise the quota of %s, ", base_name(next->cgroup.path));
	put_cpu_count(d->text, next->limits.quota_us, next->limits.period_us);
	fputs(" CPUs", d->text);
}

/* The other levers */

void put_continue(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	fputs("let the VMM continue", d->text);
	if (!vm->facts || vm->state != 'T')
		return;
	fprintf(d->part, "kill -CONT %d", vm->vm->pid);
	fprintf(d->undo, "kill -STOP %d", vm->vm->pid);
	d->ends_cause = true;
	end_remedy_part(d, REMEDY_CONTINUE);
}

static void put_freezer_state(FILE *f, const struct why_vm *vm, const struct cgroup *cgroup, bool frozen)
{
	if (cgroup->v2)
		fprintf(f, "echo %d >", frozen);
	else
		fprintf(f, "echo %s >", frozen ? "FROZEN" : "THAWED");
	put_path(f, vm, cgroup, cgroup->v2 ? "cgroup.freeze" : "freezer.state");
}

void put_thaw(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	char unit[NAME_MAX + 1];
	unsigned int i;
	bool is_unit;

	d->ends_cause = true;
	fputs("thaw ", d->text);
	if (!vm->facts || !vm->facts->nr_frozen)
		fputs("it", d->text);
	for (i = 0; vm->facts && i < vm->facts->nr_frozen; i++) {
		const struct cgroup *cgroup = &vm->facts->frozen[i];

		fprintf(d->text, "%s%s", i ? " and " : "", base_name(cgroup->path));
		/*
		 * systemd has no freezer on v1. On v2, it may not know that another program has frozen the unit, and
		 * systemctl freeze fails for VMs of kernels whose KVM has a kernel thread in the cgroup.
		 */
		is_unit = cgroup->v2 && find_manager(vm->facts->cgroups, cgroup, unit) == MANAGER_SYSTEMD;
		if (is_unit) {
			fputs("systemctl thaw -- ", d->part);
			put_quoted(d->part, unit);
			fputs(" && ", d->part);
		}
		put_freezer_state(d->part, vm, cgroup, false);
		put_freezer_state(d->undo, vm, cgroup, true);
		end_remedy_part(d, is_unit ? REMEDY_THAW_UNIT : REMEDY_THAW_FILE);
	}
}

#define HALT_POLL	"/sys/module/kvm/parameters/halt_poll_ns"
#define HALT_POLL_NS	50000

void put_poll_less(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const unsigned int old = host->halt_poll_ns, less = old > HALT_POLL_NS ? HALT_POLL_NS : 0;

	fputs("let the host poll for less time", d->text);
	if (!old || !host->halt_poll_writable)
		return;
	fprintf(d->text, ": %u instead of %u ns at most, for all VMs without a separate limit", less, old);
	fprintf(d->part, "echo %u >%s", less, HALT_POLL);
	fprintf(d->undo, "echo %u >%s", old, HALT_POLL);
	d->ends_cause = true;
	end_remedy_part(d, REMEDY_POLLING);
}

/* Name each source that is possible. */
void put_memory_source(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct why_facts *facts = vm->facts;
	unsigned int said = 0;

	if (facts && facts->userfaultfd && ++said)
		fputs("let the migration or the snapshot end, which fills in memory by userfaultfd", d->text);
	if (vm->swap)
		fprintf(d->text, "%sgive the host more memory, or its VMs less", said++ ? "; " : "");
	if (facts && facts->memory_limit)
		fprintf(d->text, "%sraise memory.high of %s", said++ ? "; " : "", facts->memory_limit);
	if (facts && facts->memory_file)
		fprintf(d->text, "%sput the file of its memory on a faster disk, or read all of it before the guest needs it",
			said++ ? "; " : "");
	if (facts && !said)
		fputs("find out on which NUMA node its memory is", d->text);
}

/* CPUs */

static bool are_equal_cpus(const struct vcpu_cpus *a, const struct vcpu_cpus *b)
{
	return !strcmp(a->may, b->may) && !strcmp(a->could, b->could);
}

/* Let threads with the same CPUs use others; taskset(1) takes one thread. */
static void put_taskset(FILE *f, const struct vcpu_cpus *v, unsigned int n, const char *list)
{
	unsigned int i;

	fputs("for t in", f);
	for (i = 0; i < n; i++) {
		if (are_equal_cpus(&v[i], v))
			fprintf(f, " %d", v[i].tid);
	}
	fprintf(f, "; do taskset --pid --cpu-list %s \"$t\"; done", list);
}

static bool has_equal_before(const struct vcpu_cpus *v, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < i && !are_equal_cpus(&v[j], &v[i]); j++)
		;
	return j < i;
}

/* Write commands that give a vCPU other CPUs than it has. */
static void put_cpus_of_vcpu(struct remedy_draft *d, const struct why_vm *vm, const struct vcpu_cpus *v, const char *list)
{
	fprintf(d->part, "virsh vcpupin --live --domain %s --vcpu %u --cpulist %s", vm->facts->uuid, v->id, list);
	fprintf(d->undo, "virsh vcpupin --live --domain %s --vcpu %u --cpulist %s", vm->facts->uuid, v->id, v->may);
	end_remedy_part(d, REMEDY_AFFINITY_LIBVIRT);
}

void put_spread(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct vcpu_cpus *v = vm->facts ? vm->facts->vcpus : NULL;
	unsigned int i, n = vm->facts ? vm->facts->nr_vcpus : 0;

	fputs("pin each vCPU to a CPU that is idle", d->text);
	if (vm->spread_gain < LEAST_GAIN)
		return;
	for (i = 0; i < n; i++) {
		if (!*v[i].idle)
			continue;
		if (*vm->facts->uuid) {
			put_cpus_of_vcpu(d, vm, &v[i], v[i].idle);
			continue;
		}
		put_taskset(d->part, v + i, 1, v[i].idle);
		put_taskset(d->undo, v + i, 1, v[i].may);
		end_remedy_part(d, REMEDY_AFFINITY);
	}
	d->remedy.gain = vm->spread_gain;
}

void put_unpin(struct remedy_draft *d, const struct why_vm *vm, const struct why_host *host)
{
	const struct vcpu_cpus *v = vm->facts ? vm->facts->vcpus : NULL;
	const bool libvirt = vm->facts && *vm->facts->uuid;
	unsigned int i, n = vm->facts ? vm->facts->nr_vcpus : 0;

	fputs("let its vCPUs use other CPUs", d->text);
	for (i = 0; i < n; i++) {
		if (v[i].isolated) {
			fputs(": the kernel does not balance load between isolated CPUs, so pin each vCPU to one", d->text);
			return;
		}
	}
	for (i = 0; i < n && vm->unpin_gain >= LEAST_GAIN; i++) {
		/* A cpuset can allow no other CPUs. */
		if (!*v[i].could || !strcmp(v[i].may, v[i].could) || (!libvirt && has_equal_before(v, i)))
			continue;
		if (libvirt) {
			put_cpus_of_vcpu(d, vm, &v[i], v[i].could);
			continue;
		}
		put_taskset(d->part, v + i, n - i, v[i].could);
		put_taskset(d->undo, v + i, n - i, v[i].may);
		end_remedy_part(d, REMEDY_AFFINITY);
	}
	if (d->remedy.kind)
		d->remedy.gain = vm->unpin_gain;
	else if (n)
		fputs(": give its cpuset more of them", d->text);
}
