# SPDX-License-Identifier: GPL-2.0-only
"""What the checks of QEMU and libvirt compare with, and their image."""

import contextlib
import io
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/inside/consumers"))

import consumer  # noqa: E402


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
