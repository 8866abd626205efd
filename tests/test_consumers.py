# SPDX-License-Identifier: GPL-2.0-only
"""What the checks of QEMU and libvirt compare with, and their image."""

import contextlib
import io
import mmap
import os
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "lab/inside/consumers"), str(TOP / "lab/host")]

import consumer  # noqa: E402
import in_vmm  # noqa: E402
import pv_perf  # noqa: E402
import pv_perf_changes  # noqa: E402
import pv_perf_migration  # noqa: E402


def desc(name, kind="cumulative", size=1):
    """A descriptor."""
    return consumer.Desc(name, kind, None, 10, 0, size, 0, 0)


DESCS = {d.name: d for d in (
    desc("exits"), desc("lpages", "instant"), desc("max", "peak"),
    desc("hist", "log2-histogram", 2))}
VALUES = {"exits": [5], "lpages": [7], "max": [2], "hist": [1, 3]}


class Compare(unittest.TestCase):
    """Shown values against two reads."""

    def problems(self, exact=False, after=None, **shown):
        """What is wrong with VALUES when these differ."""
        return consumer.compare(DESCS, VALUES, {**VALUES, **shown},
                                {**VALUES, **(after or {})}, exact)

    def test_equal(self):
        """What does not move is right."""
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(exact=True), [])

    def test_between(self):
        """What grows may be anywhere between, unless the guest is stopped."""
        after = {"exits": [9], "hist": [2, 3]}
        for shown in {}, {"exits": [9]}, {"exits": [6], "hist": [2, 3]}:
            self.assertEqual(self.problems(after=after, **shown), [])
        self.assertEqual(len(self.problems(True, after)), 2)

    def test_outside(self):
        """Less than before or more than after is wrong, bucket by bucket."""
        for shown in ({"exits": [4]}, {"exits": [6]}, {"max": [3]},
                      {"hist": [3, 1]}, {"hist": [1]}, {"exits": []}):
            self.assertEqual(len(self.problems(**shown)), 1, shown)

    def test_instant(self):
        """What goes up and down is free while the guest runs, only then."""
        self.assertEqual(self.problems(lpages=[99]), [])
        self.assertEqual(len(self.problems(True, lpages=[99])), 1)

    def test_names(self):
        """None may be missing, none may be too much."""
        self.assertEqual(self.problems(other=[0]), ["other is too much"])
        shown = {name: VALUES[name] for name in VALUES if name != "max"}
        self.assertEqual(consumer.compare(DESCS, VALUES, shown, VALUES, True),
                         ["max is missing"])


class Results(unittest.TestCase):
    """The TAP lines."""

    def test_lines(self):
        """One bad result makes the whole bad."""
        results = consumer.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            results.equal("same", 1, 1)
            self.assertEqual(results.end(), 0)
            results.equal("other", 1, 2)
            self.assertEqual(results.end(), 1)
        self.assertEqual(out.getvalue(),
                         "ok 1 same\n1..1\n"
                         "not ok 2 other\n# got 1\n# not 2\n1..2\n")


class OwnTime(unittest.TestCase):
    """What counts as time for a limit."""

    def setUp(self):
        self.own = consumer.OwnTime()

    def after(self, seconds, *pieces):
        """What counts so far when another so many seconds have passed, in which some
        pieces of work took that long."""
        self.own.last -= seconds
        pieces = pieces * self.own.PIECES
        with mock.patch.object(self.own, "_piece", side_effect=pieces):
            return self.own.now()

    def test_alone(self):
        self.assertAlmostEqual(self.after(10, 0.001), 10, 1)

    def test_others(self):
        """They have nine tenths of the CPUs: also if that was so from the beginning."""
        self.assertAlmostEqual(self.after(10, 0.001, *[0.011] * 9), 1, 1)
        self.assertAlmostEqual(self.after(10, 0.01), 2, 1)
        self.assertAlmostEqual(self.after(10, 0.001), 12, 1)

    def test_no_work_all_the_time(self):
        self.assertEqual(self.after(0.5), 0)

    def test_work(self):
        """It is some, and the clock is that of the thread."""
        pieces = [self.own._piece() for _ in range(100)]
        self.assertGreater(min(pieces), 0.00001)
        self.assertLess(min(pieces), 0.01)

    def test_limit(self):
        with self.assertRaisesRegex(TimeoutError, "^x: not within 0.5 s$"):
            consumer.wait_for("x", lambda: False, 0.5)
        consumer.wait_for("x", iter((False, True)).__next__, 60)

    def test_run(self):
        """The status, both outputs; what does not end in time is killed."""
        done = consumer.run(["sh", "-c", "echo a; echo b >&2; exit 3"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "a\n", "b\n"))
        start = time.monotonic()
        with self.assertRaisesRegex(TimeoutError, "^sleep: not within 0.5 s"):
            consumer.run(["sleep", "600"], 0.5)
        self.assertLess(time.monotonic() - start, 300)


class Quiet(unittest.TestCase):
    """What perf costs by itself: three exits for each call, in 5 s."""

    @staticmethod
    def problems(*calls):
        """Of so many calls on each CPU."""
        with contextlib.redirect_stdout(io.StringIO()):
            return pv_perf.quiet("".join(
                f"CPU{cpu},{n},,kvm_pv/hypercalls/,5000000000,100.00,,\n"
                for cpu, n in enumerate(calls)))

    def test_calls(self):
        self.assertEqual(self.problems(11, 16), [])
        for calls in (11, 17), (11, 1), (11,), ():
            with self.subTest(calls=calls):
                self.assertTrue(self.problems(*calls))


