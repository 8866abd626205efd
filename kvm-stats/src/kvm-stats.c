// SPDX-License-Identifier: GPL-2.0-only
/* kvm-stats: the statistics of all VMs of a host. */
#include <ctype.h>
#include <err.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app.h"
#include "columns.h"
#include "serve/options.h"

/* Which options a command takes */
#define TAKES_OUTPUT	1
#define TAKES_ZEROS	2
#define TAKES_VCPUS	4
#define TAKES_INTERVAL	8
#define TAKES_SORT	16
#define TAKES_FILE	32
#define TAKES_FROM	64
#define TAKES_SIZE	128

static const struct command {
	const char *name;
	int (*run)(const struct settings *settings);
	unsigned int takes;
	const char *arguments, *what;
} commands[] = {
	{ "top", command_top, TAKES_INTERVAL | TAKES_SORT | TAKES_FROM,
	  "[SELECTOR]...", "watch the VMs of this host (also without a command)" },
	{ "list", command_list, TAKES_OUTPUT | TAKES_FROM,
	  "[SELECTOR]...", "who is who" },
	{ "show", command_show, TAKES_OUTPUT | TAKES_ZEROS | TAKES_VCPUS | TAKES_FROM,
	  "SELECTOR [STATISTIC]...", "the values of VMs, sums over their vCPUs" },
	{ "log", command_log, TAKES_OUTPUT | TAKES_INTERVAL | TAKES_FILE | TAKES_FROM,
	  "[SELECTOR]...", "one line per VM and interval, for programs" },
	{ "record", command_record, TAKES_INTERVAL | TAKES_SIZE,
	  "FILE", "all of it, for --from; every 10 seconds by default" },
	{ "describe", command_describe, TAKES_OUTPUT,
	  "[STATISTIC]...", "the statistics of this kernel, and what they count" },
	{ "doctor", command_doctor, TAKES_OUTPUT,
	  "", "what can be seen here, and if not, why" },
	{ 0 }
};

static void usage(FILE *f)
{
	const struct command *c;

	fputs("usage: kvm-stats [COMMAND] [OPTION]... [ARGUMENT]...\n\n", f);
	for (c = commands; c->name; c++)
		fprintf(f, "  %-8s %-24s %s\n", c->name, c->arguments, c->what);
	fputs("  export                            print metrics once, for Prometheus\n"
	      "  serve                             serve metrics and a page by HTTP\n", f);
	fputs("\n"
	      "  -o, --output FORMAT   table, csv or json (list, show, describe, doctor);\n"
	      "                        csv or json, an object per line (log)\n"
	      "  -d, --delay SECONDS   between samples, 1 by default (top, log)\n"
	      "  -n, --count COUNT     of samples, then end (top, log)\n"
	      "  -f, --file FILE       append to it, and open it again at SIGHUP (log)\n"
	      "  -s, --sort COLUMN     by which to sort, RUN by default (top)\n"
	      "  -r, --reverse         the smallest first (top)\n"
	      "      --from FILE       what was recorded there (top, list, show, log)\n"
	      "      --at TIME         in it: 2026-11-22T03:00, local time, or with a Z\n"
	      "      --max-size SIZE   of a recording: 512M by default (record)\n"
	      "  -z, --zeros           do not leave out values that are 0 (show)\n"
	      "  -v, --vcpus           each vCPU, not only their sum (show)\n"
	      "  -h, --help            this text\n"
	      "  -V, --version         the version\n\n"
	      "SELECTOR: PID, name, UUID, a pattern for names as 'web*'; or machine:NAME,\n"
	      "          pod:UID, container:ID, cgroup:PATH, vmm:NAME or uuid:UUID, which\n"
	      "          may be patterns too.\n"
	      "STATISTIC: its name, or a pattern as 'halt_*'.\n"
	      "Exit status: 0; 1 nothing matched or could be read; 2 wrong usage;\n"
	      "             3 some VMs could not be read.\n", f);
}

