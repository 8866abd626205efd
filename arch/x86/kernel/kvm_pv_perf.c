// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PMU kvm_pv of a KVM guest: events that the host counts for the vCPU on
 * which they run, opened by hypercall.
 *
 * The ABI is described in Documentation/virt/kvm/pv-perf.rst. An event has an id
 * of the host while it runs on a CPU. The host loses it when the guest is
 * restored or migrated: then the hypercall says -KVM_ENOENT, and what was counted
 * until then is in the slot.
 */

#define pr_fmt(fmt) "kvm_pv: " fmt

#include <linux/cc_platform.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kvm.h>
#include <linux/kvm_para.h>
#include <linux/log2.h>
#include <linux/perf_event.h>
#include <linux/slab.h>
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
 * struct kvm_pv_perf_cpu - the events on a CPU
 * @slot: where the host writes, by id
 * @attr: for opening an event
 * @event: by id, NULL while the host's count is another one than the event's
 * @seen: overflows that the NMI handler has seen, by id
 * @surplus: for how many checks an NMI may arrive whose overflow was handled earlier
 * @used: ids that events have
 * @lost: those of them that could not be opened again
 * @retry: the host had no memory for an event, which has no id therefore
 * @check: opens lost events again, see kvm_pv_perf_check()
 * @due: when @check reads the counts even if kvmclock shows no migration
 * @clock_version: version of kvmclock's page at the last check
 * @checking: @check is armed on this CPU
 * @closed: no event is opened until the CPU, or the machine, starts again
 */
struct kvm_pv_perf_cpu {
	struct kvm_pv_perf_slot slot[KVM_PV_PERF_MAX_EVENTS] __aligned(32);
	struct kvm_pv_perf_attr attr;
	struct perf_event *event[KVM_PV_PERF_MAX_EVENTS];
	u64 seen[KVM_PV_PERF_MAX_EVENTS];
	unsigned long used;
	unsigned long lost;
	struct hrtimer check;
	ktime_t due;
	u32 clock_version;
	atomic_t surplus;
	bool retry;
	bool checking;
	bool closed;
};

/* Not in per-CPU memory: the host needs physical addresses. */
static DEFINE_PER_CPU(struct kvm_pv_perf_cpu *, kvm_pv_perf_cpu);

static struct pmu kvm_pv_pmu;
static struct kvm_pv_perf_info info;
/* As the host described them when the guest booted; another host may have others. */
static struct kvm_stats_desc *stats;

static long kvm_pv_perf_call(unsigned int op, unsigned long a1)
{
	return kvm_hypercall2(KVM_HC_PV_PERF, op, a1);
}

/* Whether what a call returned says that this host does not have the event */
static bool kvm_pv_perf_lost(long r)
{
	return r && r != -KVM_EFAULT;
}

/* Add the host's count; an NMI may do the same concurrently. */
static void kvm_pv_perf_update(struct perf_event *event,
			       const struct kvm_pv_perf_slot *slot)
{
	u64 now, prev;
	u32 seq;

	do {
		seq = READ_ONCE(slot->seq);
		barrier();
		now = slot->count;
		barrier();
	} while (READ_ONCE(slot->seq) != seq);

	prev = local64_xchg(&event->hw.prev_count, now);
	local64_add(now - prev, &event->count);
}

static long kvm_pv_perf_open(struct kvm_pv_perf_cpu *cpu, struct perf_event *event)
{
	u32 type = event->hw.config >> CONFIG_TYPE_SHIFT;
	u32 n = event->hw.config & (BIT(CONFIG_TYPE_SHIFT) - 1);
	int id = event->hw.idx;
	long r;

	/* The host would write to memory that may belong to another kernel. */
	if (cpu->closed)
		return -KVM_EPERM;

	cpu->attr = (struct kvm_pv_perf_attr) {
		.size = sizeof(cpu->attr),
		.id = id,
		.type = type,
		.flags = KVM_PV_PERF_ENABLED,
		.slot = __pa(&cpu->slot[id]),
	};
	if (type == KVM_PV_PERF_TYPE_STAT) {
		memcpy(cpu->attr.name, stats[n].name, sizeof(cpu->attr.name));
	} else {
		cpu->attr.config = n;
		if (is_sampling_event(event)) {
			event->hw.last_period = max(event->hw.sample_period,
						    info.min_period);
			cpu->attr.period = event->hw.last_period;
		}
	}
	/* Or the first overflow could look like the last one of another event. */
	WRITE_ONCE(cpu->slot[id].overflows, 0);
	WRITE_ONCE(cpu->seen[id], 0);
	r = kvm_pv_perf_call(KVM_PV_PERF_OPEN, __pa(&cpu->attr));
	if (!r) {
		local64_set(&event->hw.prev_count, 0);
		event->hw.state = 0;
		barrier();
		WRITE_ONCE(cpu->event[id], event);
	}
	return r;
}

