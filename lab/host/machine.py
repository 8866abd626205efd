# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel of the lab in a test machine and read its result channel."""

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
import sys
import time
from pathlib import Path

from . import judge, kernel, records, steps

# The number of test machines that run in parallel. With more, their clocks would advance while
# they wait for CPUs.
BOOT_SLOTS = os.cpu_count()
# QEMU exits after a panic; warnings cause a panic.
CMDLINE = "panic=-1 panic_on_warn=1 oops=panic"
# Seconds of silence after which a failed boot is stopped.
AFTER_A_FAILURE = 30
# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")


def write_plan(root, plan):
    """Write the plan for init, lists of words, into the root of an initramfs."""
    for line in plan:
        if any("\t" in word or "\n" in word for word in line):
            raise records.Invalid("an argument must not contain a tab or a newline")
    (root / "lab" / "plan").write_text(
        "".join("\t".join(line) + "\n" for line in plan))


def write_initramfs(image, *roots):
    """Create an initramfs from directories; files of later ones take precedence."""
    with image.open("wb") as output:
        for root in roots:
            paths = "\0".join(str(path.relative_to(root))
                              for path in sorted(root.rglob("*")))
            subprocess.run(["cpio", "-0", "-o", "-H", "newc", "-R", "0:0",
                            "--quiet"], cwd=root, input=paths.encode(),
                           stdout=output, check=True)


def pack(record, folder, tests, files=(), overlay=None):
    """Create the initramfs in a directory: an overlay, init, modules, files and the plan.

    A test is a name, a program in /lab/bin and its arguments. Files are copied to /lab/bin,
    in addition to the programs of the record.
    """
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    # Another process may be building the programs.
    with steps.lock_directory(record.userland):
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
def measure_tsc_khz():
    """Return the TSC frequency of the build host in kHz."""
    with mmap.mmap(-1, len(RDTSC), prot=mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(RDTSC)
        entry = ctypes.c_char.from_buffer(code)
        rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(entry))

        def now():
            """Return cycles and nanoseconds of the same moment: the shortest of 100 tries."""
            tries = [(time.monotonic_ns(), rdtsc(), time.monotonic_ns())
                     for _ in range(100)]
            before, cycles, after = min(tries, key=lambda each: each[2] - each[0])
            return cycles, (before + after) // 2

        cycles, start = now()
        time.sleep(0.1)
        more, end = now()
        del entry
    return (more - cycles) * 1000000 // (end - start)


def get_clock_parameters(record):
    """Return the kernel parameters for the clock of an x86 test machine.

    The kernel measures the TSC frequency with a timer of 10 ms. If the emulator is
    interrupted in the meantime, the result is too low, and the clock of the test machine
    runs too fast. With virtual time, the interruption does not count. Otherwise, the TSC is the
    build host's.
    """
    if (record.clock != "host" or platform.machine() != "x86_64"
            or record.arch not in ("x86_64", "i386")):
        return ""
    return f" tsc_early_khz={measure_tsc_khz()}"


def get_clock_options(record):
    """Return QEMU's options for the clock of a test machine and for the threads of its CPUs."""
    shift = records.CLOCKS[record.clock]
    if shift is None:
        return ["-accel", "tcg"]
    return ["-accel", "tcg,thread=single", "-icount", f"shift={shift},align=off,sleep=off",
            # Otherwise, the date would follow the build host's clock.
            "-rtc", "clock=vm"]


@contextlib.contextmanager
def acquire_boot_slot():
    """Wait for a slot for a test machine, hold it and yield its number.

    Slots are assigned in order of request.
    """
    folder = records.BUILD / "machines"
    with contextlib.ExitStack() as files:
        with steps.lock_directory(folder):
            slots = [files.enter_context((folder / str(number)).open("w"))
                     for number in range(BOOT_SLOTS)]
            while (free := next((number for number, lock in enumerate(slots) if try_lock(lock)),
                                None)) is None:
                time.sleep(0.5)
        yield free


