// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
#include <unistd.h>

#include "host.h"

struct host host_now(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	double load;

	return (struct host){
		.cpus = cpus > 0 ? cpus : 0,
		.load = getloadavg(&load, 1) == 1 ? load * 100 : 0,
	};
}
