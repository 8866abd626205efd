/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The process that samples this host for "serve", and the process that serves.
 *
 * The sampler writes a recording, sample by sample, and sends it to its child, which serves and has
 * no privilege. The sampler keeps the same model: if the child ends, its successor is forked with the
 * VMs and the model of the last sample, and no counter has a gap. With 1,000 VMs of 4 vCPUs, the second
 * model takes 4 of 36 ms of CPU per sample, and 0.7 of 53 MB. To take the totals back from the child would
 * cost less, but an attacker who has taken it over could change them.
 *
 * The child takes the samples as it takes a recording, and computes times and sums from them again: 7 of
 * 17 ms. Sums that the sampler sends instead would be a second format beside the recording.
 *
 * An attacker who has taken the child over gets no further: confine.c limits the child, both
 * processes share no writable memory or descriptor except for the counts of scrapes and standard
 * error, the sampler reads its messages at most 100 times per second, and replaces a child that
 * reads no samples or sends no messages.
 */
#ifndef SERVE_SAMPLER_H
#define SERVE_SAMPLER_H

#include "serve.h"

/* The sampler writes it as RECORDED_REPORT before each sample. */
struct sampler_report {
	uint64_t duration;	/* nanoseconds that it took */
	uint64_t cpu;		/* microseconds that the sampler and earlier servers have used */
	bool failed;
	char health[2048];	/* the problem with the source, or the report of doctor */
};

/*
 * Sample this host until a signal arrives, then exit. Returns in the child: the sampler writes the
 * later samples to the child's standard input.
 */
void fork_server(struct server *s);

#endif /* SERVE_SAMPLER_H */
