# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the programs in lab/inside/consumers."""

import contextlib
import io
import mmap
import os
import unittest
from unittest import mock

from host import perf_guest

consumer, in_vmm, pv_perf, pv_perf_changes, pv_perf_migration = map(perf_guest.load_program, (
    "consumer", "in_vmm", "pv_perf", "pv_perf_changes", "pv_perf_migration"))


def make_desc(name, kind="cumulative", size=1):
    """Return a descriptor."""
    return consumer.Desc(name, kind, None, 10, 0, size, 0, 0)


DESCS = {d.name: d for d in (
    make_desc("exits"), make_desc("lpages", "instant"), make_desc("max", "peak"),
    make_desc("hist", "log2-histogram", 2))}
VALUES = {"exits": [5], "lpages": [7], "max": [2], "hist": [1, 3]}


class Compare(unittest.TestCase):
    """Comparison of shown values with two reads."""

    def find_problems(self, exact=False, after=None, **shown):
        """Return the problems found if the given values differ from VALUES."""
        return consumer.compare(DESCS, VALUES, {**VALUES, **shown},
                                {**VALUES, **(after or {})}, exact)

    def test_equal(self):
        """Equal values are correct."""
        self.assertEqual(self.find_problems(), [])
        self.assertEqual(self.find_problems(exact=True), [])

    def test_between(self):
        """A growing value may lie between the two reads, unless the guest is stopped."""
        after = {"exits": [9], "hist": [2, 3]}
        for shown in {}, {"exits": [9]}, {"exits": [6], "hist": [2, 3]}:
            self.assertEqual(self.find_problems(after=after, **shown), [])
        self.assertEqual(len(self.find_problems(True, after)), 2)

    def test_outside(self):
        """A value outside of the two reads is wrong, in each bucket."""
        for shown in ({"exits": [4]}, {"exits": [6]}, {"max": [3]},
                      {"hist": [3, 1]}, {"hist": [1]}, {"exits": []}):
            self.assertEqual(len(self.find_problems(**shown)), 1, shown)

    def test_instant(self):
        """An instant value is compared only if the guest is stopped."""
        self.assertEqual(self.find_problems(lpages=[99]), [])
        self.assertEqual(len(self.find_problems(True, lpages=[99])), 1)

    def test_names(self):
        """Missing and unexpected names are problems."""
        self.assertEqual(self.find_problems(other=[0]), ["other is unexpected"])
        shown = {name: VALUES[name] for name in VALUES if name != "max"}
        self.assertEqual(consumer.compare(DESCS, VALUES, shown, VALUES, True),
                         ["max is missing"])


class Results(unittest.TestCase):
    """Lines in TAP format."""

    def test_lines(self):
        """The exit status is 1 if a result failed."""
        results = consumer.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            results.check_equal("same", 1, 1)
            self.assertEqual(results.end(), 0)
            results.check_equal("other", 1, 2)
            self.assertEqual(results.end(), 1)
        self.assertEqual(out.getvalue(),
                         "ok 1 same\n1..1\n"
                         "not ok 2 other\n# got 1\n# expected 2\n1..2\n")


