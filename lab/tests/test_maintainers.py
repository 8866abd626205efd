# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the files MAINTAINERS and SECURITY.md."""

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


def is_address_honest(security, maintainers):
    """Return True if SECURITY.md sends private reports to maintainers only if there is one, and
    states otherwise that the address is missing."""
    has_person = re.search(r"^M:\t.+ <\S+@\S+>$", maintainers, re.M) is not None
    is_missing = "No private address exists yet" in " ".join(security.split())
    return is_missing != has_person and (has_person or "maintainers" not in security)


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


class Security(unittest.TestCase):
    """SECURITY.md of this repository."""

    LIST = "L:\tkvm@vger.kernel.org\n"
    PERSON = f"M:\tA Person <person@example.org>\n{LIST}"
    MISSING = "No private\n  address exists yet: see MAINTAINERS"

    def test_is_address_honest(self):
        """A page may mention maintainers only if MAINTAINERS has a person."""
        for security, maintainers, honest in (
                (self.MISSING, self.LIST, True), ("Report to the maintainers.", self.PERSON, True),
                ("Report to the maintainers.", self.LIST, False),
                (f"{self.MISSING}, report to the maintainers", self.LIST, False),
                ("Report to kvm@vger.kernel.org.", self.LIST, False),
                (self.MISSING, self.PERSON, False)):
            with self.subTest(security=security, maintainers=maintainers):
                self.assertEqual(is_address_honest(security, maintainers), honest)

    def test_page(self):
        """SECURITY.md does not send private reports to a public list."""
        self.assertTrue(is_address_honest((TOP / "SECURITY.md").read_text(),
                                          (TOP / "MAINTAINERS").read_text()))
