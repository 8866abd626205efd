// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the statistics count, in the words of the series' own definitions: one
 * line for each, which the Makefile puts into words.inc without those that begin
 * with '#'. What is in an #ifdef there is all in here; names are unique.
 */
#include <string.h>

#include "app.h"

#define KVM_VM_STAT(name, type, unit, exponent, debugfs, words) \
	{ KVMSTATS_VM, #name, words },
#define KVM_VCPU_STAT(name, type, unit, exponent, debugfs, words) \
	{ KVMSTATS_VCPU, #name, words },

static const struct {
	enum kvmstats_scope scope;
	const char *name, *words;
} all[] = {
#include "words.inc"
	{ 0, NULL, NULL }
};

const char *app_words(enum kvmstats_scope scope, const char *name)
{
	unsigned int i;

	for (i = 0; all[i].name; i++) {
		if (all[i].scope == scope && !strcmp(all[i].name, name))
			return all[i].words;
	}
	return "";
}
