// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PMU kvm_pv of a KVM guest: events that the host counts for the vCPU on
 * which they run.  Documentation/virt/kvm/pv-perf.rst describes the ABI.
 *
 * Opening an event allocates memory on the host, so it is not done when perf
 * switches tasks.  When the first perf event with a configuration is created, all
 * CPUs open the host's event with the same id; perf events with the same
 * configuration share it.  An event that counts is always enabled; when a task is
 * switched, one hypercall reads all events of the CPU.  A clock with a period is
 * enabled while a perf event that samples with it is on the CPU.
 *
 * The host loses its events when the guest is restored or migrated: hypercalls
 * return -KVM_ENOENT, and the slots have the counts until then.
 */

#define pr_fmt(fmt) "kvm_pv: " fmt

#include <linux/cc_platform.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <asm/nmi.h>
#include <asm/pvclock.h>
#include <asm/kvmclock.h>

/*
 * How long an event may be lost unnoticed if nothing else calls the host and
 * kvmclock does not show that the guest was restored. The call is an exit, setting
 * the timer another one, the timer's interrupt a third: six in a second are few
 * among what is counted.
 */
#define CHECK_NS	(500 * NSEC_PER_MSEC)

/* Of attr.config: the type of the host's event, and which one of that type */
#define CONFIG_TYPE_SHIFT	16
#define CONFIG_SOFTWARE(_n)	(KVM_PV_PERF_TYPE_SOFTWARE << CONFIG_TYPE_SHIFT | (_n))
#define CONFIG_STAT(_n)		(KVM_PV_PERF_TYPE_STAT << CONFIG_TYPE_SHIFT | (_n))

/**
 * struct kvm_pv_perf_id - an event of the host, which has the same id on all CPUs
 * @config: type and event, as in attr.config
 * @period: period of a clock that samples, 0 for an event that counts
 * @users: number of perf events with this configuration
 */
struct kvm_pv_perf_id {
	u32 config;
	u64 period;
	unsigned int users;
};

/**
 * struct kvm_pv_perf_cpu - the events on a CPU
 * @slot: memory that the host writes, by id
 * @attr: argument of OPEN
 * @base: counts of the hosts that have lost the event, by id
 * @seen: overflows that the NMI handler has seen, by id
 * @enabled: number of started perf events that sample, by id
 * @event: started perf events, by index
 * @used: indices of perf events on this CPU
 * @open: ids that this host has
 * @tick: checks the events with each tick that is not stopped
 * @due: checks them every CHECK_NS, which wakes up an idle CPU
 * @clock_version: version of kvmclock's page at the last check
 * @surplus: for how many checks an NMI may arrive whose overflow was handled earlier
 * @fresh: the slots were read since perf disabled the PMU
 * @stale: a hypercall has shown that the host lost an event
 * @checking: @tick and @due are armed on this CPU
 * @closed: no event is opened until the CPU, or the machine, starts again
 */
struct kvm_pv_perf_cpu {
	struct kvm_pv_perf_slot slot[KVM_PV_PERF_MAX_EVENTS] __aligned(32);
	struct kvm_pv_perf_attr attr;
	u64 base[KVM_PV_PERF_MAX_EVENTS];
	u64 seen[KVM_PV_PERF_MAX_EVENTS];
	unsigned int enabled[KVM_PV_PERF_MAX_EVENTS];
	struct perf_event *event[BITS_PER_LONG];
	unsigned long used;
	unsigned long open;
	struct timer_list tick;
	struct hrtimer due;
	u32 clock_version;
	atomic_t surplus;
	bool fresh;
	bool stale;
	bool checking;
	bool closed;
};

/* Not in per-CPU memory: the host needs physical addresses. */
static DEFINE_PER_CPU(struct kvm_pv_perf_cpu *, kvm_pv_perf_cpu);

static struct pmu kvm_pv_pmu;
static struct kvm_pv_perf_info info;
/* As the host described them when the guest booted; another host may have others. */
static struct kvm_stats_desc *stats;

/*
 * The events of the host, and a bit for each that CPUs open.  Nested in cpus_read_lock()
 * where ids are opened or closed; a CPU also opens them when it is set online.
 */