def try_lock(lock):
    """Try to lock a file until it is closed; return True if it was free."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def choose_cpus(record, slot):
    """Return the CPUs of the build host for the emulator in a slot: one, unless CPUs must race.

    QEMU's main loop may lose an interrupt if it runs at the same time as the emulated CPU: until
    QEMU 10.1, VMRUN changes the CPU's pending interrupts with an instruction that is not atomic.
    A machine hung whose guest spun with interrupts off: the vector of its last timer was
    pending in the local APIC, but not in the CPU. On one CPU, such instructions are atomic.
    """
    cpus = sorted(os.sched_getaffinity(0))
    racing = record.clock == "host" and record.cpus.partition(",")[0] != "1"
    return cpus if racing else [cpus[slot % len(cpus)]]


class Patience:
    """Detects that a process, or the files that it writes to, make no progress.

    Only seconds in which the process had a CPU or did not want one count: the kernel reports
    how long each thread has waited for a CPU. Therefore, a limit means the same on an idle
    build host and on one with ten times the load it can handle.
    """

    # A process that prints for this many times the limit makes no progress either.
    TALK = 10

    def __init__(self, pid, files, limit, failed=lambda: False):
        """limit: seconds of silence; failed: returns True if the process has already failed."""
        self.threads = Path(f"/proc/{pid}/task")
        self.files = files
        self.limit = limit
        self.failed = failed
        self.silence = self.talk = 0
        self.last = time.monotonic(), self._read_waits(), self._read_sizes()

    def _read_waits(self):
        """Return the seconds that each thread has waited for a CPU."""
        found = {}
        for thread in self.threads.glob("*/schedstat"):
            with contextlib.suppress(OSError):
                found[thread] = int(thread.read_text().split()[1]) / 1e9
        return found

    def _read_sizes(self):
        return [file.stat().st_size for file in self.files]

    def remains(self):
        """Return True if the limit is not exceeded; cheap enough for polling."""
        before, waited, sizes = self.last
        now = time.monotonic()
        # The kernel accounts for a wait only at its end, so use longer intervals. A wait that was
        # longer than this one takes back what the previous ones added.
        if now - before > min(1, self.limit / 10):
            self.last = now, self._read_waits(), self._read_sizes()
            longest = max((seconds - waited.get(thread, 0)
                           for thread, seconds in self.last[1].items()), default=0)
            own = now - before - longest
            self.silence = 0 if self.last[2] != sizes else max(0, self.silence + own)
            self.talk = max(0, self.talk + own)
            if self.silence > AFTER_A_FAILURE and self.failed():
                return False
        return self.silence < self.limit and self.talk < self.TALK * self.limit


class Boot:
    """A boot: the tests that ran, their results, and the problem if it failed."""

    def __init__(self, record, folder):
        """folder: the directory of pack(), which also gets the logs."""
        self.record = record
        self.folder = folder
        self.console = folder / "console.log"
        self.verdict = folder / "verdict.log"
        self.channel = judge.Channel()
        self.times = {}
        self.seconds = None
        self.problem = "incomplete"

    def build_command(self, memory):
        """Return the command line of the emulator."""
        record = self.record
        return [
            *record.qemu, *get_clock_options(record), "-smp", record.cpus,
            "-m", memory or record.memory,
            "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", record.kernel / record.image,
            "-initrd", self.folder / "initramfs",
            "-append", f"{CMDLINE} {record.cmdline}{get_clock_parameters(record)}",
            "-chardev", f"file,id=console,path={self.console}",
            "-serial", "chardev:console",
            "-chardev", f"file,id=verdict,path={self.verdict}",
            *record.verdict]

    def run(self, limit, memory=None):
        """Boot the packed initramfs; yield events (kind, name, text).

        limit: seconds of silence after which the boot is stopped, see Patience. memory:
        overrides the record's. The problem is known only after the last event.
        """
        for log in (self.console, self.verdict):
            log.write_bytes(b"")
        with acquire_boot_slot() as slot, self.verdict.open("rb", buffering=0) as verdict, \
                (self.folder / "qemu.log").open("wb") as log:
            cpus = ",".join(map(str, choose_cpus(self.record, slot)))
            command = ["taskset", "--cpu-list", cpus, *self.build_command(memory)]
            start = time.monotonic()
            with subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log) as qemu:
                patience = Patience(qemu.pid, (self.console, self.verdict), limit,
                                    self.find_splats)
                problem = None
                try:
                    yield from self._follow(qemu, verdict, patience)
                    if not steps.has_exited(qemu):
                        problem = "hangs"
                    elif not self.channel.ended:
                        problem = "ends early"
                except ValueError as error:
                    problem = str(error)
                finally:
                    if not steps.has_exited(qemu):
                        os.kill(qemu.pid, signal.SIGKILL)
                    steps.wait_and_account(qemu, "booting")
        if problem in ("hangs", "ends early") and self.channel.running:
            problem += f" in {self.channel.running}"
        if not problem and qemu.returncode:
            problem = f"QEMU exits with {qemu.returncode}"
        self.problem = problem
        self.seconds = time.monotonic() - start
        # Fewer CPUs than expected would test less.
        cpus = self.record.cpus.partition(",")[0]
        up = re.search(r"smp: Brought up .*, (\d+) CPUs?\b",
                       self.console.read_text(errors="replace"))
        if not self.problem and up and up[1] != cpus:
            self.problem = f"runs on {up[1]} of {cpus} CPUs"
        if found := self.find_splats():
            # The line after "cut here" is more useful.
            self.problem = next((line for line in found
                                 if "cut here" not in line), found[0])

    def find_splats(self):
        """Return the lines on the console that a healthy kernel never prints."""
        console = self.console.read_text(errors="replace")
        return judge.find_splats(judge.remove_other_races(
            console, lambda race: kernel.is_race_of_series(self.record, race)))

    def _follow(self, qemu, verdict, patience):
        """Yield events until QEMU has exited or makes no progress."""
        started = {}
        # Read a file, not a pipe: QEMU drops output if a pipe is full.
        while data := self._read_next(qemu, verdict, patience):
            for kind, name, text in self.channel.feed(data):
                if kind == "begin":
                    started[name] = time.monotonic()
                elif kind == "exit":
                    self.times[name] = time.monotonic() - started[name]
                yield kind, name, text

    @staticmethod
    def _read_next(qemu, verdict, patience):
        """Return the next bytes of the channel, b"" if QEMU has exited or makes no progress."""
        while patience.remains():
            gone = steps.has_exited(qemu)
            data = verdict.read(65536)
            if data or gone:
                return data
            time.sleep(0.02)
        return b""

    def read_last_lines(self):
        """Return the last lines of the kernel's and of QEMU's messages."""
        return [line for log in (self.console, self.folder / "qemu.log")
                for line in log.read_text(errors="replace").splitlines()[-8:]]


def run_program(record, folder, argv, files=(), overlay=None, *, limit=600, memory=None):
    """Boot a test machine that runs one program of /lab/bin; print its output, return its status.

    Raise steps.Failed if the kernel reports a problem.
    """
    name = argv[0]
    with steps.lock_directory(folder):
        pack(record, folder, [(name, *argv)], files, overlay)
        boot = Boot(record, folder)
        for kind, _, text in boot.run(limit, memory):
            if kind == "output":
                sys.stdout.buffer.write(text)
                sys.stdout.buffer.flush()
    if boot.problem:
        print(*boot.read_last_lines(), sep="\n", file=sys.stderr)
        raise steps.Failed(f"{record.title}: {boot.problem} (console: {boot.console})")
    return boot.channel.status[name]
