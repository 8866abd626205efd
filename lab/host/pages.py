# SPDX-License-Identifier: GPL-2.0-only
"""The commands that the pages show, and who runs them.

A comment before each block of commands, or at the end of a table row with commands,
states what happens to it:

    <!-- run -->                  lab/checks/documented-commands runs it as a script, and its exit
                                  status must be 0
    <!-- run: 0 or 1 -->          one of these exit statuses is right
    <!-- run by: CHECK -->        that check of lab/checks runs it, by run_marked(): in make check,
                                  for the default base or without a base
    <!-- run by: CHECK WORD -->   only if the check runs for the base WORD, or with this argument
    <!-- not run: REASON -->      it cannot run in a check

A block is indented by four spaces or fenced without a language or with sh. Fences with another
language (text, c, yaml ...) contain no commands. A command in a row of a table is a code span
whose first word is a program: make, or an executable file of the repository.
"""

import os
import re
import shutil
import subprocess
import sys

from . import base_file, results
from .base_file import TOP, Invalid

# The directories in which the commands of pages are typed, by default the top.
DIRECTORIES = {"kvm-stats/README.md": "kvm-stats", "kvm-stats/doc/fleet.md": "kvm-stats"}
MARKER = re.compile(r"<!-- (run|run by|not run)(?:: (.+?))? -->$")
SPAN = re.compile(r"`([^`]+)`")


class Block:
    """Lines that a user would type."""

    def __init__(self, page, number, marker, lines):
        """number: of the first line in the page; marker: the comment, or None."""
        self.page = page
        self.number = number
        self.lines = lines
        # What happens to it, and the text after the colon.
        self.action, self.value = MARKER.search(marker).groups() if marker else (None, None)

    @property
    def name(self):
        """The name of its result."""
        return f"{self.page}:{self.number}"

    @property
    def directory(self):
        """The directory in which it is typed, relative to the repository."""
        return DIRECTORIES.get(self.page, ".")

    def format_script(self):
        """Return a script that stops at the first command that fails, and prints each."""
        return "set -euxo pipefail\n" + "".join(f"{line}\n" for line in self.lines)

    def is_run_by(self, check, *words):
        """Return True if a check is to run it; words: the base and the arguments of the check."""
        if self.action != "run by":
            return False
        name, *needed = (self.value or "").split()
        bases = set(words).intersection(base_file.list_names())
        return name == check and (set(needed) <= set(words) if needed
                                  else bases <= {base_file.DEFAULT})


def is_command(span):
    """Return True if a code span of a table is a command."""
    words = span.split()
    path = TOP / words[0] if words else TOP
    return bool(words) and (words[0] == "make" and len(words) > 1
                            or "/" in words[0] and path.is_file() and os.access(path, os.X_OK))


def find_blocks(text, page=""):
    """Return the Block for each block of commands, and each row with commands, of a page."""
    blocks, marker, fence, block = [], None, None, []
    before = ""
    for number, line in enumerate(text.splitlines() + [""], 1):
        if fence is not None:
            if line.startswith("```"):
                if fence in ("", "sh"):
                    blocks.append(Block(page, number - len(block), marker, block))
                fence, block, marker = None, [], None
            else:
                block.append(line)
        elif line.startswith("```"):
            fence, block = line[3:].strip(), []
        elif line.startswith("    ") and (block or not before or MARKER.match(before)):
            block.append(line[4:])
        else:
            if block:
                blocks.append(Block(page, number - len(block), marker, block))
                block, marker = [], None
            if line.startswith("|"):
                in_row = re.search(r"<!-- .* -->(?= *\|$)", line)
                spans = list(filter(is_command, SPAN.findall(line)))
                if spans or in_row:
                    blocks.append(Block(page, number, in_row and in_row[0], spans))
                marker = None
            elif MARKER.match(line):
                marker = line
            elif line:
                marker = None
        before = line
    return blocks


def list_names():
    """Return the paths of all pages of the repository."""
    return sorted(str(path.relative_to(TOP)) for path in [
        *TOP.glob("*.md"), *(path for folder in TOP.iterdir()
                             if folder.is_dir() and folder.name not in ("build", ".git")
                             for path in folder.rglob("*.md"))]
        if "build" not in path.parts[len(TOP.parts):])


def read_all():
    """Return the blocks of all pages."""
    return [block for name in list_names()
            for block in find_blocks((TOP / name).read_text(), name)]


def copy_repository(target):
    """Copy the files that git lists, or all outside of build/ without a git repository."""
    done = subprocess.run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    names = [name for name in os.fsdecode(done.stdout).split("\0") if name]
    if done.returncode:
        names = [str(path.relative_to(TOP)) for top in TOP.iterdir()
                 if top.name not in ("build", ".git")
                 for path in (top.rglob("*") if top.is_dir() else [top])
                 if path.is_symlink() or not path.is_dir()]
    for name in names:
        source, copy = TOP / name, target / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def make_environment(**variables):
    """Return the environment of a user's shell, with additional variables: make, which may have
    started this process, would otherwise treat the user's make as a part of itself.
    """
    return {**{name: value for name, value in os.environ.items()
               if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}, **variables}


def run(block, command=None, **environment):
    """Run a block as a script and return its exit status; its output goes to stderr.

    command: what runs the script, by default bash in the directory of the page; environment:
    additional variables.
    """
    return subprocess.run(command or ["bash", "-c", block.format_script()],
                          stdin=subprocess.DEVNULL, cwd=TOP / block.directory, stdout=sys.stderr,
                          stderr=subprocess.STDOUT, check=False,
                          env=make_environment(**environment)).returncode


def run_marked(found, check, *words, run_one=run):
    """Run the blocks that are marked for a check, in the order of the pages, and report a result
    for each: lab/check demands these results.

    words: the base and the arguments of the check; run_one: a function that runs a block and
    returns its exit status. Raise Invalid if there is none.
    """
    blocks = [block for block in read_all() if block.is_run_by(check, *words)]
    if not blocks:
        raise Invalid(f"no page has a block with <!-- run by: {' '.join([check, *words])} -->")
    for block in blocks:
        status = run_one(block)
        found.report(block.name, status == 0, block.lines[0]
                     + (f": exit status {status}" if status else ""))


def find_missing(check, words, names):
    """Return the blocks that a check was to run of which it has printed no result.

    words: the base and the arguments of the check; names: of its results.
    """
    return [block for block in read_all()
            if block.is_run_by(check, *words) and block.name not in names]


def main():
    """Run the blocks that are marked for a check in bash, see run_marked in result.sh.

    Arguments: the check and its words, then variables NAME=VALUE of the environment.
    """
    variables = dict(word.partition("=")[::2] for word in sys.argv[1:] if "=" in word)
    found = results.Results()
    run_marked(found, *(word for word in sys.argv[1:] if "=" not in word),
               run_one=lambda block: run(block, **variables))


if __name__ == "__main__":
    main()
