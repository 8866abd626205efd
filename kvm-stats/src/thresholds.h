/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Thresholds: each is one row, used by "top", by the page of serve, and by the alerts in
 * rules/kvm-stats.rules.yml, which tests/serve/test_rules.py compares with this table.
 */
#ifndef THRESHOLDS_H
#define THRESHOLDS_H

enum {
	/* name				value	   unit, alert: quantity */
	READY_NOTICED_PERMILLE		= 50,	/* permille, -: ready time of one vCPU, marked ! */
	READY_CRITICAL_PERMILLE		= 100,	/* permille, KvmVmStarved: mode ready */
	THROTTLED_CRITICAL_PERMILLE	= 100,	/* permille, KvmVmThrottled: mode throttled */
	STUCK_PERMILLE			= 995,	/* permille, KvmVmStuck: mode other */
	STALLED_PERMILLE		= 200,	/* permille, KvmVmStalled: mode other */
	POLLING_PERMILLE		= 200,	/* permille, KvmHaltPollingWasted: mode poll */
	EXIT_STORM_PER_SECOND		= 50000, /* exits, KvmExitStorm: exits per vCPU */
	STALL_PERMILLE			= 100,	/* permille, -: a reason for OTHER, of one vCPU */
	EXITS_PERMILLE			= 200,	/* permille, -: exits, without halts, of all vCPUs */
	MAIN_OWNER_PERMILLE		= 500,	/* permille, -: owners that a wait is due to */
	MAIN_PROCESS_PERMILLE		= 250,	/* permille, -: an owner that is worth a change */
	IDLE_PERMILLE			= 200,	/* permille, -: idle time of CPUs that a VM may not use */
	STALE_SECONDS			= 10,	/* seconds, KvmStatsStale: age of the sample */
};

#endif /* THRESHOLDS_H */
