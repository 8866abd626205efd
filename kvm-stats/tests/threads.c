// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several threads use their own struct kvmstats at the same time, under a thread sanitizer,
 * which exits with an error if it finds a race. libbpf's messages for the program itself are
 * still delivered. Prints TAP.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "kvmstats.h"
#include "tap.h"

#ifdef HAVE_BPF
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#endif

#define THREADS	4
#define ROUNDS	3

static int failed;

static void *watch(void *arg)
{
	struct kvmstats *k;
	int i, error = 0;

	for (i = 0; i < ROUNDS && !error; i++) {
		kvmstats_probe_free(kvmstats_probe(i, NULL));
		error = kvmstats_open(&k, NULL, NULL, KVMSTATS_WAIT);
		if (error)
			break;
		error = kvmstats_sample(k);
		if (!error)
			error = kvmstats_sample(k);
		kvmstats_close(k);
	}
	if (error)
		__atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
	return NULL;
}

#ifdef HAVE_BPF
static int complaints;

static int complain(enum libbpf_print_level level, const char *format, va_list args)
{
	complaints++;
	return 0;
}
#endif

int main(void)
{
	pthread_t thread[THREADS];
	int i;

#ifdef HAVE_BPF
	libbpf_set_print(complain);
#endif
	for (i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, watch, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	tap_result(!failed, "%d threads sample at the same time", THREADS);
#ifdef HAVE_BPF
	complaints = 0;
	/* no type information at all: it complains */
	btf__free(btf__new("", 1));
	tap_result(complaints, "libbpf's messages for the program are delivered");
#endif
	return tap_end();
}
