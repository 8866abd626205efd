// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "options.h"
#include "parse.h"
#include "serve/settings.h"
#include "xalloc.h"

const struct command commands[COMMANDS] = {
	[COMMAND_TOP] = {
		"top", command_top, "[SELECTOR]...",
		"Watch the VMs of this host; the default command.",
		NULL, "1", COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_LIST] = {
		"list", command_list, "[SELECTOR]...",
		"List the VMs and their identities.",
		"table csv json selectors", NULL, COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_SHOW] = {
		"show", command_show, "SELECTOR [STATISTIC]...",
		"Show the values of VMs, summed over their vCPUs.",
		"table csv json", NULL, COMPLETE_SELECTOR, COMPLETE_STATISTIC },
	[COMMAND_LOG] = {
		"log", command_log, "[SELECTOR]...",
		"Print one line per VM and sample, for programs.",
		"csv json", "1", COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_RECORD] = {
		"record", command_record, "FILE",
		"Record all values of all VMs, for --from.",
		NULL, "10", COMPLETE_FILE, COMPLETE_NOTHING },
	[COMMAND_DIFF] = {
		"diff", command_diff, "[SELECTOR]...",
		"Compare VMs at two times of a recording.",
		"table csv json", NULL, COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_WHY] = {
		"why", command_why, "[SELECTOR]...",
		"Say what costs VMs time, and what would change it.",
		"table json", "1", COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_BLAME] = {
		"blame", command_blame, "[SELECTOR]...",
		"Show which threads ran while vCPUs waited for a CPU.",
		"table csv json", NULL, COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_EXITS] = {
		"exits", command_exits, "[SELECTOR]...",
		"Show the time that the exits of VMs take, by reason.",
		"table csv json", NULL, COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_STALLS] = {
		"stalls", command_stalls, "[SELECTOR]...",
		"Show why vCPUs sleep that are not halted.",
		"table csv json", NULL, COMPLETE_SELECTOR, COMPLETE_SELECTOR },
	[COMMAND_EXPORT] = {
		"export", command_export, "",
		"Print the metrics once, for Prometheus.",
		"text openmetrics" },
	[COMMAND_SERVE] = {
		"serve", command_serve, "",
		"Serve the metrics and a web page over HTTP.",
		NULL, "1" },
	[COMMAND_DESCRIBE] = {
		"describe", command_describe, "[STATISTIC]...",
		"Describe the statistics of this kernel.",
		"table csv json", NULL, COMPLETE_STATISTIC, COMPLETE_STATISTIC },
	[COMMAND_DOCTOR] = {
		"doctor", command_doctor, "",
		"Report which sources of statistics work.",
		"table csv json" },
};

#define SET(member, value_of_text)								\
static void set_##member(struct settings *settings, const char *name, const char *value)	\
{												\
	settings->member = value_of_text;							\
}

SET(output, value)
SET(file, value)
SET(from, value)
SET(by, value)
SET(reverse, true)
SET(zeros, true)
SET(vcpus, true)
SET(histogram, true)
SET(keep_priority, true)
SET(help, true)
SET(interval, parse_seconds(name, value))
SET(count, parse_number(name, value))
SET(max_size, parse_size(name, value))
SET(at, parse_time(name, value, false))
SET(until, parse_time(name, value, true))

static void set_against(struct settings *settings, const char *name, const char *value)
{
	char text[64];
	const char *comma = strchr(value, ',');

	if (!comma)
		errx(STATUS_USAGE, "--%s '%s': must be two times with a comma between", name, value);
	snprintf(text, sizeof(text), "%.*s", (int)(comma - value), value);
	settings->against[0] = parse_time(name, text, false);
	settings->against[1] = parse_time(name, comma + 1, true);
}

