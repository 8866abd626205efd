// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "parse.h"
#include "settings.h"
#include "text.h"

void serve_set_listen(struct settings *settings, const char *name, const char *value)
{
	struct serve_settings *serve = settings->serve;

	if (serve->nr_listen == LISTEN_MAX)
		errx(STATUS_USAGE, "--%s '%s': more than %d addresses", name, value, LISTEN_MAX);
	serve->listen[serve->nr_listen++] = (struct listen_option){ name, value };
}

void serve_set_host(struct settings *settings, const char *name, const char *value)
{
	struct serve_settings *serve = settings->serve;

	if (!*value || strpbrk(value, ":/[] "))
		errx(STATUS_USAGE, "--%s '%s': not a host name", name, value);
	if (serve->nr_hosts == HOSTS_MAX)
		errx(STATUS_USAGE, "--%s '%s': more than %d names", name, value, HOSTS_MAX);
	serve->hosts[serve->nr_hosts++] = value;
}

void serve_set_path(struct settings *settings, const char *name, const char *value)
{
	static const char *const used[] = { "/", "/vm", "/healthz", "/style.css", "/api/v1/vms" };
	size_t i;

	if (*value != '/' || strpbrk(value, "?#% \t\"'<>"))
		errx(STATUS_USAGE, "--%s '%s': not a path", name, value);
	for (i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		if (!strcmp(value, used[i]))
			errx(STATUS_USAGE, "--%s '%s': serves another page", name, value);
	}
	settings->serve->metrics_path = value;
}

void serve_set_config(struct settings *settings, const char *name, const char *value)
{
	settings->serve->config = value;
}

void serve_set_systemd_socket(struct settings *settings, const char *name, const char *value)
{
	settings->serve->needs_sockets = true;
}

/* Return the index of a word in a list, or exit. */
static unsigned int find_log_choice(const char *name, const char *value, const char *choices)
{
	const size_t len = strlen(value);
	unsigned int i = 0;
	const char *word;

	for (word = choices; *word; word += strspn(word, " "), i++) {
		if (strcspn(word, " ") == len && !strncmp(word, value, len))
			return i;
		word += strcspn(word, " ");
	}
	errx(STATUS_USAGE, "--%s '%s': must be one of %s", name, value, choices);
}

void serve_set_log_level(struct settings *settings, const char *name, const char *value)
{
	settings->serve->log_level = find_log_choice(name, value, LOG_LEVELS);
}

void serve_set_log_format(struct settings *settings, const char *name, const char *value)
{
	settings->serve->log_format = find_log_choice(name, value, LOG_FORMATS);
}

void serve_set_max_age(struct settings *settings, const char *name, const char *value)
{
	settings->serve->max_age = parse_seconds(name, value);
}

void serve_set_stats(struct settings *settings, const char *name, const char *value)
{
	struct serve_options *options = &settings->serve->model;
	const char *wrong = text_bad_glob(value);

	if (wrong)
		errx(STATUS_USAGE, "--%s '%s': invalid pattern: it %s", name, value, wrong);
	options->stats = realloc(options->stats,
				 (options->nr_stats + 1) * sizeof(*options->stats));
	if (!options->stats)
		err(STATUS_NOTHING, NULL);
	options->stats[options->nr_stats++] = value;
}

void serve_set_detail(struct settings *settings, const char *name, const char *value)
{
	if (strcmp(value, "vcpu"))
		errx(STATUS_USAGE, "--%s '%s': must be vcpu", name, value);
	settings->serve->model.vcpus = true;
}

void serve_set_max_series(struct settings *settings, const char *name, const char *value)
{
	settings->serve->model.max_series = parse_number(name, value);
}

void serve_set_list(struct settings *settings, const char *name, const char *value)
{
	settings->serve->list = true;
}

void serve_check_settings(const struct settings *settings)
{
	const struct serve_options *options = &settings->serve->model;
	struct kvmstats_table *vm, *vcpu;
	const char *pattern = NULL;
	char why[256];

	/* Statistics are known only on a kernel with KVM. */
	if (!options->nr_stats || kvmstats_describe(&vm, &vcpu, why, sizeof(why)))
		return;
	pattern = model_unmatched(options, vm, vcpu);
	if (pattern)
		errx(STATUS_USAGE, "--stats '%s': matches no statistic that can be exported; "
		     "see kvm-stats describe", pattern);
	kvmstats_free_table(vm);
	kvmstats_free_table(vcpu);
}
