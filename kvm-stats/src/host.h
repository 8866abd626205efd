/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HOST_H
#define HOST_H

/* State of the host; 0 if unknown */
struct host {
	unsigned int cpus;	/* online */
	unsigned int load;	/* average of the last minute, hundredths */
	/* time in the last ten seconds for which some thread waited for a CPU, hundredths of % */
	unsigned int cpu_pressure;
};

struct host host_now(void);

#endif /* HOST_H */
