// SPDX-License-Identifier: GPL-2.0-only
/* Instead of serve.c where what it needs was missing */
#include <err.h>

#include "app.h"
#include "options.h"

int command_serve(int argc, char **argv)
{
	struct serve_settings settings;

	serve_parse(argc, argv, true, &settings);
	errx(STATUS_USAGE, "this kvm-stats was built without libmicrohttpd, GnuTLS, zlib or libyaml");
}
