# SPDX-License-Identifier: GPL-2.0-only
"""A base: a kernel that series are for, and where what is particular to it stands.

The variable BASE names it; without that it is the one in patches/default. Its folder
patches/BASE has

    base          lines `key = value`, all of them:
        package       Debian's package of the kernel's source
        suites        where that is, as scripts/apt-suites takes them
        version       what the Makefile of the source has to say, a pattern
        kernels       those of lab/kernels that are built from it
        skip_checks   those of checks/ that have nothing to look at in it
        debian_kernel the release or suite of Debian whose kernel has this source, into
                      which checks/modules loads KVM of the series; empty if there is none
    series        the names of the series, see series_file.py; a folder each
    checkpatch-exceptions
    upstream.toml what the messages of the series fixes say of later kernels, for checks/fixes
    kernels/      NAME.debugfs, what the unpatched kernel has in debugfs; NAME.config,
                  options after those of lab/kernels/NAME.config, where it needs others;
                  NAME.record, lines in place of those of lab/kernels/NAME.record
    mutants/      what checks/long/mutants breaks

and what is made from it is in build/BASE.
"""

import fnmatch
import functools
import os
import re
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
DEFAULT = (TOP / "patches/default").read_text().strip()
NAME = os.environ.get("BASE") or DEFAULT
FOLDER = TOP / "patches" / NAME
BUILD = TOP / "build" / NAME
# The patched kernel, and how messages call it.
TREE = BUILD / "linux"
SHOWN = TREE.relative_to(TOP)

KEYS = ("package", "suites", "version", "kernels", "skip_checks", "debian_kernel")
# Folders beside those of the series.
OTHER_FOLDERS = ("kernels", "mutants")


class Invalid(Exception):
    """What is wrong with the input, in one line."""


def names():
    """The bases there are."""
    return sorted(path.parent.name for path in (TOP / "patches").glob("*/base"))


def lines(file, keys, name=None):
    """The `key = value` lines of a file, each key once; name: of the file."""
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
            raise Invalid(f"{where}: key '{key}' is there twice")
        values[key] = value
    return values


@functools.lru_cache(maxsize=None)
def values(name=NAME):
    """What the file of a base says."""
    if name not in names():
        raise Invalid(f"no base '{name}', choose from: {' '.join(names())}")
    file = TOP / "patches" / name / "base"
    where = str(file.relative_to(TOP))
    found = lines(file, KEYS, where)
    for key in KEYS:
        if key not in found:
            raise Invalid(f"{where}: key '{key}' is missing")
    for key in ("package", "suites", "version"):
        if not found[key]:
            raise Invalid(f"{where}: '{key}' has no value")
    return found


def source():
    """Debian's package, or the tree that the variable LINUX_SRC names, which is looked at
    and not touched."""
    named = os.environ.get("LINUX_SRC")
    if not named:
        return values()["package"]

    def git(*args):
        return subprocess.run(["git", "--no-optional-locks", "-C", named, *args], text=True,
                              check=False, capture_output=True).stdout.strip()

    folder = Path(named)
    found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
                            (folder / "Makefile").read_text(errors="replace"), re.M)
                 ) if (folder / "Makefile").is_file() else {}
    if len(found) < 3:
        raise Invalid(f"LINUX_SRC={named} is no kernel tree")
    version = "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}".format(**found)
    if not fnmatch.fnmatchcase(version, values()["version"]):
        raise Invalid(f"LINUX_SRC={named} is Linux {version}, base {NAME} is "
                      f"{values()['version']}")
    # Not if it is a folder of something else.
    own = git("rev-parse", "-q", "--verify", "HEAD") and not git("rev-parse", "--show-cdup")
    if own and git("status", "--porcelain", "-uno"):
        raise Invalid(f"LINUX_SRC={named} has changes that are not committed")
    return named


def patches(name=NAME):
    """The text of each patch for a base."""
    return [path.read_text() for path in sorted((TOP / "patches" / name).glob("*/*.patch"))]


def new_files(name=NAME):
    """What the patches for a base introduce: paths in the kernel, and here."""
    return [file for text in patches(name) for file in re.findall(
        r"^New-file: (.+)$",
        text.partition("\n---\n")[2].partition("\ndiff --git ")[0], re.M)]
