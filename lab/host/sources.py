# SPDX-License-Identifier: GPL-2.0-only
"""Have the kernel trees of several bases, of which Debian may no longer offer some."""

import os
import re
import subprocess
import sys

from . import base_file, records

# What scripts/fetch-base prints in that case.
VANISHED = re.compile(r"(base \S+: Debian no longer offers .*)$")


def make_environment(base):
    """Return the environment of commands for a base."""
    found = {**os.environ, "BASE": base}
    # A tree of the chosen base.
    if base != base_file.NAME:
        found.pop("LINUX_SRC", None)
    return found


def sort_newest_first(bases):
    """Return the bases, the newest one first."""
    return sorted(bases, reverse=True,
                  key=lambda base: [int(part) for part in re.findall(r"\d+", base)])


def have_tree(base):
    """Have the tree of a base made, or used as it is; show the progress.

    Return (True, what is in the tree), (False, why the base is not available), or
    (True, "") after any other failure, which whatever needs the tree reports as well.
    """
    last = ""
    with subprocess.Popen([records.TOP / "scripts/tree", "--use"], env=make_environment(base),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as tree:
        for line in tree.stdout:
            last = line.rstrip("\n")
            if not VANISHED.search(last):
                print(f"  {base}: {line}", end="", file=sys.stderr, flush=True)
    if gone := VANISHED.search(last):
        return False, gone[1]
    return True, "" if tree.returncode else last