uint64_t app_seconds(const char *text)
{
	static const uint64_t second = 1000000000;
	uint64_t unit = second, n = 0;
	const char *c;
	bool point = false;

	for (c = text; isdigit((unsigned char)*c) || (*c == '.' && !point); c++) {
		if (*c == '.') {
			point = true;
		} else if (point) {
			unit /= 10;
			n += (*c - '0') * unit;
		} else {
			n = n * 10 + (*c - '0') * second;
		}
		if (n > 86400 * second)
			break;
	}
	if (*c || n < second / 10 || n > 86400 * second)
		errx(STATUS_USAGE, "invalid delay '%s': 0.1 to 86400 seconds", text);
	return n;
}

static unsigned long parse_count(const char *text)
{
	if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9 ||
	    !strtoul(text, NULL, 10))
		errx(STATUS_USAGE, "invalid count '%s': 1 to 999999999 samples", text);
	return strtoul(text, NULL, 10);
}

/* Those without a letter */
enum { OPTION_FROM = 256, OPTION_AT, OPTION_MAX_SIZE };

static uint64_t parse_time(const char *text)
{
	static const char * const formats[] = {
		"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
		"%Y-%m-%d %H:%M", "%Y-%m-%d",
	};
	const char *end = NULL;
	struct tm tm;
	time_t t = -1;
	size_t i;

	for (i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		memset(&tm, 0, sizeof(tm));
		tm.tm_isdst = -1;
		end = strptime(text, formats[i], &tm);
		if (end && (!*end || !strcmp(end, "Z")))
			break;
		end = NULL;
	}
	if (end)
		t = *end ? timegm(&tm) : mktime(&tm);
	if (t <= 0)
		errx(STATUS_USAGE, "invalid time '%s': as 2026-11-22T03:00", text);
	return t * 1000000000ULL;
}

static uint64_t parse_size(const char *text)
{
	const size_t digits = strspn(text, "0123456789");
	uint64_t n = digits && digits < 10 ? strtoull(text, NULL, 10) : 0;

	if (!strcmp(text + digits, "G"))
		n <<= 30;
	else if (!strcmp(text + digits, "M"))
		n <<= 20;
	else if (!strcmp(text + digits, "K"))
		n <<= 10;
	else if (text[digits])
		n = 0;
	if (n < 64 << 10 || n > 1ULL << 40)
		errx(STATUS_USAGE, "invalid size '%s': 64K to 1024G", text);
	return n;
}

static void check_column(const char *title)
{
	char names[256] = "";
	unsigned int i;

	if (column_by_title(title) >= 0)
		return;
	for (i = 0; i < columns_count && strlen(names) + 16 < sizeof(names); i++)
		strcat(strcat(names, " "), columns[i].title);
	errx(STATUS_USAGE, "invalid column '%s': one of%s", title, names);
}

static enum out_format parse_format(const char *text, const struct command *command)
{
	bool log = command->run == command_log;

	if (!strcmp(text, "table") && !log)
		return OUT_TABLE;
	if (!strcmp(text, "csv"))
		return OUT_CSV;
	if (!strcmp(text, "selectors") && command->run == command_list)
		return OUT_SELECTORS;
#ifndef HAVE_JSON
	if (!strcmp(text, "json"))
		errx(STATUS_USAGE, "this kvm-stats was built without JSON");
#endif
	if (!strcmp(text, "json"))
		return log ? OUT_JSON_LINES : OUT_JSON;
	errx(STATUS_USAGE, "invalid format '%s': %scsv or json", text, log ? "" : "table, ");
}

static const struct command *find_command(const char *name)
{
	const struct command *c;

	for (c = commands; c->name; c++) {
		if (!strcmp(c->name, name))
			return c;
	}
	errx(STATUS_USAGE, "unknown command '%s' (see kvm-stats --help)", name);
}

