# SPDX-License-Identifier: GPL-2.0-only
"""Do the descriptors describe the structs that the kernel was built with?

The structs come from the debug information of what was built, by way of pahole;
the descriptors from the booted kernel, as kvm-stats/tests/descriptors.c prints them.
"""

import re
import subprocess

import records

STRUCTS = {"vm": "kvm_vm_stat", "vcpu": "kvm_vcpu_stat"}
MEMBER = re.compile(r"^\t\w.*?\b(\w+)(?:\[\d+\])?;\s+/\*\s+(\d+)\s+(\d+)\s+\*/$")


def parse_pahole(text):
    """The members of one printed struct: name to (offset, bytes)."""
    members = {}
    for line in text.splitlines():
        if re.match(r"^\t/\*|^\s*$|^struct \w+ \{$|^\};?$", line):
            continue
        match = MEMBER.match(line)
        if not match:
            raise ValueError(f"not a plain member: {line.strip()}")
        members[match[1]] = (int(match[2]), int(match[3]))
    return members


def members(record):
    """Both structs of a built kernel, by scope."""
    image = record.kernel / records.WITH_TYPES
    return {scope: parse_pahole(subprocess.run(
                ["pahole", "-C", struct, image], check=True,
                capture_output=True, text=True).stdout)
            for scope, struct in STRUCTS.items()}


def check(structs, described):
    """Compare; returns (passed, what to say about it)."""
    left = {(scope, name): place for scope, struct in structs.items()
            for name, place in struct.items()}
    for scope in STRUCTS:
        if not structs[scope]:
            return False, f"no debug information for {STRUCTS[scope]}"
    count = 0
    for line in described.splitlines():
        words = line.split()
        if len(words) != 9 or words[0] not in STRUCTS:
            return False, f"not a descriptor: {line}"
        scope, name, offset, size = words[0], words[1], *map(int, words[6:8])
        if (scope, name) not in left:
            return False, (f"{STRUCTS[scope]} has no {name}, or a second "
                           "descriptor has")
        place = left.pop((scope, name))
        if place != (offset, 8 * size):
            return False, (f"{STRUCTS[scope]}.{name} stands at {place[0]}, "
                           f"{place[1]} bytes; its descriptor says {offset}, "
                           f"{8 * size}")
        count += 1
    if left:
        scope, name = next(iter(left))
        return False, f"{STRUCTS[scope]}.{name} has no descriptor"
    return True, f"{count} members"