static DEFINE_MUTEX(ids_mutex);
static struct kvm_pv_perf_id ids[KVM_PV_PERF_MAX_EVENTS];
static unsigned long wanted;

static long kvm_pv_perf_call(unsigned int op, unsigned long a1)
{
	return kvm_hypercall2(KVM_HC_PV_PERF, op, a1);
}

/* Return whether the result of a hypercall shows that this host lacks the event. */
static bool kvm_pv_perf_is_lost(long r)
{
	return r && r != -KVM_EFAULT;
}

/* Call the host for an open event.  The check opens it again if it is lost. */
static void kvm_pv_perf_call_event(struct kvm_pv_perf_cpu *cpu, unsigned int op,
				   unsigned long a1)
{
	if (kvm_pv_perf_is_lost(kvm_pv_perf_call(op, a1)))
		WRITE_ONCE(cpu->stale, true);
}

/* Add the host's count; an NMI may do the same concurrently. */
static void kvm_pv_perf_update(struct kvm_pv_perf_cpu *cpu, struct perf_event *event,
			       bool add)
{
	const unsigned int id = event->hw.config;
	const struct kvm_pv_perf_slot *slot = &cpu->slot[id];
	u64 now, prev;
	u32 seq;

	do {
		seq = READ_ONCE(slot->seq);
		barrier();
		now = cpu->base[id] + slot->count;
		barrier();
	} while (READ_ONCE(slot->seq) != seq);

	prev = local64_xchg(&event->hw.prev_count, now);
	if (add)
		local64_add(now - prev, &event->count);
}

/* Open an event of the host on this CPU unless it is open; interrupts are off. */
static void kvm_pv_perf_open(struct kvm_pv_perf_cpu *cpu, unsigned int id)
{
	const u32 type = ids[id].config >> CONFIG_TYPE_SHIFT;
	const u32 n = ids[id].config & (BIT(CONFIG_TYPE_SHIFT) - 1);
	struct kvm_pv_perf_slot *slot = &cpu->slot[id];

	/* The host would write to memory that may belong to another kernel. */
	if (cpu->closed || test_bit(id, &cpu->open))
		return;

	cpu->attr = (struct kvm_pv_perf_attr) {
		.size = sizeof(cpu->attr),
		.id = id,
		.type = type,
		.period = ids[id].period,
		.slot = __pa(slot),
	};
	if (!ids[id].period || cpu->enabled[id])
		cpu->attr.flags = KVM_PV_PERF_ENABLED;
	if (type == KVM_PV_PERF_TYPE_STAT)
		memcpy(cpu->attr.name, stats[n].name, sizeof(cpu->attr.name));
	else
		cpu->attr.config = n;

	/* NMIs leave out events that are not open. */
	cpu->base[id] += slot->count;
	slot->count = 0;
	WRITE_ONCE(slot->overflows, 0);
	WRITE_ONCE(cpu->seen[id], 0);
	if (!kvm_pv_perf_call(KVM_PV_PERF_OPEN, __pa(&cpu->attr)))
		set_bit(id, &cpu->open);
}

static void kvm_pv_perf_open_id(void *id)
{
	kvm_pv_perf_open(this_cpu_read(kvm_pv_perf_cpu), (unsigned long)id);
}

static void kvm_pv_perf_close_id(void *arg)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	unsigned long id = (unsigned long)arg;

	if (test_and_clear_bit(id, &cpu->open))
		kvm_pv_perf_call(KVM_PV_PERF_CLOSE, id);
}

/* Close the events of the host that no perf event uses. */
static void kvm_pv_perf_close_unused(void)
{
	unsigned long id;

	for_each_set_bit(id, &wanted, KVM_PV_PERF_MAX_EVENTS) {
		if (ids[id].users)
			continue;
		clear_bit(id, &wanted);
		on_each_cpu(kvm_pv_perf_close_id, (void *)id, 1);
	}
}

/* perf destroys events where cpus_read_lock() is not allowed. */
static void kvm_pv_perf_close_work(struct work_struct *work)
{
	cpus_read_lock();
	mutex_lock(&ids_mutex);
	kvm_pv_perf_close_unused();
	mutex_unlock(&ids_mutex);
	cpus_read_unlock();
}

