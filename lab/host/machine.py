# SPDX-License-Identifier: GPL-2.0-only
"""The emulated machine: boot one kernel of the lab, watch its verdict channel."""

import contextlib
import ctypes
import fcntl
import functools
import mmap
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import judge
import kernel
import records
import steps

# How many machines run at once. If there were more, time would pass in them that they
# do not have.
PLACES = os.cpu_count()
# A dying kernel ends QEMU instead of hanging, a warning is deadly.
CMDLINE = "panic=-1 panic_on_warn=1 oops=panic"
# Seconds without a word of what has failed: it says no more.
AFTER_A_FAILURE = 30
# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")


def write_plan(root, plan):
    """What init is to do, a list of words each, into what becomes an initramfs."""
    for line in plan:
        if any("\t" in word or "\n" in word for word in line):
            raise records.Invalid("an argument must not contain a tab or a newline")
    (root / "lab" / "plan").write_text(
        "".join("\t".join(line) + "\n" for line in plan))


def write_initramfs(image, *roots):
    """Make an image of folders: an archive each, the last one holds."""
    with image.open("wb") as output:
        for root in roots:
            paths = "\0".join(str(path.relative_to(root))
                              for path in sorted(root.rglob("*")))
            subprocess.run(["cpio", "-0", "-o", "-H", "newc", "-R", "0:0",
                            "--quiet"], cwd=root, input=paths.encode(),
                           stdout=output, check=True)


def pack(record, folder, tests, files=(), overlay=None):
    """Make the initramfs in a folder: an overlay, init, modules, files, the plan.

    A test is its name, a program in /lab/bin and its arguments; files are copied
    there, besides what the kernel's userland has.
    """
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    # While somebody else builds them there are some, and not all.
    with steps.alone(record.userland):
        shutil.copytree(record.userland / "bin", root / "lab" / "bin")
        shutil.copy(record.userland / "init", root)
    for file in files:
        shutil.copy(file, root / "lab" / "bin")
    plan = [["verdict", record.node]]
    for module in record.modules:
        shutil.copy(record.kernel / module, root / "lab")
        plan.append(["module", "/lab/" + os.path.basename(module)])
    plan += [["test", name, f"/lab/bin/{program}", *args]
             for name, program, *args in tests]
    write_plan(root, plan)
    write_initramfs(folder / "initramfs", *([overlay] if overlay else []), root)
    shutil.rmtree(root)


@functools.lru_cache(maxsize=None)
def tsc_khz():
    """The cycles of this machine's TSC in a millisecond."""
    with mmap.mmap(-1, len(RDTSC), prot=mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(RDTSC)
        entry = ctypes.c_char.from_buffer(code)
        rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(entry))

        def now():
            """Cycles and nanoseconds of the same moment: the shortest try."""
            tries = [(time.monotonic_ns(), rdtsc(), time.monotonic_ns())
                     for _ in range(100)]
            before, cycles, after = min(tries, key=lambda each: each[2] - each[0])
            return cycles, (before + after) // 2

        cycles, start = now()
        time.sleep(0.1)
        more, end = now()
        del entry
    return (more - cycles) * 1000000 // (end - start)


def clock(record):
    """What a kernel for x86 has to be told of its clock.

    It takes the TSC's frequency from a timer of 10 ms. If the emulator does not
    run in the middle of that, the frequency is a part of the true one, and all of
    the machine's time passes faster. The TSC is the one of the machine that
    emulates, but where instructions are counted.
    """
    if platform.machine() != "x86_64" or record.arch not in ("x86_64", "i386"):
        return ""
    return f" tsc_early_khz={tsc_khz()}"


@contextlib.contextmanager
def place():
    """One of the places for machines that run; who asks first has it first."""
    folder = records.BUILD / "machines"
    with contextlib.ExitStack() as files:
        with steps.alone(folder):
            places = [files.enter_context((folder / str(number)).open("w"))
                      for number in range(PLACES)]
            while not any(map(taken, places)):
                time.sleep(0.5)
        yield


