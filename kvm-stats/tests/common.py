# SPDX-License-Identifier: GPL-2.0-only
"""Functions of the tests in Python: TAP, VMs of tests/vmm.c, and cgroups.

The first argument of a test is the directory of the build.
"""

import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import __main__

DEADLINE = 60
CGROUPS = Path("/sys/fs/cgroup")
HERE = Path(__file__).resolve().parent
ON_TIME = HERE / "on_time"
USAGE = __main__.__doc__.rsplit("\n\n", 1)[1].strip()

if len(sys.argv) < 2:
    sys.exit(USAGE)
BUILD = Path(sys.argv[1]).resolve()
PROGRAM = BUILD / "kvm-stats"

# What ends with the test, also if the test is stopped
stack = contextlib.ExitStack()
FOLDER = Path(stack.enter_context(tempfile.TemporaryDirectory()))
atexit.register(stack.close)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
counts = {True: 0, False: 0}


def result(passed, text):
    """Print a test result."""
    counts[bool(passed)] += 1
    print(f"{'ok' if passed else 'not ok'} {sum(counts.values())} - {text}", flush=True)


def finish():
    """Print the plan and exit."""
    print(f"1..{sum(counts.values())}")
    sys.exit(counts[False] > 0)


def wait_for(condition):
    """Return the first true value of condition(), or its last value after the deadline."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value


def start(*command, **popen):
    """Start a command that ends with the test, also if the test is killed."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], **popen)


class Vmm:
    """A VMM that has started: tests/vmm.c, or another program, with the name of QEMU."""

    def __init__(self, name, *options, vms=1, vcpus=1, prefix=(), program="vmm",
                 link="qemu-system-x86_64", **popen):
        path = Path(tempfile.mkdtemp(dir=FOLDER)) / link
        path.symlink_to(BUILD / "tests" / program)
        self.name = name
        # pylint: disable-next=consider-using-with # ended by end()
        self.child = start(*prefix, path, *options, str(vms), str(vcpus), "-name", name,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, **popen)
        self.pid = self.child.pid
        stack.callback(self.end)
        assert self.child.stdout.readline() == b"ready\n"

    def wait_for_vcpus(self):
        """Wait until each vCPU has halted. Before its first run, the kernel does not know its thread."""
        def has_halted(task):
            """Return true if a thread is not a vCPU, or has slept some times."""
            if not (task / "comm").read_text().startswith("CPU "):
                return True
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)[1]) > 3
        wait_for(lambda: all(map(has_halted, Path(f"/proc/{self.pid}/task").iterdir())))

    def send(self, number):
        """Send a signal. Return after all threads have stopped, if the signal stops them."""
        self.child.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitpid(self.pid, os.WUNTRACED)

    def end(self):
        """Kill the VMM."""
        self.child.kill()
        self.child.communicate()


class Cgroup:
    """A cgroup of v1 or v2, below another one or the root."""

    created = 0

    def __init__(self, controller, above=None, stack=stack):
        v1 = CGROUPS / controller
        Cgroup.created += 1
        parent = above.path if above else v1 if v1.is_dir() else CGROUPS
        if not v1.is_dir() and controller != "freezer":
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")
        self.path = parent / f"{Path(sys.argv[0]).name}-{controller}-{os.getpid()}-{Cgroup.created}"
        self.limited = False
        self.path.mkdir()
        stack.callback(self.remove)

    def put(self, name, text):
        """Write to a file, if this version of cgroups has it."""
        if (self.path / name).exists():
            (self.path / name).write_text(str(text))

    def add(self, process):
        """Move a process here."""
        self.put("cgroup.procs", process.pid)

    def set_quota(self, percent):
        """Limit the CPU time in each 100 ms."""
        self.limited = True
        self.put("cpu.cfs_quota_us", percent * 1000)
        self.put("cpu.max", f"{percent * 1000} 100000")

    def freeze(self, frozen):
        """Freeze the processes, or thaw them."""
        self.put("freezer.state", "FROZEN" if frozen else "THAWED")
        self.put("cgroup.freeze", int(frozen))

    def remove(self):
        """Remove it; its processes have been killed, but may take some time."""
        while self.path.is_dir():
            with contextlib.suppress(OSError):
                self.path.rmdir()