static DECLARE_WORK(close_work, kvm_pv_perf_close_work);

/* Open the event on all CPUs; return its id, or -ENOSPC. */
static int kvm_pv_perf_open_on_all_cpus(u32 config, u64 period)
{
	struct kvm_pv_perf_cpu *cpu;
	unsigned long id;
	unsigned int i;

	for_each_set_bit(id, &wanted, info.max_events) {
		if (ids[id].config == config && ids[id].period == period)
			return id;
	}
	id = find_first_zero_bit(&wanted, info.max_events);
	if (id >= info.max_events) {
		kvm_pv_perf_close_unused();
		id = find_first_zero_bit(&wanted, info.max_events);
	}
	if (id >= info.max_events)
		return -ENOSPC;

	ids[id] = (struct kvm_pv_perf_id) { .config = config, .period = period };
	for_each_possible_cpu(i) {
		cpu = per_cpu(kvm_pv_perf_cpu, i);
		cpu->base[id] = 0;
		cpu->slot[id].count = 0;
	}
	set_bit(id, &wanted);
	on_each_cpu(kvm_pv_perf_open_id, (void *)id, 1);
	return id;
}

/* Return the id of the host's event with this configuration, or -ENOSPC. */
static int kvm_pv_perf_get_id(struct perf_event *event, u32 config, u64 period)
{
	int id;

	/* The parent has an id, and cpus_read_lock() is not allowed. */
	if (event->parent) {
		id = event->parent->hw.config;
		mutex_lock(&ids_mutex);
		ids[id].users++;
		mutex_unlock(&ids_mutex);
		return id;
	}

	cpus_read_lock();
	mutex_lock(&ids_mutex);
	id = kvm_pv_perf_open_on_all_cpus(config, period);
	if (id >= 0)
		ids[id].users++;
	mutex_unlock(&ids_mutex);
	cpus_read_unlock();
	return id;
}

static void kvm_pv_perf_destroy(struct perf_event *event)
{
	mutex_lock(&ids_mutex);
	if (!--ids[event->hw.config].users)
		schedule_work(&close_work);
	mutex_unlock(&ids_mutex);
}

static void kvm_pv_perf_read(struct perf_event *event)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	kvm_pv_perf_call_event(cpu, KVM_PV_PERF_READ, event->hw.config);
	kvm_pv_perf_update(cpu, event, true);
}

/*
 * Return whether the host has written kvmclock's page of this CPU since the last
 * call. A host that restores or migrates a guest writes it before the guest runs.
 */
static bool kvm_pv_perf_clock_changed(struct kvm_pv_perf_cpu *cpu)
{
	const struct pvclock_vsyscall_time_info *clock = this_cpu_hvclock();
	u32 version = clock ? READ_ONCE(clock->pvti.version) : 0;
	bool changed = version != cpu->clock_version;

	cpu->clock_version = version;
	return changed;
}

static void kvm_pv_perf_check_events(struct kvm_pv_perf_cpu *cpu)
{
	const unsigned long all = READ_ONCE(wanted), open = cpu->open;
	unsigned int id;

	WRITE_ONCE(cpu->stale, false);
	if (all == open &&
	    (!open || !kvm_pv_perf_is_lost(kvm_pv_perf_call(KVM_PV_PERF_READ_ALL, open))))
		return;
	for_each_set_bit(id, &all, KVM_PV_PERF_MAX_EVENTS) {
		if (test_bit(id, &cpu->open) &&
		    kvm_pv_perf_is_lost(kvm_pv_perf_call(KVM_PV_PERF_READ, id)))
			clear_bit(id, &cpu->open);
		kvm_pv_perf_open(cpu, id);
	}
	/*
	 * Remove an event that does not count from its CPU, or perf would report that it
	 * counted all the time.
	 */
	if (cpu->open != open)
		perf_pmu_resched(&kvm_pv_pmu);
}

/* Look for lost events, and do it again with the next tick; interrupts are off. */
static void kvm_pv_perf_check(struct kvm_pv_perf_cpu *cpu, bool due)
{
	atomic_dec_if_positive(&cpu->surplus);
	if (kvm_pv_perf_clock_changed(cpu) || due || READ_ONCE(cpu->stale))
		kvm_pv_perf_check_events(cpu);
	mod_timer(&cpu->tick, jiffies);
}

