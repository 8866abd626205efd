# SPDX-License-Identifier: GPL-2.0-only
"""The output format of all checks: TAP, with a count as the last line.

A check prints a line "ok - NAME TEXT" or "not ok - NAME TEXT" per result to stdout, followed by
details in lines that start with "# ". The last detail of a failure is "# rerun: COMMAND", a
command to run in the repository. "ok - NAME # SKIP not run: REASON" stands for a test that did
not run because a mirror did not deliver what the test needs; nothing else may be skipped. At the
end it prints the plan, "1..N", and the line "N passed, N failed", followed by ", N skipped" if N
is not 0. The exit status is 1 if a result failed. Progress goes to stderr.
"""

import shlex
import sys
import threading
from pathlib import Path

from . import base_file
from .records import TOP


def format_result(passed, name, text, width=30):
    """Return the line of a result; width: of the name column."""
    return f"{'ok' if passed else 'not ok':6} - {name:{width}} {text}".rstrip()


def format_skipped(name, reason):
    """Return the line of a test that did not run."""
    return format_result(True, name, f"# SKIP not run: {reason}")


def format_detail(text):
    """Return the line of a detail."""
    return f"# {text}".rstrip()


def format_counts(passed, failed, skipped):
    """Return the last line of a check."""
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


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

    # The results of this process, for steps.main().
    current = None

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self._lock = threading.Lock()
        Results.current = self

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
            print(format_result(passed, name, first, width), *map(format_detail, more),
                  sep="\n", flush=True)

    def skip(self, name, reason):
        """Print that a test did not run because a mirror did not deliver what it needs."""
        with self._lock:
            self.skipped += 1
            print(format_skipped(name, reason), flush=True)

    def end(self):
        """Print the last lines and return the exit status."""
        print(f"1..{self.passed + self.failed + self.skipped}",
              format_counts(self.passed, self.failed, self.skipped),
              sep="\n", flush=True)
        return 1 if self.failed or not self.passed + self.skipped else 0
