/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Verify passwords in a separate thread, because bcrypt is slow by design.
 *
 * Logins wait in a queue. After a wrong password, further logins from the same address
 * are delayed by four times the time that bcrypt took. Logins from other addresses
 * overtake them, so guessing does not lock out other clients. The queue is bounded for each
 * pair of user and address, for each address, and in total.
 */
#ifndef SERVE_LOGIN_H
#define SERVE_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

struct logins;
struct login;

enum login_result {
	LOGIN_PENDING,
	LOGIN_CORRECT,
	LOGIN_WRONG,
	LOGIN_REJECTED,		/* too many logins from the address */
};

/*
 * Start the thread, which writes to the eventfd done after each login. Returns NULL if
 * memory or threads run out.
 */
struct logins *logins_start(int done);
void logins_stop(struct logins *l);

/*
 * Queue a login. If the user does not exist, pass the hash of another user and set known to
 * false, so that the response time does not reveal which users exist. Returns NULL if the queue is full.
 */
struct login *login_begin(struct logins *l, uint64_t address, const char *user,
			  const char *hash, const char *password, bool known);
enum login_result login_result(struct logins *l, const struct login *login);

/* Release a login; it may still be pending. */
void login_end(struct logins *l, struct login *login);

#endif /* SERVE_LOGIN_H */