static void may(const struct command *command, unsigned int takes, const char *option)
{
	if (!(command->takes & takes))
		errx(STATUS_USAGE, "%s has no option %s", command->name, option);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "delay", required_argument, NULL, 'd' },
		{ "count", required_argument, NULL, 'n' },
		{ "file", required_argument, NULL, 'f' },
		{ "sort", required_argument, NULL, 's' },
		{ "reverse", no_argument, NULL, 'r' },
		{ "from", required_argument, NULL, OPTION_FROM },
		{ "at", required_argument, NULL, OPTION_AT },
		{ "max-size", required_argument, NULL, OPTION_MAX_SIZE },
		{ "zeros", no_argument, NULL, 'z' },
		{ "vcpus", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 }
	};
	struct settings settings = { .interval = 1000000000 };
	const struct command *command = commands;
	const char *format = NULL, *delay = NULL, *count = NULL, *at = NULL;
	const char *max_size = NULL;
	int (*run)(int argc, char **argv);
	int c;

	setlocale(LC_CTYPE, "");
	if (argc > 1) {
		/* these two have options of their own */
		run = !strcmp(argv[1], "export") ? command_export :
		      !strcmp(argv[1], "serve") ? command_serve : NULL;
		if (run) {
			argv[1] = argv[0];
			return run(argc - 1, argv + 1);
		}
	}
	while ((c = getopt_long(argc, argv, "o:d:n:f:s:rzvhV", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			format = optarg;
			break;
		case 'd':
			delay = optarg;
			break;
		case 'n':
			count = optarg;
			break;
		case 'f':
			settings.file = optarg;
			break;
		case OPTION_FROM:
			settings.from = optarg;
			break;
		case OPTION_AT:
			at = optarg;
			break;
		case OPTION_MAX_SIZE:
			max_size = optarg;
			break;
		case 's':
			settings.sort = optarg;
			break;
		case 'r':
			settings.reverse = true;
			break;
		case 'z':
			settings.zeros = true;
			break;
		case 'v':
			settings.vcpus = true;
			break;
		case 'h':
			usage(stdout);
			app_flush();
			return STATUS_OK;
		case 'V':
			puts("kvm-stats " KVMSTATS_VERSION);
			app_flush();
			return STATUS_OK;
		default:
			/* getopt has said it */
			return STATUS_USAGE;
		}
	}
	if (optind < argc && !strcmp(argv[optind], "help")) {
		usage(stdout);
		app_flush();
		return STATUS_OK;
	}
	if (optind < argc)
		command = find_command(argv[optind++]);
	settings.words = argv + optind;
	settings.nr_words = argc - optind;

	if (command->run == command_log)
		settings.format = OUT_CSV;
	if (format) {
		may(command, TAKES_OUTPUT, "--output");
		settings.format = parse_format(format, command);
	}
	if (delay) {
		may(command, TAKES_INTERVAL, "--delay");
		settings.interval = app_seconds(delay);
	}
	if (count) {
		may(command, TAKES_INTERVAL, "--count");
		settings.count = parse_count(count);
	}
	if (settings.from)
		may(command, TAKES_FROM, "--from");
	if (at) {
		may(command, TAKES_FROM, "--at");
		if (!settings.from)
			errx(STATUS_USAGE, "--at needs --from");
		settings.at = parse_time(at);
	}
	if (max_size)
		may(command, TAKES_SIZE, "--max-size");
	settings.max_size = parse_size(max_size ? max_size : "512M");
	if (command->run == command_record && !delay)
		settings.interval = 10000000000;
	if (settings.file)
		may(command, TAKES_FILE, "--file");
	if (settings.sort) {
		may(command, TAKES_SORT, "--sort");
		check_column(settings.sort);
	}
	if (settings.reverse)
		may(command, TAKES_SORT, "--reverse");
	if (settings.zeros)
		may(command, TAKES_ZEROS, "--zeros");
	if (settings.vcpus)
		may(command, TAKES_VCPUS, "--vcpus");
	if (command->run == command_doctor && settings.nr_words)
		errx(STATUS_USAGE, "doctor takes no arguments");
	return command->run(&settings);
}
