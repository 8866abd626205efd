// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "hour.h"

uint64_t get_shares(const uint64_t from[MODES], const uint64_t to[MODES], uint16_t share[MODES])
{
	uint64_t all = 0;
	unsigned int i;

	for (i = 0; i < MODES; i++)
		all += to[i] - from[i];
	for (i = 0; i < MODES; i++)
		share[i] = kvmstats_permille(to[i] - from[i], all);
	return all;
}

void hour_add(struct hour *hour, const uint64_t total[MODES], uint64_t now)
{
	const uint64_t minute = now / MINUTE;
	uint16_t share[MODES];
	uint64_t i;

	if (hour->minute == minute)
		return;
	get_shares(hour->begin, total, share);
	i = minute - hour->minute > MINUTES ? minute - MINUTES : hour->minute;
	for (; hour->minute && i < minute; i++)
		memcpy(hour->share[i % MINUTES], share, sizeof(share));
	hour->minute = minute;
	memcpy(hour->begin, total, sizeof(hour->begin));
}

bool hour_shares(const struct hour *hour, const uint64_t total[MODES], uint64_t minute,
		 uint16_t share[MODES])
{
	unsigned int i;

	memset(share, 0, MODES * sizeof(*share));
	if (minute == hour->minute)
		get_shares(hour->begin, total, share);
	else if (minute < hour->minute)
		memcpy(share, hour->share[minute % MINUTES], MODES * sizeof(*share));
	for (i = 0; i < MODES && !share[i]; i++)
		;
	return i < MODES;
}
