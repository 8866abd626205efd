#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Boots that go wrong, played by a script in QEMU's place."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab/host"))

import machine  # noqa: E402

# Finds the two files that QEMU is told, and plays a boot to them.
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
    """What a kernel is told of the TSC."""

    def clock(self, arch, host):
        with mock.patch.object(machine, "tsc_khz", return_value=7), \
                mock.patch.object(machine.platform, "machine", return_value=host):
            return machine.clock(types.SimpleNamespace(arch=arch))

    def test_frequency(self):
        self.assertEqual(self.clock("i386", "x86_64"), " tsc_early_khz=7")
        self.assertEqual(self.clock("x86_64", "x86_64"), " tsc_early_khz=7")

    def test_no_tsc(self):
        self.assertEqual(self.clock("s390", "x86_64"), "")
        self.assertEqual(self.clock("x86_64", "aarch64"), "")

    @unittest.skipUnless(platform.machine() == "x86_64", "no TSC")
    def test_measured_twice(self):
        """Also while others run the frequency is the same to 1 in 1000."""
        first = machine.tsc_khz()
        machine.tsc_khz.cache_clear()
        self.assertAlmostEqual(machine.tsc_khz() / first, 1, places=3)


class Pack(unittest.TestCase):
    """What is in the initramfs."""

    def test_while_it_is_built(self):
        """What is half built is not packed: a program that is missing is no verdict."""
        with tempfile.TemporaryDirectory() as folder:
            userland = Path(folder) / "userland"
            record = types.SimpleNamespace(userland=userland, node="node", modules=())
            (userland / "bin").mkdir(parents=True)
            with machine.steps.alone(userland):
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
    """What is played, and the problem that the boot then has."""

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.folder = Path(folder)
        # A place of its own: those of the checks may be taken.
        build = mock.patch.object(machine.records, "BUILD", self.folder)
        build.start()
        self.addCleanup(build.stop)

    def prepare(self, play):
        script = self.folder / "qemu"
        script.write_text(QEMU + play)
        return machine.Boot(types.SimpleNamespace(
            qemu=["bash", script], arch="s390", cpus="1", memory="1M", cmdline="",
            verdict=[], kernel=self.folder, image="none"), self.folder)

    def boot(self, play, limit=20):
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
                         "verdict channel: unexpected b''")
        self.assertEqual(self.boot(PASSED.replace(r"\nend\n", r"\n")).problem,
                         "ends early")

    def test_cut_end(self):
        self.assertEqual(self.boot(PASSED.replace(r"end\n", "end")).problem,
                         "ends early")

    def test_dies_in_a_program(self):
        boot = self.boot(r"printf 'begin a\n| x\n' >&3; kill -9 $$")
        self.assertEqual(boot.problem, "ends early in a")

    def test_left_alone(self):
        """Whoever stops listening leaves no QEMU behind, and no success."""
        boot = self.prepare(r"echo $$ >$0.pid; printf 'begin a\n' >&3; "
                            "exec sleep 60")
        for _ in boot.run(20):
            break
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "qemu.pid").read_text()), 0)
        self.assertEqual(boot.problem, "incomplete")

    def test_hangs(self):
        start = time.monotonic()
        boot = self.boot(r"printf 'begin a\n' >&3; exec sleep 60", limit=1)
        self.assertEqual(boot.problem, "hangs in a")
        self.assertLess(time.monotonic() - start, 10)

    def test_hangs_after_a_splat(self):
        """Nothing more is to come: the limit is for those that may pass."""
        play = "printf 'begin a\\n' >&3; echo '%s' >&4; exec sleep 60"
        with mock.patch.object(machine, "AFTER_A_FAILURE", 1):
            start = time.monotonic()
            self.assertEqual(self.boot(play % "WARNING: x", limit=30).problem, "WARNING: x")
            self.assertLess(time.monotonic() - start, 15)
            self.assertEqual(self.boot(play % "x", limit=4).problem, "hangs in a")
            self.assertGreater(time.monotonic() - start, 5)

    def test_talks_for_ever(self):
        boot = self.boot(r"printf 'begin a\n' >&3; "
                         "while :; do echo '| x' >&3; done", limit=0.2)
        self.assertEqual(boot.problem, "hangs in a")

    def test_slow(self):
        """A word now and then, on either of the two, takes as long as it takes."""
        # It waits itself, as QEMU does: of a child nobody would know how long that had no CPU.
        wait = "read -rt 0.8 -u 9; "
        words = "for i in 1 2 3; do " + wait + "echo x >&4; " + wait + "echo '| x' >&3; done; "
        boot = self.boot(r"exec 9<> <(:); printf 'begin a\n' >&3; " + words
                         + r"printf 'exit a 0\nend\n' >&3", limit=3)
        self.assertIsNone(boot.problem)

    def test_cost(self):
        """What it takes of a CPU is told to whoever asks."""
        costs = self.folder / "costs"
        work = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; "
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
        """A CPU that is not there tests nothing; the kernel says how many run."""
        for said, problem in (("1 CPU", None), ("2 CPUs", "runs on 2 of 1 CPUs")):
            boot = self.boot(f"echo 'smp: Brought up 1 node, {said}' >&4; {PASSED}")
            self.assertEqual(boot.problem, problem)

    def test_splat_with_a_cut(self):
        cut = "echo '---[ cut here ]---' >&4; "
        self.assertIn("cut here", self.boot(cut + PASSED).problem)
        self.assertEqual(self.boot(cut + "echo WARNING: x >&4; " + PASSED).problem,
                         "WARNING: x")

    def test_splat_explains_what_it_did(self):
        boot = self.boot("echo 'Kernel panic - not syncing: x' >&4; exit 0")
        self.assertEqual(boot.problem, "Kernel panic - not syncing: x")

    def test_last_lines(self):
        boot = self.boot("echo deep trouble >&4; echo no such cpu >&2; exit 1")
        self.assertEqual(boot.last_lines()[-2:],
                         ["deep trouble", "no such cpu"])


