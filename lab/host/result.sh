# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# For a check that has one result, in bash: source this after a look at the
# arguments, end with "passed TEXT". Whatever ends it before that is a failure.
# What a check hands back is described in results.py.
#
# Sets top, the repository, base, the name of the base kernel, tree, the patched one,
# and work, a folder for its files in build/. What to type to see a failure again is
# in again, for the check to change.

check=${0##*/}
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
again=$(cd "$(dirname "$0")" && pwd)/$check
again=${again#"$top"/}
base=$("$top"/scripts/base name)
# shellcheck disable=SC2034 # for the check
tree=$top/build/$base/linux
[ "$base" = "$(<"$top/patches/default")" ] || again="BASE=$base $again"
mkdir -p "$top/build"
work=$(mktemp -d "$top/build/check-$check.XXXXXX")
why="ended early, see above"

# For what is built: a folder that stays, so that only what changed is made again. It
# belongs to one run of the check at a time.
keep_built() {
	built=$top/build/$check
	mkdir -p "$built"
	exec 9>"$built.lock"
	flock 9
}

# For "trap EXIT": the temporary files go, and there is a last line.
finish() {
	rm -rf "$work"
	[ -n "$why" ] || return 0
	printf 'FAIL %-30s %s\n' "$check" "$why"
	printf '    again: %s\n0 passed, 1 failed\n' "$again"
	exit 1
}
trap finish EXIT

fail() {
	why=$1
	exit 1
}

passed() {
	why=
	printf 'PASS %-30s %s\n1 passed, 0 failed\n' "$check" "$1"
	exit 0
}
