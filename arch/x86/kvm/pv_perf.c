// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paravirtual perf: a guest opens events of the host that count for its own
 * vCPU, by hypercall. Their counts are written to slots in guest memory;
 * the end of a period is an NMI.
 *
 * The ABI is described in Documentation/virt/kvm/pv-perf.rst.
 *
 * Everything here runs under vcpu->mutex, except for the overflow of an event,
 * which is an interrupt.
 */

#include <linux/irq_work.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/perf_event.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "cpuid.h"
#include "pv_perf.h"
#include "x86.h"

/* Off by default, because the events show a guest how busy the host is. */
static bool __read_mostly pv_perf;
module_param(pv_perf, bool, 0644);
MODULE_PARM_DESC(pv_perf, "Support perf events of the host in VMs created from now on");

/**
 * struct kvm_pv_perf_event - an event that the guest opened
 * @vcpu: the vCPU that opened it
 * @event: event of perf, NULL for a statistic
 * @stat: counter of a statistic
 * @base: statistic: value of the counter at the last read
 * @count: statistic: increments until then, while the event was enabled
 * @overflows: periods that ended since the event was opened
 * @reported: those of @overflows for which an NMI was queued
 * @slot: guest physical address of the slot
 * @seq: seq of the slot; continues when the id is opened again
 * @state: KVM_PV_PERF_STATE_*
 */
struct kvm_pv_perf_event {
	struct kvm_vcpu *vcpu;
	struct perf_event *event;
	const u64 *stat;
	u64 base;
	u64 count;
	atomic64_t overflows;
	u64 reported;
	gpa_t slot;
	u32 seq;
	u32 state;
};

/**
 * struct kvm_guest_perf - the events of a vCPU
 * @irq_work: kicks the vCPU after an overflow
 * @overflowed: ids whose slots are older than their last overflow
 * @open: ids that are open
 * @events: by id
 */
struct kvm_guest_perf {
	struct irq_work irq_work;
	unsigned long overflowed;
	unsigned long open;
	struct kvm_pv_perf_event events[KVM_PV_PERF_MAX_EVENTS];
};

static_assert(sizeof(struct kvm_pv_perf_info) == 32);
static_assert(sizeof(struct kvm_pv_perf_attr) == 96);
static_assert(sizeof(struct kvm_pv_perf_slot) == 32);
static_assert(sizeof_field(struct kvm_stats_desc, name) == KVM_PV_PERF_NAME_SIZE);
static_assert(KVM_PV_PERF_TYPE_SOFTWARE == PERF_TYPE_SOFTWARE);

/* perf may call overflow handlers in NMI context: only count, and queue the work. */
static void kvm_pv_perf_overflow(struct perf_event *perf_event,
				 struct perf_sample_data *data,
				 struct pt_regs *regs)
{
	struct kvm_pv_perf_event *event = perf_event->overflow_handler_context;
	struct kvm_guest_perf *perf = event->vcpu->arch.guest_perf;

	atomic64_inc(&event->overflows);
	set_bit(event - perf->events, &perf->overflowed);
	irq_work_queue(&perf->irq_work);
}

static void kvm_pv_perf_irq_work(struct irq_work *irq_work)
{
	struct kvm_guest_perf *perf =
		container_of(irq_work, struct kvm_guest_perf, irq_work);
	struct kvm_vcpu *vcpu = perf->events[0].vcpu;

	/* The slots cannot be written here, and there is no NMI without. */
	kvm_make_request(KVM_REQ_PV_PERF, vcpu);
	kvm_vcpu_kick(vcpu);
}

static u64 kvm_pv_perf_count(struct kvm_pv_perf_event *event)
{
	u64 enabled, running, now;

	if (event->event)
		return perf_event_read_value(event->event, &enabled, &running);
	if (event->state == KVM_PV_PERF_STATE_ON) {
		now = READ_ONCE(*event->stat);
		/* The value decreased: it was cleared in debugfs. */
		if (now < event->base)
			event->base = 0;
		event->count += now - event->base;
		event->base = now;
	}
	return event->count;
}