class Patience(unittest.TestCase):
    """How long nothing may move: not by the clock on the wall."""

    def patience(self, limit):
        """Of a process that does nothing."""
        process = subprocess.Popen(["sleep", "60"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return machine.Patience(process.pid, [], limit)

    def left_after(self, patience, seconds):
        """Whether there is any then, if asked all the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            left = patience.left()
            time.sleep(0.02)
        return left

    def test_idle(self):
        """It had what it wanted, and did nothing with it."""
        self.assertFalse(self.left_after(self.patience(0.5), 1))

    def test_waits_for_a_cpu(self):
        """Nine tenths of the time others had it."""
        patience = self.patience(0.5)
        start = time.monotonic()
        patience._waited = lambda: {"a": 0.9 * (time.monotonic() - start), "b": 0}
        self.assertTrue(self.left_after(patience, 2))
        self.assertFalse(self.left_after(patience, 6))

    def test_the_kernel_says(self):
        """Of two on one CPU each waits half of the time."""
        cpu = {min(os.sched_getaffinity(0))}
        loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                                  preexec_fn=lambda: os.sched_setaffinity(0, cpu))
                 for _ in range(2)]
        for loop in loops:
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)
        patience = machine.Patience(loops[0].pid, [], 100)
        self.left_after(patience, 3)
        waited, = patience._waited().values()
        self.assertGreater(waited, 0.5)
        self.assertLess(patience.silence, 2.5)


class Places(unittest.TestCase):
    """There are as many machines at once as places."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, value in (("records.BUILD", Path(folder.name)), ("PLACES", 2)):
            patch = mock.patch(f"machine.{name}", value)
            patch.start()
            self.addCleanup(patch.stop)
        self.events = []

    def ask(self, name):
        """A machine that runs for a moment, once it has a place."""
        def run():
            with machine.place():
                self.events.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, 10)
        return thread

    def test_waits(self):
        """With two places the third machine runs when one has ended."""
        with machine.place():
            with machine.place():
                third = self.ask("third runs")
                third.join(1)
                self.events.append("one ends")
            third.join(10)
        self.assertEqual(self.events, ["one ends", "third runs"])

    def test_in_turn(self):
        """Of those that wait the first one to ask is the first one to run."""
        names, waiting = ["third", "fourth", "fifth"], []
        with machine.place():
            with machine.place():
                for name in names:
                    # If each asked twice a second the last one would be lucky.
                    time.sleep(0.35)
                    waiting.append(self.ask(name))
            for thread in waiting:
                thread.join(10)
        self.assertEqual(self.events, names)


if __name__ == "__main__":
    unittest.main()
