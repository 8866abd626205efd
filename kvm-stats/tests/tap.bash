# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Results of a test as the Test Anything Protocol has them. Sourced by the tests in bash.

count=0 failed=0

# report STATUS TEXT: print a result, which has passed if STATUS is 0.
report() {
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		failed=$((failed + 1))
		echo "not ok $count - $2"
	fi
}

# result TEXT CONDITION...: print a result. The condition is a command; if it fails, print the status
# and the output of the last say() as well.
result() {
	if "${@:2}"; then
		report 0 "$1"
	else
		report 1 "$1"
		echo "#   status ${status-}: ${said//$'\n'/$'\n'#   }"
	fi
}

# say COMMAND...: run a command; its exit status is in status, its output in said.
say() {
	status=0
	said=$("$@" 2>&1 </dev/null) || status=$?
}

# is STATUS PATTERN: the last command had this status, and a line of its output matches.
is() { [ "$status" -eq "$1" ] && grep -qE -- "$2" <<<"$said"; }

# shows PATTERN: the same for a command that succeeded, or that ended with status 3, because some
# process of this host cannot be read.
shows() { [[ $status == [03] ]] && grep -qE -- "$1" <<<"$said"; }

# until_ok COMMAND...: repeat the command until it succeeds, for a minute at most. If it fails
# until then, the results that follow fail.
until_ok() {
	local end=$((SECONDS + 60))
	until "$@"; do
		[ $SECONDS -lt $end ] || return
		sleep 0.03
	done
}

# Print the plan; fail if a result has failed.
end_tests() {
	echo "1..$count"
	[ "$failed" -eq 0 ]
}
