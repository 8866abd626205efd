# SPDX-License-Identifier: GPL-2.0-only
"""The statistics of another process's VM and vCPUs, read through their fds."""

import ctypes
import fcntl
import os
import struct
from collections import namedtuple

KVM_GET_STATS_FD = 0xaece
SYS_PIDFD_GETFD = 438

TYPES = ("cumulative", "instant", "peak", "linear-histogram", "log2-histogram")
UNITS = (None, "bytes", "seconds", "cycles", "boolean")
BASES = ("pow10", "pow2")

Desc = namedtuple("Desc", "name type unit base exponent size offset bucket_size")


def links(pid):
    """What the descriptors of a process are, by number."""
    folder = f"/proc/{pid}/fd"
    return {int(fd): os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}


class Stats:
    """One statistics fd: its descriptors, and its values whenever asked."""

    def __init__(self, pid, link):
        """link is what /proc shows for the VM's or vCPU's descriptor."""
        theirs = next(fd for fd, other in links(pid).items() if other == link)
        pidfd = os.pidfd_open(pid)
        mine = ctypes.CDLL(None, use_errno=True).syscall(
            SYS_PIDFD_GETFD, pidfd, theirs, 0)
        if mine < 0:
            raise OSError(ctypes.get_errno(), f"pidfd_getfd {link}")
        self.fd = fcntl.ioctl(mine, KVM_GET_STATS_FD)
        os.close(mine)
        os.close(pidfd)
        _, name_size, count, _, desc_offset, self.offset = struct.unpack(
            "=6I", os.pread(self.fd, 24, 0))
        self.descs = []
        for i in range(count):
            flags, exponent, size, offset, bucket_size, name = struct.unpack(
                f"=IhHII{name_size}s",
                os.pread(self.fd, 16 + name_size,
                         desc_offset + i * (16 + name_size)))
            self.descs.append(Desc(
                name.rstrip(b"\0").decode(), TYPES[flags & 0xf],
                UNITS[flags >> 4 & 0xf], BASES[flags >> 8 & 0xf],
                exponent, size, offset, bucket_size))

    def read(self):
        """Lists of the values, by name."""
        end = max(desc.offset + 8 * desc.size for desc in self.descs)
        data = os.pread(self.fd, end, self.offset)
        return {desc.name: struct.unpack_from(f"={desc.size}Q", data,
                                              desc.offset)
                for desc in self.descs}
