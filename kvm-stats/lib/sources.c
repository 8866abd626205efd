// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The sources, best first. The kernel's own list asks for the least rights and
 * shows the most; borrowing files needs to look into every process.
 */
#include "source.h"

extern const struct source_ops source_next, source_bpf, source_files;

const struct source_ops *const source_list[] = {
	&source_next,
	&source_bpf,
	&source_files,
	NULL
};
