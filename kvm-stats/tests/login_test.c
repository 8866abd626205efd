// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which logins are verified next, and which are rejected. bcrypt is replaced by a function that
 * blocks until the test releases it, and the clock is stopped. Prints TAP.
 */
#include <arpa/inet.h>
#include <crypt.h>
#include <err.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/http/login.h"
#include "tap.h"

#define HASH(cost)	"$2b$" cost "$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"
#define GUESSERS	100

static sem_t entered, may_verify;
static const char *verified;	/* the password that bcrypt has */
static unsigned int spent;	/* time of bcrypt, in times of cost 0 */
static bool unlimited;		/* bcrypt does not wait */

uint64_t __wrap_app_now(void);
uint64_t __wrap_app_now(void)
{
	return 1;
}

/* Use the same slots in each run, because two addresses may share one. */
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned int flags)
{
	memset(buf, 0x5a, size);
	return size;
}

char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data);
char *__wrap_crypt_r(const char *phrase, const char *setting, struct crypt_data *data)
{
	spent += 1 << (10 * (setting[4] - '0') + setting[5] - '0');
	if (!unlimited) {
		verified = phrase;
		sem_post(&entered);
		sem_wait(&may_verify);
	}
	snprintf(data->output, sizeof(data->output), "%s",
		 strncmp(phrase, "right", 5) ? "*" : setting);
	return data->output;
}

static struct logins *start(void)
{
	struct logins *l = logins_start(eventfd(0, EFD_NONBLOCK));

	if (!l || sem_init(&entered, 0, 0) || sem_init(&may_verify, 0, 0))
		err(1, "start");
	unlimited = false;
	return l;
}

static void stop(struct logins *l)
{
	unlimited = true;
	sem_post(&may_verify);
	logins_stop(l);
}

static struct login *begin(struct logins *l, const char *address, const char *user,
			   const char *password)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	uint64_t networks[NETWORKS];

	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		address_networks((void *)&v4, networks);
	else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
		address_networks((void *)&v6, networks);
	else
		errx(1, "%s", address);
	return login_begin(l, networks, user, password, HASH("05"), 5, true);
}

/* Let bcrypt end, and return the password that is verified next. */
static const char *next_password(void)
{
	sem_post(&may_verify);
	sem_wait(&entered);
	return verified;
}

/* Guess from addresses that format makes of numbers. */
static void guess(struct logins *l, const char *format, unsigned int first)
{
	unsigned int i;
	char address[64];

	for (i = 0; i < GUESSERS; i++) {
		snprintf(address, sizeof(address), format, first + i);
		begin(l, address, "user", "guess");
	}
}

/* Return the number of hashes that are computed before that of the right password. */
static unsigned int count_before(struct logins *l, const struct login *right)
{
	unsigned int n = 0;

	while (strcmp(next_password(), "right"))
		n++;
	next_password();
	if (login_result(l, right) != LOGIN_CORRECT)
		errx(1, "the right password is not accepted");
	return n;
}

static void test_addresses(const char *name, const char *format, const char *other)
{
	struct logins *l = start();
	struct login *right;
	unsigned int i, n;

	/* Each address has guessed once. */
	guess(l, format, 1);
	sem_wait(&entered);
	for (i = 1; i < GUESSERS; i++)
		next_password();
	guess(l, format, 1);
	guess(l, format, 1);
	next_password();
	right = begin(l, other, "user", "right");
	/* Newer guesses */
	guess(l, format, 1);
	n = count_before(l, right);
	tap_result(n <= 1, "%s: %u guesses are verified before the right password", name, n);
	stop(l);
}

/* Addresses of one network that guess for the first time */
static void test_network(void)
{
	struct logins *l = start();
	unsigned int n;

	guess(l, "2001:db8:1:%x::1", 1);
	sem_wait(&entered);
	n = count_before(l, begin(l, "2001:db8:2:1::1", "user", "right"));
	tap_result(n <= 1, "%u guesses of a network before an address outside of it", n);
	stop(l);
}

/* Users of the address that guesses */
static void test_user(void)
{
	struct logins *l = start();
	unsigned int n;

	guess(l, "192.0.2.1", 0);
	sem_wait(&entered);
	n = count_before(l, begin(l, "192.0.2.1", "other", "right"));
	tap_result(n <= 1, "%u guesses before another user of the address", n);
	stop(l);
}

/*
 * Guess a user's password at its address; each result is followed by another guess, for a user
 * with a new name if names is true. The right password arrives at one of four turns.
 */
static unsigned int count_for_turn(unsigned int turn, bool names)
{
	struct logins *l = start();
	struct login *right;
	char name[16] = "user";
	unsigned int i, n = 0;

	guess(l, "127.0.0.%u", 1);
	sem_wait(&entered);
	for (i = 0; i < GUESSERS + turn; i++) {
		if (names)
			snprintf(name, sizeof(name), "user-%u", i);
		begin(l, "127.0.0.2", name, "guess");
		next_password();
	}
	right = begin(l, "127.0.0.1", "user", "right");
	while (strcmp(next_password(), "right") && n <= 4 * (GUESSERS + 4)) {
		if (names)
			snprintf(name, sizeof(name), "user-%u", i + n);
		begin(l, "127.0.0.2", name, "guess");
		n++;
	}
	next_password();
	tap_result(login_result(l, right) == LOGIN_CORRECT,
		   "turn %u: the right password is verified after %u guesses", turn, n);
	stop(l);
	return n;
}

static void test_same_address(bool names)
{
	unsigned int turn, n, soon = 0, most = 0;

	for (turn = 0; turn < 4; turn++) {
		n = count_for_turn(turn, names);
		soon += n <= 1;
		most = n > most ? n : most;
	}
	tap_result(soon >= (names ? 1 : 3) && most <= 4 * (GUESSERS + 1),
		   "guesses at %s: %u of 4 right passwords are verified next or after one, all within %u",
		   names ? "many users" : "one user", soon, most);
}

static unsigned int cost_of(const char *hash, bool known, const char *password)
{
	const uint64_t networks[NETWORKS] = { 1 };
	struct logins *l = start();
	struct login *login;

	unlimited = true;
	spent = 0;
	login = login_begin(l, networks, "user", password, hash, 9, known);
	while (login_result(l, login) == LOGIN_PENDING)
		usleep(1000);
	tap_result(login_result(l, login) == (known && !strcmp(password, "right") ? LOGIN_CORRECT :
					     LOGIN_WRONG), "%.7s %s: the result", hash, password);
	login_end(l, login);
	stop(l);
	return spent;
}

int main(void)
{
	test_addresses("127.0.0.0/8", "127.0.0.%u", "192.0.2.1");
	test_addresses("IPv4 networks", "%u.2.3.4", "192.0.2.1");
	test_addresses("addresses of the same /24", "192.0.2.%u", "192.0.2.200");
	test_addresses("IPv6", "2001:db8:1:%x::1", "2001:db8:2::1");
	test_network();
	test_user();
	test_same_address(false);
	test_same_address(true);
	tap_result(cost_of(HASH("05"), true, "wrong") == 1 << 9 &&
		   cost_of(HASH("09"), true, "wrong") == 1 << 9 &&
		   cost_of(HASH("09"), false, "wrong") == 1 << 9 &&
		   cost_of(HASH("05"), false, "right") == 1 << 9,
		   "wrong passwords and unknown users cost as much as the costliest user");
	tap_result(cost_of(HASH("05"), true, "right") == 1 << 5, "right passwords cost no more");
	return tap_end();
}