static void kvm_pv_perf_start(struct kvm_pv_perf_event *event)
{
	if (event->state == KVM_PV_PERF_STATE_ON)
		return;
	if (event->event)
		perf_event_enable(event->event);
	else
		event->base = READ_ONCE(*event->stat);
	event->state = KVM_PV_PERF_STATE_ON;
}

static void kvm_pv_perf_stop(struct kvm_pv_perf_event *event, u32 state)
{
	if (event->event)
		perf_event_disable(event->event);
	else
		event->count = kvm_pv_perf_count(event);
	event->state = state;
}

/*
 * Make a page of guest memory present for a copy with page faults disabled.  A copy
 * with page faults enabled would wait for the page even if userspace stops the vCPU,
 * and retry the fault all the time while a signal is pending.
 *
 * FOLL_INTERRUPTIBLE: wait for the page until a signal arrives.
 * FOLL_NOWAIT: fail with -EAGAIN if the page needs I/O or userfaultfd.
 */
static long kvm_pv_perf_fault_in(struct kvm *kvm, gpa_t gpa, unsigned int flags)
{
	gfn_t gfn = gpa_to_gfn(gpa);
	struct page *page;
	unsigned long hva;
	long r;

	hva = flags & FOLL_WRITE ? gfn_to_hva(kvm, gfn) : gfn_to_hva_prot(kvm, gfn, NULL);
	if (kvm_is_error_hva(hva))
		return -KVM_EFAULT;
	r = get_user_pages_unlocked(hva, 1, &page, flags);
	if (r == 1) {
		put_page(page);
		return 0;
	}
	if (!r)
		return -EAGAIN;
	return r == -EINTR ? -EINTR : -KVM_EFAULT;
}

/* Wait for guest memory that a hypercall uses; -EINTR: repeat the hypercall later. */
static long kvm_pv_perf_wait(struct kvm *kvm, gpa_t gpa, size_t len, unsigned int flags)
{
	long r;

	if (signal_pending(current))
		return -EINTR;
	r = kvm_pv_perf_fault_in(kvm, gpa, flags | FOLL_INTERRUPTIBLE);
	if (!r && offset_in_page(gpa) + len > PAGE_SIZE)
		r = kvm_pv_perf_fault_in(kvm, gpa + len - 1, flags | FOLL_INTERRUPTIBLE);
	return r;
}

static long kvm_pv_perf_read(struct kvm *kvm, gpa_t gpa, void *data, size_t len)
{
	long r;

	for (;;) {
		pagefault_disable();
		r = kvm_read_guest(kvm, gpa, data, len);
		pagefault_enable();
		if (!r)
			return 0;
		r = kvm_pv_perf_wait(kvm, gpa, len, 0);
		if (r)
			return r;
	}
}

static long kvm_pv_perf_write(struct kvm *kvm, gpa_t gpa, const void *data, size_t len)
{
	long r;

	for (;;) {
		pagefault_disable();
		r = kvm_write_guest(kvm, gpa, data, len);
		pagefault_enable();
		if (!r)
			return 0;
		r = kvm_pv_perf_wait(kvm, gpa, len, FOLL_WRITE);
		if (r)
			return r;
	}
}

/*
 * Write a slot that has changed, with one dirty mark: between two checks of a dirty ring, KVM
 * reserves only few entries for such writes.  The slot lies in one page.
 */
static long kvm_pv_perf_store_slot(struct kvm_pv_perf_event *event)
{
	const size_t after_seq = offsetofend(struct kvm_pv_perf_slot, seq);
	struct kvm *kvm = event->vcpu->kvm;
	gfn_t gfn = gpa_to_gfn(event->slot);
	unsigned long hva = gfn_to_hva(kvm, gfn);
	struct kvm_pv_perf_slot old, slot = {
		.seq = event->seq,
		.state = event->state,
		.count = kvm_pv_perf_count(event),
		/* Without an NMI, the guest would attribute the next one to it. */
		.overflows = event->reported,
	};
	void __user *to;
	long r = -EAGAIN;

	if (kvm_is_error_hva(hva))
		return -KVM_EFAULT;
	to = (void __user *)hva + offset_in_page(event->slot);

	pagefault_disable();
	if (__copy_from_user_inatomic(&old, to, sizeof(old)))
		goto out;
	r = 0;
	if (!memcmp(&old, &slot, sizeof(old)))
		goto out;

	r = -EAGAIN;
	slot.seq++;
	event->seq += 2;
	if (__copy_to_user_inatomic(to, &slot, after_seq))
		goto out;
	smp_wmb(); /* seq is odd before the rest changes ... */
	if (__copy_to_user_inatomic(to + after_seq, (void *)&slot + after_seq,
				    sizeof(slot) - after_seq))
		goto out_dirty;
	smp_wmb(); /* ... and even after that. */
	if (__copy_to_user_inatomic(to, &event->seq, after_seq))
		goto out_dirty;
	r = 0;

out_dirty:
	mark_page_dirty(kvm, gfn);
out:
	pagefault_enable();
	return r;
}

