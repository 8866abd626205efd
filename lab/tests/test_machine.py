# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/machine.py, with a script instead of QEMU."""

import os
import platform
import re
import subprocess
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from unittest import mock

from host import machine, records

# Opens the two files of the QEMU command line, for a script that simulates a boot.
QEMU = """\
for arg; do case $arg in
file,id=console,path=*) console=${arg#*path=} ;;
file,id=verdict,path=*) verdict=${arg#*path=} ;;
esac; done
exec 3>"$verdict" 4>"$console"
echo booting >&4
"""
PASSED = r"printf 'begin a\n| x\nexit a 0\nend\n' >&3; "


class Clock(unittest.TestCase):
    """Kernel parameters for the clock."""

    def get_parameters(self, arch, host, clock="host"):
        """Return the parameters for a kernel on a build host."""
        with mock.patch.object(machine, "measure_tsc_khz", return_value=7), \
                mock.patch.object(machine.platform, "machine", return_value=host):
            return machine.get_clock_parameters(types.SimpleNamespace(arch=arch, clock=clock))

    def test_frequency(self):
        self.assertEqual(self.get_parameters("i386", "x86_64"), " tsc_early_khz=7")
        self.assertEqual(self.get_parameters("x86_64", "x86_64"), " tsc_early_khz=7")

    def test_no_tsc(self):
        self.assertEqual(self.get_parameters("s390", "x86_64"), "")
        self.assertEqual(self.get_parameters("x86_64", "aarch64"), "")

    def test_virtual_time(self):
        """With virtual time, the TSC is not the build host's."""
        self.assertEqual(self.get_parameters("x86_64", "x86_64", "8ns"), "")

    @unittest.skipUnless(platform.machine() == "x86_64", "no TSC")
    def test_measured_twice(self):
        """Two measurements differ by less than 1 in 1000, even on a busy build host."""
        first = machine.measure_tsc_khz()
        machine.measure_tsc_khz.cache_clear()
        self.assertAlmostEqual(machine.measure_tsc_khz() / first, 1, places=3)


class Command(unittest.TestCase):
    """The command line of the emulator."""

    def build(self, name, **changes):
        """Return the command line for a record as text."""
        boot = machine.Boot(records.Record(name).replace(**changes), Path("/folder"))
        with mock.patch.object(machine, "measure_tsc_khz", return_value=7), \
                mock.patch.object(machine.platform, "machine", return_value="x86_64"):
            return " ".join(map(str, boot.build_command(None)))

    def test_virtual_time(self):
        """All CPUs share a thread, sleeps take no time, and the date is virtual as well."""
        command = self.build("x86_64", cpus="2,sockets=2", clock="8ns")
        self.assertIn(" -accel tcg,thread=single -icount shift=3,align=off,sleep=off "
                      "-rtc clock=vm -smp 2,sockets=2 ", command)
        self.assertNotIn("tsc_early_khz", command)

    def test_counted_instructions(self):
        """One nanosecond of the machine that bench uses is one instruction of its only CPU."""
        command = self.build("x86_64-bench")
        self.assertIn(" -accel tcg,thread=single -icount shift=0,", command)
        self.assertIn(" -smp 1 ", command)

    def test_clock_of_the_host(self):
        """Each CPU has a thread, and the kernel gets the TSC frequency."""
        command = self.build("x86_64", clock="host")
        self.assertIn(" -accel tcg -smp ", command)
        self.assertNotIn("-icount", command)
        self.assertNotIn("-rtc", command)
        self.assertRegex(command, "-append panic=-1 .* tsc_early_khz=7 ")

    def test_records(self):
        """Only machines with racing CPUs or Linux guests use the build host's clock."""
        for name in records.list_names():
            record = records.Record(name)
            if record.image and record.arch == "x86_64":
                self.assertEqual(record.clock == "host", any(
                    word in name for word in ("-kasan", "-kcsan", "-long")), name)