/* Deferrable: runs with the tick, and causes no interrupt, which would be an exit. */
static void kvm_pv_perf_handle_tick(struct timer_list *timer)
{
	struct kvm_pv_perf_cpu *cpu =
		container_of(timer, struct kvm_pv_perf_cpu, tick);

	local_irq_disable();
	/* The timers of a CPU that is set offline expire on another one. */
	if (cpu == this_cpu_read(kvm_pv_perf_cpu) && cpu->checking)
		kvm_pv_perf_check(cpu, false);
	local_irq_enable();
}

static enum hrtimer_restart kvm_pv_perf_handle_due(struct hrtimer *timer)
{
	struct kvm_pv_perf_cpu *cpu =
		container_of(timer, struct kvm_pv_perf_cpu, due);

	if (cpu != this_cpu_read(kvm_pv_perf_cpu))
		return HRTIMER_NORESTART;
	kvm_pv_perf_check(cpu, true);
	cpu->checking = cpu->used || READ_ONCE(wanted) & ~cpu->open ||
			atomic_read(&cpu->surplus);
	if (!cpu->checking)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, CHECK_NS);
	return HRTIMER_RESTART;
}

static void kvm_pv_perf_start_check(struct kvm_pv_perf_cpu *cpu)
{
	if (cpu->checking)
		return;
	cpu->checking = true;
	mod_timer(&cpu->tick, jiffies);
	hrtimer_start(&cpu->due, CHECK_NS, HRTIMER_MODE_REL_PINNED_HARD);
}

/* Called before perf adds and removes events: the first one reads all slots. */
static void kvm_pv_perf_pmu_disable(struct pmu *pmu)
{
	this_cpu_read(kvm_pv_perf_cpu)->fresh = false;
}

static void kvm_pv_perf_pmu_enable(struct pmu *pmu)
{
}

static void kvm_pv_perf_read_slots(struct kvm_pv_perf_cpu *cpu)
{
	if (cpu->fresh)
		return;
	cpu->fresh = true;
	if (cpu->open)
		kvm_pv_perf_call_event(cpu, KVM_PV_PERF_READ_ALL, cpu->open);
}

static void kvm_pv_perf_start(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	const unsigned int id = event->hw.config;

	if (!(event->hw.state & PERF_HES_STOPPED))
		return;
	event->hw.state = 0;
	if (!is_sampling_event(event))
		kvm_pv_perf_read_slots(cpu);
	else
		kvm_pv_perf_call_event(cpu, cpu->enabled[id]++ ? KVM_PV_PERF_READ :
				       KVM_PV_PERF_ENABLE, id);
	kvm_pv_perf_update(cpu, event, false);
	barrier();
	WRITE_ONCE(cpu->event[event->hw.idx], event);
}

