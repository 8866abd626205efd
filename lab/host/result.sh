# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# Library for bash checks with one result, in addition to those of run_marked. Finish with "passed
# TEXT"; exiting earlier is a failure. results.py describes the output. A check that takes arguments sets usage and parses
# them before it sources this file; others are refused here if they get any.
#
# Sets top, the repository; base, the name of the base kernel; tree, the patched kernel
# tree; work, a temporary directory in build/; and rerun, the command that repeats a
# failure, which the check may change.

check=${0##*/}
[ -n "${usage-}" ] || [ $# -eq 0 ] || { echo "usage: $check" >&2; exit 2; }
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
rerun=$(cd "$(dirname "$0")" && pwd)/$check
rerun=${rerun#"$top"/}
base=$("$top"/scripts/base name)
# shellcheck disable=SC2034 # used by the check
tree=$top/build/$base/linux
[ "$base" = "$(<"$top/patches/default")" ] || rerun="BASE=$base $rerun"
mkdir -p "$top/build"
work=$(mktemp -d "$top/build/check-$check.XXXXXX")
why="ended early, see above"
# Results of run_marked
good=0 bad=0

# Set built to a directory that persists, for incremental builds. Only one run of the
# check at a time may use it.
keep_built() {
	built=$top/build/$check
	mkdir -p "$built"
	exec 9>"$built.lock"
	flock 9
}

# Remove the temporary files; print the failure of a check that ended early.
finish() {
	rm -rf "$work"
	[ -n "$why" ] || return 0
	printf 'not ok - %-30s %s\n# rerun: %s\n1..%s\n%s passed, %s failed\n' \
		"$check" "$why" "$rerun" $((good + bad + 1)) $good $((bad + 1))
	exit 1
}
trap finish EXIT

fail() {
	why=$1
	exit 1
}

# End the check as skipped; the only reason is that a mirror does not deliver a package.
skip() {
	why=
	printf 'ok     - %-30s # SKIP not run: %s\n1..1\n0 passed, 0 failed, 1 skipped\n' \
		"$check" "$1"
	exit 0
}

# Run the commands of pages that are marked for this check (pages.py), and print a result for each.
# Their output goes to stderr. The status is 1 if one failed. usage: run_marked [NAME=VALUE...]
run_marked() {
	local status=0
	(cd "$top/lab" && exec /usr/bin/python3 -m host.pages "$check" "$@") >"$work/marked" || status=1
	cat "$work/marked"
	good=$(grep -c '^ok ' "$work/marked") || true
	bad=$(grep -c '^not ok ' "$work/marked") || true
	[ $((bad + status)) -eq 0 ]
}

# Run a program of the repository, with its output on stderr; if it fails, end the check.
run_script() {
	local status=0
	"$top/$1" "${@:2}" 2>&1 </dev/null | tee "$work/said" >&2 ||
		status=${PIPESTATUS[0]}
	# See NOT_DELIVERED in steps.py.
	[ "$status" -ne 75 ] || skip "$(tail -n 1 "$work/said")"
	[ "$status" -eq 0 ] || fail "$1 failed: $(tail -n 1 "$work/said")"
}

passed() {
	why=
	printf 'ok     - %-30s %s\n1..%s\n%s passed, 0 failed\n' "$check" "$1" \
		$((good + 1)) $((good + 1))
	exit 0
}
