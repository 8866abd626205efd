/* SPDX-License-Identifier: GPL-2.0-only */
/* Addresses and networks of clients as numbers */
#ifndef SERVE_NETWORKS_H
#define SERVE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "hash.h"

/*
 * Networks of an address that one client may have: 32, 24, 16 and 8 bits of IPv4, and 64, 56, 48
 * and 32 bits of IPv6. All addresses of 127.0.0.0/8 are one, because any local user has them.
 */
#define NETWORKS	4
void address_networks(const struct sockaddr *address, uint64_t networks[NETWORKS]);

/* A number that is unique for an IPv4 address or an IPv6 network of 64 bits */
uint64_t address_key(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);

#endif /* SERVE_NETWORKS_H */
