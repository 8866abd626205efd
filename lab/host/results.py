# SPDX-License-Identifier: GPL-2.0-only
"""How a check hands back what it found, the same for every file of checks/.

A line "PASS NAME TEXT" or "FAIL NAME TEXT" for each result on stdout, lines that
begin with four spaces where there is more to say, the last one of a failure
"    again: COMMAND", to be typed in the repository, and the last line
"N passed, N failed". The exit status is 1 when something failed. What it is
busy with goes to stderr.
"""

import re
import shlex
import sys
import threading
from pathlib import Path

from records import TOP, base_file

RESULT = re.compile(r"(PASS|FAIL) (\S+)(?: +(.*))?$")


def this_command():
    """What was typed, seen from the repository."""
    program = Path(sys.argv[0]).resolve()
    if program.is_relative_to(TOP):
        program = program.relative_to(TOP)
    return shlex.join([str(program), *sys.argv[1:]])


def again_line(command):
    """The line that says what to type to see a failure again, of the base that was chosen."""
    base = "" if base_file.NAME == base_file.DEFAULT else f"BASE={base_file.NAME} "
    return f"again: {base}{command}"


class Results:
    """What a check found so far."""

    def __init__(self):
        self.passed = self.failed = 0
        self._lock = threading.Lock()

    def say(self, name, passed, *text, again=None, width=30):
        """One result; further text is a line each. again: what to type to see a
        failure again, unless it is the check. width: of the name's column."""
        first, *more = text or ("",)
        if not passed:
            more.append(again_line(again or this_command()))
        with self._lock:
            self.passed += bool(passed)
            self.failed += not passed
            line = f"{'PASS' if passed else 'FAIL'} {name:{width}} {first}".rstrip()
            print(line, *(f"    {other}" for other in more), sep="\n", flush=True)

    def end(self):
        """The last line; returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0