/* Write a slot for a hypercall, which waits for the page. */
static long kvm_pv_perf_write_slot(struct kvm_pv_perf_event *event)
{
	long r;

	for (;;) {
		r = kvm_pv_perf_store_slot(event);
		if (r != -EAGAIN)
			return r;
		r = kvm_pv_perf_wait(event->vcpu->kvm, event->slot,
				     sizeof(struct kvm_pv_perf_slot), FOLL_WRITE);
		if (r)
			return r;
	}
}

/* Write a slot that the guest has not asked for: don't wait for the page. */
static long kvm_pv_perf_write_slot_nowait(struct kvm_pv_perf_event *event)
{
	long r = kvm_pv_perf_store_slot(event);

	if (r != -EAGAIN)
		return r;
	r = kvm_pv_perf_fault_in(event->vcpu->kvm, event->slot, FOLL_WRITE | FOLL_NOWAIT);
	return r ? r : kvm_pv_perf_store_slot(event);
}

/* The number of open events is a statistic, for the owner of the host. */
static void kvm_pv_perf_set_open(struct kvm_guest_perf *perf, unsigned int id,
				 bool open)
{
	__assign_bit(id, &perf->open, open);
	perf->events[id].vcpu->stat.pv_perf_events = hweight_long(perf->open);
}

static void kvm_pv_perf_release(struct kvm_guest_perf *perf, unsigned int id)
{
	struct kvm_pv_perf_event *event = &perf->events[id];

	kvm_pv_perf_set_open(perf, id, false);
	event->state = KVM_PV_PERF_STATE_OFF;
	if (event->event) {
		perf_event_release_kernel(event->event);
		event->event = NULL;
		/* Don't report an overflow after the id is opened again. */
		irq_work_sync(&perf->irq_work);
		clear_bit(id, &perf->overflowed);
	}
	/* Don't let a request without an event end a halt. */
	if (!perf->open)
		kvm_clear_request(KVM_REQ_PV_PERF, event->vcpu);
}

/*
 * Close all events.  Don't write slots: after a reset, their memory may have another
 * use, after a restore it contains the saved counts.
 */
void kvm_pv_perf_reset(struct kvm_vcpu *vcpu)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	unsigned int id;

	if (!perf)
		return;
	for_each_set_bit(id, &perf->open, KVM_PV_PERF_MAX_EVENTS)
		kvm_pv_perf_release(perf, id);
}

/* Return the descriptor of the statistic with this name, or NULL. */
static const struct kvm_stats_desc *kvm_pv_perf_stat(const char *name)
{
	const struct kvm_stats_desc *desc;
	unsigned int i;

	for (i = 0; (desc = kvm_stats_vcpu_desc(i)); i++) {
		if (!strcmp(desc->name, name))
			break;
	}
	return desc;
}

static long kvm_pv_perf_create_stat(struct kvm_pv_perf_event *event,
				    const struct kvm_pv_perf_attr *attr)
{
	const struct kvm_stats_desc *desc;

	if (attr->config || strnlen(attr->name, sizeof(attr->name)) ==
			    sizeof(attr->name))
		return -KVM_EINVAL;
	if (attr->period)
		return -KVM_EOPNOTSUPP;
	desc = kvm_pv_perf_stat(attr->name);
	if (!desc)
		return -KVM_ENOENT;
	/* A count is the difference of two values, so the value must only grow. */
	if (desc->size != 1 ||
	    (desc->flags & KVM_STATS_TYPE_MASK) != KVM_STATS_TYPE_CUMULATIVE)
		return -KVM_EOPNOTSUPP;

	event->stat = (void *)&event->vcpu->stat + desc->offset;
	event->count = 0;
	event->base = READ_ONCE(*event->stat);
	return 0;
}

