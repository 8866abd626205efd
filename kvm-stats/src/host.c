// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host.h"

/* Linux 4.20 with CONFIG_PSI */
static unsigned int read_cpu_pressure(void)
{
	FILE *f = fopen("/proc/pressure/cpu", "re");
	unsigned int whole = 0, hundredths = 0;

	if (!f)
		return 0;
	/* lxcfs and container runtimes replace files of /proc: a share is 100 % at most. */
	if (fscanf(f, "some avg10=%3u.%2u", &whole, &hundredths) != 2 || whole > 100)
		whole = hundredths = 0;
	fclose(f);
	return 100 * whole + hundredths;
}

struct host host_now(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	double load;

	return (struct host){
		.cpus = cpus > 0 ? cpus : 0,
		.load = getloadavg(&load, 1) == 1 ? load * 100 : 0,
		.cpu_pressure = read_cpu_pressure(),
	};
}
