// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzz the HTTP server through sockets with libFuzzer. The first byte chooses if users are
 * required, which no input can be; the others are sent, in pieces that end with a 0xff byte.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "app.h"
#include "clock.h"
#include "columns.h"
#include "serve/serve.h"
#include "source.h"

static struct server servers[2];

uint64_t __wrap_app_now(void);
uint64_t __wrap_app_now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* A source with one VM */

static int fuzz_open(struct kvmstats *k, void **state, struct kvmstats_probe *p)
{
	static const struct kvmstats_desc vm[] = { { .name = "pages_4k", .type = KVMSTATS_INSTANT, .size = 1 } };
	static const struct kvmstats_desc vcpu[] = {
		{ .name = "exits", .size = 1 }, { .name = "halt_wait_ns", .size = 1, .offset = 8 },
	};

	core_set_table(k, KVMSTATS_VM, table_make(vm, 1));
	core_set_table(k, KVMSTATS_VCPU, table_make(vcpu, 2));
	return 0;
}

static int fuzz_sample(struct kvmstats *k, void *state)
{
	static uint64_t n;
	struct core_vm *vm = core_vm(k, 1, getpid());
	struct core_vcpu *vcpu = core_vcpu(k, vm, 0, 0);

	n += 1000;
	memcpy(core_vm_values(vm), &n, sizeof(n));
	memcpy(core_vcpu_values(vcpu), (uint64_t []){ n, n }, 2 * sizeof(n));
	return 0;
}

static void fuzz_close(struct kvmstats *k, void *state) {}

static const struct source_ops source_fuzz = {
	.name = "fuzz", .what = "", .open = fuzz_open, .sample = fuzz_sample, .close = fuzz_close,
};
const struct source_ops *const source_list[] = { &source_fuzz, NULL };

int kvmstats_describe(struct kvmstats_table **vm, struct kvmstats_table **vcpu, char *why, size_t size)
{
	return -1;
}

/* Samples are taken at once. */
bool request_sample(struct server *s)
{
	return !s->stop;
}

static void start(struct server *s, bool users)
{
	static const char config[] = "basic_auth_users:\n"
		"  me: $2b$04$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"
		"rate_limit:\n  interval: 1ns\n  burst: 1000\n";
	static const char *all[] = { "*" };
	static char path[32];
	int fd = memfd_create("web.yml", 0), i;

	s->settings.metrics_path = "/metrics";
	s->settings.max_age = 3600 * SECOND;
	s->settings.model.max_series = 1000;
	s->settings.model.vcpus = true;
	s->settings.model.stats = all;
	s->settings.model.nr_stats = 1;
	s->settings.listen[s->settings.nr_listen++] = (struct listen_option){ "listen", "127.0.0.1:0" };
	if (users) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (write(fd, config, strlen(config)) < 0)
			abort();
		s->settings.config = path;
	}
	s->interval = SECOND;
	s->end = &s->first;
	s->login_done = eventfd(0, EFD_NONBLOCK);
	s->logins = logins_start(s->login_done);
	s->model = model_new(&s->settings.model);
	pthread_mutex_init(&s->lock, NULL);
	if (deflateInit2(&s->z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
	    kvmstats_open(&s->in.k, NULL, NULL, 0))
		errx(1, "start");
	open_sockets(s);
	read_config(s);
	start_listening(s);
	/* The history of the page */
	for (i = 20; i > 0; i--) {
		kvmstats_sample(s->in.k);
		model_update(s->model, s->in.k, app_now() - i * HISTORY_STEP, 1000);
	}
}

static void sample(struct server *s)
{
	kvmstats_sample(s->in.k);
	model_update(s->model, s->in.k, app_now(), 1000);
	s->sampled = true;
}

/* Read a response; its bytes must not be metrics if users are required. */
static ssize_t receive(int fd, bool users)
{
	static char buf[1 << 16];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	if (n <= 0)
		return n;
	buf[n] = '\0';
	if (users && (strstr(buf, "kvm_") || strstr(buf, " 200 ") || strstr(buf, "\"vms\""))) {
		fprintf(stderr, "%s\n", buf);
		abort();
	}
	return n;
}

static void run(struct server *s)
{
	static unsigned int runs;

	if (!(runs++ % 8))
		sample(s);
	resume_connections(s, runs % 2, false);
	MHD_run(s->daemon[0]);
	close_slow_connections(s, app_now());
	connection_timeout(s, SECOND);
	reload_config(s, app_now());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sockaddr_un address = { .sun_family = AF_UNIX };
	const bool users = size && data[0] & 1, half_close = size && data[0] & 2;
	struct server *s = &servers[users];
	const uint8_t *end;
	int fd[2], i;
	size_t len;

	if (!s->model)
		start(s, users);
	if (!size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		return 0;
	if (MHD_add_connection(s->daemon[0], fd[0], (const void *)&address, sizeof(address)) != MHD_YES)
		abort();
	for (data++, size--; size; data += len, size -= len) {
		end = memchr(data, 0xff, size);
		len = end ? (size_t)(end + 1 - data) : size;
		if (send(fd[1], data, end ? len - 1 : len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		run(s);
		receive(fd[1], users);
	}
	if (half_close)
		shutdown(fd[1], SHUT_WR);
	for (i = 0; i < 6 && receive(fd[1], users); i++)
		run(s);
	close(fd[1]);
	/* The connection is released. */
	for (i = 0; i < 100000 && s->first; i++)
		run(s);
	if (s->first)
		abort();
	return 0;
}