static long kvm_pv_perf_create_software(struct kvm_pv_perf_event *event,
					const struct kvm_pv_perf_attr *guest)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = guest->config,
		.sample_period = guest->period,
		.disabled = !(guest->flags & KVM_PV_PERF_ENABLED),
		.pinned = 1,
	};
	struct perf_event *perf_event;

	if (memchr_inv(guest->name, 0, sizeof(guest->name)))
		return -KVM_EINVAL;
	/* The other software events patch a static key at each open and close. */
	if (guest->config != PERF_COUNT_SW_CPU_CLOCK &&
	    guest->config != PERF_COUNT_SW_TASK_CLOCK)
		return -KVM_EOPNOTSUPP;
	/* Perf keeps a period in an s64. */
	if (guest->period && (guest->period < KVM_PV_PERF_MIN_PERIOD ||
			      guest->period > S64_MAX))
		return -KVM_EOPNOTSUPP;

	perf_event = perf_event_create_kernel_counter(&attr, -1, current,
						      kvm_pv_perf_overflow, event);
	if (IS_ERR(perf_event))
		return -KVM_EBUSY;
	event->event = perf_event;
	return 0;
}

static struct kvm_guest_perf *kvm_pv_perf_alloc(struct kvm_vcpu *vcpu)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	unsigned int id;

	if (perf)
		return perf;
	perf = kzalloc(sizeof(*perf), GFP_KERNEL_ACCOUNT);
	if (!perf)
		return NULL;
	init_irq_work(&perf->irq_work, kvm_pv_perf_irq_work);
	for (id = 0; id < KVM_PV_PERF_MAX_EVENTS; id++)
		perf->events[id].vcpu = vcpu;
	vcpu->arch.guest_perf = perf;
	return perf;
}

static long kvm_pv_perf_open(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct kvm_pv_perf_attr attr;
	struct kvm_pv_perf_event *event;
	struct kvm_guest_perf *perf;
	unsigned int id;
	long r;

	r = kvm_pv_perf_read(vcpu->kvm, gpa, &attr, sizeof(attr));
	if (r)
		return r;
	if (attr.size != sizeof(attr) || attr.flags & ~KVM_PV_PERF_ENABLED ||
	    attr.pad || !IS_ALIGNED(attr.slot, sizeof(struct kvm_pv_perf_slot)))
		return -KVM_EINVAL;
	if (attr.id >= KVM_PV_PERF_MAX_EVENTS)
		return -KVM_E2BIG;
	id = array_index_nospec(attr.id, KVM_PV_PERF_MAX_EVENTS);

	perf = kvm_pv_perf_alloc(vcpu);
	if (!perf)
		return -KVM_EBUSY;
	if (test_bit(id, &perf->open))
		return -KVM_EEXIST;

	event = &perf->events[id];
	event->slot = attr.slot;
	atomic64_set(&event->overflows, 0);
	event->reported = 0;
	switch (attr.type) {
	case KVM_PV_PERF_TYPE_SOFTWARE:
		r = kvm_pv_perf_create_software(event, &attr);
		break;
	case KVM_PV_PERF_TYPE_STAT:
		r = kvm_pv_perf_create_stat(event, &attr);
		break;
	default:
		r = -KVM_EOPNOTSUPP;
		break;
	}
	if (r)
		return r;

	kvm_pv_perf_set_open(perf, id, true);
	event->state = attr.flags & KVM_PV_PERF_ENABLED ? KVM_PV_PERF_STATE_ON :
							  KVM_PV_PERF_STATE_OFF;
	r = kvm_pv_perf_write_slot(event);
	if (r)
		kvm_pv_perf_release(perf, id);
	return r;
}