static void kvm_pv_perf_close(struct kvm_pv_perf_cpu *cpu, struct perf_event *event)
{
	int id = event->hw.idx;

	/* Lost or not, the slot has the last count. */
	kvm_pv_perf_call(KVM_PV_PERF_CLOSE, id);
	WRITE_ONCE(cpu->event[id], NULL);
	barrier();
	kvm_pv_perf_update(event, &cpu->slot[id]);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static void kvm_pv_perf_read(struct perf_event *event)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	int id = event->hw.idx;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	/* A sample may read other events; it leaves opening to the timer. */
	if (kvm_pv_perf_lost(kvm_pv_perf_call(KVM_PV_PERF_READ, id)) && !in_nmi()) {
		kvm_pv_perf_close(cpu, event);
		if (kvm_pv_perf_open(cpu, event))
			__set_bit(id, &cpu->lost);
	} else {
		kvm_pv_perf_update(event, &cpu->slot[id]);
	}
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
	unsigned long open = 0;
	unsigned int id;

	for_each_set_bit(id, &cpu->used, KVM_PV_PERF_MAX_EVENTS) {
		if (cpu->event[id])
			__set_bit(id, &open);
	}
	if (open && kvm_pv_perf_lost(kvm_pv_perf_call(KVM_PV_PERF_READ_ALL, open))) {
		for_each_set_bit(id, &open, KVM_PV_PERF_MAX_EVENTS)
			kvm_pv_perf_read(cpu->event[id]);
	}
	/*
	 * Remove an event that does not count from its CPU, or perf would report
	 * that it counted all the time.
	 */
	if (cpu->lost || cpu->retry) {
		cpu->retry = false;
		perf_pmu_resched(&kvm_pv_pmu);
	}
}

static void kvm_pv_perf_set_expiry(struct kvm_pv_perf_cpu *cpu, ktime_t now)
{
	/* From half a tick on, or the timer would run twice with one tick. */
	ktime_t soft = min(ktime_add_ns(now, TICK_NSEC / 2), cpu->due);

	hrtimer_set_expires_range(&cpu->check, soft, ktime_sub(cpu->due, soft));
}

/*
 * Run with each tick that is not stopped, but never cause an interrupt before @due:
 * the timer expires at @due, and may do so earlier with another one. No other timer
 * of the kernel uses CLOCK_BOOTTIME permanently, so none that is not due precedes
 * this one in its queue.
 */
static enum hrtimer_restart kvm_pv_perf_check(struct hrtimer *timer)
{
	struct kvm_pv_perf_cpu *cpu =
		container_of(timer, struct kvm_pv_perf_cpu, check);
	ktime_t now = hrtimer_cb_get_time(timer);

	/* The timer may fire late, on another CPU, when this one is offline. */
	if (cpu != this_cpu_read(kvm_pv_perf_cpu))
		return HRTIMER_NORESTART;
	atomic_dec_if_positive(&cpu->surplus);
	if (kvm_pv_perf_clock_changed(cpu) || now >= cpu->due) {
		kvm_pv_perf_check_events(cpu);
		cpu->due = ktime_add_ns(now, CHECK_NS);
	}
	cpu->checking = cpu->used || cpu->retry || atomic_read(&cpu->surplus);
	if (!cpu->checking)
		return HRTIMER_NORESTART;
	kvm_pv_perf_set_expiry(cpu, now);
	return HRTIMER_RESTART;
}

