# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the file MAINTAINERS."""

import re
import subprocess
import unittest

from tools import TOP


def find_unmatched(patterns, files):
    """Return the files without a pattern and the patterns without a file."""
    def matches(pattern, name):
        return name == pattern or pattern.endswith("/") and name.startswith(pattern)

    return ([name for name in files if not any(matches(each, name) for each in patterns)],
            [each for each in patterns if not any(matches(each, name) for name in files)])


class Maintainers(unittest.TestCase):
    """MAINTAINERS of this repository."""

    def test_find_unmatched(self):
        """Directories match the files in them, other patterns a single file."""
        self.assertEqual(find_unmatched(["a/", "b"], ["a/x", "b", "bc", "c"]), (["bc", "c"], []))
        self.assertEqual(find_unmatched(["a/", "d"], ["a/x"]), ([], ["d"]))

    def test_every_file(self):
        """Each file has an entry, and each entry has files."""
        patterns = re.findall(r"^F:\t(\S+)$", (TOP / "MAINTAINERS").read_text(), re.M)
        files = subprocess.run(["git", "-C", TOP, "ls-files"], check=True, text=True,
                               capture_output=True).stdout.splitlines()
        self.assertEqual(find_unmatched(patterns, files), ([], []))