/* Read all ids of a mask at once, for a guest that polls its events */
static long kvm_pv_perf_read_all(struct kvm_vcpu *vcpu, u64 mask)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	unsigned long ids = mask, open = perf ? perf->open & ids : 0;
	unsigned int id;
	long r = ids == open ? 0 : -KVM_ENOENT, written;

	if (mask >> KVM_PV_PERF_MAX_EVENTS)
		return -KVM_E2BIG;
	for_each_set_bit(id, &open, KVM_PV_PERF_MAX_EVENTS) {
		written = kvm_pv_perf_write_slot(&perf->events[id]);
		if (written == -EINTR)
			return written;
		if (!r)
			r = written;
	}
	return r;
}

/* CLOSE, ENABLE, DISABLE and READ have an id and write its slot. */
static long kvm_pv_perf_event_op(struct kvm_vcpu *vcpu, u64 op, u64 arg)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	struct kvm_pv_perf_event *event;
	unsigned int id;
	long r;

	if (arg >= KVM_PV_PERF_MAX_EVENTS)
		return -KVM_E2BIG;
	/* Cast: array_index_nospec() doesn't support u64 on 32-bit hosts. */
	id = array_index_nospec((unsigned int)arg, KVM_PV_PERF_MAX_EVENTS);
	if (!perf || !test_bit(id, &perf->open))
		return -KVM_ENOENT;

	event = &perf->events[id];
	switch (op) {
	case KVM_PV_PERF_ENABLE:
		kvm_pv_perf_start(event);
		break;
	case KVM_PV_PERF_DISABLE:
	case KVM_PV_PERF_CLOSE:
		kvm_pv_perf_stop(event, KVM_PV_PERF_STATE_OFF);
		break;
	}
	r = kvm_pv_perf_write_slot(event);
	if (op == KVM_PV_PERF_CLOSE && r != -EINTR)
		kvm_pv_perf_release(perf, id);
	return r;
}

static long kvm_pv_perf_query(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	struct kvm_pv_perf_info info = {
		.version = KVM_PV_PERF_VERSION,
		.max_events = KVM_PV_PERF_MAX_EVENTS,
		.types = BIT(KVM_PV_PERF_TYPE_SOFTWARE) | BIT(KVM_PV_PERF_TYPE_STAT),
		.min_period = KVM_PV_PERF_MIN_PERIOD,
	};

	while (kvm_stats_vcpu_desc(info.stats))
		info.stats++;
	return kvm_pv_perf_write(vcpu->kvm, gpa, &info, sizeof(info));
}

static long kvm_pv_perf_stat_desc(struct kvm_vcpu *vcpu, u64 index, gpa_t gpa)
{
	const struct kvm_stats_desc *desc = NULL;

	if (index <= UINT_MAX)
		desc = kvm_stats_vcpu_desc(index);
	if (!desc)
		return -KVM_EINVAL;
	return kvm_pv_perf_write(vcpu->kvm, gpa, desc, sizeof(*desc));
}

void kvm_pv_perf_init_vm(struct kvm *kvm)
{
	kvm->arch.pv_perf_allowed = READ_ONCE(pv_perf);
}

u32 kvm_pv_perf_feature(void)
{
	return READ_ONCE(pv_perf) ? 1 << KVM_FEATURE_PV_PERF : 0;
}

/*
 * Require the CPUID bits even if the VMM does not enforce the guest's PV features: a VMM that
 * does not know the feature does not set its bit.  If the guest has kvmclock, the VMM writes
 * its MSR to reset or restore the vCPU, which closes the events.
 */
static bool kvm_pv_perf_allowed(struct kvm_vcpu *vcpu)
{
	const u32 clocks = 1 << KVM_FEATURE_CLOCKSOURCE | 1 << KVM_FEATURE_CLOCKSOURCE2;
	const u32 features = vcpu->arch.pv_cpuid.features;

	return vcpu->kvm->arch.pv_perf_allowed && features & (1 << KVM_FEATURE_PV_PERF) &&
	       features & clocks;
}

