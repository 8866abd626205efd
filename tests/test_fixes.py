#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What checks/fixes says of messages that speak of later kernels."""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import records  # noqa: E402

loader = importlib.machinery.SourceFileLoader("fixes", str(TOP / "checks/fixes"))
fixes = importlib.util.module_from_spec(importlib.util.spec_from_loader("fixes", loader))
loader.exec_module(fixes)

WRITTEN = r"""[[fix]]
subject = "KVM: Count once"
says = "Mainline has the same bug"
state = "there"
file = "f.c"
function = "count"
bug = 'n\+\+;\s+n\+\+'
gone = '\{\s+n\+\+;\s+\}'
"""
MESSAGE = "KVM: Count once\n\nMainline has\nthe same bug.\n"
OTHER = "int other(void)\n{\n\tn++;\n\tn++;\n}\n\n"
BUG = OTHER.replace("other", "count")
FIXED = BUG.replace("n++;\n\tn++", "n++")


class Fixes(unittest.TestCase):
    """One fix, three kernels."""

    def problems(self, written=WRITTEN, message=MESSAGE, newest=OTHER + BUG, base=OTHER + BUG,
                 series=OTHER + FIXED):
        """As the check looks."""
        fix, = fixes.read(written)
        return fixes.problems(fix, message, {"base": base, "series": series,
                                             "newest": newest})

    def test_right(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(WRITTEN.replace('"there"', '"gone"'),
                                       newest=OTHER + FIXED), [])

    def test_claim_that_is_no_longer_true(self):
        self.assertEqual(self.problems(newest=OTHER + FIXED),
                         ["the bug is gone in newest, and should be there"])

    def test_claim_that_was_never_true(self):
        self.assertEqual(self.problems(WRITTEN.replace('"there"', '"gone"')),
                         ["the bug is there in newest, and should be gone"])

    def test_message_that_says_something_else(self):
        found, = self.problems(message="KVM: Count once\n\nMainline has no such bug.\n")
        self.assertIn("does not say", found)

    def test_expressions_that_see_nothing(self):
        for change in {"base": OTHER + FIXED}, {"series": OTHER + BUG}:
            with self.subTest(**change):
                self.assertEqual(len(self.problems(**change)), 1)

    def test_source_that_has_changed(self):
        for newest in OTHER, OTHER + BUG.replace("n++", "n += 1"):
            with self.subTest(newest=newest):
                found, = self.problems(newest=newest)
                self.assertIn("newest: f.c has ", found)

    def test_other_words(self):
        for written in (WRITTEN.replace("there", "perhaps"), WRITTEN + 'more = 1\n'):
            with self.subTest(written=written):
                self.assertRaises(records.Invalid, fixes.read, written)

    def test_versions(self):
        self.assertLess(fixes.version("linux-source 7.3.4-1~bpo13+1"), fixes.version("7.10"))
        self.assertEqual(fixes.version("5.10"), (5, 10))


if __name__ == "__main__":
    unittest.main()