static void set_sort(struct settings *settings, const char *name, const char *value)
{
	char titles[256] = "";
	unsigned int i;

	settings->sort = value;
	if (column_by_title(value) >= 0)
		return;
	for (i = 0; i < columns_count && strlen(titles) + 16 < sizeof(titles); i++)
		strcat(strcat(titles, " "), columns[i].title);
	errx(STATUS_USAGE, "--%s '%s': must be one of%s", name, value, titles);
}

/* Return how many items are shown for each VM, or exit. */
static unsigned int parse_shown(const char *name, const char *value, unsigned int most)
{
	const unsigned long n = parse_number(name, value);

	if (n > most)
		errx(STATUS_USAGE, "--%s '%s': must be 1 to %u", name, value, most);
	return n;
}

static void set_blame(struct settings *settings, const char *name, const char *value)
{
	settings->programs.owners = parse_shown(name, value, OWNERS_MAX);
}

static void set_exits(struct settings *settings, const char *name, const char *value)
{
	settings->programs.exits = parse_shown(name, value, EXIT_REASONS_MAX);
}

static void set_stalls(struct settings *settings, const char *name, const char *value)
{
	settings->programs.stalls = true;
}

static void set_version(struct settings *settings, const char *name, const char *value)
{
	puts("kvm-stats " KVMSTATS_VERSION);
	app_flush();
	exit(STATUS_OK);
}

#define ON(command)	(1U << COMMAND_##command)
#define ALL		((1U << COMMANDS) - 1)
/* Commands that observe VMs for some time, and then print what they found */
#define OBSERVERS	(ON(WHY) | ON(BLAME) | ON(EXITS) | ON(STALLS))

