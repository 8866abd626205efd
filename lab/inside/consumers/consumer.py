# SPDX-License-Identifier: GPL-2.0-only
"""What the checks of the consumers share: results, statistics, the guest."""

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
# A kernel built as a guest of KVM leaves that check out by itself: on a host
# that is emulated and busy, too few ticks come while it waits for them.
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
    """TAP: a line for each result, and what is wrong where something is."""

    def __init__(self):
        self.count = self.failed = 0

    def add(self, what, problems):
        """One result; it is good when there are no problems."""
        self.count += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.count} {what}")
        for problem in problems[:10]:
            print("#", problem)
        sys.stdout.flush()

    def equal(self, what, got, wanted):
        """One result: two things are the same."""
        self.add(what, [] if got == wanted
                 else [f"got {got!r}", f"not {wanted!r}"])

    def end(self):
        """The plan; returns the exit status."""
        print(f"1..{self.count}")
        return 1 if self.failed else 0


def links(pid):
    """What the descriptors of a process are, by number."""
    folder = Path(f"/proc/{pid}/fd")
    return {int(fd.name): os.readlink(fd) for fd in folder.iterdir()}


class Stats:
    """The statistics of a VM or vCPU of another process."""

    def __init__(self, pid, link):
        """link is what /proc shows of the VM's or vCPU's descriptor."""
        theirs = next(fd for fd, other in links(pid).items() if other == link)
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
        """All values now: a list for each name."""
        size = max(desc.offset + 8 * desc.size for desc in self.descs.values())
        data = os.pread(self.fd, size, self.start)
        return {desc.name: list(struct.unpack_from(f"={desc.size}Q", data,
                                                   desc.offset))
                for desc in self.descs.values()}


def compare(descs, before, shown, after, exact):
    """
    What is wrong with the shown values, which were taken between two reads.

    What only grows lies between the two. exact is for a guest that is stopped:
    nothing moves.
    """
    problems = [f"{name} is missing" for name in descs.keys() - shown.keys()]
    problems += [f"{name} is too much" for name in shown.keys() - descs.keys()]
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
    """As mount(2): the command is not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", where.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mounting {where}")


class OwnTime:
    """Seconds in which this machine had a CPU, for time limits in it.

    It is emulated: while others have the CPUs its clock goes on, and whatever runs
    just then seems to take longer. So now and then small pieces of work are done. The
    quickest one ever was not disturbed; what all of them take beyond that is the part
    of the time that others have.
    """

    PIECES = 20

    def __init__(self):
        self.quickest = float("inf")
        self.seconds = 0
        self.last = time.monotonic()

    @staticmethod
    def _piece():
        """The time of this thread for about a millisecond's work."""
        start = time.thread_time()
        for _ in range(5000):
            pass
        return time.thread_time() - start

    def now(self):
        """So far; cheap to ask often."""
        passed = time.monotonic() - self.last
        if passed >= 1:
            pieces = [self._piece() for _ in range(self.PIECES)]
            self.quickest = min(self.quickest, *pieces)
            self.seconds += passed * self.quickest * self.PIECES / sum(pieces)
            self.last = time.monotonic()
        return self.seconds


def wait_for(what, condition, limit=120):
    """Wait until it is so; it has to be in time, that of this machine."""
    own = OwnTime()
    while not condition():
        if own.now() > limit:
            raise TimeoutError(f"{what}: not within {limit} s")
        time.sleep(0.1)


def run(command, limit=120):
    """Run a command that has to end in time; its status and output, as text."""
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
    """Until the guest says that it runs, on all its CPUs."""
    def text():
        return SERIAL.read_text(errors="replace") if SERIAL.exists() else ""
    try:
        wait_for("guest", lambda: f"guest runs on {CPUS} CPUs" in text())
    except TimeoutError as error:
        raise TimeoutError(f"{error}; it said: ...{text()[-400:]}") from None


def poll_longer():
    """Let VMs to come poll long enough for the guest's sleep to end in it, at once.

    By default they begin with 10 us and double it with each halt, until one halt takes
    longer than the limit: then they begin anew. Where the machine's clock goes on while
    others have its CPUs, there is always one, and they would get nowhere near 50 ms. A
    second is more than such a sleep takes then.
    """
    for name in "halt_poll_ns", "halt_poll_ns_grow_start":
        Path("/sys/module/kvm/parameters", name).write_text("1000000000")
