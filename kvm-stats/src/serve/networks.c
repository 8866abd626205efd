// SPDX-License-Identifier: GPL-2.0-only
#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include "networks.h"

#define IPV4_PREFIX	0xffff00000000ULL

uint64_t address_key(const struct sockaddr *address)
{
	const struct in6_addr *v6;
	uint64_t key = 0;

	if (address && address->sa_family == AF_INET)
		return IPV4_PREFIX | ((const struct sockaddr_in *)address)->sin_addr.s_addr;
	if (!address || address->sa_family != AF_INET6)
		return 0;
	v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return IPV4_PREFIX | v6->s6_addr32[3];
	memcpy(&key, v6, sizeof(key));
	return key;
}

bool address_is_loopback(const struct sockaddr *address)
{
	const struct in6_addr *v6;

	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	if (address->sa_family != AF_INET6)
		return true;
	v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(v6) ||
	       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

void address_networks(const struct sockaddr *address, uint64_t networks[NETWORKS])
{
	static const unsigned char bits[][NETWORKS] = { { 64, 56, 48, 32 }, { 32, 24, 16, 8 } };
	const uint64_t key = address_key(address);
	const bool v4 = key >> 32 == IPV4_PREFIX >> 32;
	/* the first byte of the address first */
	uint64_t value = v4 ? (uint64_t)ntohl(key) << 32 : be64toh(key);
	unsigned int i;

	if (v4 && value >> 56 == 127)
		value = 127ULL << 56;
	for (i = 0; i < NETWORKS; i++)
		networks[i] = (value & UINT64_MAX << (64 - bits[v4][i])) | v4;
}
