# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Functions for scripts whose only argument is a Debian release. They fetch packages to
# build/DIRECTORY/RELEASE, or RELEASE-ARCHITECTURE if ARCHITECTURE is in the environment.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# Print the reason and exit. usage: fail REASON [STATUS]
fail() {
	echo "${0##*/}: $1" >&2
	exit "${2:-1}"
}

[ $# -eq 1 ] || fail "which release?" 2
release=$1
said=$("$top"/lab/fetch/debian-suites "$release")
read -ra suites <<<"$said"

# Set out and lock it. Exit if MARK in it is newer than the script: nothing to fetch.
# usage: cache_begin DIRECTORY MARK DESCRIPTION
cache_begin() {
	out=$top/build/$1/$release${ARCHITECTURE:+-$ARCHITECTURE} what=$3 start=$SECONDS
	# Several checks may fetch the same packages.
	mkdir -p "${out%/*}"
	exec 9>"$out.lock"
	flock 9
	[ ! "$out/$2" -nt "$0" ] || exit 0
	echo "fetching $what of $release ..." >&2
	rm -rf "$out"
}

# Fetch packages and their dependencies into $out/apt. usage: download PACKAGE...
download() {
	"$top"/lab/fetch/apt-suites "$out/apt" "${suites[@]}" -- \
		install -y -t "$release" --no-install-recommends --download-only "$@" ||
		fail "$what of $release could not be fetched (log: $out/apt/log)" $?
}

# Fetch packages, without their dependencies, into the same directory. Only the suite of the
# release is read. usage: download_only PACKAGE...
download_only() {
	local own=("${suites[@]}")

	[[ $release != *-* ]] || own=("$release")
	mkdir -p "$out/apt/cache/archives"
	(
		cd "$out/apt/cache/archives"
		"$top"/lab/fetch/apt-suites "$out/apt" "${own[@]}" -- download -t "$release" "$@"
	) || fail "$what of $release could not be fetched (log: $out/apt/log)" $?
}

# Mark the directory as complete. usage: cache_commit MARK, as for cache_begin
cache_commit() {
	rm -rf "$out/apt"
	touch "$out/$1"
	echo "fetching $what of $release: $((SECONDS - start)) s" >&2
}
