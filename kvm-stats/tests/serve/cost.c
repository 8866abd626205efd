// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the cost of metrics: "cost ROUNDS" samples the host in KVM_STATS_HOST, writes the
 * texts without and with gzip, and prints
 *
 *	samples bytes gzip-bytes allocations update-ns write-ns gzip-ns
 *
 * allocations after the first two rounds; times are CPU times, the smallest of all rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "clock.h"
#include "serve/write.h"

static unsigned long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	allocations++;
	return __real_realloc(old, size);
}

static void least(uint64_t *least, uint64_t n)
{
	if (!*least || n < *least)
		*least = n;
}

int main(int argc, char **argv)
{
	const struct serve_options options = { .max_series = 1000000 };
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20, i, before = 0;
	uint64_t update = 0, text = 0, packed = 0, begin, samples = 0;
	struct buf plain = { 0 }, small = { 0 };
	unsigned long allocated = 0;
	struct kvmstats *k;
	struct model *m;
	z_stream z = { 0 };
	const char *c;

	m = model_new(&options);
	if (!m || kvmstats_open(&k, NULL, NULL, 0) ||
	    deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return 1;
	for (i = 0; i < rounds; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		if (kvmstats_sample(k))
			return 1;
		before = allocations;
		begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
		if (!model_update(m, k, read_clock(CLOCK_MONOTONIC), 1))
			return 1;
		least(&update, read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin);
		begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
		write_metrics(&plain, m, FORMAT_OPENMETRICS, NULL);
		least(&text, read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin);
		begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
		deflateReset(&z);
		buf_reset(&small);
		if (!buf_fits(&small, deflateBound(&z, plain.len)))
			return 1;
		z.next_in = (unsigned char *)plain.text;
		z.avail_in = plain.len;
		z.next_out = (unsigned char *)small.text;
		z.avail_out = small.room;
		if (deflate(&z, Z_FINISH) != Z_STREAM_END)
			return 1;
		least(&packed, read_clock(CLOCK_PROCESS_CPUTIME_ID) - begin);
		if (i >= 2)
			allocated += allocations - before;
	}
	for (c = plain.text; c < plain.text + plain.len; c = strchr(c, '\n') + 1)
		samples += *c != '#';
	printf("%llu %zu %zu %lu %llu %llu %llu\n", (unsigned long long)samples, plain.len,
	       small.room - (size_t)z.avail_out, allocated, (unsigned long long)update,
	       (unsigned long long)text, (unsigned long long)packed);
	deflateEnd(&z);
	buf_free(&plain);
	buf_free(&small);
	model_free(m);
	kvmstats_close(k);
	return 0;
}
