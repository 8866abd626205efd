// SPDX-License-Identifier: GPL-2.0-only
/* Which sources work here, which not, why, and what would help. */
#include <stdio.h>
#include <sys/utsname.h>

#include "app.h"

static const struct out_column columns[] = {
	{ NULL, "source", false },
	{ NULL, "what", false },
	{ NULL, "works", false },
	{ NULL, "used", false },
	{ NULL, "why", false },
	{ NULL, "help", false },
	{ NULL, NULL, false }
};

static void say(const struct kvmstats_probe *probe, bool used)
{
	printf("%s: %s\n", probe->name, probe->what);
	printf("  %s%s%s\n", probe->works ? used ? "works, and is used" : "works" :
	       "does not work", *probe->why ? ": " : "", probe->why);
	if (*probe->help)
		printf("  to do: %s\n", probe->help);
}

int command_doctor(const struct settings *settings)
{
	struct kvmstats_probe probe;
	struct utsname name;
	bool any = false, used;
	struct out *out = NULL;
	unsigned int i;

	if (settings->format != OUT_TABLE) {
		out = out_open(settings->format, columns);
	} else if (!uname(&name)) {
		/* for whoever reports a bug */
		printf("kvm-stats " KVMSTATS_VERSION ", %s %s %s\n", name.sysname,
		       name.release, name.machine);
	}
	for (i = 0; !kvmstats_probe(i, NULL, &probe); i++) {
		used = probe.works && !any;
		any |= probe.works;
		if (!out) {
			say(&probe, used);
			continue;
		}
		out_text(out, probe.name);
		out_text(out, probe.what);
		out_bool(out, probe.works);
		out_bool(out, used);
		out_text(out, probe.why);
		out_text(out, probe.help);
	}
	if (out)
		out_close(out);
	app_flush();
	return any ? STATUS_OK : STATUS_NOTHING;
}
