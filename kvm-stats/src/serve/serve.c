// SPDX-License-Identifier: GPL-2.0-only
/* The command "serve": starts the sampler and the process that serves, or only the latter for a recording */
#include <err.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "app.h"
#include "logging.h"
#include "notify.h"
#include "sampler.h"
#include "serve.h"
#include "stop.h"

int command_serve(const struct settings *settings)
{
	static struct server s;

	if (settings->serve->max_age < 2 * settings->interval)
		errx(STATUS_USAGE, "--max-age: must be at least twice --delay");
	serve_check_settings(settings);
	logging_configure(settings->serve->log_level, settings->serve->log_format);
	s.settings = *settings->serve;
	s.settings.model.programs = settings->programs;
	s.interval = settings->interval;
	/* No program inherits capabilities. */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	stop_catch(STATUS_OK, NULL);
	stop_ignore_hangup();
	signal(SIGPIPE, SIG_IGN);
	s.watchdog = notify_interval();
	s.model = model_new(&s.settings.model);
	if (!s.model)
		errx(STATUS_NOTHING, "out of memory");
	read_config(&s);
	if (settings->from) {
		input_open(&s.in, settings, INPUT_FIRST, false, 0);
		s.follows = recording_count(s.in.rec) && !settings->at;
		open_recorded_sums(&s, settings->from);
		if (s.follows)
			catch_up(&s);
		open_sockets(&s);
	} else {
		fork_server(&s);
	}
	serve_until_stopped(&s, settings->from);
	input_close(&s.in);
	model_free(s.model);
	free(s.settings.model.stats);
	return STATUS_OK;
}
