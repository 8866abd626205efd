// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdio.h>

#include "file.h"
#include "probe_vm.h"

static int read_table(int fd, struct kvmstats_table **table, char *why, size_t size)
{
	struct file_layout layout;
	const char *wrong;

	if (fd < 0) {
		snprintf(why, size, "this kernel has no statistics files");
		return -ENOSYS;
	}
	wrong = file_read_layout(fd, &layout);
	if (!wrong)
		wrong = file_read_table(fd, &layout, table);
	if (!wrong)
		return 0;
	snprintf(why, size, "%s", wrong);
	return -EIO;
}

int kvmstats_describe(struct kvmstats_table **vm_table,
		      struct kvmstats_table **vcpu_table, char *why, size_t size)
{
	struct probe_vm own;
	int ret;

	*vm_table = NULL;
	*vcpu_table = NULL;
	ret = probe_vm_open(&own, PROBE_VCPU_ID, why, size);
	/* MIPS and e500 have no ids that large. */
	if (ret == -EINVAL)
		ret = probe_vm_open(&own, 0, why, size);
	if (ret)
		return ret;
	ret = read_table(own.vm_stats, vm_table, why, size);
	if (!ret)
		ret = read_table(own.vcpu_stats, vcpu_table, why, size);
	probe_vm_close(&own);
	if (ret) {
		kvmstats_free_table(*vm_table);
		*vm_table = NULL;
	}
	return ret;
}
