// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>

#include "sampled.h"

static void open_or_exit(const struct sampled *command, void *arg, struct kvmstats *k)
{
	struct kvmstats_probe probe = { 0 };

	if (command->open(arg, kvmstats_first(k), &probe))
		errx(STATUS_NOTHING, "%s: %s%s%s", app_command, probe.why,
		     *probe.help ? "; " : "", probe.help);
}

int sampled_run(const struct settings *settings, const struct sampled *command,
		const struct follow *follow, void *arg)
{
	struct kvmstats *k = app_open();
	unsigned long round = 0;
	unsigned int unread = 0;
	const char *why;
	uint64_t start, next;
	int status;

	app_check_selectors(kvmstats_first(k), settings->args, settings->nr_args);
	open_or_exit(command, arg, k);
	command->add(arg, kvmstats_first(k), settings->args, settings->nr_args);
	if (!follow->count && settings->nr_args) {
		status = app_status(k, 0, true);
		goto out;
	}
	start = next = app_now();
	do {
		app_wait(k, &next, settings->interval);
		if (command->read(arg))
			errx(STATUS_NOTHING, "%s: cannot read the sums of the BPF program",
			     app_command);
		app_sample(k);
		unread |= kvmstats_failed_reads(k, &why);
		command->add(arg, kvmstats_first(k), settings->args, settings->nr_args);
		command->write(arg, !round, app_now() - start);
		app_flush();
	} while (++round != settings->count);
	if (follow->dropped)
		warnx("%s: %zu VMs that exited were left out: more than %d", app_command,
		      follow->dropped, MAX_EXITED);
	status = app_status(k, follow->count, settings->nr_args);
	if (follow->count && unread)
		status = STATUS_PARTIAL;
out:
	command->close(arg);
	kvmstats_close(k);
	return status;
}
