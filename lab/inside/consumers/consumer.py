# SPDX-License-Identifier: GPL-2.0-only
"""Code shared by the checks of statistics consumers: results, statistics, the guest."""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

KERNEL = "/lab/bin/bzImage"
INITRD = "/lab/bin/guest.cpio"
# Skip the timer check, as kernels built for KVM guests do: on a busy emulated host, the guest
# gets too few ticks during the check.
CMDLINE = "console=ttyS0 no_timer_check"
SERIAL = Path("/tmp/serial")
CPUS = 2

KVM_GET_STATS_FD = 0xaece
SYS_PIDFD_GETFD = 438

TYPES = ("cumulative", "instant", "peak", "linear-histogram", "log2-histogram")
UNITS = (None, "bytes", "seconds", "cycles", "boolean")
BASES = (10, 2)

Desc = namedtuple("Desc", "name type unit base exponent size offset bucket_size raw",
                  defaults=(b"",))


class Results:
    """Test results in TAP format, with the problems as comments."""

    def __init__(self):
        self.count = self.failed = 0

    def add(self, what, problems):
        """Print a result: "ok" if the list of problems is empty."""
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.count} {what}")
        for problem in problems[:10]:
            print("#", problem)
        sys.stdout.flush()

    def check_equal(self, what, got, wanted):
        """Print the result of comparing two values."""
        self.add(what, [] if got == wanted
                 else [f"got {got!r}", f"expected {wanted!r}"])

    def end(self):
        """Print the plan and return the exit status."""
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def read_links(pid):
    """Return the targets of a process's file descriptors by number."""
    folder = Path(f"/proc/{pid}/fd")
    return {int(fd.name): os.readlink(fd) for fd in folder.iterdir()}


class Stats:
    """The statistics file of a VM or vCPU of another process."""

    def __init__(self, pid, link):
        """Open the statistics; link: the target of the VM's or vCPU's fd in /proc."""
        theirs = next(fd for fd, other in read_links(pid).items() if other == link)
        pidfd = os.pidfd_open(pid)
        mine = ctypes.CDLL(None, use_errno=True).syscall(
            SYS_PIDFD_GETFD, pidfd, theirs, 0)
        if mine < 0:
            raise OSError(ctypes.get_errno(), f"pidfd_getfd of {link}")
        self.fd = fcntl.ioctl(mine, KVM_GET_STATS_FD)
        os.close(mine)
        os.close(pidfd)
        _, name_size, count, _, start, self.start = struct.unpack(
            "=6I", os.pread(self.fd, 24, 0))
        size = 16 + name_size
        self.descs = {}
        for at in range(start, start + count * size, size):
            raw = os.pread(self.fd, size, at)
            flags, exponent, values, offset, bucket_size, name = struct.unpack(
                f"=IhHII{name_size}s", raw)
            name = name.partition(b"\0")[0].decode()
            self.descs[name] = Desc(
                name, TYPES[flags & 15], UNITS[flags >> 4 & 15],
                BASES[flags >> 8 & 15], exponent, values, offset, bucket_size, raw)

    def read(self):
        """Return the current values, a list for each name."""
        size = max(desc.offset + 8 * desc.size for desc in self.descs.values())
        data = os.pread(self.fd, size, self.start)
        return {desc.name: list(struct.unpack_from(f"={desc.size}Q", data,
                                                   desc.offset))
                for desc in self.descs.values()}


def compare(descs, before, shown, after, exact):
    """Return the problems of values shown by a consumer between two reads of the statistics.

    Cumulative and peak values must lie between the two reads. exact: the guest is stopped,
    and all three values must be equal.
    """
    problems = [f"{name} is missing" for name in descs.keys() - shown.keys()]
    problems += [f"{name} is unexpected" for name in shown.keys() - descs.keys()]
    for name in descs.keys() & shown.keys():
        values = list(zip(before[name], shown[name], after[name]))
        if exact:
            fits = before[name] == shown[name] == after[name]
        else:
            fits = len(shown[name]) == descs[name].size and (
                descs[name].type == "instant"
                or all(low <= value <= high for low, value, high in values))
        if not fits:
            problems.append(f"{name}: {shown[name]} is not between "
                            f"{before[name]} and {after[name]}")
    return problems


def mount(kind, where, options="", flags=0):
    """Mount a file system with mount(2); the test machine has no mount command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", where.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {where}")


class OwnTime:
    """Measures the seconds in which the test machine had a CPU, for time limits.

    The clock of the emulated machine advances while other processes of the build host have
    the CPUs. Therefore, measure small pieces of work at intervals. The shortest one ever was
    not interrupted; the ratio of its duration to the average is the machine's share of the
    CPUs.
    """

    PIECES = 20

    def __init__(self):
        self.quickest = float("inf")
        self.seconds = 0
        self.last = time.monotonic()

    @staticmethod
    def _time_piece():
        """Return this thread's CPU time for about a millisecond of work."""
        start = time.thread_time()
        for _ in range(5000):
            pass
        return time.thread_time() - start

    def read(self):
        """Return the seconds so far; cheap enough for polling."""
        passed = time.monotonic() - self.last
        if passed >= 1:
            pieces = [self._time_piece() for _ in range(self.PIECES)]
            self.quickest = min(self.quickest, *pieces)
            self.seconds += passed * self.quickest * self.PIECES / sum(pieces)
            self.last = time.monotonic()
        return self.seconds


def wait_for(what, condition, limit=120):
    """Wait for a condition; raise TimeoutError after `limit` seconds of OwnTime."""
    own = OwnTime()
    while not condition():
        if own.read() > limit:
            raise TimeoutError(f"{what}: not within {limit} s")
        time.sleep(0.1)


def run(command, limit=120):
    """Run a command with a time limit; return its status and its output as text."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr, \
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout,
                             stderr=stderr) as process:
        try:
            wait_for(command[0], lambda: process.poll() is not None, limit)
        finally:
            process.kill()
        for file in stdout, stderr:
            file.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, stdout.read(),
                                           stderr.read())


def wait_for_guest():
    """Wait until the guest reports that it runs on all its CPUs."""
    def text():
        return SERIAL.read_text(errors="replace") if SERIAL.exists() else ""
    try:
        wait_for("guest", lambda: f"guest runs on {CPUS} CPUs" in text())
    except TimeoutError as error:
        raise TimeoutError(f"{error}; its output: ...{text()[-400:]}") from None


def poll_longer():
    """Make new VMs poll in halts for up to a second, which is longer than the guest's sleeps.

    By default, a vCPU starts with 10 us and doubles the time with each halt until a halt
    exceeds the limit, which resets it. On a busy build host, the test machine always has such
    long halts, so that the time would never reach 50 ms.
    """
    for name in "halt_poll_ns", "halt_poll_ns_grow_start":
        Path("/sys/module/kvm/parameters", name).write_text("1000000000")
