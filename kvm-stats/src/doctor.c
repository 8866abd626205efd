// SPDX-License-Identifier: GPL-2.0-only
/* Which sources work here, which not, why, and what would help. */
#include <stdio.h>
#include <sys/utsname.h>

#include "programs.h"

static const struct out_column doctor_columns[] = {
	{ NULL, "source", false },
	{ NULL, "what", false },
	{ NULL, "works", false },
	{ NULL, "used", false },
	{ NULL, "why", false },
	{ NULL, "help", false },
	{ NULL, NULL, false }
};

static void print_probe(const struct kvmstats_probe *probe, bool used)
{
	printf("%s: %s\n", probe->name, probe->what);
	printf("  %s%s%s\n", probe->works ? used ? "works, and is used" : "works" :
	       "does not work", *probe->why ? ": " : "", probe->why);
	if (*probe->help)
		printf("  to do: %s\n", probe->help);
}

static void put(struct out *out, const struct kvmstats_probe *probe, bool used)
{
	if (!out) {
		print_probe(probe, used);
		return;
	}
	out_text(out, probe->name);
	out_text(out, probe->what);
	out_bool(out, probe->works);
	out_bool(out, used);
	out_text(out, probe->why);
	out_text(out, probe->help);
}

/* Commands that are not sources, but depend on the host as well */
static const struct {
	enum program program;
	const char *what;
} commands_with_program[] = {
	{ PROGRAM_BLAME, "a BPF program that charges waits for a CPU to the threads that ran there" },
	{ PROGRAM_EXITS, "a BPF program that adds up the exits of vCPUs by reason" },
	{ PROGRAM_STALLS, "a BPF program that charges sleeps of vCPUs outside of halts to reasons" },
};

int command_doctor(const struct settings *settings)
{
	struct kvmstats_probe probe;
	struct utsname name;
	bool any = false, used;
	struct out *out = NULL;
	unsigned int i;

	if (settings->format != OUT_TABLE) {
		out = out_open(settings->format, doctor_columns);
	} else if (!uname(&name)) {
		/* for bug reports */
		printf("kvm-stats " KVMSTATS_VERSION ", %s %s %s\n", name.sysname,
		       name.release, name.machine);
	}
	for (i = 0; !probe_source(i, NULL, &probe); i++) {
		used = probe.works && !any;
		any |= probe.works;
		put(out, &probe, used);
	}
	for (i = 0; i < PROGRAMS; i++) {
		probe = (struct kvmstats_probe){ .what = commands_with_program[i].what };
		probe_program(commands_with_program[i].program, &probe);
		put(out, &probe, false);
	}
	if (out)
		out_close(out);
	app_flush();
	return any ? STATUS_OK : STATUS_NOTHING;
}