static void kvm_pv_perf_stop(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	const unsigned int id = event->hw.config;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	WRITE_ONCE(cpu->event[event->hw.idx], NULL);
	barrier();
	if (!is_sampling_event(event))
		kvm_pv_perf_read_slots(cpu);
	else
		kvm_pv_perf_call_event(cpu, --cpu->enabled[id] ? KVM_PV_PERF_READ :
				       KVM_PV_PERF_DISABLE, id);
	kvm_pv_perf_update(cpu, event, true);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int kvm_pv_perf_add(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	unsigned int index = find_first_zero_bit(&cpu->used, BITS_PER_LONG);

	kvm_pv_perf_start_check(cpu);
	if (index == BITS_PER_LONG || !test_bit(event->hw.config, &cpu->open))
		return -EAGAIN;
	event->hw.idx = index;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	__set_bit(index, &cpu->used);
	if (flags & PERF_EF_START)
		kvm_pv_perf_start(event, flags);
	perf_event_update_userpage(event);
	return 0;
}

static void kvm_pv_perf_del(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	kvm_pv_perf_stop(event, PERF_EF_UPDATE);
	__clear_bit(event->hw.idx, &cpu->used);
	perf_event_update_userpage(event);
}

/* Other perf events may share the host's event, which has this period. */
static int kvm_pv_perf_check_period(struct perf_event *event, u64 value)
{
	return value == event->attr.sample_period ? 0 : -EOPNOTSUPP;
}

static int kvm_pv_perf_event_init(struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	u64 config = event->attr.config, period = 0;
	int id;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;

	switch (config >> CONFIG_TYPE_SHIFT) {
	case KVM_PV_PERF_TYPE_SOFTWARE:
		if (config != CONFIG_SOFTWARE(PERF_COUNT_SW_CPU_CLOCK) &&
		    config != CONFIG_SOFTWARE(PERF_COUNT_SW_TASK_CLOCK))
			return -EINVAL;
		break;
	case KVM_PV_PERF_TYPE_STAT:
		if (config - CONFIG_STAT(0) >= info.stats)
			return -EINVAL;
		config = CONFIG_STAT(array_index_nospec((u32)config - CONFIG_STAT(0), info.stats));
		if (is_sampling_event(event))
			return -EOPNOTSUPP;
		break;
	default:
		return -EINVAL;
	}

	/* The clocks have a fixed rate: a frequency is a period. */
	if (is_sampling_event(event) && event->attr.freq) {
		event->attr.sample_period = div64_u64(NSEC_PER_SEC,
						      event->attr.sample_freq);
		event->attr.freq = 0;
		hwc->sample_period = event->attr.sample_period;
	}
	if (is_sampling_event(event))
		period = max(event->attr.sample_period, info.min_period);

	id = kvm_pv_perf_get_id(event, config, period);
	if (id < 0)
		return id;
	hwc->config = id;
	hwc->last_period = period;
	event->destroy = kvm_pv_perf_destroy;
	return 0;
}

/*
 * The NMI for an overflow may arrive after the event was closed, so check all
 * slots; one NMI may find several overflows. The host holds back one more NMI
 * while this one is handled: that one may be for an overflow found here, and
 * finds nothing.  It arrives before the second check from now; a later NMI is not
 * for these events.
 */
static int kvm_pv_perf_handle_nmi(unsigned int type, struct pt_regs *regs)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	struct perf_sample_data data;
	struct perf_event *event;
	unsigned int id, index;
	int handled = 0;

	for (id = 0; id < KVM_PV_PERF_MAX_EVENTS; id++) {
		u64 overflows = READ_ONCE(cpu->slot[id].overflows);
		u64 seen = cpu->seen[id];

		cpu->seen[id] = overflows;
		/* Fewer: the event is just being opened again. */
		if (overflows <= seen)
			continue;
		handled += overflows - seen;
		if (!test_bit(id, &cpu->open))
			continue;
		for (index = 0; index < BITS_PER_LONG; index++) {
			event = READ_ONCE(cpu->event[index]);
			if (!event || event->hw.config != id)
				continue;
			kvm_pv_perf_update(cpu, event, true);
			perf_sample_data_init(&data, 0, event->hw.last_period);
			if (perf_event_overflow(event, &data, regs))
				kvm_pv_perf_stop(event, 0);
		}
	}
	if (handled > 1)
		atomic_set(&cpu->surplus, 2);
	else if (!handled && atomic_xchg(&cpu->surplus, 0))
		handled = 1;
	return handled;
}

/*
 * Close all events of this CPU permanently: the host would write slots into memory that
 * another kernel may use soon.  Tasks are still switched and timers expire until that
 * kernel runs, so refuse to open events.
 */
void kvm_pv_perf_guest_reset(void)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	if (!cpu)
		return;
	WRITE_ONCE(cpu->closed, true);
	barrier();
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
	cpu->open = 0;
}

/*
 * Open the events on this CPU.  Called with interrupts off when the CPU comes online and
 * when the machine resumes.
 */
void kvm_pv_perf_guest_online(void)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	unsigned int id;

	if (!cpu)
		return;
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
	cpu->open = 0;
	/* The timers were moved to another CPU with all others. */
	cpu->checking = false;
	cpu->closed = false;
	for_each_set_bit(id, &wanted, KVM_PV_PERF_MAX_EVENTS)
		kvm_pv_perf_open(cpu, id);
}

