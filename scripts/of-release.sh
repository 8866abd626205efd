# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# For a script whose only argument is a release of Debian, to source: what it fetches goes
# to build/FOLDER/RELEASE, or RELEASE-ARCHITECTURE if the environment names one.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Say why it ends. usage: fail WHY [STATUS]
fail() {
	echo "${0##*/}: $1" >&2
	exit "${2:-1}"
}

[ $# -eq 1 ] || fail "which release?" 2
release=$1
said=$("$top"/scripts/suites "$release")
read -ra suites <<<"$said"

# Set out, have it to ourselves; it is there if MADE in it is newer than the script.
# usage: own FOLDER MADE WHAT
own() {
	out=$top/build/$1/$release${ARCHITECTURE:+-$ARCHITECTURE} what=$3 start=$SECONDS
	# Several checks have it fetched.
	mkdir -p "${out%/*}"
	exec 9>"$out.lock"
	flock 9
	[ ! "$out/$2" -nt "$0" ] || exit 0
	echo "fetching $what of $release ..." >&2
	rm -rf "$out"
}

# Fetch packages into $out/apt, with all that they depend on. usage: download PACKAGE...
download() {
	"$top"/scripts/apt-suites "$out/apt" "${suites[@]}" -- \
		install -y -t "$release" --no-install-recommends --download-only "$@" ||
		fail "$what of $release could not be fetched (log: $out/apt/log)"
}

# It is all there. usage: made MADE, what own() was told
made() {
	rm -rf "$out/apt"
	touch "$out/$1"
	echo "fetching $what of $release: $((SECONDS - start)) s" >&2
}
