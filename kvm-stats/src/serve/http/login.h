/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Verify passwords in a separate thread, because bcrypt is slow by design.
 *
 * Logins wait in a queue, which is bounded by the number of connections. Each second one that is
 * verified has the fewest wrong logins before it: wrong logins of the user at this address, of
 * the address, and of its networks. The others are the newest and the oldest in turn. So a right
 * login is verified next or after one, however many addresses others have guessed from. If they
 * share its address, it is verified within the next four unless newer ones arrive before, and
 * in any case after four times the logins before it. After a wrong password, further logins
 * from the same address are delayed by four times the time that bcrypt took, less the time they
 * wait for each other.
 */
#ifndef SERVE_LOGIN_H
#define SERVE_LOGIN_H

#include "serve/networks.h"

struct logins;
struct login;

enum login_result {
	LOGIN_PENDING,
	LOGIN_CORRECT,
	LOGIN_WRONG,
};

/*
 * Start the thread, which writes to the eventfd done after each login. Returns NULL if
 * memory or threads run out.
 */
struct logins *logins_start(int done);
void logins_stop(struct logins *l);

/*
 * Queue a login. A wrong one takes as long as a hash with this cost: pass that of the costliest
 * user, so that the time does not reveal which users exist. If the user does not exist, pass
 * the hash of another one and set known to false. Returns NULL if memory runs out.
 */
struct login *login_begin(struct logins *l, const uint64_t networks[NETWORKS], const char *user,
			  const char *password, const char *hash, unsigned int cost, bool known);
enum login_result login_result(struct logins *l, const struct login *login);

/* Release a login; it may still be pending. */
void login_end(struct logins *l, struct login *login);

#endif /* SERVE_LOGIN_H */