const struct option_row options[] = {
	{ 'o', "output", "FORMAT",
	  ON(LIST) | ON(SHOW) | ON(LOG) | OBSERVERS | ON(DIFF) |
	  ON(EXPORT) | ON(DESCRIBE) | ON(DOCTOR),
	  set_output, COMPLETE_FORMAT, "Print the output as FORMAT.", NULL },
	{ 'd', "delay", "SECONDS", ON(TOP) | ON(LOG) | ON(RECORD) | OBSERVERS | ON(SERVE),
	  set_interval, COMPLETE_NOTHING, "Take a sample every SECONDS.", NULL },
	{ 'n', "count", "COUNT", ON(TOP) | ON(LOG) | ON(RECORD) | OBSERVERS,
	  set_count, COMPLETE_NOTHING, "Stop after COUNT samples.", NULL },
	{ 's', "sort", "COLUMN", ON(TOP),
	  set_sort, COMPLETE_COLUMN, "Sort by COLUMN.", "PROBLEM" },
	{ 'r', "reverse", NULL, ON(TOP),
	  set_reverse, COMPLETE_NOTHING, "Reverse the order.", NULL },
	{ 0, "by", "WHAT", ON(EXITS) | ON(BLAME),
	  set_by, COMPLETE_BY, "Separate exits by vcpu or address, owners by unit, vm or thread.", NULL },
	{ 0, "histogram", NULL, ON(EXITS),
	  set_histogram, COMPLETE_NOTHING, "Show how long the exits took, by powers of 2.", NULL },
	{ 'z', "zeros", NULL, ON(SHOW),
	  set_zeros, COMPLETE_NOTHING, "Include values that are 0.", NULL },
	{ 'v', "vcpus", NULL, ON(SHOW),
	  set_vcpus, COMPLETE_NOTHING, "Show each vCPU, not only their sums.", NULL },
	{ 'f', "file", "FILE", ON(LOG),
	  set_file, COMPLETE_FILE, "Append to FILE, and reopen it on SIGHUP.", NULL },
	{ 0, "from", "FILE", ON(TOP) | ON(LIST) | ON(SHOW) | ON(LOG) | OBSERVERS |
	  ON(DIFF) | ON(EXPORT) | ON(SERVE),
	  set_from, COMPLETE_FILE, "Read the recording FILE instead of this host.", NULL },
	{ 0, "at", "TIME", ON(TOP) | ON(LIST) | ON(SHOW) | ON(LOG) | OBSERVERS |
	  ON(DIFF) | ON(EXPORT) | ON(SERVE),
	  set_at, COMPLETE_NOTHING, "Start at the first sample from TIME on.", NULL },
	{ 0, "until", "TIME", ON(LOG) | OBSERVERS | ON(DIFF) | ON(SERVE),
	  set_until, COMPLETE_NOTHING, "Stop after the last sample before TIME.", NULL },
	{ 0, "against", "TIME,TIME", ON(DIFF),
	  set_against, COMPLETE_NOTHING, "Compare with the time from TIME until TIME.", NULL },
	{ 0, "max-size", "SIZE", ON(RECORD),
	  set_max_size, COMPLETE_NOTHING, "Limit the recording to SIZE.", "512M" },
	{ 0, "listen", "ADDRESS:PORT", ON(SERVE),
	  serve_set_listen, COMPLETE_NOTHING,
	  "Listen on ADDRESS:PORT instead of 127.0.0.1:10847.", NULL },
	{ 0, "web.listen-address", "ADDRESS:PORT", ON(SERVE),
	  serve_set_listen, COMPLETE_NOTHING, "Same as --listen.", NULL },
	{ 0, "host", "NAME", ON(SERVE),
	  serve_set_host, COMPLETE_NOTHING,
	  "Also answer to NAME on loopback addresses.", NULL },
	{ 0, "config", "FILE", ON(SERVE),
	  serve_set_config, COMPLETE_FILE, "Read TLS settings and users from FILE.", NULL },
	{ 0, "web.config.file", "FILE", ON(SERVE),
	  serve_set_config, COMPLETE_FILE, "Same as --config.", NULL },
	{ 0, "web.telemetry-path", "PATH", ON(SERVE),
	  serve_set_path, COMPLETE_NOTHING, "Serve the metrics at PATH.", "/metrics" },
	{ 0, "web.systemd-socket", NULL, ON(SERVE),
	  serve_set_systemd_socket, COMPLETE_NOTHING,
	  "Exit if systemd passes no socket.", NULL },
	{ 0, "log.level", "LEVEL", ON(SERVE),
	  serve_set_log_level, COMPLETE_LOG_LEVEL,
	  "Write messages of LEVEL and above.", "info" },
	{ 0, "log.format", "FORMAT", ON(SERVE),
	  serve_set_log_format, COMPLETE_LOG_FORMAT,
	  "Write messages as text, logfmt or json.", "text" },
	{ 0, "max-age", "SECONDS", ON(SERVE),
	  serve_set_max_age, COMPLETE_NOTHING,
	  "Fail if the last sample is older than SECONDS.", "30" },
	{ 0, "stats", "PATTERN", ON(EXPORT) | ON(SERVE),
	  serve_set_stats, COMPLETE_EXPORTED,
	  "Also export the statistics that match PATTERN.", NULL },
	{ 0, "detail", "vcpu", ON(EXPORT) | ON(SERVE),
	  serve_set_detail, COMPLETE_VCPU, "Also export each vCPU.", NULL },
	{ 0, "max-series", "NUMBER", ON(EXPORT) | ON(SERVE),
	  serve_set_max_series, COMPLETE_NOTHING,
	  "Exclude the youngest VMs beyond NUMBER series.", "200000" },
	{ 0, "blame", "NUMBER", ON(SERVE) | ON(RECORD),
	  set_blame, COMPLETE_NOTHING,
	  "Include the first NUMBER owners of the waits of each VM.", NULL },
	{ 0, "exits", "NUMBER", ON(SERVE) | ON(RECORD),
	  set_exits, COMPLETE_NOTHING,
	  "Include the NUMBER most expensive exit reasons of each VM.", NULL },
	{ 0, "stalls", NULL, ON(SERVE) | ON(RECORD) | ON(LOG),
	  set_stalls, COMPLETE_NOTHING,
	  "Include the time that vCPUs sleep outside of halts, by reason.", NULL },
	{ 0, "list", NULL, ON(EXPORT),
	  serve_set_list, COMPLETE_NOTHING, "List the metrics that can be exported.", NULL },
	{ 0, "keep-priority", NULL, ALL & ~ON(DIFF),
	  set_keep_priority, COMPLETE_NOTHING, "Run with the priority that the program was started with.", NULL },
	{ 'h', "help", NULL, ALL,
	  set_help, COMPLETE_NOTHING, "Show the usage.", NULL },
	{ 'V', "version", NULL, ALL,
	  set_version, COMPLETE_NOTHING, "Show the version.", NULL },
};