class OwnTime(unittest.TestCase):
    """The time that counts for time limits."""

    def setUp(self):
        self.own = consumer.OwnTime()

    def pass_time(self, seconds, *pieces):
        """Return the counted time after further seconds in which pieces took these times."""
        now = self.own.last + seconds
        pieces = pieces * self.own.PIECES
        with mock.patch.object(self.own, "_time_piece", side_effect=pieces), \
                mock.patch.object(consumer.time, "monotonic", lambda: now):
            return self.own.read()

    def test_idle_host(self):
        """All time counts if no other process uses the CPUs."""
        self.assertAlmostEqual(self.pass_time(10, 0.001), 10, 1)

    def test_busy_host(self):
        """A tenth counts if other processes use nine tenths of the CPUs, even from the start."""
        self.assertAlmostEqual(self.pass_time(10, 0.001, *[0.011] * 9), 1, 1)
        self.assertAlmostEqual(self.pass_time(10, 0.01), 2, 1)
        self.assertAlmostEqual(self.pass_time(10, 0.001), 12, 1)

    def test_frequent_reads(self):
        """The share is measured at most once per second."""
        self.assertEqual(self.pass_time(0.5), 0)

    def test_piece(self):
        """A piece of work takes a plausible amount of the thread's CPU time."""
        pieces = [self.own._time_piece() for _ in range(100)]
        self.assertGreater(min(pieces), 0.00001)
        self.assertLess(min(pieces), 0.01)

    def test_limit(self):
        """wait_for raises TimeoutError after the limit."""
        with self.assertRaisesRegex(TimeoutError, "^x: not within 0.5 s$"):
            consumer.wait_for("x", lambda: False, 0.5)
        consumer.wait_for("x", iter((False, True)).__next__, 60)

    def test_run(self):
        """run returns the status and both outputs, and kills the command after the limit."""
        done = consumer.run(["sh", "-c", "echo a; echo b >&2; exit 3"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "a\n", "b\n"))
        with self.assertRaisesRegex(TimeoutError, "^sleep: not within 0.5 s"):
            consumer.run(["sleep", "infinity"], 0.5)


class Quiet(unittest.TestCase):
    """Exits caused by perf itself: three for each hypercall, in 5 s."""

    @staticmethod
    def find_problems(*calls):
        """Return the problems found with these numbers of hypercalls per CPU."""
        with contextlib.redirect_stdout(io.StringIO()):
            return pv_perf.check_quiet("".join(
                f"CPU{cpu},{n},,kvm_pv/hypercalls/,5000000000,100.00,,\n"
                for cpu, n in enumerate(calls)))

    def test_calls(self):
        """Missing CPUs and numbers of hypercalls outside of the limits are problems."""
        self.assertEqual(self.find_problems(11, 16), [])
        for calls in (11, 17), (11, 1), (11,), ():
            with self.subTest(calls=calls):
                self.assertTrue(self.find_problems(*calls))


class Sampled(unittest.TestCase):
    """Samples of 1 ms and the time counted in parallel."""

    def test_ratio(self):
        """The sampled time must not be zero, fractional, or longer than the counted time."""
        for ms, good in ((100, True), (1000, True), (1002, False), (1, True),
                         (0, False), (99.5, False)):
            with self.subTest(ms=ms):
                problems = pv_perf.check_sampled_time(
                    "1.001,s,kvm_pv/task-clock/,1001000000,100.00,,\n",
                    f"# Samples: {ms}\n# Event count (approx.): {ms * 10**6:.0f}\n")
                self.assertEqual(not problems, good)
        self.assertTrue(pv_perf.check_sampled_time("", ""))


class Full(unittest.TestCase):
    """As many different events as there are ids."""

    def check(self, values):
        """Return True if the check accepts these values of the events of FULL."""
        return not pv_perf.check_full("".join(
            f"{value},,kvm_pv/{name}/,1000000000,100.00,,\n"
            for name, value in zip(pv_perf.FULL, values)))

    def test_events(self):
        """The events use all ids, and four share one."""
        self.assertEqual(len(set(pv_perf.FULL)), 16)
        self.assertEqual(pv_perf.FULL.count("exits"), 5)

    def test_counted(self):
        """All events must be counted, those that share an id alike."""
        counts = [5100 if name == "exits" else 0 for name in pv_perf.FULL]
        self.assertTrue(self.check(counts))
        self.assertFalse(self.check(counts[:-1]))
        self.assertFalse(self.check([4900, *counts[1:]]))
        self.assertFalse(self.check([9900, *counts[1:]]))
        self.assertFalse(self.check([*counts[:-1], "<not counted>"]))


class Migrated(unittest.TestCase):
    """Counts of a guest after a migration."""

    def test_kept(self):
        """The new host may miss the hypercalls of two ticks."""
        event = "kvm_pv/hypercalls/"
        ticks = "at most 600 hypercalls in 2 ticks\n"
        for value, good in ((200010, True), (199400, True), (199399, False), (100000, False)):
            with self.subTest(value=value):
                self.assertEqual(not pv_perf_migration.check_kept(
                    f"{ticks}{value},,{event},10000000000,100.00,,\n", event), good)
        for text in (f"{ticks}<not counted>,,{event},0,100.00,,\n",
                     f"200000,,{event},10000000000,100.00,,\n"):
            self.assertTrue(pv_perf_migration.check_kept(text, event))


