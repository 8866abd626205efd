# SPDX-License-Identifier: GPL-2.0-only
"""The git tree build/BASE/linux: the base kernel, and a commit per patch of patches/BASE.

An edit of a file that an earlier patch introduced is a diff, so the introduced version is
the final version without the diffs of later patches.

Each series ends in a branch of its name. Further references record the generated state, so
that later commits can be detected:

    refs/made/NAME   the branch as scripts/tree generated it or scripts/import read it
    refs/made-of     a tree of the patches and new files of the repository at that time
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from . import base_file, patch_file
from .base_file import SHOWN, TOP, TREE, Invalid

PATCHES = base_file.FOLDER
# The tag of the base kernel in the tree.
BASE = "base"
# The files that git ignores in a partial tree, see scripts/tree.
EXCLUDE = ".git/info/exclude"
# The committer of generated commits.
MAKER = "kvm-stats@localhost"
IDENTITY = ("-c", "user.name=kvm-stats", "-c", f"user.email={MAKER}")
# These options give the same bytes for the same commits, whatever the user's settings.
DIFF = ("diff-tree", "-p", "--no-renames", "--no-ext-diff", "--no-color",
        "--src-prefix=a/", "--dst-prefix=b/", "--unified=3",
        "--diff-algorithm=myers", "--full-index")


def run(main):
    """Call main; print one line and exit with 2 if the input is invalid."""
    try:
        base_file.read_values()
        sys.exit(main())
    except Invalid as problem:
        print(f"{Path(sys.argv[0]).name}: {problem}", file=sys.stderr)
        sys.exit(2)


def refuse_arguments(usage):
    """Raise Invalid if the script was called with an argument."""
    if len(sys.argv) > 1:
        raise Invalid(f"takes no argument; {usage}")


def git(*args, tree=TREE, index=None, data=None, check=True):
    """Return the output of git in the tree, as bytes; index: another index file."""
    # Generate the same commits from the same patches, independent of user and time.
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


def find_commit(name):
    """Return the commit of a reference, None if it does not exist."""
    done = git("rev-parse", "-q", "--verify", name, check=False)
    return done.stdout.decode().strip() or None


def is_partial():
    """Return True if git tracks only the files that checks need, see scripts/tree."""
    exclude = TREE / EXCLUDE
    return exclude.is_file() and exclude.read_text().startswith("/*\n")


def write_inputs():
    """Write the repository's patches and new files to a git tree, return its hash."""
    found = patch_file.list_files()
    found += [path for path in map(TOP.joinpath, patch_file.list_new_files()) if path.is_file()]
    with tempfile.TemporaryDirectory(dir=TREE / ".git") as work:
        index = Path(work) / "index"
        git(f"--work-tree={TOP}", "add", "-f", "--", *found, index=index)
        return git("write-tree", index=index).decode().strip()


def record_made(inputs):
    """Record that the branches match the repository's patches.

    inputs: what write_inputs() returned before the patches were read, so that a file that
    was edited since then counts as changed.
    """
    for name in patch_file.list_series():
        git("update-ref", f"refs/made/{name}", f"refs/heads/{name}")
    git("update-ref", "refs/made-of", inputs)


def list_changed_inputs():
    """Return the patches and new files that changed since the tree was generated."""
    if not find_commit("refs/made-of"):
        return []
    return git("diff-tree", "-r", "--no-renames", "--name-only", "refs/made-of",
               write_inputs()).decode().split()


def is_up_to_date():
    """Return True if scripts/tree would generate the same tree again."""
    top = patch_file.list_series()[-1]
    return bool(find_commit("refs/made-of") and not list_changed_inputs()
                and git("symbolic-ref", "-q", "HEAD", check=False
                        ).stdout.decode().strip() == f"refs/heads/{top}")