PMU_FORMAT_ATTR(event, "config:0-31");

static struct attribute *format_attrs[] = {
	&format_attr_event.attr,
	NULL
};

static const struct attribute_group format_group = {
	.name = "format",
	.attrs = format_attrs,
};

static struct attribute_group events_group = {
	.name = "events",
};

static const struct attribute_group *attr_groups[] = {
	&format_group,
	&events_group,
	NULL
};

static struct pmu kvm_pv_pmu = {
	.task_ctx_nr = perf_sw_context,
	.capabilities = PERF_PMU_CAP_NO_EXCLUDE,
	.attr_groups = attr_groups,
	.pmu_enable = kvm_pv_perf_pmu_enable,
	.pmu_disable = kvm_pv_perf_pmu_disable,
	.event_init = kvm_pv_perf_event_init,
	.add = kvm_pv_perf_add,
	.del = kvm_pv_perf_del,
	.start = kvm_pv_perf_start,
	.stop = kvm_pv_perf_stop,
	.read = kvm_pv_perf_read,
	.check_period = kvm_pv_perf_check_period,
};

/* An attribute of the group "events": NAME, NAME.unit or NAME.scale */
static int __init kvm_pv_perf_make_attr(struct attribute **attr, const char *name,
					const char *suffix, char *value)
{
	struct perf_pmu_events_attr *made = kzalloc(sizeof(*made), GFP_KERNEL);

	if (!made) {
		kfree(value);
		return -ENOMEM;
	}
	sysfs_attr_init(&made->attr.attr);
	made->attr.attr.name = kasprintf(GFP_KERNEL, "%s%s", name, suffix);
	made->attr.attr.mode = 0444;
	made->attr.show = perf_event_sysfs_show;
	made->event_str = value;
	*attr = &made->attr.attr;
	return made->attr.attr.name && value ? 0 : -ENOMEM;
}

static int __init kvm_pv_perf_add_name(struct attribute ***attr, const char *name,
				       u32 config, const char *unit, int exponent)
{
	int r = kvm_pv_perf_make_attr((*attr)++, name, "",
				      kasprintf(GFP_KERNEL, "event=0x%x", config));

	if (!r && unit)
		r = kvm_pv_perf_make_attr((*attr)++, name, ".unit",
					  kasprintf(GFP_KERNEL, "%s", unit));
	if (!r && exponent)
		r = kvm_pv_perf_make_attr((*attr)++, name, ".scale",
					  kasprintf(GFP_KERNEL, "1e%d", exponent));
	return r;
}

/* The events as sysfs has them: what the host counts, with its unit */
static int __init kvm_pv_perf_make_events(void)
{
	static const char * const units[] = { NULL, "B", "s", "cycles" };
	struct attribute **attr;
	unsigned int i;
	int r;

	attr = kcalloc(3 * (info.stats + 2) + 1, sizeof(*attr), GFP_KERNEL);
	if (!attr)
		return -ENOMEM;
	events_group.attrs = attr;
	r = kvm_pv_perf_add_name(&attr, "cpu-clock",
				 CONFIG_SOFTWARE(PERF_COUNT_SW_CPU_CLOCK), "s", -9);
	if (!r)
		r = kvm_pv_perf_add_name(&attr, "task-clock",
					 CONFIG_SOFTWARE(PERF_COUNT_SW_TASK_CLOCK), "s", -9);
	for (i = 0; i < info.stats && !r; i++) {
		const struct kvm_stats_desc *desc = &stats[i];
		u32 unit = (desc->flags & KVM_STATS_UNIT_MASK) >> KVM_STATS_UNIT_SHIFT;

		/* Perf sums up, and scales by powers of ten. */
		if (desc->size != 1 || unit >= ARRAY_SIZE(units) ||
		    (desc->flags & KVM_STATS_TYPE_MASK) != KVM_STATS_TYPE_CUMULATIVE ||
		    ((desc->flags & KVM_STATS_BASE_MASK) != KVM_STATS_BASE_POW10 &&
		     desc->exponent))
			continue;
		r = kvm_pv_perf_add_name(&attr, desc->name, CONFIG_STAT(i),
					 units[unit], desc->exponent);
	}
	return r;
}

