# SPDX-License-Identifier: GPL-2.0-only
"""Check that the descriptors match the structs that the kernel was built with.

The structs are read from debug information by pahole; the descriptors are read from the
booted kernel by kvm-stats/tests/descriptors.c.
"""

import re
import subprocess

from . import records

STRUCTS = {"vm": "kvm_vm_stat", "vcpu": "kvm_vcpu_stat"}
MEMBER = re.compile(r"^\t+(?:struct (?P<struct>\w+)|\w.*?)\s+(?P<name>\w+)(?:\[\d+\])?;"
                    r"\s+/\*\s+(?P<offset>\d+)\s+(?P<size>\d+)\s+\*/$")
# Lines without a member, including the first and last lines of anonymous structs and unions,
# whose members belong to the outer struct.
NO_MEMBER = re.compile(r"^\t+/\*|^\s*$|^struct \w+ \{$|^\};?$|"
                       r"^\t+(?:struct|union) \{$|^\t+\};\s+/\*[\d\s]+\*/$")


def parse_pahole(text, inner=None):
    """Return the members of a struct printed by pahole, (offset, bytes) by name.

    inner: a function that returns the text of a nested struct, whose members are included.
    """
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


def read_members(record):
    """Return the members of both structs of a built kernel, by scope."""
    def text(struct):
        return subprocess.run(["pahole", "-C", struct, record.kernel / records.WITH_TYPES],
                              check=True, capture_output=True, text=True).stdout

    return {scope: parse_pahole(text(struct), text) for scope, struct in STRUCTS.items()}


def check(structs, described):
    """Compare the structs with the descriptors; return (passed, text)."""
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
            return False, (f"{STRUCTS[scope]} has no member {name}, or it "
                           "has two descriptors")
        place = left.pop((scope, name))
        if place != (offset, 8 * size):
            return False, (f"{STRUCTS[scope]}.{name} is at {place[0]}, "
                           f"{place[1]} bytes; its descriptor has {offset}, "
                           f"{8 * size}")
        described_bytes.update((scope, byte) for byte in range(offset, offset + 8 * size))
        count += 1
    # A union needs a descriptor for one of its members, or for all parts of one.
    for (scope, name), (offset, size) in left.items():
        if described_bytes.issuperset((scope, byte) for byte in range(offset, offset + size)):
            continue
        return False, f"{STRUCTS[scope]}.{name} has no descriptor"
    return True, f"{count} members"
