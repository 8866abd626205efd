# SPDX-License-Identifier: GPL-2.0-only
"""The output format of all checks.

A check prints a line "PASS NAME TEXT" or "FAIL NAME TEXT" per result to stdout, followed by
details in lines that start with four spaces. The last detail of a failure is
"    rerun: COMMAND", a command to run in the repository. The last line of the output is
"N passed, N failed". The exit status is 1 if a result failed. Progress goes to stderr.
"""

import re
import shlex
import sys
import threading
from pathlib import Path

from . import base_file
from .records import TOP

RESULT = re.compile(r"(PASS|FAIL) (\S+)(?: +(.*))?$")


def get_command():
    """Return the current command line, with the program relative to the repository."""
    program = Path(sys.argv[0]).resolve()
    if program.is_relative_to(TOP):
        program = program.relative_to(TOP)
    return shlex.join([str(program), *sys.argv[1:]])


def format_rerun(command):
    """Return the line that shows how to rerun a failure, with the selected base."""
    base = "" if base_file.NAME == base_file.DEFAULT else f"BASE={base_file.NAME} "
    return f"rerun: {base}{command}"


class Results:
    """The results of a check."""

    def __init__(self):
        self.passed = self.failed = 0
        self._lock = threading.Lock()

    def report(self, name, passed, *text, rerun=None, width=30):
        """Print a result; each further text is printed in a separate line.

        rerun: the command that repeats a failure, by default the current one; width: the
        width of the name column.
        """
        first, *more = text or ("",)
        if not passed:
            more.append(format_rerun(rerun or get_command()))
        with self._lock:
            self.passed += bool(passed)
            self.failed += not passed
            line = f"{'PASS' if passed else 'FAIL'} {name:{width}} {first}".rstrip()
            print(line, *(f"    {other}" for other in more), sep="\n", flush=True)

    def end(self):
        """Print the last line and return the exit status."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0
