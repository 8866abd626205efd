# SPDX-License-Identifier: GPL-2.0-only
"""The table of guarantees in lab/README.md: its sentences are in the patches, its results in the
mailed tests."""

import re
import unittest
from pathlib import Path

from host import patch_file, records

PAGE = records.TOP / "lab/README.md"
API = "Documentation/virt/kvm/api.rst"
BASE = "7.3"


def join(text):
    """Return a text in one line."""
    return " ".join(text.split())


def read_tables():
    """Return the rows of both tables: those with a mailed test, those without."""
    section = PAGE.read_text().partition("## Guarantees and the mailed tests\n")[2].partition("\n## ")[0]
    found = [[[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
              for line in table.splitlines() if line.startswith("| ")]
             for table in section.split("|---|---|---|\n")[1:]]
    # The title of the second table ends the first one.
    return [row for row in found[0] if row[0] != "series"], found[1]


def read_added(name):
    """Return the lines that a series adds to api.rst."""
    return join("\n".join(
        line[1:] for patch in patch_file.read_series(name, BASE)
        for path, diff in patch.diffs() if path == API
        for line in diff.splitlines() if re.match(r"\+(?!\+\+)| ", line)))


def read_mailed_tests():
    """Return the text of the mailed tests of stats fds."""
    new = [name for series in ("stats", "next") for patch in patch_file.read_series(series, BASE)
           for name in patch.new_files]
    edits = [diff for patch in patch_file.read_series("stats", BASE)
             for path, diff in patch.diffs() if path.endswith("kvm_binary_stats_test.c")]
    return "\n".join(edits + [(records.TOP / name).read_text() for name in new])


class Guarantees(unittest.TestCase):
    """The tables."""

    def test_sentences(self):
        """Each sentence in the tables is in a patch of its series."""
        tested, untested = read_tables()
        self.assertGreater(len(tested), 35)
        for series, sentence, _ in tested + untested:
            self.assertIn(sentence, read_added(series), series)

    def test_results(self):
        """Each result is in a mailed test."""
        text = join(re.sub(r'"\s*\n\+?\s*"', "", read_mailed_tests()))
        for _, sentence, result in read_tables()[0]:
            self.assertIn(result, text, sentence)

    def test_lab(self):
        """Each test of the lab exists."""
        names = {path.stem for folder in ("tools/testing/selftests/kvm", "lab/inside")
                 for path in Path(records.TOP, folder).rglob("*.c")}
        for _, sentence, test in read_tables()[1]:
            name = test.partition(":")[0]
            self.assertTrue(name == "no test" or name in names, f"{sentence}: {name}")


if __name__ == "__main__":
    unittest.main()