def find_unimported_work():
    """Return a description of the work that scripts/tree would lose, "" if there is none."""
    if git("--no-optional-locks", "status", "--porcelain", "-uno"):
        return "uncommitted changes"
    if any((TREE / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply")):
        return "an unfinished rebase"
    heads = {name: head for name in patch_file.list_series()
             if (head := find_commit(f"refs/heads/{name}"))}
    for name, head in heads.items():
        # Trees generated by older versions lack these references.
        if (not find_commit(f"refs/made/{name}") and git(
                "log", "-1", "--format=%ce", head).decode().strip() == MAKER):
            git("update-ref", f"refs/made/{name}", head)
    lost = git("rev-list", "--count", "HEAD", *heads.values(), "--not", BASE,
               "--glob=refs/made/*").decode().strip()
    if lost != "0":
        return f"{lost} commit{'s' * (lost != '1')} not imported"
    for name, head in heads.items():
        if head != find_commit(f"refs/made/{name}"):
            return f"the branch {name} moved since it was made or imported"
    return ""


def read_version(tree):
    """Return the release of a kernel tree, "" if there is none."""
    file = tree / "Makefile"
    return ".".join(re.findall(r"^(?:VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", file.read_text(),
                               re.M)) if file.is_file() else ""


def describe_tree():
    """Return a description of the tree in one line."""
    if not (TREE / ".git").is_dir():
        return f"{SHOWN} does not exist"
    version = read_version(TREE)
    if work := find_unimported_work():
        return f"{SHOWN} (Linux {version}) with {work}"
    if list_changed_inputs():
        return f"{SHOWN} (Linux {version}), made from older patches than those here"
    return f"{SHOWN} (Linux {version}), as made from patches/{base_file.NAME}"


class Series:
    """One series of the base."""

    def __init__(self, name):
        self.name = name
        self.patches = patch_file.read_series(name)
        shown = PATCHES.relative_to(TOP) / name
        self.cover_letter = base_file.find_last("cover-letter", patch_file.find_series()[name])
        if not self.cover_letter:
            raise Invalid(f"{shown} has no cover-letter")
        if not re.match(r".+\n\n.*\S", self.cover_letter.read_text(), re.S):
            raise Invalid(f"{self.cover_letter.relative_to(TOP)}: must be a subject, an empty "
                          "line and a text")
        if not self.patches:
            raise Invalid(f"{shown} has no patches")


def read_all_series():
    """Return all series in their order. A patch, and the introduction of a file, occur once."""
    found = [Series(name) for name in patch_file.list_series()]
    seen, introduced = {}, {}
    for series in found:
        for patch in series.patches:
            where = f"{series.name}/{patch.name}"
            for key in (patch.message.splitlines()[0], patch.slug):
                other = seen.setdefault(key, where)
                if other != where:
                    raise Invalid(f"{other} and {where} are the same patch: {key}")
            for name in patch.new_files:
                if name in introduced:
                    raise Invalid(f"{introduced[name]} and {where} both introduce {name}")
                introduced[name] = where
    return found


def describe_rejection(patch, stderr):
    """Return the patch, the file and the hunk that do not apply."""
    where = re.search(r"error: patch failed: (\S+):(\d+)", stderr)
    if not where:
        return f"{patch.name}: {stderr.splitlines()[0]}"
    # Git reports the line number in the version to change, which is the new one with -R.
    hunk = next((head for head in re.findall(r"^@@ .*", dict(patch.diffs())[where[1]], re.M)
                 if re.match(rf"@@ .*[-+]{where[2]}[, ]", head)), "")
    return f"{patch.name} does not apply to {where[1]}, hunk {hunk}"


def apply(patch, diff, index, *options, tree=TREE):
    """Apply a patch or a part of it to an index; return the reason if that fails."""
    done = git("apply", "--cached", *options, tree=tree, index=index,
               data=diff.encode(), check=False)
    return done.returncode and describe_rejection(patch, done.stderr.decode())


def find_introduced(patches, index, tree=TREE):
    """Return mode, blob and path of each new file as its patch introduces it."""
    names = [name for patch in patches for name in patch.new_files]
    git("read-tree", "--empty", tree=tree, index=index)
    for name in names:
        if not git("cat-file", "-e", f"{BASE}:{name}", tree=tree,
                   check=False).returncode:
            raise Invalid(f"a patch introduces {name}, which the base has")
        if not (TOP / name).is_file():
            raise Invalid(f"{name} is missing; a patch introduces it")
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
                # The base kernel is not the reason.
                raise Invalid(f"{path} was edited here and no longer matches {patch.name}: "
                              f"edit it in {SHOWN} (reversed, {why})")
    return found


def create_commits(all_series, index, tree=TREE):
    """Create the commits on the base of a git tree, return the last commit of each series."""
    new = find_introduced([patch for series in all_series for patch in series.patches],
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
                raise Invalid(f"{why} (base: {base_file.find_source()})")
            made = git("write-tree", tree=tree, index=index).decode().strip()
            commit = git(*IDENTITY, "commit-tree", made, "-p", commit, tree=tree,
                         data=f"{patch.message}\n".encode()).decode().strip()
        last[series.name] = commit
    return last
