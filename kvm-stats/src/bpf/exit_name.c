// SPDX-License-Identifier: LGPL-2.1-or-later
#include <stdio.h>

#include "exits.h"

static const struct {
	uint32_t isa, reason;
	const char *name;
} reasons[] = {
#define EXIT_REASON(isa, reason, name) { EXITS_##isa, reason, name },
#include "exit-reasons.inc"
#undef EXIT_REASON
};

/* Flags of a reason of VMX, such as a failed entry */
#define VMX_FLAGS	0xffff0000U

const char *exit_name(uint32_t isa, uint32_t reason, char buf[EXIT_NAME_SIZE])
{
	const uint32_t flags = isa == EXITS_VMX ? reason & VMX_FLAGS : 0;
	size_t i;

	if (reason == EXITS_UNTRACED) {
		snprintf(buf, EXIT_NAME_SIZE, "not reported");
		return buf;
	}
	for (i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].isa == isa && reasons[i].reason == (reason & ~flags)) {
			snprintf(buf, EXIT_NAME_SIZE, flags ? "%s (flags %#x)" : "%s",
				 reasons[i].name, flags);
			return buf;
		}
	snprintf(buf, EXIT_NAME_SIZE, "%#x", reason);
	return buf;
}

bool exit_is_halt(uint32_t isa, uint32_t reason)
{
	static const struct {
		uint32_t isa, reason;
	} halts[] = {
		{ EXITS_VMX, 12 }, { EXITS_VMX, 36 },		/* HLT, MWAIT_INSTRUCTION */
		{ EXITS_SVM, 0x78 }, { EXITS_SVM, 0x8b },	/* hlt, mwait */
		{ EXITS_ARM64, 1 },				/* WFx */
	};
	size_t i;

	for (i = 0; i < sizeof(halts) / sizeof(*halts); i++)
		if (halts[i].isa == isa && halts[i].reason == reason)
			return true;
	return false;
}
