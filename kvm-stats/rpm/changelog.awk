# SPDX-License-Identifier: GPL-2.0-only
# Print debian/changelog as the changelog of an RPM spec.
/^kvm-stats \(/ {
	version = substr($2, 2, length($2) - 2)
	sub(/-.*/, "", version)
	text = ""
}
/^  / {
	sub(/^  \* /, "- ")
	sub(/^    /, "  ")
	gsub(/%/, "%%")
	text = text $0 "\n"
}
/^ -- / {
	split(substr($0, 5), part, "  ")
	split(part[2], date, /[ ,]+/)
	printf "%s* %s %s %s %s %s - %s-1\n%s", between, date[1], date[3], date[2], date[4], part[1], version, text
	between = "\n"
}
