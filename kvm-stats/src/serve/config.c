// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration of connections. The process that serves reads it again when it was changed, or, if
 * that has another user ID and may not, the sampler does, and replaces the process.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "logging.h"
#include "serve.h"

#define CONFIG_CHECK_INTERVAL	SECOND

void read_config(struct server *s)
{
	char error[WEB_ERROR_SIZE];

	if (!s->settings.config)
		return;
	s->config = web_config_read(s->settings.config, &s->files, error);
	if (!s->config)
		errx(STATUS_USAGE, "%s", error);
	s->rate_tokens = UINT64_MAX / 2;	/* a full bucket */
}

/* Keep passwords that were verified for the same hash. */
static void keep_passwords(struct web_config *new, struct web_config *old)
{
	unsigned int i, j;

	for (i = 0; i < new->nr_users; i++) {
		for (j = 0; j < old->nr_users; j++) {
			if (strcmp(new->user[i].name, old->user[j].name) ||
			    strcmp(new->user[i].hash, old->user[j].hash))
				continue;
			free(new->user[i].password);
			new->user[i].password = old->user[j].password;
			old->user[j].password = NULL;
		}
	}
}

bool reload_config(struct server *s, uint64_t now)
{
	char error[WEB_ERROR_SIZE];
	struct web_config *new;

	if (!s->config || now - s->config_checked < CONFIG_CHECK_INTERVAL)
		return false;
	s->config_checked = now;
	if (!web_files_changed(&s->files))
		return false;
	new = web_config_read(s->settings.config, &s->files, error);
	if (new && !new->cert != !s->config->cert) {
		snprintf(error, sizeof(error), "%.*s: enabling or disabling TLS requires a restart",
			 (int)sizeof(error) / 2, s->settings.config);
		web_config_put(new);
		new = NULL;
	}
	if (!new) {
		log_message(LOG_LEVEL_ERROR, "%s; keeping the previous configuration", error);
		return false;
	}
	keep_passwords(new, s->config);
	web_config_put(s->config);
	s->config = new;
	s->config_generation++;
	s->rate_tokens = UINT64_MAX / 2;
	log_message(LOG_LEVEL_INFO, "reloaded %s", s->settings.config);
	return true;
}
