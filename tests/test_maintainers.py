#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test that MAINTAINERS has somebody for each file, and files for each line."""

import re
import subprocess
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def unmatched(patterns, files):
    """Files that no pattern is for, and patterns that are for no file."""
    def takes(pattern, name):
        return name == pattern or pattern.endswith("/") and name.startswith(pattern)

    return ([name for name in files if not any(takes(each, name) for each in patterns)],
            [each for each in patterns if not any(takes(each, name) for name in files)])


class Maintainers(unittest.TestCase):
    """The file at the root."""

    def test_unmatched(self):
        self.assertEqual(unmatched(["a/", "b"], ["a/x", "b", "bc", "c"]), (["bc", "c"], []))
        self.assertEqual(unmatched(["a/", "d"], ["a/x"]), ([], ["d"]))

    def test_every_file(self):
        patterns = re.findall(r"^F:\t(\S+)$", (TOP / "MAINTAINERS").read_text(), re.M)
        files = subprocess.run(["git", "-C", TOP, "ls-files"], check=True, text=True,
                               capture_output=True).stdout.splitlines()
        self.assertEqual(unmatched(patterns, files), ([], []))


if __name__ == "__main__":
    unittest.main()
