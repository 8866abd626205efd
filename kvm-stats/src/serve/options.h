/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands that export: their command lines, and what they have in common */
#ifndef SERVE_OPTIONS_H
#define SERVE_OPTIONS_H

#include "model.h"
#include "write.h"

struct serve_settings {
	struct serve_options model;
	enum format format;		/* of export */
	bool list;			/* export: the metrics there can be */
	const char *listen;		/* ADDRESS:PORT, NULL: the default */
	const char *config;		/* file with TLS and users, NULL: none */
	uint64_t interval, max_age;	/* nanoseconds */
};

int command_export(int argc, char **argv);
int command_serve(int argc, char **argv);

/* Ends the program with status 2 and one line if anything is wrong. */
void serve_parse(int argc, char **argv, bool serve, struct serve_settings *settings);

#endif /* SERVE_OPTIONS_H */
