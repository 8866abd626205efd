/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HOST_H
#define HOST_H

#include "structures.h"

/* State of the host; 0 if unknown */
struct host {
	unsigned int cpus;	/* online */
	unsigned int load;	/* average of the last minute, hundredths */
	/* time in the last ten seconds for which some thread waited for a CPU, hundredths of % */
	unsigned int cpu_pressure;
};

struct host host_now(void);

/* Check whether a command works on this host: fill in works, why and help. */
void host_probe_blame(struct kvmstats_probe *probe);
void host_probe_exits(struct kvmstats_probe *probe);
void host_probe_stalls(struct kvmstats_probe *probe);

#endif /* HOST_H */