/* Return the result for the guest, or -EINTR to repeat the hypercall after a signal. */
long kvm_pv_perf_hypercall(struct kvm_vcpu *vcpu, u64 op, u64 a1, u64 a2)
{
	if (!kvm_pv_perf_allowed(vcpu))
		return -KVM_ENOSYS;

	switch (op) {
	case KVM_PV_PERF_QUERY:
		return kvm_pv_perf_query(vcpu, a1);
	case KVM_PV_PERF_OPEN:
		return kvm_pv_perf_open(vcpu, a1);
	case KVM_PV_PERF_CLOSE:
	case KVM_PV_PERF_ENABLE:
	case KVM_PV_PERF_DISABLE:
	case KVM_PV_PERF_READ:
		return kvm_pv_perf_event_op(vcpu, op, a1);
	case KVM_PV_PERF_STAT_DESC:
		return kvm_pv_perf_stat_desc(vcpu, a1, a2);
	case KVM_PV_PERF_RESET:
		kvm_pv_perf_reset(vcpu);
		return 0;
	case KVM_PV_PERF_READ_ALL:
		return kvm_pv_perf_read_all(vcpu, a1);
	default:
		return -KVM_EINVAL;
	}
}

/*
 * Report overflows to the guest before it is entered.  A guest that does not see the
 * overflow could not tell the NMI from an unknown one: inject an NMI only if a slot is
 * written, stop an event without memory for its slot, and keep an overflow whose slot is
 * not present for the next one.
 */
void kvm_pv_perf_handle_overflow(struct kvm_vcpu *vcpu)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	unsigned long overflowed = xchg(&perf->overflowed, 0) & perf->open;
	bool written = false;
	unsigned int id;
	u64 reported;
	long r;

	for_each_set_bit(id, &overflowed, KVM_PV_PERF_MAX_EVENTS) {
		struct kvm_pv_perf_event *event = &perf->events[id];

		reported = event->reported;
		event->reported = atomic64_read(&event->overflows);
		r = kvm_pv_perf_write_slot_nowait(event);
		if (!r) {
			written = true;
		} else if (r == -EAGAIN) {
			event->reported = reported;
			set_bit(id, &perf->overflowed);
		} else {
			kvm_pv_perf_stop(event, KVM_PV_PERF_STATE_ERROR);
		}
	}
	if (written)
		kvm_inject_nmi(vcpu);
}

/*
 * Write all counts when userspace interrupts the vCPU, which it does before it saves
 * guest memory.  Userspace doesn't expect an access to guest memory here: leave out a slot
 * whose page is not present, and all slots if userspace has to harvest the dirty ring first.
 */
void kvm_pv_perf_write_slots(struct kvm_vcpu *vcpu)
{
	struct kvm_guest_perf *perf = vcpu->arch.guest_perf;
	unsigned int id;
	int idx;

	if (!perf)
		return;
	idx = srcu_read_lock(&vcpu->kvm->srcu);
	for_each_set_bit(id, &perf->open, KVM_PV_PERF_MAX_EVENTS) {
		if (kvm_dirty_ring_vcpu_soft_full(vcpu))
			break;
		kvm_pv_perf_write_slot_nowait(&perf->events[id]);
	}
	srcu_read_unlock(&vcpu->kvm->srcu, idx);
}

/* Close all events of a guest that continues to run: write the last counts. */
void kvm_pv_perf_close_all(struct kvm_vcpu *vcpu)
{
	kvm_pv_perf_write_slots(vcpu);
	kvm_pv_perf_reset(vcpu);
}

/*
 * Events count for the thread that opened them, and would continue to do so
 * if the vCPU runs in another thread.
 */
int kvm_arch_vcpu_run_pid_change(struct kvm_vcpu *vcpu)
{
	/* Writing to guest memory requires a loaded vCPU, see mark_page_dirty_in_slot(). */
	vcpu_load(vcpu);
	kvm_pv_perf_close_all(vcpu);
	vcpu_put(vcpu);
	return 0;
}

void kvm_pv_perf_destroy(struct kvm_vcpu *vcpu)
{
	kvm_pv_perf_reset(vcpu);
	kfree(vcpu->arch.guest_perf);
	vcpu->arch.guest_perf = NULL;
}