class Sampled(unittest.TestCase):
    """Samples of 1 ms, and what was counted beside them."""

    def test_ratio(self):
        for ms, good in ((100, True), (1000, True), (1002, False), (1, True),
                         (0, False), (99.5, False)):
            with self.subTest(ms=ms):
                problems = pv_perf.once_a_period(
                    "1.001,s,kvm_pv/task-clock/,1001000000,100.00,,\n",
                    f"# Samples: {ms}\n# Event count (approx.): {ms * 10**6:.0f}\n")
                self.assertEqual(not problems, good)
        self.assertTrue(pv_perf.once_a_period("", ""))


class Migrated(unittest.TestCase):
    """What a guest has to have counted that moved meanwhile."""

    def test_kept(self):
        """Ten seconds, of which the new place may miss half a one, and that was fast."""
        for value, good in ((200000, True), (180000, True), (179999, False), (100000, False)):
            with self.subTest(value=value):
                self.assertEqual(not pv_perf_migration.kept(
                    f"{value},,kvm_pv/exits/,10000000000,100.00,,\n", "kvm_pv/exits/"), good)
        self.assertTrue(pv_perf_migration.kept("<not counted>,,kvm_pv/exits/,0,100.00,,\n",
                                               "kvm_pv/exits/"))


class Patience(unittest.TestCase):
    """When a guest is no longer waited for."""

    def setUp(self):
        self.patience = pv_perf.Patience()
        self.said, self.ticks, self.seconds = 1, 1, 0

    def after(self, seconds, ticks, said=0):
        """What is wrong when the machine had so many seconds, the guest so many ticks of
        its own, and said so much."""
        self.said += said
        self.ticks += ticks
        self.seconds += seconds
        with mock.patch.object(self.patience.own, "now", return_value=self.seconds):
            return self.patience.problem([self.said, 0], self.ticks)

    def test_slow(self):
        """What it does for hours is its own matter, if it is a second of its time."""
        self.assertIsNone(self.after(0, 0))
        for _ in range(100):
            self.assertIsNone(self.after(100, 1))

    def test_silent(self):
        many = pv_perf.LIMIT * pv_perf.TICKS * consumer.CPUS
        self.assertIsNone(self.after(1, many))
        self.assertIsNone(self.after(1, many))
        self.assertIsNone(self.after(1, 1, said=1))
        self.assertIsNone(self.after(1, many))
        self.assertRegex(self.after(1, 1), "says nothing")

    def test_no_ticks(self):
        """As in one that handles an NMI after the other; what it says is no tick."""
        self.assertIsNone(self.after(1, 1))
        self.assertIsNone(self.after(pv_perf.LIMIT, 0))
        self.assertRegex(self.after(1, 0, said=1), "no tick for 120 s")
        self.assertIsNone(self.after(1, 1))


class Changes(unittest.TestCase):
    """Intervals of perf stat in which something ends to be counted."""

    TEXT = """\
     0.200,60,,kvm_pv/exits/,4,100.00,,
     0.200,<not counted>,,kvm_pv/hypercalls/,0,100.00,,
     0.400,0,,kvm_pv/exits/,4,100.00,,
"""

    def test_column(self):
        self.assertEqual(pv_perf_changes.column(self.TEXT, "exits"), [60, 0])
        self.assertEqual(pv_perf_changes.column(self.TEXT, "hypercalls"), [None])

    def test_stops(self):
        self.assertEqual(pv_perf_changes.stops([1, 2, 0, 3, None, None, None]), [])
        for found in ([], [1, 2, 3], [1, 2, None, None, None], [1, 2, 3, None, None],
                      [1, 2, 3, None, None, None, 4], [1, 2, 1e18, None, None, None]):
            with self.subTest(found=found):
                self.assertTrue(pv_perf_changes.stops(found))


class InVmm(unittest.TestCase):
    """What another process is made to do."""

    FIONBIO = 0x5421

    def setUp(self):
        """One that has a socket, and says when it was woken whether that blocks."""
        self.process = subprocess.Popen(
            [sys.executable, "-uc", "import os, socket, sys\n"
             "s = socket.socket()\nprint()\n"
             "for _ in sys.stdin: print(not os.get_blocking(s.fileno()))"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.process.communicate)
        self.process.stdout.readline()
        self.link = next(link for link in consumer.links(self.process.pid).values()
                         if link.startswith("socket:"))

    def says(self):
        """What the process finds when it goes on."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def ioctl(self, request, value):
        """Have it make one."""
        in_vmm.ioctl(self.process.pid, self.link, request, struct.pack("=i", value))

    def test_ioctl(self):
        for value in 1, 0:
            self.ioctl(self.FIONBIO, value)
            self.assertEqual(self.says(), str(bool(value)))

    def test_error(self):
        with self.assertRaisesRegex(OSError, "ioctl 0xaeff of socket"):
            self.ioctl(0xaeff, 0)
        self.assertEqual(self.says(), "False")

    def test_memory(self):
        """Also across the pieces in which it is read, and at the end."""
        size, text = (1 << 24) + 8192, b"a name\0"
        with mmap.mmap(-1, size) as memory:
            places = (0, (1 << 24) - 3, size - len(text))
            for at in places:
                memory[at:at + len(text)] = text
            self.assertEqual(in_vmm.replace_in_memory(os.getpid(), size, text, b"no name"), 3)
            self.assertEqual({memory[at:at + len(text)] for at in places}, {b"no name"})


class Fetch(unittest.TestCase):
    """Wrong input of scripts/fetch-consumers."""

    def test_arguments(self):
        """One line, exit status 2."""
        for arguments in [], ["a", "b"], ["../x"], [""]:
            done = subprocess.run([TOP / "scripts/fetch-consumers", *arguments],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")),
                             (2, 1), arguments)


if __name__ == "__main__":
    unittest.main()
