# SPDX-License-Identifier: GPL-2.0-only
"""The series of a base, in patches/BASE: how a patch is written, and the git tree of them.

The file `series` lists the series, one name per line, each on top of the one
before. Each is a folder of that name with its cover-letter (a subject, an empty
line, the text) and its patches NNNN-subject.patch, numbered from 1:

    subject and message, as in the commit
    ---
    New-file: PATH           a file that this patch introduces; it is in the
    New-file: PATH           repository at that path, in its final state
    diff --git ...           edits of files that were there before this patch

An edit of a file that an earlier patch introduced is a diff as well. So the
introduced version is the final one with the diffs of later patches taken back.

In the git tree each series ends in a branch of its name.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import base_file
from base_file import TOP, TREE, Invalid

PATCHES = base_file.FOLDER
LIST = Path("patches", base_file.NAME, "series")
# The tag of the base kernel in the tree.
BASE = "base"


def run(main):
    """Call main; what is wrong with the input is one line and exit 2."""
    try:
        base_file.values()
        sys.exit(main())
    except Invalid as problem:
        print(f"{Path(sys.argv[0]).name}: {problem}", file=sys.stderr)
        sys.exit(2)


def no_arguments(usage):
    """For a script that takes none."""
    if len(sys.argv) > 1:
        raise Invalid(f"takes no argument; {usage}")


def git(*args, tree=TREE, index=None, data=None, check=True):
    """Output of git in the tree, as bytes; index is a file to use instead."""
    # The same patches are the same commits, whoever makes the tree, and when.
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull,
           "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_DATE": "@0 +0000",
           "GIT_COMMITTER_DATE": "@0 +0000"}
    if index:
        env["GIT_INDEX_FILE"] = str(index)
    done = subprocess.run(["git", "-C", str(tree), *map(str, args)], env=env,
                          input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if check and done.returncode:
        raise Invalid(f"git {args[0]}: {done.stderr.decode().strip()}")
    return done.stdout if check else done


class Patch:
    """One file of a series."""

    def __init__(self, name, message, new_files, diff):
        self.name = name
        self.message = message
        self.new_files = new_files
        self.diff = diff

    @classmethod
    def read(cls, path):
        """From its file."""
        message, rule, rest = path.read_text().partition("\n---\n")
        lines = re.match(r"(?:New-file: .+\n)*", rest).group(0)
        diff = rest[len(lines):]
        if not rule or not message.strip() or (diff and
                                               not diff.startswith("diff --git ")):
            raise Invalid(f"{path.relative_to(TOP)}: not a message, ---, "
                          "New-file lines and a diff")
        return cls(path.name, message, re.findall(r"New-file: (.+)\n", lines), diff)

    def write(self, folder):
        """To its file."""
        files = "".join(f"New-file: {name}\n" for name in self.new_files)
        (folder / self.name).write_text(f"{self.message}\n---\n{files}{self.diff}")

    def diffs(self):
        """Pairs of path and diff, one for each file the patch edits."""
        for part in re.split(r"^(?=diff --git )", self.diff, flags=re.M)[1:]:
            yield re.match(r"diff --git a/(\S+) b/", part).group(1), part


class Series:
    """One folder of patches/BASE."""

    def __init__(self, name):
        self.name = name
        self.folder = PATCHES / name
        if not self.folder.is_dir():
            raise Invalid(f"{LIST}: no folder {name}")
        self.cover_letter = self.folder / "cover-letter"
        if not self.cover_letter.is_file():
            raise Invalid(f"{self.folder.relative_to(TOP)} has no cover-letter")
        self.patches = [Patch.read(path)
                        for path in sorted(self.folder.glob("*.patch"))]
        if not self.patches:
            raise Invalid(f"{self.folder.relative_to(TOP)} has no patches")
        for number, patch in enumerate(self.patches, 1):
            if not patch.name.startswith(f"{number:04}-"):
                raise Invalid(f"{name}/{patch.name}: its number is not {number:04}")


def names():
    """Those of the series, in their order."""
    found = (TOP / LIST).read_text().split() if (TOP / LIST).is_file() else []
    if not found:
        raise Invalid(f"{LIST} lists no series")
    for name in found:
        if found.count(name) > 1:
            raise Invalid(f"{LIST}: {name} is listed twice")
    for folder in sorted(PATCHES.iterdir()):
        if (folder.is_dir() and folder.name not in found
                and folder.name not in base_file.OTHER_FOLDERS):
            raise Invalid(f"{LIST} does not list the folder {folder.name}")
    return found


def all_series():
    """All of them, in their order; a patch is in one of them, once, and so is what
    introduces a file."""
    found = [Series(name) for name in names()]
    seen, introduced = {}, {}
    for series in found:
        for patch in series.patches:
            where = f"{series.name}/{patch.name}"
            for key in (patch.message.splitlines()[0], patch.name[5:]):
                other = seen.setdefault(key, where)
                if other != where:
                    raise Invalid(f"{other} and {where} are the same patch: {key}")
            for name in patch.new_files:
                if name in introduced:
                    raise Invalid(f"{introduced[name]} and {where} both introduce {name}")
                introduced[name] = where
    return found
