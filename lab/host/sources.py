# SPDX-License-Identifier: GPL-2.0-only
"""Have the kernel trees of several bases, of which Debian may no longer offer some."""

import collections
import os
import re
import subprocess
import sys

from . import base_file, records, steps

# What lab/fetch/fetch-base prints in that case.
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


# available: False if the mirrors do not deliver the base. line: a description of the tree, why the
# base is not available, or "" after any other failure, which whatever needs the tree reports as
# well. cost: seconds of CPU.
Tree = collections.namedtuple("Tree", "available line cost")
UNKNOWN_TREE = Tree(True, "", 0)


def have_tree(base, watch=None):
    """Generate the tree of a base, or use it unchanged; show the progress, return a Tree.

    watch: a function to be called with the process, which then leads a process group.
    """
    last = ""
    with subprocess.Popen([records.TOP / "scripts/tree", "--use"], env=make_environment(base),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          process_group=0 if watch else None) as tree:
        if watch:
            watch(tree)
        for line in tree.stdout:
            last = line.rstrip("\n")
            print(f"  {base}: {line}", end="", file=sys.stderr, flush=True)
        cost = steps.wait_and_account(tree)
    if tree.returncode == steps.NOT_DELIVERED or VANISHED.search(last):
        return Tree(False, last.partition(": ")[2], cost)
    return Tree(True, "" if tree.returncode else last, cost)
