# SPDX-License-Identifier: GPL-2.0-only
"""Parse lines in the format of the Test Anything Protocol (TAP).

Checks, the programs that the lab boots and kernel selftests print their results so.
"""

import re

RESULT = re.compile(r"(not )?ok\b(?: +(\d+)\b)?(?: +-)? *(.*)$")
PLAN = re.compile(r"1\.\.(\d+)")
SKIPPED = re.compile(r"# *SKIP\b", re.I)


class Result:
    """One result; number is None if the line has none, text is the rest of the line."""

    def __init__(self, found):
        self.number = int(found[2]) if found[2] else None
        self.text = found[3]
        self.skipped = not found[1] and bool(SKIPPED.search(self.text))
        self.passed = not found[1] and not self.skipped
        self.failed = bool(found[1])


def parse_result(line):
    """Return the Result in a line, or None."""
    found = RESULT.match(line)
    return found and Result(found)


def parse_plan(line):
    """Return the number of results that a line announces, or None."""
    found = PLAN.match(line)
    return int(found[1]) if found else None
