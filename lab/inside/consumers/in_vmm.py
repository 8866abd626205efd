# SPDX-License-Identifier: GPL-2.0-only
"""Inspect and change a running VMM."""

from pathlib import Path

import consumer


def find_vcpus(pid):
    """Return the link targets of a VMM's vCPU descriptors; the VMM must have stopped them."""
    return sorted({link for link in consumer.read_links(pid).values()
                   if link.startswith("anon_inode:kvm-vcpu:")})


def replace_in_memory(pid, size, was, becomes):
    """Replace all occurrences of a byte string in a guest's memory; return their number.

    size: the size of the guest's memory, which identifies its mapping.
    """
    span = next((int(start, 16), int(end, 16)) for start, end in (
        line.split()[0].split("-")
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
        if int(end, 16) - int(start, 16) == size)
    found, step = 0, 1 << 24
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for start in range(*span, step):
            # Read beyond the end of a piece: an occurrence may cross it.
            memory.seek(start)
            piece = memory.read(min(step + len(was) - 1, span[1] - start))
            at = piece.find(was)
            while at >= 0:
                memory.seek(start + at)
                memory.write(becomes)
                found += 1
                at = piece.find(was, at + 1)
    return found
