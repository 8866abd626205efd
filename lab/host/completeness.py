# SPDX-License-Identifier: GPL-2.0-only
"""Do the descriptors describe the structs that the kernel was built with?

The structs come from the debug information of what was built, by way of pahole;
the descriptors from the booted kernel, as kvm-stats/tests/descriptors.c prints them.
"""

import re
import subprocess

import records

STRUCTS = {"vm": "kvm_vm_stat", "vcpu": "kvm_vcpu_stat"}
MEMBER = re.compile(r"^\t+(?:struct (?P<struct>\w+)|\w.*?)\s+(?P<name>\w+)(?:\[\d+\])?;"
                    r"\s+/\*\s+(?P<offset>\d+)\s+(?P<size>\d+)\s+\*/$")
# Also where a struct or union without a name begins and ends: its members are the outer's.
NO_MEMBER = re.compile(r"^\t+/\*|^\s*$|^struct \w+ \{$|^\};?$|"
                       r"^\t+(?:struct|union) \{$|^\t+\};\s+/\*[\d\s]+\*/$")


def parse_pahole(text, inner=None):
    """The members of one printed struct: name to (offset, bytes). inner: returns the
    text of a struct that is a member, its members are this one's."""
    members = {}
    for line in text.splitlines():
        if NO_MEMBER.match(line):
            continue
        match = MEMBER.match(line)
        if not match or match["struct"] and not inner:
            raise ValueError(f"not a plain member: {line.strip()}")
        offset, size = int(match["offset"]), int(match["size"])
        if match["struct"]:
            members.update((name, (offset + start, length)) for name, (start, length) in
                           parse_pahole(inner(match["struct"]), inner).items())
        else:
            members[match["name"]] = (offset, size)
    return members


def members(record):
    """Both structs of a built kernel, by scope."""
    def text(struct):
        return subprocess.run(["pahole", "-C", struct, record.kernel / records.WITH_TYPES],
                              check=True, capture_output=True, text=True).stdout

    return {scope: parse_pahole(text(struct), text) for scope, struct in STRUCTS.items()}


def check(structs, described):
    """Compare; returns (passed, what to say about it)."""
    left = {(scope, name): place for scope, struct in structs.items()
            for name, place in struct.items()}
    described_bytes = set()
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
        described_bytes.update((scope, byte) for byte in range(offset, offset + 8 * size))
        count += 1
    # Of a union one name is enough, or those of all its parts.
    for (scope, name), (offset, size) in left.items():
        if described_bytes.issuperset((scope, byte) for byte in range(offset, offset + size)):
            continue
        return False, f"{STRUCTS[scope]}.{name} has no descriptor"
    return True, f"{count} members"