def taken(lock):
    """Whether a file could be locked: it is until it is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Patience:
    """Whether something still moves: a process, or files that it writes to.

    What counts are seconds in which it had the CPU it wanted, or wanted none: of a
    thread that waits because others run the kernel knows for how long. So a limit is
    the same on an idle machine and on one with ten times as much to do as it can.
    """

    # Who talks all the time and comes to no end does not move either.
    TALK = 10

    def __init__(self, pid, files, limit, failed=lambda: False):
        """limit: seconds without a word; failed: whether it cannot come to a good end."""
        self.threads = Path(f"/proc/{pid}/task")
        self.files = files
        self.limit = limit
        self.failed = failed
        self.silence = self.talk = 0
        self.last = time.monotonic(), self._waited(), self._sizes()

    def _waited(self):
        """How long each thread has waited for a CPU so far."""
        found = {}
        for thread in self.threads.glob("*/schedstat"):
            with contextlib.suppress(OSError):
                found[thread] = int(thread.read_text().split()[1]) / 1e9
        return found

    def _sizes(self):
        return [file.stat().st_size for file in self.files]

    def left(self):
        """Whether there is any; cheap to ask often."""
        before, waited, sizes = self.last
        now = time.monotonic()
        # The kernel adds a wait when it is over, so not for each moment.
        if now - before > min(1, self.limit / 10):
            self.last = now, self._waited(), self._sizes()
            longest = max((seconds - waited.get(thread, 0)
                           for thread, seconds in self.last[1].items()), default=0)
            own = max(0, now - before - longest)
            self.silence = 0 if self.last[2] != sizes else self.silence + own
            self.talk += own
            if self.silence > AFTER_A_FAILURE and self.failed():
                return False
        return self.silence < self.limit and self.talk < self.TALK * self.limit


class Boot:
    """One boot: what ran, how it ended, and why it is no success if so."""

    def __init__(self, record, folder):
        """folder: where pack() was; the logs are there, too."""
        self.record = record
        self.folder = folder
        self.console = folder / "console.log"
        self.verdict = folder / "verdict.log"
        self.channel = judge.Channel()
        self.times = {}
        self.seconds = None
        self.problem = "incomplete"

    def command(self, memory, icount):
        """What emulates the machine."""
        record = self.record
        cmdline = f"{CMDLINE} {record.cmdline}"
        if icount:
            accel = ["-accel", "tcg,thread=single", "-smp", "1", "-icount",
                     "shift=0,align=off,sleep=off"]
        else:
            accel = ["-accel", "tcg", "-smp", record.cpus]
            cmdline += clock(record)
        return [
            *record.qemu, *accel, "-m", memory or record.memory,
            "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", record.kernel / record.image,
            "-initrd", self.folder / "initramfs",
            "-append", cmdline,
            "-chardev", f"file,id=console,path={self.console}",
            "-serial", "chardev:console",
            "-chardev", f"file,id=verdict,path={self.verdict}",
            *record.verdict]

    def run(self, limit, memory=None, icount=False):
        """Boot the packed initramfs; yields (kind, name, text) as they come.

        limit: of the seconds without a word, after which it hangs, see Patience.
        memory instead of the record's. Nothing is known before the last event.
        """
        command = self.command(memory, icount)
        for log in (self.console, self.verdict):
            log.write_bytes(b"")
        with place(), self.verdict.open("rb", buffering=0) as verdict, \
                (self.folder / "qemu.log").open("wb") as log:
            start = time.monotonic()
            with subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log) as qemu:
                patience = Patience(qemu.pid, (self.console, self.verdict), limit,
                                    self.splats)
                problem = None
                try:
                    yield from self._follow(qemu, verdict, patience)
                    if not steps.has_ended(qemu):
                        problem = "hangs"
                    elif not self.channel.ended:
                        problem = "ends early"
                except ValueError as error:
                    problem = str(error)
                finally:
                    if not steps.has_ended(qemu):
                        os.kill(qemu.pid, signal.SIGKILL)
                    steps.spent(qemu, "booting")
        if problem in ("hangs", "ends early") and self.channel.running:
            problem += f" in {self.channel.running}"
        if not problem and qemu.returncode:
            problem = f"QEMU exits with {qemu.returncode}"
        self.problem = problem
        self.seconds = time.monotonic() - start
        # With fewer of them less is tried than it seems.
        cpus = "1" if icount else self.record.cpus.partition(",")[0]
        up = re.search(r"smp: Brought up .*, (\d+) CPUs?\b",
                       self.console.read_text(errors="replace"))
        if not self.problem and up and up[1] != cpus:
            self.problem = f"runs on {up[1]} of {cpus} CPUs"
        if found := self.splats():
            # "cut here" says less than the line below it.
            self.problem = next((line for line in found
                                 if "cut here" not in line), found[0])

    def splats(self):
        """What no healthy kernel prints, so far."""
        console = self.console.read_text(errors="replace")
        return judge.splats(judge.without_races_of_others(console, kernel.functions()))

    def _follow(self, qemu, verdict, patience):
        """Watch until QEMU is gone, or nothing moves."""
        started = {}
        # A file, not a pipe: a pipe that is full makes QEMU drop output.
        while data := self._next(qemu, verdict, patience):
            for kind, name, text in self.channel.feed(data):
                if kind == "begin":
                    started[name] = time.monotonic()
                elif kind == "exit":
                    self.times[name] = time.monotonic() - started[name]
                yield kind, name, text

    @staticmethod
    def _next(qemu, verdict, patience):
        """The next bytes of the channel; none when QEMU is gone or does nothing."""
        while patience.left():
            gone = steps.has_ended(qemu)
            data = verdict.read(65536)
            if data or gone:
                return data
            time.sleep(0.02)
        return b""

    def last_lines(self):
        """The end of the kernel's messages, and QEMU's where it has any."""
        return [line for log in (self.console, self.folder / "qemu.log")
                for line in log.read_text(errors="replace").splitlines()[-8:]]
