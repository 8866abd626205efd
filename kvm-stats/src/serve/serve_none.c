// SPDX-License-Identifier: GPL-2.0-only
/* Instead of serve.c where what it needs was missing */
#include <err.h>

#include "app.h"
#include "options.h"

int command_serve(const struct settings *settings)
{
	errx(STATUS_USAGE, "this kvm-stats was built without libmicrohttpd, GnuTLS, zlib or libyaml");
}