const unsigned int nr_options = sizeof(options) / sizeof(*options);

const struct command *find_command(const char *name)
{
	unsigned int i;

	for (i = 0; i < COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

bool option_is_allowed(const struct option_row *option, const struct command *command)
{
	return option->commands >> (command - commands) & 1;
}

/* Return the default of an option as the user would type it, NULL if there is none. */
static const char *default_value(const struct option_row *option, const struct command *command)
{
	return option->set == set_interval ? command->delay : option->value;
}

static void print_option(const struct option_row *option, const struct command *command)
{
	const char *value = default_value(option, command);
	char left[64];

	snprintf(left, sizeof(left), "%c%c%c --%s%s%s", option->letter ? '-' : ' ',
		 option->letter ? option->letter : ' ', option->letter ? ',' : ' ',
		 option->name, option->argument ? " " : "",
		 option->argument ? option->argument : "");
	printf("  %-26s %s", left, option->help);
	if (option->set == set_output)
		printf(" One of: %s.", command->formats);
	if (value)
		printf(" Default: %s.", value);
	putchar('\n');
}

static void print_selectors(void)
{
	puts("\nSELECTOR: PID, name, UUID, a pattern for names such as 'web*'; or machine:NAME,\n"
	     "          pod:UID, container:ID, cgroup:PATH, vmm:NAME or uuid:UUID, which\n"
	     "          can be patterns.");
}

static void print_usage(const struct command *command)
{
	unsigned int i;

	if (command) {
		printf("usage: kvm-stats %s [OPTION]...%s%s\n\n%s\n\n", command->name,
		       *command->arguments ? " " : "", command->arguments, command->help);
		for (i = 0; i < nr_options; i++) {
			if (option_is_allowed(&options[i], command))
				print_option(&options[i], command);
		}
		if (strstr(command->arguments, "SELECTOR"))
			print_selectors();
		if (strstr(command->arguments, "STATISTIC"))
			puts("\nSTATISTIC: its name, or a pattern such as 'halt_*'.");
	} else {
		puts("usage: kvm-stats [COMMAND] [OPTION]... [ARGUMENT]...\n");
		for (i = 0; i < COMMANDS; i++)
			printf("  %-8s %-24s %s\n", commands[i].name, commands[i].arguments,
			       commands[i].help);
		puts("\n\"kvm-stats COMMAND --help\" shows the options of a command.");
		print_selectors();
		puts("\nExit status: 0 success; 1 nothing matched or could be read; 2 wrong usage;\n"
		     "             3 some VMs could not be read.");
	}
	app_flush();
	exit(STATUS_OK);
}

/* Set the output format: the first of the command's if the user has not chosen one. */
static void choose_format(const struct command *command, struct settings *settings)
{
	static const struct {
		const char *name;
		enum out_format format;
	} formats[] = {
		{ "table", OUT_TABLE }, { "csv", OUT_CSV }, { "json", OUT_JSON },
		{ "selectors", OUT_SELECTORS }, { "text", OUT_TEXT },
		{ "openmetrics", OUT_OPENMETRICS },
	};
	const size_t len = settings->output ? strlen(settings->output) : 0;
	const char *at = command->formats;
	unsigned int i;

	if (!at)
		return;
	while (len && (strncmp(at, settings->output, len) || (at[len] && at[len] != ' '))) {
		at = strchr(at, ' ');
		if (!at)
			errx(STATUS_USAGE, "--output '%s': must be one of %s", settings->output,
			     command->formats);
		at++;
	}
	for (i = 0; strncmp(formats[i].name, at, strlen(formats[i].name)); i++)
		;
	settings->format = formats[i].format;
	if (settings->format == OUT_JSON && (command->run == command_log || command->run == command_blame ||
					     command->run == command_exits ||
					     command->run == command_stalls))
		settings->format = OUT_JSON_LINES;
}

/* The options of a command line, before it is known of which command */
struct chosen {
	const struct option_row *option;
	const char *value;
};

/* Exit: getopt has found an unknown option, or one without its argument. */
static void __attribute__((noreturn)) report_option(char **argv, const char *why)
{
	/* One word can have several letters. */
	if (optopt > 0 && optopt < 256 && strncmp(argv[optind - 1], "--", 2))
		errx(STATUS_USAGE, "-%c: %s; see kvm-stats --help", optopt, why);
	errx(STATUS_USAGE, "%s: %s; see kvm-stats --help", argv[optind - 1], why);
}

static struct chosen *read_options(int argc, char **argv, unsigned int *n)
{
	char letters[2 * nr_options + 2], *letter = letters;
	struct option longs[nr_options + 1];
	struct chosen *chosen = NULL;
	unsigned int i;
	int c;

	/* Report a missing argument as ':', and nothing by getopt itself. */
	*letter++ = ':';
	memset(longs, 0, sizeof(longs));
	for (i = 0; i < nr_options; i++) {
		longs[i].name = options[i].name;
		longs[i].has_arg = options[i].argument ? required_argument : no_argument;
		longs[i].val = 256 + i;
		if (options[i].letter)
			*letter++ = options[i].letter;
		if (options[i].letter && options[i].argument)
			*letter++ = ':';
	}
	*letter = '\0';
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		for (i = 0; i < nr_options && c != options[i].letter && c != 256 + (int)i; i++)
			;
		if (i == nr_options)
			report_option(argv, c == ':' ? "argument required" : "unknown option");
		chosen = check_alloc(realloc(chosen, (*n + 1) * sizeof(*chosen)));
		chosen[(*n)++] = (struct chosen){ &options[i], optarg };
	}
	return chosen;
}

const struct command *parse_options(int argc, char **argv, struct settings *settings)
{
	const struct command *command = &commands[COMMAND_TOP];
	unsigned int i, n = 0;
	struct chosen *chosen = read_options(argc, argv, &n);
	bool named = false, help = optind < argc && !strcmp(argv[optind], "help");

	if (help)
		optind++;
	if (optind < argc) {
		command = find_command(argv[optind]);
		named = command;
		if (command)
			optind++;
		else
			command = &commands[COMMAND_TOP];
		/* The name of a VM, which top opens */
		settings->opens = !named;
	}
	for (i = 0; i < nr_options; i++) {
		if (option_is_allowed(&options[i], command) && default_value(&options[i], command))
			options[i].set(settings, options[i].name,
				       default_value(&options[i], command));
	}
	for (i = 0; i < n; i++) {
		if (!option_is_allowed(chosen[i].option, command))
			errx(STATUS_USAGE, "--%s: not an option of %s; see kvm-stats %s --help",
			     chosen[i].option->name, command->name, command->name);
		chosen[i].option->set(settings, chosen[i].option->name, chosen[i].value);
	}
	free(chosen);
	if (help || settings->help)
		print_usage(named ? command : NULL);
	choose_format(command, settings);
	app_command = command->name;
	settings->args = argv + optind;
	settings->nr_args = argc - optind;
	if (!*command->arguments && settings->nr_args)
		errx(STATUS_USAGE, "%s takes no arguments: '%s'", command->name,
		     settings->args[0]);
	if ((settings->at || settings->until) && !settings->from)
		errx(STATUS_USAGE, "--%s needs --from", settings->at ? "at" : "until");
	return command;
}
