# SPDX-License-Identifier: GPL-2.0-only
"""The patches of a base: the format of their files, and those of a base that is like another.

The file patches/BASE/series lists the series, one name per line, each on top of the one
before; OTHER/NAME is the series NAME of the base OTHER. Each is a directory with a cover-letter
(a subject, an empty line, the text) and patches NNNN-subject.patch, numbered from 1:

    subject and message, as in the commit
    ---
    New-file: PATH           a file that this patch introduces; the repository contains
    New-file: PATH           its final version at the same path
    diff --git ...           edits of files that existed before this patch

The series `lab`, if it exists, is the last. It is not mailed: it contains tests and
sanitizer support for the lab's kernels.

A base that is like another uses all series of that base. A file in its own directory of a
series that it takes from another base replaces the one of the same name; numbers of patches
are not compared:

    with a message           the whole patch
    starting with ---        only the diffs of the files that it contains; a line
                             "diff --git ..." without a diff drops the edit of that file
    empty                    the base does not have the patch
"""

import re

from . import base_file
from .base_file import TOP, Invalid


# The series that is not mailed.
LAB = "lab"


class Patch:
    """One patch of a series."""

    def __init__(self, name, message, new_files, diff):
        self.name = name
        self.message = message
        self.new_files = new_files
        self.diff = diff

    @classmethod
    def read(cls, path, is_override=False):
        """Return the patch in a file; the message of an override may be empty."""
        message, rule, rest = f"\n{path.read_text()}".partition("\n---\n")
        lines = re.match(r"(?:New-file: .+\n)*", rest).group(0)
        diff = rest[len(lines):]
        if (not rule or not (message.strip() or is_override and not lines)
                or (diff and not diff.startswith("diff --git "))):
            raise Invalid(f"{path.relative_to(TOP)}: must be a message, ---, "
                          "New-file lines and a diff")
        return cls(path.name, message[1:], re.findall(r"New-file: (.+)\n", lines), diff)

    def write(self, folder):
        """Write the patch to its file; an override that drops a patch is empty."""
        files = "".join(f"New-file: {name}\n" for name in self.new_files)
        message = f"{self.message}\n" if self.message else ""
        (folder / self.name).write_text(
            f"{message}---\n{files}{self.diff}" if message or self.diff else "")

    @property
    def slug(self):
        """The name without the number."""
        return self.name.partition("-")[2]

    def diffs(self):
        """Yield pairs of path and diff, one for each file that the patch edits."""
        for part in re.split(r"^(?=diff --git )", self.diff, flags=re.M)[1:]:
            yield re.match(r"diff --git a/(\S+) b/", part).group(1), part

    def replace(self, override):
        """Return this patch as an override leaves it."""
        if override.message:
            return Patch(self.name, override.message, override.new_files, override.diff)
        parts = dict(self.diffs()) | dict(override.diffs())
        return Patch(self.name, self.message, self.new_files, "".join(
            parts[path] for path in sorted(parts) if parts[path].count("\n") > 1))


def find_series(base=base_file.NAME):
    """Return the series of a base in their order: the directories of each name, its own last."""
    file = base_file.find("series", base)
    lines = file.read_text().split() if file else []
    shown = file.relative_to(TOP) if file else f"patches/{base}/series"
    if not lines:
        raise Invalid(f"{shown} lists no series")
    found, directories = {}, base_file.list_directories(base)
    for line in lines:
        other, _, name = line.rpartition("/")
        if name in found:
            raise Invalid(f"{shown}: {name} is listed twice")
        taken = [TOP / "patches" / other] if other else []
        if other == base or not all((folder / name / "cover-letter").is_file() for folder in taken):
            raise Invalid(f"{shown}: there is no other series {line}")
        found[name] = [folder / name for folder in taken + directories]
    if LAB in list(found)[:-1]:
        raise Invalid(f"{shown}: {LAB} must be the last series")
    own = directories[-1]
    for folder in sorted(own.iterdir()):
        if (folder.is_dir() and folder.name not in found
                and folder.name not in base_file.OTHER_FOLDERS):
            raise Invalid(f"{shown} does not list the folder {own.name}/{folder.name}")
    return found


def list_series(base=base_file.NAME):
    """Return the names of a base's series in their order."""
    return list(find_series(base))


def list_mailed_series():
    """Return the names of the series that are mailed, in their order."""
    return [name for name in list_series() if name != LAB]


def list_files(base=base_file.NAME):
    """Return the paths of the patches of a base, including inherited ones."""
    return [path for folders in find_series(base).values() for folder in folders
            for path in sorted(folder.glob("*.patch"))]


def read_series(name, base=base_file.NAME):
    """Return the patches of a series, those that it takes from another base included."""
    first, *own = [folder for folder in find_series(base)[name] if folder.is_dir()] or [None]
    if not first:
        raise Invalid(f"patches/{base}/series: no folder {name}")
    found = [Patch.read(path) for path in sorted(first.glob("*.patch"))]
    for number, patch in enumerate(found, 1):
        if not patch.name.startswith(f"{number:04}-"):
            raise Invalid(f"{name}/{patch.name}: should have the number {number:04}")
    for folder in own:
        overrides = {path.name.partition("-")[2]: path for path in folder.glob("*.patch")}
        for patch in list(found):
            path = overrides.pop(patch.slug, None)
            if path and not path.stat().st_size:
                found.remove(patch)
            elif path:
                found[found.index(patch)] = patch.replace(Patch.read(path, is_override=True))
        for path in overrides.values():
            raise Invalid(f"{path.relative_to(TOP)}: overrides no patch of "
                          f"{first.relative_to(TOP)}")
    return found


def read_patches(base=base_file.NAME):
    """Return all patches of a base."""
    return [patch for name in list_series(base) for patch in read_series(name, base)]


def list_new_files(base=base_file.NAME):
    """Return the paths of the files that the patches of a base introduce."""
    return [name for patch in read_patches(base) for name in patch.new_files]
