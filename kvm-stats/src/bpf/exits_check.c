// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exits.h"
#include "probe_vm.h"

#define EXITS	20

#define fail(p, error, ...) (snprintf((p)->why, sizeof((p)->why), __VA_ARGS__), -(error))

/* Exits of the vCPU that probe_vm_step() runs: a halt, or a write on arm64 */
#ifdef __aarch64__
#define REASON	0x24	/* DABT_LOW */
#else
#define REASON	0
#endif

/* Exits of this thread's vCPU: with the expected reason, with others, and not reported */
struct counts {
	uint64_t expected, others, untraced;
};

static int read_counts(struct exits *e, struct counts *counts, struct kvmstats_probe *p)
{
	const struct exits_row *rows;
	size_t i, n;
	int error = exits_sample(e);

	if (error)
		return fail(p, -error, "cannot read the counts: %s", strerror(-error));
	*counts = (struct counts){ 0 };
	rows = exits_rows(e, &n);
	for (i = 0; i < n; i++) {
		const struct exits_row *row = &rows[i];

		if (row->cell.tid != (uint32_t)gettid() || row->cell.tgid != (uint32_t)getpid())
			continue;
		if (REASON ? row->key.reason == REASON :
		    exit_is_halt(row->cell.isa, row->key.reason))
			counts->expected += row->cell.count;
		else if (row->key.reason == EXITS_UNTRACED)
			counts->untraced += row->cell.count;
		else
			counts->others += row->cell.count;
	}
	return 0;
}

static int compare_counts(struct exits *e, struct probe_vm *own, struct kvmstats_probe *p)
{
	struct counts before, after;
	uint64_t counted;
	int i, error;

	error = read_counts(e, &before, p);
	for (i = 0; i < EXITS && !error; i++)
		if (!probe_vm_step(own))
			error = fail(p, EIO, "cannot check itself: KVM_RUN: %s", strerror(errno));
	error = error ?: read_counts(e, &after, p);
	if (error)
		return error;
	counted = after.expected - before.expected;
	if (!after.expected && !after.others && !after.untraced) {
		snprintf(p->help, sizeof(p->help), "run the VMs with kvm_amd or kvm_intel");
		return fail(p, EOPNOTSUPP, "this host's KVM does not report exits: no event kvm_exit for %d exits of a vCPU",
			    EXITS);
	}
	if (counted != EXITS || after.untraced)
		return fail(p, EPROTO, "counted %llu of %d exits of a vCPU",
			    (unsigned long long)counted, EXITS);
	return 0;
}

int exits_check(struct exits *e, struct kvmstats_probe *p)
{
	struct probe_vm own;
	char why[200];
	int error = probe_vm_open(&own, PROBE_VCPU_ID, why, sizeof(why));

	if (error) {
		snprintf(p->why, sizeof(p->why), "cannot check itself with a VM: %s", why);
		return error;
	}
	probe_vm_run(&own);
	error = own.halts ? compare_counts(e, &own, p) :
		fail(p, EOPNOTSUPP, "cannot check itself: a vCPU does not run here");
	probe_vm_close(&own);
	return error;
}
