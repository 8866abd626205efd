/* SPDX-License-Identifier: GPL-2.0-only */
/* Options of the commands that export: rows of options[] (src/options.c) refer to these. */
#ifndef SERVE_SETTINGS_H
#define SERVE_SETTINGS_H

#include "model.h"

struct settings;

#define LISTEN_MAX	8
#define HOSTS_MAX	16

/* Arguments of --log.level and --log.format, as the enumerators; the least severe level first */
#define LOG_LEVELS	"debug info warn error"
#define LOG_FORMATS	"text logfmt json"

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR,
};

enum log_format {
	LOG_FORMAT_TEXT,
	LOG_FORMAT_LOGFMT,
	LOG_FORMAT_JSON,
};

struct serve_settings {
	struct serve_options model;
	bool list;			/* export: print the metrics that can be exported */
	struct listen_option {
		const char *name;	/* --listen or its alias */
		const char *value;	/* ADDRESS:PORT */
	} listen[LISTEN_MAX];
	unsigned int nr_listen;		/* 0 for the default address */
	const char *hosts[HOSTS_MAX];	/* further names of this host */
	unsigned int nr_hosts;
	const char *config;		/* web.yml, or NULL */
	const char *metrics_path;
	uint64_t max_age;		/* nanoseconds */
	bool needs_sockets;		/* exit if systemd passes none */
	enum log_level log_level;
	enum log_format log_format;
};

/* Set an option. They exit with status 2 and one line if the value is invalid. */
void serve_set_listen(struct settings *settings, const char *name, const char *value);
void serve_set_host(struct settings *settings, const char *name, const char *value);
void serve_set_path(struct settings *settings, const char *name, const char *value);
void serve_set_config(struct settings *settings, const char *name, const char *value);
void serve_set_systemd_socket(struct settings *settings, const char *name, const char *value);
void serve_set_log_level(struct settings *settings, const char *name, const char *value);
void serve_set_log_format(struct settings *settings, const char *name, const char *value);
void serve_set_max_age(struct settings *settings, const char *name, const char *value);
void serve_set_stats(struct settings *settings, const char *name, const char *value);
void serve_set_detail(struct settings *settings, const char *name, const char *value);
void serve_set_max_series(struct settings *settings, const char *name, const char *value);
void serve_set_list(struct settings *settings, const char *name, const char *value);

/* Exit with status 2 and one line if the options contradict each other or this kernel. */
void serve_check_settings(const struct settings *settings);

#endif /* SERVE_SETTINGS_H */
