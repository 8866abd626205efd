// SPDX-License-Identifier: GPL-2.0-only
/*
 * The descriptors of this kernel, one line each, for kernels on which there is
 * nothing but libc: scope name type unit base exponent offset size bucket_size
 */
#include <stdio.h>

#include "../src/text.h"

static void print(const char *scope, const struct kvmstats_table *table)
{
	unsigned int i;

	for (i = 0; i < table->count; i++) {
		const struct kvmstats_desc *d = &table->desc[i];

		printf("%s %s %s %s %s %d %u %u %u\n", scope, d->name,
		       text_type(d->type), text_unit(d->unit), text_base(d->base),
		       d->exponent, d->offset, d->size, d->bucket_size);
	}
}

int main(void)
{
	struct kvmstats_table *vm, *vcpu;
	char why[256];

	if (kvmstats_describe(&vm, &vcpu, why, sizeof(why))) {
		fprintf(stderr, "descriptors: %s\n", why);
		return 1;
	}
	print("vm", vm);
	print("vcpu", vcpu);
	kvmstats_free_table(vm);
	kvmstats_free_table(vcpu);
	return 0;
}
