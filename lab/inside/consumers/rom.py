# SPDX-License-Identifier: GPL-2.0-only
"""A guest in 64 KB of firmware: each vCPU causes exits, and halts for 50 ms, indefinitely.

In QEMU's emulation of SVM, an interrupt that KVM injects can arrive twice, the second time while interrupts are
disabled. The handler here does not mind; Linux guests then wait for a lock that they have themselves, which
stopped 3 of 100 boots.
"""

# All vCPUs begin here, at 0xff000.
ALL = """
    66b91b000000 0f32 660d000c0000 0f30     # MSR 0x1b: enable the x2APIC
    66b902080000 0f32                       # MSR 0x802: its ID
    c1e008 bc0070 29c4                      # stack at 0x7000, less 256 bytes for each ID
    31c0 8ed8 8ed0                          # of segment 0, where the data are as well
    c70680008000 c706820000ff               # vector 0x20: handler at ff00:0080
    66b90f080000 66b8ff010000 6631d2 0f30   # MSR 0x80f: accept interrupts
    66b93e080000 66b80b000000 0f30          # MSR 0x83e: the timer counts nanoseconds
    66b932080000 66b820000000 0f30          # MSR 0x832: and causes one interrupt with vector 0x20
    be0a00 6631c0 0fa2 4e 75f8              # loop: ten times cpuid
    66b938080000 66b880f0fa02 6631d2 0f30   # MSR 0x838: in 50 ms
    fb f4 ebe0                              # sti, hlt, to the loop
"""
# At 0xff080: report the end of the interrupt in MSR 0x80b.
HANDLER = "6650 6651 6652 66b90b080000 6631c0 6631d2 0f30 665a 6659 6658 cf"
# The first vCPU begins at 0xfff00. It sends INIT, and two times where to start, to all others by MSR 0x830.
FIRST = """
    66b91b000000 0f32 660d000c0000 0f30
    66b930080000 6631d2 66b800450c00 0f30 66b8ff460c00 0f30 0f30
    e9d2f0                                  # to 0xff000
"""
PARTS = {0xf000: ALL, 0xf080: HANDLER, 0xff00: FIRST, 0xfff0: "e90dff"}     # after a reset, to 0xfff00


def make():
    """Return the firmware."""
    rom = bytearray(1 << 16)
    for start, text in PARTS.items():
        code = bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))
        rom[start:start + len(code)] = code
    return rom
