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

In the git tree each series ends in a branch of its name. Beside the branches there are
references that say what was made, so that nobody's work is taken for it:

    refs/made/NAME   where the branch was when scripts/tree made it, or when
                     scripts/import brought it back
    refs/made-of     a tree of the patches and new files that were here then
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import base_file
from base_file import SHOWN, TOP, TREE, Invalid

PATCHES = base_file.FOLDER
LIST = Path("patches", base_file.NAME, "series")
# The tag of the base kernel in the tree.
BASE = "base"
# Who commits what scripts/tree makes.
MAKER = "kvm-stats@localhost"
IDENTITY = ("-c", "user.name=kvm-stats", "-c", f"user.email={MAKER}")
# So that the same commits give the same bytes whatever the user's settings.
DIFF = ("diff-tree", "-p", "--no-renames", "--no-ext-diff", "--no-color",
        "--src-prefix=a/", "--dst-prefix=b/", "--unified=3",
        "--diff-algorithm=myers", "--full-index")


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
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))}
    env = {**env, "GIT_CONFIG_GLOBAL": os.devnull,
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


def commit_of(name):
    """Where a reference is, None if there is none."""
    done = git("rev-parse", "-q", "--verify", name, check=False)
    return done.stdout.decode().strip() or None


def made_of():
    """The patches and new files that are here now, as a git tree."""
    found = [path for path in sorted(PATCHES.glob("*/*.patch"))]
    found += [path for path in map(TOP.joinpath, base_file.new_files()) if path.is_file()]
    with tempfile.TemporaryDirectory(dir=TREE / ".git") as work:
        index = Path(work) / "index"
        git(f"--work-tree={TOP}", "add", "-f", "--", *found, index=index)
        return git("write-tree", index=index).decode().strip()


def keep_made():
    """The branches are what is here: remember that."""
    for name in names():
        git("update-ref", f"refs/made/{name}", f"refs/heads/{name}")
    git("update-ref", "refs/made-of", made_of())


def changed_here():
    """Which of the patches and new files are not those that the tree was made of."""
    if not commit_of("refs/made-of"):
        return []
    return git("diff-tree", "-r", "--no-renames", "--name-only", "refs/made-of",
               made_of()).decode().split()


def is_made():
    """Whether the tree is what scripts/tree would make of the patches that are here."""
    top = names()[-1]
    return bool(commit_of("refs/made-of") and not changed_here()
                and git("symbolic-ref", "-q", "HEAD", check=False
                        ).stdout.decode().strip() == f"refs/heads/{top}")


def own_work():
    """What is in the tree that scripts/tree would lose, "" if there is nothing."""
    if git("--no-optional-locks", "status", "--porcelain", "-uno"):
        return "changes that are not committed"
    if any((TREE / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply")):
        return "a rebase that has not ended"
    heads = {name: head for name in names() if (head := commit_of(f"refs/heads/{name}"))}
    for name, head in heads.items():
        # A tree of before there were these references.
        if (not commit_of(f"refs/made/{name}") and git(
                "log", "-1", "--format=%ce", head).decode().strip() == MAKER):
            git("update-ref", f"refs/made/{name}", head)
    lost = git("rev-list", "--count", "HEAD", *heads.values(), "--not", BASE,
               "--glob=refs/made/*").decode().strip()
    if lost != "0":
        return f"{lost} commit{'s' * (lost != '1')} not imported"
    for name, head in heads.items():
        if head != commit_of(f"refs/made/{name}"):
            return f"the branch {name} elsewhere than import has seen it"
    return ""


def describe():
    """What is in the tree, in one line."""
    if not (TREE / ".git").is_dir():
        return f"there is no {SHOWN}"
    version = ".".join(re.findall(r"^(?:VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
                                  (TREE / "Makefile").read_text(), re.M))
    if work := own_work():
        return f"{SHOWN} (Linux {version}) as it stands: {work}"
    if changed_here():
        return f"{SHOWN} (Linux {version}), made of other patches than those here"
    return f"{SHOWN} (Linux {version}), as made of patches/{base_file.NAME}"


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
            raise Invalid(f"{path.relative_to(TOP)}: must be a message, ---, "
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
        if not re.match(r".+\n\n.*\S", self.cover_letter.read_text(), re.S):
            raise Invalid(f"{self.cover_letter.relative_to(TOP)}: must be a subject, an empty "
                          "line and a text")
        self.patches = [Patch.read(path)
                        for path in sorted(self.folder.glob("*.patch"))]
        if not self.patches:
            raise Invalid(f"{self.folder.relative_to(TOP)} has no patches")
        for number, patch in enumerate(self.patches, 1):
            if not patch.name.startswith(f"{number:04}-"):
                raise Invalid(f"{name}/{patch.name}: should have the number {number:04}")


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


def rejected(patch, stderr):
    """The patch, the file and the hunk that do not apply."""
    where = re.search(r"error: patch failed: (\S+):(\d+)", stderr)
    if not where:
        return f"{patch.name}: {stderr.splitlines()[0]}"
    # The line is that of the version to change: the new one, with -R.
    hunk = next((head for head in re.findall(r"^@@ .*", dict(patch.diffs())[where[1]], re.M)
                 if re.match(rf"@@ .*[-+]{where[2]}[, ]", head)), "")
    return f"{patch.name} does not apply to {where[1]}, hunk {hunk}"


def apply(patch, diff, index, *options, tree=TREE):
    """A patch or a part of it, to an index; returns what git has against it."""
    done = git("apply", "--cached", *options, tree=tree, index=index,
               data=diff.encode(), check=False)
    return done.returncode and rejected(patch, done.stderr.decode())


def introduced(patches, index, tree=TREE):
    """For each new file its mode and its blob as the patch introduced it."""
    names = [name for patch in patches for name in patch.new_files]
    git("read-tree", "--empty", tree=tree, index=index)
    for name in names:
        if not git("cat-file", "-e", f"{BASE}:{name}", tree=tree,
                   check=False).returncode:
            raise Invalid(f"a patch introduces {name}, which the base has")
        if not (TOP / name).is_file():
            raise Invalid(f"{name} is missing, which a patch introduces")
        mode = "100755" if (TOP / name).stat().st_mode & 0o100 else "100644"
        blob = git("hash-object", "-w", TOP / name, tree=tree).decode().strip()
        git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}",
            tree=tree, index=index)
    found = {}
    for patch in reversed(patches):
        for name in patch.new_files:
            mode, blob = git("ls-files", "-s", name, tree=tree, index=index).split()[:2]
            found[name] = f"{mode.decode()},{blob.decode()},{name}"
        for path, diff in patch.diffs():
            if path in names and (why := apply(patch, diff, index, "-R",
                                                tree=tree)):
                # The base has no part in it.
                raise Invalid(f"{path} was edited here so that it is not what {patch.name} "
                              f"leaves: edit it in {SHOWN} (backwards, {why})")
    return found


def commits(all_series, index, tree=TREE):
    """For each series its last commit, made on top of the base of a git tree."""
    new = introduced([patch for series in all_series for patch in series.patches],
                     index, tree)
    commit = git("rev-parse", f"{BASE}^0", tree=tree).decode().strip()
    git("read-tree", commit, tree=tree, index=index)
    last = {}
    for series in all_series:
        for patch in series.patches:
            git("update-index", "--add", *(word for name in patch.new_files
                                           for word in ("--cacheinfo", new[name])),
                tree=tree, index=index)
            if patch.diff and (why := apply(patch, patch.diff, index, tree=tree)):
                raise Invalid(f"{why} (base: {base_file.source()})")
            made = git("write-tree", tree=tree, index=index).decode().strip()
            commit = git(*IDENTITY, "commit-tree", made, "-p", commit, tree=tree,
                         data=f"{patch.message}\n".encode()).decode().strip()
        last[series.name] = commit
    return last
