// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "app.h"
#include "options.h"
#include "text.h"

#define DEFAULT_SERIES	200000

static const char export_usage[] =
	"usage: kvm-stats export [OPTION]...\n\n"
	"Print the metrics of all VMs once, for the textfile collector of Prometheus'\n"
	"node exporter, or for cron.\n\n"
	"  -f, --format FORMAT       text (0.0.4, the default) or openmetrics (1.0.0)\n"
	"      --list                only say which metrics there can be\n"
	"      --stats PATTERN       these statistics of the kernel, too; may be repeated\n"
	"      --detail vcpu         each vCPU, too\n"
	"      --max-series NUMBER   leave out the youngest VMs beyond this many series\n"
	"  -h, --help                this text\n";

static const char serve_usage[] =
	"usage: kvm-stats serve [OPTION]...\n\n"
	"Serve the metrics of all VMs by HTTP: /metrics, /api/v1/vms, /healthz, and / to\n"
	"look at. To this machine alone, if nothing else is asked for.\n\n"
	"      --listen ADDRESS:PORT instead of 127.0.0.1:9847; systemd's sockets come first\n"
	"      --config FILE         TLS and users, as in Prometheus' exporter toolkit\n"
	"  -d, --delay SECONDS       between samples, 1 by default\n"
	"      --max-age SECONDS     fail when the last sample is older, 30 by default\n"
	"      --stats PATTERN       these statistics of the kernel, too; may be repeated\n"
	"      --detail vcpu         each vCPU, too\n"
	"      --max-series NUMBER   leave out the youngest VMs beyond this many series\n"
	"  -h, --help                this text\n";

enum {
	OPT_LIST = 256,
	OPT_STATS,
	OPT_DETAIL,
	OPT_SERIES,
	OPT_LISTEN,
	OPT_CONFIG,
	OPT_AGE,
};

static const struct option export_options[] = {
	{ "format", required_argument, NULL, 'f' },
	{ "list", no_argument, NULL, OPT_LIST },
	{ "stats", required_argument, NULL, OPT_STATS },
	{ "detail", required_argument, NULL, OPT_DETAIL },
	{ "max-series", required_argument, NULL, OPT_SERIES },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 }
};

static const struct option serve_options[] = {
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "delay", required_argument, NULL, 'd' },
	{ "max-age", required_argument, NULL, OPT_AGE },
	{ "stats", required_argument, NULL, OPT_STATS },
	{ "detail", required_argument, NULL, OPT_DETAIL },
	{ "max-series", required_argument, NULL, OPT_SERIES },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 }
};

static void add_stats(struct serve_options *options, const char *pattern)
{
	const char *wrong = text_bad_glob(pattern);

	if (wrong)
		errx(STATUS_USAGE, "the pattern '%s' %s", pattern, wrong);
	options->stats = realloc(options->stats,
				 (options->nr_stats + 1) * sizeof(*options->stats));
	if (!options->stats)
		err(STATUS_NOTHING, NULL);
	options->stats[options->nr_stats++] = pattern;
}

static uint64_t parse_series(const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9 ||
	    !strtoul(text, NULL, 10))
		errx(STATUS_USAGE, "'%s' is no number of series, which is 1 at least", text);
	return strtoul(text, NULL, 10);
}

/* What there is to match is known where there is a kernel with KVM only. */
static void check_stats(const struct serve_options *options)
{
	struct kvmstats_table *vm, *vcpu;
	const char *pattern = NULL;
	char why[256];

	if (!options->nr_stats || kvmstats_describe(&vm, &vcpu, why, sizeof(why)))
		return;
	pattern = model_unmatched(options, vm, vcpu);
	if (pattern)
		errx(STATUS_USAGE,
		     "no statistic that can be exported matches '%s' (kvm-stats describe)",
		     pattern);
	kvmstats_free_table(vm);
	kvmstats_free_table(vcpu);
}

void serve_parse(int argc, char **argv, bool serve, struct serve_settings *settings)
{
	int c;

	memset(settings, 0, sizeof(*settings));
	settings->interval = SECOND;
	settings->max_age = 30 * SECOND;
	settings->model.max_series = DEFAULT_SERIES;
	settings->model.absolute = !serve;
	while ((c = getopt_long(argc, argv, serve ? "d:h" : "f:h",
				serve ? serve_options : export_options, NULL)) != -1) {
		switch (c) {
		case 'f':
			if (!strcmp(optarg, "openmetrics"))
				settings->format = FORMAT_OPENMETRICS;
			else if (strcmp(optarg, "text"))
				errx(STATUS_USAGE, "'%s' is no format: text or openmetrics",
				     optarg);
			break;
		case OPT_LIST:
			settings->list = true;
			break;
		case OPT_STATS:
			add_stats(&settings->model, optarg);
			break;
		case OPT_DETAIL:
			if (strcmp(optarg, "vcpu"))
				errx(STATUS_USAGE, "'%s' is no detail: vcpu is the only one",
				     optarg);
			settings->model.vcpus = true;
			break;
		case OPT_SERIES:
			settings->model.max_series = parse_series(optarg);
			break;
		case OPT_LISTEN:
			settings->listen = optarg;
			break;
		case OPT_CONFIG:
			settings->config = optarg;
			break;
		case 'd':
			settings->interval = app_seconds(optarg);
			break;
		case OPT_AGE:
			settings->max_age = app_seconds(optarg);
			break;
		case 'h':
			fputs(serve ? serve_usage : export_usage, stdout);
			app_flush();
			exit(STATUS_OK);
		default:
			/* getopt has said it */
			exit(STATUS_USAGE);
		}
	}
	if (optind < argc)
		errx(STATUS_USAGE, "%s takes no arguments: '%s'",
		     serve ? "serve" : "export", argv[optind]);
	if (settings->max_age < 2 * settings->interval && serve)
		errx(STATUS_USAGE,
		     "--max-age has to be at least twice the time between samples");
	check_stats(&settings->model);
}
