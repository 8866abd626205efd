# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/checks/long/bench: limits and the table of figures."""

import contextlib
import io
import unittest

from host import results
from tools import load

bench = load("lab/checks/long/bench")


class Limits(unittest.TestCase):
    """Limits of figures."""

    RUNS = [{"data_vcpu_getfd": 450.0}, {"data_vcpu_getfd": 440.0}]
    BASE = {"run": 990.0, "check_extension": 300.0, "vm": 100000.0, "pidfd": 2282.0}

    def test_limits(self):
        """Limits are constants or relative to the base or to pread()."""
        for name, limit in (("8_bytes", 325), ("run", 996), ("vm", 102000),
                            ("vcpus_1", 495), ("eventfd", None),
                            ("data_vcpu_getfd", 460), ("vcpus_16", 3160),
                            ("open_vm_getfd", 2150), ("open_vcpu_getfd", 2200),
                            ("io_uring", 4400), ("nothing_new", 450)):
            with self.subTest(name=name):
                found = bench.find_limit(name, self.RUNS, self.BASE)
                self.assertAlmostEqual(found or 0, limit or 0)

    def test_limits_by_a_base_with_files(self):
        """If the base has statistics files, limits are relative to its figures."""
        base = {"64_files": 1000.0, "run": 990.0, "8_bytes": 500.0, "data_vcpu_stats_fd": 600.0,
                "poll": 400.0}
        for name, limit in (("vcpus_64", 420), ("run", 999.9), ("8_bytes", 500),
                            ("data_vcpu_stats_fd", 600), ("64_files", 1010),
                            ("poll", 420), ("data_vcpu_getfd", None), ("vcpus_1", None)):
            with self.subTest(name=name):
                found = bench.find_limit(name, self.RUNS, base)
                self.assertAlmostEqual(found or 0, limit or 0)

    def test_labels(self):
        """All figures with a limit have a unique label."""
        for name in (*bench.LIMITS, *bench.ADDED_TO_BASE, *bench.BASE_FACTORS,
                     *bench.MAINLINE):
            self.assertIn(name, bench.LABELS)
        self.assertEqual(len(set(bench.LABELS.values())), len(bench.LABELS))


class Table(unittest.TestCase):
    """Lines of the table and counts of results."""

    def print_table(self, *rows):
        """Return the results and the lines of a table with these rows."""
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            table = bench.Table(found)
            for row in rows:
                table.add(*row)
        return found, out.getvalue().splitlines()[1:]

    def test_over_limit(self):
        """A figure fails if one of the runs exceeds the limit."""
        found, lines = self.print_table(("a", [10.0, 10.5], 10), ("b", [10.0, 9.0], 10),
                                  ("c", [99.0, 99.0]))
        self.assertEqual((found.passed, found.failed), (1, 1))
        self.assertRegex(lines.pop(1), "^# rerun: ")
        self.assertRegex(lines[0], r"^not ok - a +- +- +10 +10\.5 +- +10$")
        self.assertRegex(lines[1], r"^ok +- b +- +- +10 +9 +- +10$")
        self.assertRegex(lines[2], r"^#        c +- +- +99 +99 +- +-$")
        self.assertEqual(len({line.rindex("10") + 2 for line in lines[:2]}
                             | {len(lines[2])}), 1)

    def test_one_figure(self):
        """A figure with a single value is a result as well."""
        found, lines = self.print_table(("differ/f", [0], 0), ("differ/g", [1], 0))
        self.assertEqual((found.passed, found.failed), (1, 1))
        self.assertTrue(lines[1].startswith("not ok - differ/g"))