class Pack(unittest.TestCase):
    """Contents of the initramfs."""

    def test_while_it_is_built(self):
        """Packing waits until all programs are built."""
        with tempfile.TemporaryDirectory() as folder:
            userland = Path(folder) / "userland"
            record = types.SimpleNamespace(userland=userland, node="node", modules=())
            (userland / "bin").mkdir(parents=True)
            with machine.steps.lock_directory(userland):
                packs = threading.Thread(target=machine.pack, args=(record, Path(folder), []))
                packs.start()
                packs.join(0.5)
                (userland / "bin/late").touch()
                (userland / "init").touch()
            packs.join()
            with (Path(folder) / "initramfs").open("rb") as image:
                self.assertIn(b"lab/bin/late", subprocess.run(
                    ["cpio", "-t", "--quiet"], stdin=image, capture_output=True,
                    check=True).stdout.split())


class Boot(unittest.TestCase):
    """Problems of simulated boots."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # Use separate slots: running checks may hold all others.
        self.enterContext(mock.patch.object(machine.records, "BUILD", self.folder))

    def prepare(self, play):
        """Return a boot that runs this script."""
        script = self.folder / "qemu"
        script.write_text(QEMU + play)
        return machine.Boot(types.SimpleNamespace(
            qemu=["bash", script], arch="s390", cpus="1", clock="host", memory="1M", cmdline="",
            verdict=[], kernel=self.folder, image="none"), self.folder)

    def boot(self, play, limit=20):
        """Return a boot after it has run this script."""
        boot = self.prepare(play)
        self.events = list(boot.run(limit))
        return boot

    def test_passed(self):
        boot = self.boot(PASSED)
        self.assertIsNone(boot.problem)
        self.assertEqual(boot.channel.status, {"a": 0})
        self.assertEqual(self.events, [("begin", "a", b""), ("output", "a", b"x\n"),
                                       ("exit", "a", b""), ("end", None, b"")])

    def test_no_run_is_incomplete(self):
        self.assertEqual(machine.Boot(None, self.folder).problem, "incomplete")

    def test_silent(self):
        self.assertEqual(self.boot("exit 0").problem, "ends early")

    def test_no_end(self):
        self.assertEqual(self.boot(PASSED.replace("end", "")).problem,
                         "result channel: unexpected b''")
        self.assertEqual(self.boot(PASSED.replace(r"\nend\n", r"\n")).problem,
                         "ends early")

    def test_cut_end(self):
        self.assertEqual(self.boot(PASSED.replace(r"end\n", "end")).problem,
                         "ends early")

    def test_dies_in_a_program(self):
        boot = self.boot(r"printf 'begin a\n| x\n' >&3; kill -9 $$")
        self.assertEqual(boot.problem, "ends early in a")

    def test_long_wait_for_a_cpu(self):
        """A wait that ends after several intervals is no silence."""
        with mock.patch.object(machine.Patience, "_read_waits") as waits, \
                mock.patch.object(machine.time, "monotonic") as now:
            now.return_value, waits.return_value = 0, {"thread": 0}
            patience = machine.Patience(os.getpid(), [], 20)
            for now.return_value in range(2, 40, 2):
                waits.return_value = {"thread": now.return_value // 10 * 10}
                self.assertTrue(patience.remains(), now.return_value)
            for now.return_value in range(40, 70, 2):
                if not patience.remains():
                    break
        self.assertEqual(now.return_value, 50)

    def test_events_not_read(self):
        """A boot whose events are not all read is incomplete, and QEMU is killed."""
        boot = self.prepare(r"echo $$ >$0.pid; printf 'begin a\n' >&3; "
                            "exec sleep 60")
        for _ in boot.run(20):
            break
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "qemu.pid").read_text()), 0)
        self.assertEqual(boot.problem, "incomplete")

    def test_hangs(self):
        """A machine that does nothing is killed, not waited for."""
        boot = self.boot(r"printf 'begin a\n' >&3; exec sleep infinity", limit=1)
        self.assertEqual(boot.problem, "hangs in a")

    def test_hangs_after_a_splat(self):
        """After a splat the boot ends sooner; without one the whole limit holds."""
        play = "printf 'begin a\\n' >&3; echo '%s' >&4; exec sleep infinity"
        patiences = []
        patience = machine.Patience
        with mock.patch.object(machine, "AFTER_A_FAILURE", 1), mock.patch.object(
                machine, "Patience", lambda *args: patiences.append(patience(*args))
                or patiences[-1]):
            self.assertEqual(self.boot(play % "WARNING: x", limit=600).problem, "WARNING: x")
            self.assertEqual(self.boot(play % "x", limit=4).problem, "hangs in a")
        self.assertLess(patiences[0].silence, 600)
        self.assertGreaterEqual(patiences[1].silence, 4)

    def test_endless_output(self):
        """A test that prints indefinitely hangs."""
        boot = self.boot(r"exec 9<> <(:); printf 'begin a\n' >&3; "
                         "while :; do echo '| x' >&3; read -rt 0.01 -u 9; done", limit=0.2)
        self.assertEqual(boot.problem, "hangs in a")

    def test_slow(self):
        """A slow boot passes if it prints something within the limit."""
        # Don't wait in a child: only the waits of this process are accounted for.
        wait = "read -rt 0.8 -u 9; "
        words = "for i in 1 2 3; do " + wait + "echo x >&4; " + wait + "echo '| x' >&3; done; "
        boot = self.boot(r"exec 9<> <(:); printf 'begin a\n' >&3; " + words
                         + r"printf 'exit a 0\nend\n' >&3", limit=3)
        self.assertIsNone(boot.problem)

    def test_cost(self):
        """The CPU time of a boot is appended to the file named by COSTS."""
        costs = self.folder / "costs"
        work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; "
        with mock.patch.dict(os.environ, COSTS=str(costs)):
            self.assertIsNone(self.boot(work + PASSED).problem)
        kind, seconds = costs.read_text().split()
        self.assertEqual(kind, "booting")
        self.assertGreater(float(seconds), 0.05)

    def test_crashes_after_the_end(self):
        self.assertEqual(self.boot(PASSED + "exit 3").problem,
                         "QEMU exits with 3")

    def test_splat(self):
        boot = self.boot("echo 'WARNING: CPU: 0 PID: 1 at x' >&4; " + PASSED)
        self.assertEqual(boot.problem, "WARNING: CPU: 0 PID: 1 at x")

    def test_fewer_cpus(self):
        """A boot fails if the kernel brings up fewer or more CPUs than expected."""
        for said, problem in (("1 CPU", None), ("2 CPUs", "runs on 2 of 1 CPUs")):
            boot = self.boot(f"echo 'smp: Brought up 1 node, {said}' >&4; {PASSED}")
            self.assertEqual(boot.problem, problem)

    def test_splat_with_a_cut(self):
        cut = "echo '---[ cut here ]---' >&4; "
        self.assertIn("cut here", self.boot(cut + PASSED).problem)
        self.assertEqual(self.boot(cut + "echo WARNING: x >&4; " + PASSED).problem,
                         "WARNING: x")

    def test_splat_before_exit(self):
        """The problem is the splat, not the exit that it caused."""
        boot = self.boot("echo 'Kernel panic - not syncing: x' >&4; exit 0")
        self.assertEqual(boot.problem, "Kernel panic - not syncing: x")

    def test_last_lines(self):
        boot = self.boot("echo deep trouble >&4; echo no such cpu >&2; exit 1")
        self.assertEqual(boot.read_last_lines()[-2:],
                         ["deep trouble", "no such cpu"])


class Patience(unittest.TestCase):
    """Detection of silence; time in which other processes have the CPUs does not count."""

    def setUp(self):
        self.now = 0
        self.waited = 0
        self.enterContext(mock.patch("host.machine.time.monotonic", lambda: self.now))

    def make_patience(self, limit):
        """Return the patience with an idle process whose waits are simulated."""
        with mock.patch.object(machine.Patience, "_read_waits",
                               lambda _: {"a": self.waited, "b": 0}):
            found = machine.Patience(os.getpid(), [], limit)
        found._read_waits = lambda: {"a": self.waited, "b": 0}
        return found

    def remains_after(self, patience, seconds, waiting=0):
        """Return whether patience remains after some seconds.

        waiting: the part of the time in which the process waits for a CPU.
        """
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.waited += 0.1 * waiting
            remains = patience.remains()
        return remains

    def test_idle(self):
        """Patience ends if the process does nothing with its CPU."""
        patience = self.make_patience(0.5)
        self.assertTrue(self.remains_after(patience, 0.3))
        self.assertFalse(self.remains_after(patience, 0.7))

    def test_waits_for_a_cpu(self):
        """Patience lasts ten times as long with nine tenths of the CPU time for others."""
        patience = self.make_patience(0.5)
        self.assertTrue(self.remains_after(patience, 4, waiting=0.9))
        self.assertFalse(self.remains_after(patience, 6, waiting=0.9))

    def test_kernel_reports_waits(self):
        """The kernel reports the waits of two processes on one CPU."""
        cpu = {min(os.sched_getaffinity(0))}
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                                  preexec_fn=lambda: os.sched_setaffinity(0, cpu))
                 for _ in range(2)]
        for loop in loops:
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)
        patience = machine.Patience(loops[0].pid, [], 100)
        # This loop ends if the kernel reports the waits.
        while sum(patience._read_waits().values()) < 0.5:
            time.sleep(0.1)


class BootSlots(unittest.TestCase):
    """At most one test machine runs per slot."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for name, value in (("records.BUILD", Path(folder)), ("BOOT_SLOTS", 2)):
            self.enterContext(mock.patch(f"host.machine.{name}", value))
        self.events = []

    def request(self, name):
        """Start a thread that acquires a slot for a moment."""
        def run():
            with machine.acquire_boot_slot():
                self.events.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_waits(self):
        """With two slots, the third machine runs after one of the others has ended."""
        with machine.acquire_boot_slot():
            with machine.acquire_boot_slot():
                third = self.request("third runs")
                third.join(1)
                self.events.append("one ends")
            third.join()
        self.assertEqual(self.events, ["one ends", "third runs"])

    def test_different_cpus(self):
        """Emulators that run at the same time have a CPU each, those of racing CPUs have all."""
        one = types.SimpleNamespace(clock="host", cpus="1")
        virtual = types.SimpleNamespace(clock="8ns", cpus="2,sockets=2")
        racing = types.SimpleNamespace(clock="host", cpus="2,sockets=2")
        with mock.patch.object(machine.os, "sched_getaffinity", return_value={7, 4}), \
                machine.acquire_boot_slot() as first, machine.acquire_boot_slot() as second:
            self.assertEqual([machine.choose_cpus(record, slot) for record, slot in (
                (one, first), (virtual, second), (racing, second), (one, 2))],
                [[4], [7], [4, 7], [4]])

    def count_requests(self):
        """Return how many threads hold or wait for the lock of the slots."""
        inode = (machine.records.BUILD / "machines.lock").stat().st_ino
        return len(re.findall(rf"FLOCK .*:{inode} ", Path("/proc/locks").read_text()))

    def test_in_turn(self):
        """Slots are assigned in the order of requests."""
        names, waiting = ["third", "fourth", "fifth"], []
        with machine.acquire_boot_slot():
            with machine.acquire_boot_slot():
                for number, name in enumerate(names):
                    waiting.append(self.request(name))
                    while self.count_requests() <= number:
                        time.sleep(0.01)
            for thread in waiting:
                thread.join()
        self.assertEqual(self.events, names)