class Patience(unittest.TestCase):
    """Detection of guests that hang."""

    def setUp(self):
        self.patience = pv_perf.Patience()
        self.said, self.ticks, self.seconds = 1, 1, 0

    def pass_time(self, seconds, ticks, said=0):
        """Return the problem after further seconds, ticks of the guest and bytes of output."""
        self.said += said
        self.ticks += ticks
        self.seconds += seconds
        with mock.patch.object(self.patience.own, "read", return_value=self.seconds):
            return self.patience.find_problem([self.said, 0], self.ticks)

    def test_slow(self):
        """A slow guest may be silent for hours if they are only a second of guest time."""
        self.assertIsNone(self.pass_time(0, 0))
        for _ in range(100):
            self.assertIsNone(self.pass_time(100, 1))

    def test_silent(self):
        """A guest with many ticks and no output hangs."""
        many = pv_perf.LIMIT * pv_perf.TICKS * consumer.CPUS
        self.assertIsNone(self.pass_time(1, many))
        self.assertIsNone(self.pass_time(1, many))
        self.assertIsNone(self.pass_time(1, 1, said=1))
        self.assertIsNone(self.pass_time(1, many))
        self.assertRegex(self.pass_time(1, 1), "no output from the guest")

    def test_no_ticks(self):
        """A guest without ticks hangs, even if it prints something, as in an NMI loop."""
        self.assertIsNone(self.pass_time(1, 1))
        self.assertIsNone(self.pass_time(pv_perf.LIMIT, 0))
        self.assertRegex(self.pass_time(1, 0, said=1), "no tick in the guest for 120 s")
        self.assertIsNone(self.pass_time(1, 1))


class Changes(unittest.TestCase):
    """Intervals of perf stat in which an event stops counting."""

    TEXT = """\
     0.200,60,,kvm_pv/exits/,4,100.00,,
     0.200,<not counted>,,kvm_pv/hypercalls/,0,100.00,,
     0.400,0,,kvm_pv/exits/,4,100.00,,
"""

    def test_parse(self):
        """Each event has a value per interval, None if it was not counted."""
        self.assertEqual(pv_perf_changes.parse_intervals(self.TEXT, "exits"), [60, 0])
        self.assertEqual(pv_perf_changes.parse_intervals(self.TEXT, "hypercalls"), [None])

    def test_stops(self):
        """An event must be counted at first and must not be counted later."""
        self.assertEqual(pv_perf_changes.check_stops([1, 2, 0, 3, None, None, None]), [])
        for found in ([], [1, 2, 3], [1, 2, None, None, None], [1, 2, 3, None, None],
                      [1, 2, 3, None, None, None, 4], [1, 2, 1e18, None, None, None]):
            with self.subTest(found=found):
                self.assertTrue(pv_perf_changes.check_stops(found))

    def test_counts_again(self):
        """An event must not be counted at first and must be counted later."""
        self.assertEqual(pv_perf_changes.check_counts_again([None, None, 3, 0]), [])
        for found in ([], [None], [None, 0], [1, None, 2]):
            with self.subTest(found=found):
                self.assertTrue(pv_perf_changes.check_counts_again(found))


class InVmm(unittest.TestCase):
    """Changes of a VMM's memory."""

    def test_memory(self):
        """Text is replaced at the start, at the end, and across the pieces that are read."""
        size, text = (1 << 24) + 8192, b"a name\0"
        with mmap.mmap(-1, size) as memory:
            places = (0, (1 << 24) - 3, size - len(text))
            for at in places:
                memory[at:at + len(text)] = text
            self.assertEqual(in_vmm.replace_in_memory(os.getpid(), size, text, b"no name"), 3)
            self.assertEqual({memory[at:at + len(text)] for at in places}, {b"no name"})
