// SPDX-License-Identifier: GPL-2.0-only
/* Fuzz the reader of web.yml, and the checks of users and names of the host, with libFuzzer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "serve/access.h"

static void use(struct web_config *config, const char *text)
{
	unsigned int i;

	for (i = 0; i < config->nr_users; i++) {
		if (bcrypt_cost(config->user[i].hash) > bcrypt_cost(access_costliest_user(config)->hash) ||
		    !access_user(config, config->user[i].name) ||
		    !access_same(config->user[i].hash, config->user[i].hash))
			abort();
	}
	access_client(config, NULL);
	access_host(text, (const char *const []){ "metrics.example" }, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char path[32], error[WEB_ERROR_SIZE];
	static struct web_files files;
	static int fd = -1;
	struct web_config *config;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (fd < 0)
		fd = memfd_create("web.yml", 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	config = web_config_read(path, &files, error);
	/* One line if it is invalid; file names in it have to be readable. */
	if (!config != !!*error || files.nr > 4 || web_files_changed(&files))
		abort();
	if (config)
		use(config, text);
	web_config_put(web_config_get(config));
	web_config_put(config);
	free(text);
	return 0;
}