static void kvm_pv_perf_start_check(struct kvm_pv_perf_cpu *cpu)
{
	ktime_t now = ktime_get_boottime();

	if (cpu->checking)
		return;
	cpu->checking = true;
	cpu->due = ktime_add_ns(now, CHECK_NS);
	kvm_pv_perf_set_expiry(cpu, now);
	hrtimer_start_expires(&cpu->check, HRTIMER_MODE_ABS_PINNED_HARD);
}

static void kvm_pv_perf_start(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	if (event->hw.state & PERF_HES_STOPPED && kvm_pv_perf_open(cpu, event))
		__set_bit(event->hw.idx, &cpu->lost);
}

static void kvm_pv_perf_stop(struct perf_event *event, int flags)
{
	if (!(event->hw.state & PERF_HES_STOPPED))
		kvm_pv_perf_close(this_cpu_read(kvm_pv_perf_cpu), event);
}

static int kvm_pv_perf_add(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	unsigned int id = find_first_zero_bit(&cpu->used, info.max_events);
	long r;

	if (id >= info.max_events)
		return -EAGAIN;
	event->hw.idx = id;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START) {
		r = kvm_pv_perf_open(cpu, event);
		if (r == -KVM_EBUSY) {
			cpu->retry = true;
			kvm_pv_perf_start_check(cpu);
		}
		if (r)
			return -EAGAIN;
	}
	__set_bit(id, &cpu->used);
	kvm_pv_perf_start_check(cpu);
	perf_event_update_userpage(event);
	return 0;
}

static void kvm_pv_perf_del(struct perf_event *event, int flags)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	kvm_pv_perf_stop(event, PERF_EF_UPDATE);
	__clear_bit(event->hw.idx, &cpu->used);
	__clear_bit(event->hw.idx, &cpu->lost);
	perf_event_update_userpage(event);
}

static int kvm_pv_perf_event_init(struct perf_event *event)
{
	struct hw_perf_event *hwc = &event->hw;
	u64 config = event->attr.config;

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
		if (is_sampling_event(event))
			return -EOPNOTSUPP;
		break;
	default:
		return -EINVAL;
	}
	hwc->config = config;

	/* The clocks have a fixed rate: a frequency is a period. */
	if (is_sampling_event(event) && event->attr.freq) {
		event->attr.sample_period = div64_u64(NSEC_PER_SEC,
						      event->attr.sample_freq);
		event->attr.freq = 0;
		hwc->sample_period = event->attr.sample_period;
	}
	return 0;
}

/*
 * The NMI for an overflow may arrive after the event was closed, so check all
 * slots; one NMI may find several overflows. The host holds back one more NMI
 * while this one is handled: that one may be for an overflow found here, and
 * finds nothing.  It arrives before the second check from now; a later NMI is not
 * for these events.
 */
static int kvm_pv_perf_nmi(unsigned int type, struct pt_regs *regs)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);
	unsigned int id;
	int handled = 0;

	for (id = 0; id < KVM_PV_PERF_MAX_EVENTS; id++) {
		struct perf_event *event = READ_ONCE(cpu->event[id]);
		u64 overflows = READ_ONCE(cpu->slot[id].overflows);
		u64 seen = cpu->seen[id];
		struct perf_sample_data data;

		cpu->seen[id] = overflows;
		/* Fewer: the event is just being opened again. */
		if (overflows <= seen)
			continue;
		handled += overflows - seen;
		if (!event)
			continue;
		kvm_pv_perf_update(event, &cpu->slot[id]);
		perf_sample_data_init(&data, 0, event->hw.last_period);
		if (perf_event_overflow(event, &data, regs))
			kvm_pv_perf_stop(event, 0);
	}
	if (handled > 1)
		atomic_set(&cpu->surplus, 2);
	else if (!handled && atomic_xchg(&cpu->surplus, 0))
		handled = 1;
	return handled;
}

/**
 * kvm_pv_perf_guest_reset - close all events of this CPU permanently
 *
 * It writes to their slots, in memory that another kernel may have soon. Until that
 * kernel runs tasks are still switched and timers end: none may open an event again.
 */
