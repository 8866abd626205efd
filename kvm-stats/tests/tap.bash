# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Results of a test as the Test Anything Protocol has them. Sourced by the tests in bash.

count=0 failed=0

# begin DIR: the only argument of most tests is the directory of the build. Sets directories and
# programs; work is a temporary directory.
begin() {
	[ $# -eq 1 ] || { echo "usage: ${0##*/} DIR" >&2; exit 2; }
	here=$(cd "$(dirname "$0")" && pwd)
	build=$(cd "$1" && pwd)
	# shellcheck disable=SC2034 # for the tests
	kvm_stats=$build/kvm-stats replay=$build/tests/replay data=$here/data
	work=$(mktemp -d)
	trap clean_up EXIT
}

clean_up() {
	# Only jobs that still run: another process may have the PID of one that has exited.
	jobs -pr | xargs -r kill -9 2>/dev/null
	cleanup
	rm -rf "$work"
}

# A test may define what else it removes.
cleanup() { :; }

# kill_tmux SOCKET
kill_tmux() {
	# kill-server alone fails while the server starts.
	tmux -L "$1" start-server \; kill-server 2>/dev/null
}

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
