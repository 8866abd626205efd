/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HOST_H
#define HOST_H

/* The host itself; 0: not known */
struct host {
	unsigned int cpus;	/* online */
	unsigned int load;	/* average of the last minute, hundredths */
};

struct host host_now(void);

#endif /* HOST_H */