void kvm_pv_perf_guest_reset(void)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	if (!cpu)
		return;
	WRITE_ONCE(cpu->closed, true);
	barrier();
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
}

/**
 * kvm_pv_perf_guest_online - let this CPU have events
 *
 * Called with interrupts off when a CPU comes online and when the machine resumes.
 */
void kvm_pv_perf_guest_online(void)
{
	struct kvm_pv_perf_cpu *cpu = this_cpu_read(kvm_pv_perf_cpu);

	if (!cpu)
		return;
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
	/* The timer went to another CPU with all others. */
	cpu->checking = false;
	cpu->closed = false;
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
	.event_init = kvm_pv_perf_event_init,
	.add = kvm_pv_perf_add,
	.del = kvm_pv_perf_del,
	.start = kvm_pv_perf_start,
	.stop = kvm_pv_perf_stop,
	.read = kvm_pv_perf_read,
};

/* An attribute of the group "events": NAME, NAME.unit or NAME.scale */
static int __init kvm_pv_perf_attribute(struct attribute **attr, const char *name,
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

static int __init kvm_pv_perf_name(struct attribute ***attr, const char *name,
				   u32 config, const char *unit, int exponent)
{
	int r = kvm_pv_perf_attribute((*attr)++, name, "",
				      kasprintf(GFP_KERNEL, "event=0x%x", config));

	if (!r && unit)
		r = kvm_pv_perf_attribute((*attr)++, name, ".unit",
					  kasprintf(GFP_KERNEL, "%s", unit));
	if (!r && exponent)
		r = kvm_pv_perf_attribute((*attr)++, name, ".scale",
					  kasprintf(GFP_KERNEL, "1e%d", exponent));
	return r;
}

/* The events as sysfs has them: what the host counts, with its unit */
static int __init kvm_pv_perf_events(void)
{
	static const char * const units[] = { NULL, "B", "s", "cycles" };
	struct attribute **attr;
	unsigned int i;
	int r;

	attr = kcalloc(3 * (info.stats + 2) + 1, sizeof(*attr), GFP_KERNEL);
	if (!attr)
		return -ENOMEM;
	events_group.attrs = attr;
	r = kvm_pv_perf_name(&attr, "cpu-clock",
			     CONFIG_SOFTWARE(PERF_COUNT_SW_CPU_CLOCK), "s", -9);
	if (!r)
		r = kvm_pv_perf_name(&attr, "task-clock",
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
		r = kvm_pv_perf_name(&attr, desc->name, CONFIG_STAT(i),
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

static int __init kvm_pv_perf_stats(void)
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

static bool __init kvm_pv_perf_available(void)
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

/* What a kernel that ran before, and was left by kexec, may have opened */
static void __init kvm_pv_perf_forget(void *unused)
{
	kvm_pv_perf_call(KVM_PV_PERF_RESET, 0);
}

static int __init kvm_pv_perf_cpus(void)
{
	struct kvm_pv_perf_cpu *cpu;
	unsigned int i;

	for_each_possible_cpu(i) {
		/* A power of two: slots are aligned, none crosses a page. */
		cpu = kzalloc_node(roundup_pow_of_two(sizeof(*cpu)), GFP_KERNEL,
				   cpu_to_node(i));
		if (!cpu)
			return -ENOMEM;
		hrtimer_setup(&cpu->check, kvm_pv_perf_check, CLOCK_BOOTTIME,
			      HRTIMER_MODE_ABS_PINNED_HARD);
		per_cpu(kvm_pv_perf_cpu, i) = cpu;
	}
	return 0;
}

static int __init kvm_pv_perf_init(void)
{
	unsigned int i;
	int r;

	if (!kvm_pv_perf_available())
		return 0;
	on_each_cpu(kvm_pv_perf_forget, NULL, 1);
	r = kvm_pv_perf_stats();
	if (!r)
		r = kvm_pv_perf_events();
	if (!r)
		r = kvm_pv_perf_cpus();
	if (r)
		goto free;
	r = register_nmi_handler(NMI_LOCAL, kvm_pv_perf_nmi, 0, "kvm_pv");
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
