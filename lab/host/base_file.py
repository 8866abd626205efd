# SPDX-License-Identifier: GPL-2.0-only
"""A base: a kernel release that series target, described in the directory patches/BASE.

The variable BASE names the base, patches/default the one to use without it. The directory
contains

    base          lines `key = value`:
        like          another base: this one takes all keys, series and files from it,
                      except those that are in its own directory
        package       Debian's package of the kernel's source
        suites        the suites that contain the package, in the order of lab/fetch/apt-suites
        version       a pattern for the version in the Makefile of the source
        kernels       the kernels of lab/kernels that are built from the source
        debian_kernel the release or suite of Debian whose own kernel has this source, for
                      lab/checks/modules and lab/checks/modules-foreign to load the series'
                      modules into; empty if none has
    series        the names of the series in their order; each is a directory, see
                  patch_file.py
    checkpatch-exceptions
    upstream.toml claims about later kernels in the messages of fixes, for
                  lab/checks/upstream-fixes
    kernels/      NAME.debugfs: the debugfs files of the unpatched kernel;
                  NAME.debugfs-added: those that the series add, if any;
                  NAME.config: options that follow those of lab/kernels/NAME.config;
                  NAME.record: lines that replace those of lab/kernels/NAME.record
    mutants/      mutants of this base, see mutant_file.py

Generated files are in build/BASE.
"""

import fnmatch
import functools
import os
import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
DEFAULT = (TOP / "patches/default").read_text().strip()
NAME = os.environ.get("BASE") or DEFAULT
FOLDER = TOP / "patches" / NAME
BUILD = TOP / "build" / NAME
# The patched kernel, and its name in messages.
TREE = BUILD / "linux"
SHOWN = TREE.relative_to(TOP)

KEYS = ("package", "suites", "version", "kernels", "debian_kernel")
# Directories that are not series.
OTHER_FOLDERS = ("kernels", "mutants")


class Invalid(Exception):
    """An error in the input, described in one line."""


def list_names():
    """Return the names of all bases."""
    return sorted(path.parent.name for path in (TOP / "patches").glob("*/base"))


def parse_lines(file, keys, name=None):
    """Return the `key = value` lines of a file; name: the file's name in messages."""
    values = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        # key += value
        key = re.sub(r"\s+\+$", "+", key)
        where = f"{name or file.name}:{number}"
        if not equals:
            raise Invalid(f"{where}: not 'key = value': {line}")
        if key not in keys:
            raise Invalid(f"{where}: unknown key '{key}'")
        if key in values:
            raise Invalid(f"{where}: key '{key}' occurs twice")
        values[key] = value
    return values


@functools.lru_cache(maxsize=None)
def read(name):
    """Return the keys in the file of a base, without those of the base that it is like."""
    if name not in list_names():
        raise Invalid(f"no base '{name}', choose from: {' '.join(list_names())}")
    file = TOP / "patches" / name / "base"
    return parse_lines(file, ("like", *KEYS), str(file.relative_to(TOP)))


def list_directories(name=NAME):
    """Return the directories of a base: that of the base that it is like, and its own."""
    like = read(name).get("like")
    if not like:
        return [TOP / "patches" / name]
    where = f"patches/{name}/base: like = '{like}'"
    if like == name or like not in list_names():
        raise Invalid(f"{where}: choose another base: "
                      + " ".join(other for other in list_names() if other != name))
    if read(like).get("like"):
        raise Invalid(f"{where}: {like} is itself like another base")
    return [TOP / "patches" / like, TOP / "patches" / name]


def find(path, name=NAME):
    """Return the file or directory of a base, None if it has none."""
    return find_last(path, list_directories(name))


def find_last(path, folders):
    """Return the file or directory in the last of these directories that has it, or None."""
    return next((folder / path for folder in reversed(folders) if (folder / path).exists()), None)


@functools.lru_cache(maxsize=None)
def read_values(name=NAME):
    """Return all keys of a base."""
    found = {key: value for folder in list_directories(name) for key, value in read(folder.name).items()}
    where = f"patches/{name}/base"
    for key in KEYS:
        if key not in found:
            raise Invalid(f"{where}: key '{key}' is missing")
    for key in ("package", "suites", "version"):
        if not found[key]:
            raise Invalid(f"{where}: '{key}' has no value")
    return found


def find_source():
    """Return the source: Debian's package, or the tree named by the variable LINUX_SRC."""
    named = os.environ.get("LINUX_SRC")
    if not named:
        return read_values()["package"]

    def git(*args):
        return subprocess.run(["git", "--no-optional-locks", "-C", named, *args], text=True,
                              check=False, capture_output=True).stdout.strip()

    folder = Path(named)
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
                            (folder / "Makefile").read_text(errors="replace"), re.M)
                 ) if (folder / "Makefile").is_file() else {}
    if len(found) < 3:
        raise Invalid(f"LINUX_SRC={named} is not a kernel tree")
    version = "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**found)
    if not fnmatch.fnmatchcase(version, read_values()["version"]):
        raise Invalid(f"LINUX_SRC={named} is Linux {version}, base {NAME} is "
                      f"{read_values()['version']}")
    # A directory of another repository is used as it is.
    own = git("rev-parse", "-q", "--verify", "HEAD") and not git("rev-parse", "--show-cdup")
    if own and git("status", "--porcelain", "-uno"):
        raise Invalid(f"LINUX_SRC={named} has uncommitted changes")
    return named