static void __init kvm_pv_perf_free_events(void)
{
	struct attribute **attr = events_group.attrs;

	for (; attr && *attr; attr++) {
		struct perf_pmu_events_attr *made =
			container_of(*attr, struct perf_pmu_events_attr, attr.attr);

		kfree(made->attr.attr.name);
		kfree(made->event_str);
		kfree(made);
	}
	kfree(events_group.attrs);
	events_group.attrs = NULL;
}

static int __init kvm_pv_perf_read_stats(void)
{
	struct kvm_stats_desc *stat;
	unsigned int i;
	int r = 0;

	if (info.stats >= BIT(CONFIG_TYPE_SHIFT))
		return -EINVAL;
	stats = kcalloc(info.stats, sizeof(*stats), GFP_KERNEL);
	stat = kzalloc(sizeof(*stat), GFP_KERNEL);
	if (!stats || !stat)
		r = -ENOMEM;
	for (i = 0; i < info.stats && !r; i++) {
		if (kvm_hypercall3(KVM_HC_PV_PERF, KVM_PV_PERF_STAT_DESC, i, __pa(stat)))
			r = -EINVAL;
		stats[i] = *stat;
		stats[i].name[sizeof(stats[i].name) - 1] = '\0';
	}
	kfree(stat);
	return r;
}

static bool __init kvm_pv_perf_is_available(void)
{
	struct kvm_pv_perf_info *got;

	if (!kvm_para_available() || !kvm_para_has_feature(KVM_FEATURE_PV_PERF) ||
	    cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return false;
	got = kzalloc(sizeof(*got), GFP_KERNEL);
	if (got && !kvm_pv_perf_call(KVM_PV_PERF_QUERY, __pa(got)))
		info = *got;
	kfree(got);
	info.max_events = min_t(u32, info.max_events, KVM_PV_PERF_MAX_EVENTS);
	return info.version >= KVM_PV_PERF_VERSION;
}

/* Close the events of a kernel that started this one by kexec. */
static void __init kvm_pv_perf_forget(void *unused)
{
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
}

static int __init kvm_pv_perf_alloc_cpus(void)
{
	struct kvm_pv_perf_cpu *cpu;
	unsigned int i;

	for_each_possible_cpu(i) {
		/* A power of two: slots are aligned, none crosses a page. */
		cpu = kzalloc_node(roundup_pow_of_two(sizeof(*cpu)), GFP_KERNEL,
				   cpu_to_node(i));
		if (!cpu)
			return -ENOMEM;
		timer_setup(&cpu->tick, kvm_pv_perf_handle_tick, TIMER_DEFERRABLE | TIMER_PINNED);
		hrtimer_setup(&cpu->due, kvm_pv_perf_handle_due, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_HARD);
		per_cpu(kvm_pv_perf_cpu, i) = cpu;
	}
	return 0;
}

static int __init kvm_pv_perf_init(void)
{
	unsigned int i;
	int r;

	if (!kvm_pv_perf_is_available())
		return 0;
	on_each_cpu(kvm_pv_perf_forget, NULL, 1);
	r = kvm_pv_perf_read_stats();
	if (!r)
		r = kvm_pv_perf_make_events();
	if (!r)
		r = kvm_pv_perf_alloc_cpus();
	if (r)
		goto free;
	r = register_nmi_handler(NMI_LOCAL, kvm_pv_perf_handle_nmi, 0, "kvm_pv");
	if (r)
		goto free;
	r = perf_pmu_register(&kvm_pv_pmu, "kvm_pv", -1);
	if (r)
		goto unregister;
	pr_info("%u statistics of the host, %u events per CPU\n", info.stats,
		info.max_events);
	return 0;

unregister:
	unregister_nmi_handler(NMI_LOCAL, "kvm_pv");
free:
	for_each_possible_cpu(i) {
		kfree(per_cpu(kvm_pv_perf_cpu, i));
		per_cpu(kvm_pv_perf_cpu, i) = NULL;
	}
	kvm_pv_perf_free_events();
	kfree(stats);
	return r;
}
device_initcall(kvm_pv_perf_init);
