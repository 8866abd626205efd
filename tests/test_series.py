#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The way from patches to a tree and back, on a kernel of three files."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

MAKEFILE = "VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 7\n"
BASE = """# A comment.
package = linux-source-5.10
suites = one one-security
version = 5.10.*
kernels =
skip_checks =
debian_kernel =
"""
LINES = "".join(f"line {n}\n" for n in range(1, 30))

EDIT = """KVM: stats: Change a line

Because it has to.
---
New-file: virt/new.c
diff --git a/virt/old.c b/virt/old.c
--- a/virt/old.c
+++ b/virt/old.c
@@ -9,7 +9,7 @@ line 8
 line 9
 line 10
 line 11
-line 12
+line twelve
 line 13
 line 14
 line 15
"""
LATER = """KVM: stats: Change the new file

It was not final.
---
diff --git a/virt/new.c b/virt/new.c
--- a/virt/new.c
+++ b/virt/new.c
@@ -1,2 +1,2 @@
 one
-two
+zwei
"""


def edit(subject, number):
    """A patch that changes one line of virt/old.c."""
    lines = [f" line {n}\n" for n in range(number - 3, number + 4)]
    lines[3:4] = [f"-line {number}\n", f"+line {number} changed\n"]
    return (f"{subject}\n\nBecause.\n---\ndiff --git a/virt/old.c b/virt/old.c\n"
            "--- a/virt/old.c\n+++ b/virt/old.c\n"
            f"@@ -{number - 3},7 +{number - 3},7 @@ line {number - 4}\n"
            + "".join(lines))


class Repository(unittest.TestCase):
    """Each test has a repository and a base kernel of its own."""

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.repo = Path(work.name) / "repo"
        self.patches = self.repo / "patches/5.10"
        for name in ("first", "second"):
            (self.patches / name).mkdir(parents=True)
            (self.patches / name / "cover-letter").write_text(
                f"The {name} series\n\nWhat it is for.\n")
        (self.patches / "series").write_text("first\nsecond\n")
        (self.patches / "base").write_text(BASE)
        (self.repo / "patches/default").write_text("5.10\n")
        shutil.copytree(TOP / "scripts", self.repo / "scripts")
        (self.repo / "virt").mkdir()
        (self.repo / "virt/new.c").write_text("one\nzwei\n")
        self.base = Path(work.name) / "linux"
        (self.base / "virt").mkdir(parents=True)
        (self.base / "Makefile").write_text(MAKEFILE)
        (self.base / ".gitignore").write_text("*.o\n")
        (self.base / "virt/old.c").write_text(LINES)
        self.write("first/0001-KVM-stats-Change-a-line", EDIT)
        self.write("second/0001-KVM-stats-Change-another-line",
                   edit("KVM: stats: Change another line", 22))
        self.write("second/0002-KVM-stats-Change-the-new-file", LATER)

    def write(self, name, text):
        """A patch of a series."""
        (self.patches / f"{name}.patch").write_text(text)

    def files(self):
        """All that is in patches/5.10, by path."""
        return {path.relative_to(self.patches): path.read_text()
                for path in self.patches.rglob("*") if path.is_file()}

    def run_script(self, name, *args, **variables):
        """Its exit status and all it said."""
        done = subprocess.run([self.repo / "scripts" / name, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False,
                              env={**os.environ, "LINUX_SRC": str(self.base),
                                   "GIT_CONFIG_COUNT": "2",
                                   "GIT_CONFIG_KEY_0": "user.name",
                                   "GIT_CONFIG_VALUE_0": "a",
                                   "GIT_CONFIG_KEY_1": "user.email",
                                   "GIT_CONFIG_VALUE_1": "a@b",
                                   "BASE": "", **variables})
        return done.returncode, done.stdout

    def show(self, revision, path):
        """A file as a commit of the made tree has it."""
        return subprocess.run(["git", "-C", self.repo / "build/5.10/linux", "show",
                               f"{revision}:{path}"], text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def git(self, *args):
        """git in the made tree, as somebody; what it said."""
        return subprocess.run(["git", "-C", self.repo / "build/5.10/linux",
                               "-c", "user.name=a", "-c", "user.email=a@b", *args],
                              text=True, check=True, stdout=subprocess.PIPE).stdout

    def own(self, path="virt/old.c", line="line 3"):
        """A commit in the tree that is not imported."""
        file = self.repo / "build/5.10/linux" / path
        file.write_text(file.read_text().replace(line, f"{line} of mine"))
        self.git("commit", "-qam", "KVM: Mine")


class Series(Repository):
    """Patches to a tree, and back."""

    def test_tree(self):
        """A commit per patch, a branch per series; the introduced version of a
        file is the one before edits."""
        status, said = self.run_script("tree")
        self.assertEqual(status, 0, said)
        self.assertIn("3 patches of 2 series", said)
        self.assertIn("line twelve", self.show("first", "virt/old.c"))
        self.assertIn("line 22", self.show("first", "virt/old.c"))
        self.assertEqual(self.show("first", "virt/new.c"), "one\ntwo\n")
        self.assertEqual(self.show("second", "virt/new.c"), "one\nzwei\n")
        self.assertEqual(self.git("rev-parse", "second~2"),
                         self.git("rev-parse", "first"))
        self.assertEqual(self.git("symbolic-ref", "HEAD"), "refs/heads/second\n")

    def test_used(self):
        """What is there already is not made again; what is something else is."""
        self.run_script("tree")
        head = self.repo / "build/5.10/linux/.git/HEAD"
        written = head.stat().st_mtime_ns
        self.assertEqual(self.run_script("tree", "--use")[0], 0)
        self.assertEqual(head.stat().st_mtime_ns, written)
        self.git("checkout", "-q", "first")
        self.assertEqual(self.run_script("tree", "--use")[0], 0)
        self.assertEqual(self.git("symbolic-ref", "HEAD"), "refs/heads/second\n")
        patch, = (self.patches / "second").glob("0001-*.patch")
        patch.write_text("KVM: stats: Say something else\n"
                         + patch.read_text().partition("\n")[2])
        self.assertEqual(self.run_script("tree", "--use")[0], 0)
        self.assertIn("Say something else", self.git("log", "--format=%s", "second"))

    def test_back(self):
        """What comes back is what was there."""
        self.run_script("tree")
        before = self.files()
        status, said = self.run_script("import")
        self.assertEqual(status, 0, said)
        self.assertEqual(before, self.files())

    def test_one_more_series(self):
        """An entry of the list is all a further series takes."""
        (self.patches / "third").mkdir()
        (self.patches / "third/cover-letter").write_text("The third\n\nText.\n")
        self.write("third/0001-KVM-Change-a-third", edit("KVM: Change a third", 5))
        (self.patches / "series").write_text("first\nsecond\nthird\n")
        self.assertEqual(self.run_script("tree")[0], 0)
        self.assertIn("line 5 changed", self.show("third", "virt/old.c"))

    def test_export(self):
        """Each series is a folder of mails that git am takes in their order."""
        status, said = self.run_script("series", str(self.repo / "out"), LINUX_SRC="",
                                       GIT_CONFIG_VALUE_0="Ä. B, C")
        self.assertEqual(status, 0, said)
        # No kernel is fetched for it.
        self.assertFalse((self.repo / "build").exists())
        self.assertEqual(sorted(str(path.relative_to(self.repo / "out")) for path
                                in (self.repo / "out").rglob("*.patch")),
                         ["first/0000-cover-letter.patch",
                          "first/0001-KVM-stats-Change-a-line.patch",
                          "second/0000-cover-letter.patch",
                          "second/0001-KVM-stats-Change-another-line.patch",
                          "second/0002-KVM-stats-Change-the-new-file.patch"])
        letter = (self.repo / "out/second/0000-cover-letter.patch").read_text()
        self.assertIn("Subject: [PATCH 0/2] The second series\n", letter)
        self.assertIn("\nWhat it is for.\n", letter)
        self.assertIn("\n\nÄ. B, C (2):\n  KVM: stats: Change another line\n  KVM: stats: "
                      "Change the new file\n\n virt/new.c |    2 +-\n virt/old.c |    2 +-\n",
                      letter)
        # What two patches of a series change in a file is one line of it.
        self.assertIn(" 2 files changed, 3 insertions(+), 1 deletion(-)\n create mode 100644 "
                      "virt/new.c\n", (self.repo / "out/first/0000-cover-letter.patch"
                                       ).read_text())
        self.run_script("tree")
        self.git("checkout", "-q", "base")
        for name in ("first", "second"):
            self.git("am", "-q", *sorted((self.repo / "out" / name).glob("*[a-z].patch"))[1:])
            self.assertEqual(self.git("diff", "HEAD", name), "")
        for number in range(3):
            message, author = (self.git("log", "-1", f"--format={what}", f"HEAD~{number}")
                               for what in ("%B", "%an <%ae>"))
            self.assertEqual(author, "Ä. B, C <a@b>\n")
            self.assertEqual(message.strip(), self.git(
                "log", "-1", "--format=%B", f"second~{number}").strip()
                + "\n\nSigned-off-by: Ä. B, C <a@b>")

    def test_export_beside_work(self):
        """What is not imported is not exported, which is said."""
        self.run_script("tree")
        self.assertNotIn("not in them", self.run_script("series")[1])
        self.own()
        status, said = self.run_script("series")
        self.assertEqual(status, 0)
        self.assertIn("build/5.10/linux has 1 commit not imported, which is not in them", said)

    def test_export_with_trailers(self):
        """The sign-off joins them, and is there once."""
        for trailers in "Cc: x@y\n", "Cc: x@y\nSigned-off-by: a <a@b>\n":
            self.write("first/0001-KVM-stats-Change-a-line",
                       EDIT.replace("to.\n---", f"to.\n\n{trailers}---"))
            self.assertEqual(self.run_script("series", str(self.repo / "out"))[0], 0)
            self.assertIn("to.\n\nCc: x@y\nSigned-off-by: a <a@b>\n---\n",
                          (self.repo / "out/first/0001-KVM-stats-Change-a-line.patch"
                           ).read_text())

    def test_export_of_a_file_that_changes(self):
        """A cover letter says what a new file is at the end of its series."""
        (self.patches / "second/0002-KVM-stats-Change-the-new-file.patch").unlink()
        self.write("first/0002-KVM-stats-Change-the-new-file", LATER.replace(
            "+zwei", "+zwei\n+drei").replace("+1,2", "+1,3"))
        (self.repo / "virt/new.c").write_text("one\nzwei\ndrei\n")
        self.assertEqual(self.run_script("series", str(self.repo / "out"))[0], 0)
        self.assertIn("\n virt/new.c |    3 +++\n virt/old.c |    2 +-\n",
                      (self.repo / "out/first/0000-cover-letter.patch").read_text())

    def test_export_replaces_patches_only(self):
        """A folder that has something else is left alone."""
        out = self.repo / "out"
        for _ in range(2):
            self.assertEqual(self.run_script("series", str(out))[0], 0)
        for other in (out / "notes", out / "first/notes", out / "first/deep/0001-a.patch"):
            other.parent.mkdir(exist_ok=True)
            other.write_text("mine\n")
            status, said = self.run_script("series", str(out))
            self.assertEqual((status, len(said.splitlines())), (2, 1), said)
            self.assertIn("contains files that are not patches", said)
            self.assertTrue(other.exists())
            other.unlink()

    def all_of(self, folder):
        """Every file, with its time, to see that nothing changes."""
        return {path: (path.stat().st_mtime_ns, path.stat().st_size)
                for path in folder.rglob("*") if path.is_file()}

    def test_export_tried(self):
        """On another tree, which stays as it is, as does what was made."""
        self.run_script("tree")
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        before = self.all_of(self.repo / "build"), self.all_of(other)
        out = self.repo / "out"
        # Elsewhere in the file; not there; where the tree has a new file.
        old = other / "virt/old.c"
        for text, words in (("first\n" + LINES, ""),
                            (LINES.replace("line 22", "line two"),
                             "0001-KVM-stats-Change-another-line.patch does not apply to "
                             "virt/old.c, hunk @@ -19,7 +19,7 @@"),
                            (None, "0001-KVM-stats-Change-a-line.patch: error: virt/old.c: "
                             "does not exist in index")):
            old.write_text(text) if text else old.unlink()
            status, said = self.run_script("series", str(out), LINUX_SRC=str(other))
            self.assertEqual(status, 2 if words else 0, said)
            self.assertEqual(out.exists(), not words)
            if words:
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(words, said)
                self.assertIn(str(other), said)
            shutil.rmtree(out, ignore_errors=True)
        self.assertEqual(before[0], self.all_of(self.repo / "build"))
        old.write_text(LINES)
        (other / "virt/new.c").write_text("of theirs\n")
        self.assertIn("introduces virt/new.c, which the base has",
                      self.run_script("series", str(out), LINUX_SRC=str(other))[1])

    def test_bad_source(self):
        """A tree of another version, none, one with changes: nothing is made."""
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        git = ("git", "-C", other, "-c", "user.name=a", "-c", "user.email=a@b")
        for args in ("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"):
            subprocess.run([*git, *args], check=True)
        (other / "virt/old.c").write_text("changed\n")
        before = self.all_of(other)
        older = self.base.with_name("older")
        shutil.copytree(self.base, older)
        (older / "Makefile").write_text(MAKEFILE.replace("10", "9"))
        for source, words in ((other, "has changes that are not committed"),
                              (older, "is Linux 5.9.7, base 5.10 is 5.10.*"),
                              (self.repo, "is no kernel tree")):
            for script in "fetch-base", "tree", "series":
                with self.subTest(words=words, script=script):
                    status, said = self.run_script(script, LINUX_SRC=str(source))
                    self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                    self.assertIn(words, said)
                    self.assertFalse((self.repo / "build").exists())
        self.assertEqual(before, self.all_of(other))

    def test_tree_of_another_source(self):
        """Is not replaced, and nothing is copied for it."""
        self.run_script("tree")
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        status, said = self.run_script("tree", LINUX_SRC=str(other))
        self.assertEqual((status, len(said.splitlines())), (2, 1), said)
        self.assertIn(f"build/5.10/linux was made from {self.base}, not from {other}", said)
        self.assertFalse((self.repo / "build/5.10/base").exists())

    def test_folder_of_another_repository(self):
        """A tree that git does not know is taken as it is, whatever is around it."""
        subprocess.run(["git", "-C", self.base.parent, "init", "-q"], check=True)
        subprocess.run(["git", "-C", self.base.parent, "-c", "user.name=a", "-c",
                        "user.email=a@b", "commit", "-qm", "a", "--allow-empty"], check=True)
        (self.base.parent / "notes").write_text("staged\n")
        subprocess.run(["git", "-C", self.base.parent, "add", "notes"], check=True)
        self.assertEqual(self.run_script("tree")[0], 0)

    def test_work_in_the_tree(self):
        """A commit made there is a patch here, its new file stands here."""
        self.run_script("tree")
        tree = self.repo / "build/5.10/linux"
        (tree / "virt/more.c").write_text("more\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "KVM: stats: Add foo_bar()")
        status, said = self.run_script("import")
        self.assertEqual(status, 0, said)
        self.assertEqual((self.repo / "virt/more.c").read_text(), "more\n")
        name = self.git("format-patch", "-1", "-o", self.repo / "out").strip()
        added = self.patches / "second" / Path(name).name.replace("0001", "0003")
        self.assertEqual(added.read_text(),
                         "KVM: stats: Add foo_bar()\n---\nNew-file: virt/more.c\n")

    def test_branch_left_behind(self):
        """A rebase that moved the last branch alone is named."""
        self.run_script("tree")
        self.git("checkout", "-q", "first")
        self.git("commit", "-q", "--amend", "-m", "KVM: stats: Change one line")
        status, said = self.run_script("import")
        self.assertEqual((status, len(said.splitlines())), (2, 1), said)
        self.assertIn("second is not on top of first", said)

    def test_uncommitted(self):
        """Work that is not committed is neither lost nor brought back."""
        self.run_script("tree")
        (self.repo / "build/5.10/linux/virt/old.c").write_text("changed\n")
        for script in ("tree", "import"):
            status, said = self.run_script(script)
            self.assertEqual((status, len(said.splitlines())), (2, 1), said)
            self.assertIn("not committed", said)
        self.assertIn("(Linux 5.10.7) as it stands: changes that are not committed",
                      self.run_script("tree", "--use")[1])

    def test_not_imported(self):
        """Commits are not lost, on the last branch or another, or on none."""
        def amend_first():
            self.git("checkout", "-q", "first")
            self.git("commit", "-q", "--amend", "-m", "KVM: stats: Change one line")

        def detached():
            self.git("checkout", "-q", "--detach")
            self.own()

        def rebase():
            subprocess.run(["git", "-C", self.repo / "build/5.10/linux", "rebase", "-q",
                            "--exec", "false", "HEAD^"], check=False, capture_output=True)

        def two():
            self.own()
            self.own(line="line 4")

        for work, words in ((self.own, "1 commit not imported"),
                            (two, "2 commits not imported"),
                            (amend_first, "1 commit not imported"),
                            (detached, "1 commit not imported"),
                            (lambda: self.git("reset", "-q", "--hard", "HEAD^"),
                             "the branch second elsewhere than import has seen it"),
                            (rebase, "a rebase that has not ended")):
            with self.subTest(words=words, work=work):
                self.assertEqual(self.run_script("tree")[0], 0)
                work()
                before = self.git("show-ref", "--head", "--heads")
                status, said = self.run_script("tree")
                self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                self.assertIn(words, said)
                self.assertEqual(self.git("show-ref", "--head", "--heads"), before)
                # Who wants to run it as it stands is told so.
                status, said = self.run_script("tree", "--use")
                self.assertEqual(status, 0, said)
                self.assertIn(f"build/5.10/linux (Linux 5.10.7) as it stands: {words}", said)
                self.assertEqual(self.git("show-ref", "--head", "--heads"), before)
                shutil.rmtree(self.repo / "build")

    def describe(self):
        """What checks say of the tree that they ran on."""
        return subprocess.run(
            ["python3", "-c", "import series_file; print(series_file.describe())"],
            cwd=self.repo / "scripts", check=True, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "BASE": ""}).stdout.strip()

    def test_describe(self):
        """As made; of other patches; with work in it; not there."""
        self.assertEqual(self.describe(), "there is no build/5.10/linux")
        self.run_script("tree")
        self.assertEqual(self.describe(),
                         "build/5.10/linux (Linux 5.10.7), as made of patches/5.10")
        (self.repo / "virt/new.c").write_text("zero\none\nzwei\n")
        self.assertEqual(self.describe(), "build/5.10/linux (Linux 5.10.7), made of other "
                         "patches than those here")
        self.own()
        self.assertEqual(self.describe(), "build/5.10/linux (Linux 5.10.7) as it stands: "
                         "1 commit not imported")

    def test_imported(self):
        """What is imported, and what was thrown away, is in nobody's way."""
        self.run_script("tree")
        self.own()
        self.assertEqual(self.run_script("import")[0], 0)
        status, said = self.run_script("tree")
        self.assertEqual(status, 0, said)
        self.assertIn("line 3 of mine", self.show("second", "virt/old.c"))
        self.own(line="line 4")
        self.git("reset", "-q", "--hard", "refs/made/second")
        self.assertEqual(self.run_script("tree")[0], 0)

    def test_other_patches(self):
        """Without own work the tree follows the patches, also with --use."""
        self.run_script("tree")
        self.write("second/0001-KVM-stats-Change-another-line",
                   edit("KVM: stats: Change another line", 25))
        status, said = self.run_script("tree", "--use")
        self.assertEqual((status, said.splitlines()[-1]), (
            0, "build/5.10/linux (Linux 5.10.7), as made of patches/5.10"), said)
        self.assertIn("line 25 changed", self.show("second", "virt/old.c"))

    def test_tree_of_before(self):
        """One that was made when nothing kept what was made."""
        self.run_script("tree")
        for name in self.git("for-each-ref", "--format=%(refname)", "refs/made*").split():
            self.git("update-ref", "-d", name)
        self.assertEqual(self.run_script("tree")[0], 0)
        for name in self.git("for-each-ref", "--format=%(refname)", "refs/made*").split():
            self.git("update-ref", "-d", name)
        self.own()
        self.assertIn("1 commit not imported", self.run_script("tree")[1])

    def test_edited_here(self):
        """What was edited here since is not overwritten by import."""
        for path in ("virt/new.c",
                     "patches/5.10/first/0001-KVM-stats-Change-a-line.patch"):
            with self.subTest(path=path):
                self.assertEqual(self.run_script("tree")[0], 0)
                file = self.repo / path
                text = file.read_text()
                file.write_text(text.replace("one", "eins").replace("Because", "As"))
                before = {path: path.read_text() for path in self.repo.rglob("*/*")
                          if path.is_file() and path.suffix in (".c", ".patch")}
                self.own()
                status, said = self.run_script("import")
                self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                self.assertIn(f"{path} was changed here since build/5.10/linux was made", said)
                for other, was in before.items():
                    if "build" not in other.parts:
                        self.assertEqual(other.read_text(), was)
                file.write_text(text)
                shutil.rmtree(self.repo / "build")

    def test_deleted_here(self):
        """And what was deleted does not come back."""
        self.run_script("tree")
        (self.patches / "second/0002-KVM-stats-Change-the-new-file.patch").unlink()
        status, said = self.run_script("import")
        self.assertEqual(status, 2, said)
        self.assertIn("second/0002-KVM-stats-Change-the-new-file.patch was changed here", said)

    def test_edited_the_same(self):
        """The same change on both sides is no conflict."""
        self.run_script("tree")
        for file in (self.repo / "virt/new.c", self.repo / "build/5.10/linux/virt/new.c"):
            file.write_text("one\nzwei\ndrei\n")
        self.git("commit", "-qam", "KVM: Mine")
        status, said = self.run_script("import")
        self.assertEqual(status, 0, said)

    def test_edited_so_that_no_diff_fits(self):
        """An edit of a new file is not taken for a broken base."""
        (self.repo / "virt/new.c").write_text("one\nzwo\n")
        said = self.refuses("virt/new.c was edited here", "0002-KVM-stats-Change-the-new-file",
                            "edit it in build/5.10/linux", "@@ -1,2 +1,2 @@")
        self.assertNotIn("base:", said[-1])

    def refuses(self, *words):
        """tree fails with one line that has the words, and leaves no tree."""
        status, said = self.run_script("tree")
        self.assertEqual(status, 2, said)
        for word in words:
            self.assertIn(word, said.splitlines()[-1])
        self.assertFalse((self.repo / "build/5.10/linux/virt/new.c").exists())
        return said.splitlines()

    def test_does_not_apply(self):
        """Patch, file and hunk are named; zero fuzz."""
        (self.base / "virt/old.c").write_text(LINES.replace("line 10", "line ten"))
        self.refuses("0001-KVM-stats-Change-a-line.patch", "virt/old.c",
                     "@@ -9,7 +9,7 @@")

    def test_file_that_the_base_has(self):
        """It cannot be introduced."""
        (self.base / "virt/new.c").write_text("of the base\n")
        status, said = self.run_script("tree")
        self.assertEqual(status, 2, said)
        self.assertIn("introduces virt/new.c, which the base has", said)

    def test_missing_new_file(self):
        """A new file that is not in the repository."""
        (self.repo / "virt/new.c").unlink()
        self.refuses("virt/new.c")

    def test_not_a_patch(self):
        """A patch without the rule between message and diff."""
        self.write("second/0003-KVM-stats-Nothing", "KVM: stats: Nothing\n")
        self.refuses("0003-KVM-stats-Nothing.patch")

    def test_bad_series(self):
        """What does not fit together in patches/5.10, each in one line."""
        entry = (self.patches / "series")
        for wrong, words in (
                (lambda: entry.unlink(), ("patches/5.10/series",)),
                (lambda: entry.write_text("first\nsecond\nthird\n"), ("third",)),
                (lambda: entry.write_text("first\n"), ("second",)),
                (lambda: entry.write_text("first\nsecond\nfirst\n"), ("twice",)),
                (lambda: self.write("second/0003-Another", EDIT.replace("line", "row", 1)),
                 ("first/0001-KVM-stats-Change-a-line.patch",
                  "second/0003-Another.patch", "both introduce virt/new.c")),
                (lambda: (self.patches / "first/cover-letter").write_text("Subject\n"),
                 ("first/cover-letter", "a subject, an empty line and a text")),
                (lambda: (self.patches / "first/cover-letter").unlink(),
                 ("first", "cover-letter")),
                (lambda: self.write("second/0003-Another", EDIT),
                 ("first/0001-KVM-stats-Change-a-line.patch",
                  "second/0003-Another.patch")),
                (lambda: self.write("second/0003-KVM-stats-Change-a-line",
                                    EDIT.replace("a line", "one line")),
                 ("first/0001", "second/0003")),
                (lambda: self.write("second/0002-Another", EDIT.replace("a", "b", 1)),
                 ("second/0002-KVM",)),
                (lambda: (self.patches / "first/0001-KVM-stats-Change-a-line.patch")
                 .unlink(), ("first has no patches",))):
            before = self.files()
            wrong()
            self.assertEqual(len(self.refuses(*words)), 1)
            shutil.rmtree(self.patches)
            for path, text in before.items():
                (self.patches / path).parent.mkdir(parents=True, exist_ok=True)
                (self.patches / path).write_text(text)

    def test_other_kernel(self):
        """Another base than 5.10."""
        (self.base / "Makefile").write_text(MAKEFILE.replace("10", "11"))
        status, said = self.run_script("fetch-base")
        self.assertEqual(status, 2)
        self.assertIn("5.11.7", said)
        self.assertFalse((self.repo / "build/5.10/base").exists())

    def test_package_that_is_gone(self):
        """One line and exit status 2, nothing left; a mirror's trouble is another."""
        fake = self.repo / "bin/apt-get"
        fake.parent.mkdir()
        for error, expected in (("Unable to locate package linux-source-5.10", 2),
                                ("Failed to fetch the index", 1)):
            fake.write_text("#!/bin/sh\ncase $* in\nindextargets*) echo http://mirror ;;\n"
                            f"*download*) echo 'E: {error}'; exit 100 ;;\nesac\n")
            fake.chmod(0o755)
            status, said = self.run_script(
                "tree", LINUX_SRC="", PATH=f"{fake.parent}:{os.environ['PATH']}")
            self.assertEqual((status, said.splitlines()[1:]),
                             (expected, [f"apt-suites: E: {error}"]), said)
            self.assertEqual([], [str(path) for path in
                                  (self.repo / "build/5.10").glob("*")
                                  if not path.name.endswith("lock")])

    def test_no_kernel_tree(self):
        """LINUX_SRC of something else is one line, of every script."""
        for base in (self.repo, self.base / "virt", self.repo / "missing"):
            self.base = base
            for script in ("fetch-base", "tree", "series"):
                status, said = self.run_script(script)
                self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                self.assertIn(f"LINUX_SRC={base} is no kernel tree", said)

    def test_arguments(self):
        """What does not belong there: one line and exit status 2."""
        for script in ("tree", "fetch-base", "base-tree"):
            status, said = self.run_script(script, "nonsense")
            self.assertEqual((status, len(said.splitlines())), (2, 1), script)
        for script in ("install-packages", "fetch-package", "apt-suites"):
            status, said = self.run_script(script)
            self.assertEqual((status, len(said.splitlines())), (2, 1), script)
        for script in ("fetch-consumers", "fetch-debian-kernel", "suites"):
            for release in "Trixie", "a/b", "a-", "-a", "a b":
                status, said = self.run_script(script, release)
                self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                self.assertIn(f"no release '{release}'", said)
        for script in ("import", "series"):
            self.assertEqual(self.run_script(script, "-x")[0], 2, script)

    def test_suites(self):
        """A suite beside a release needs the release; not each has security updates."""
        for release, suites in (("trixie", "trixie trixie-security"),
                                ("trixie-backports",
                                 "trixie trixie-security trixie-backports"),
                                ("trixie-security", "trixie trixie-security"),
                                ("sid", "sid"), ("experimental", "sid experimental")):
            self.assertEqual(self.run_script("suites", release), (0, f"{suites}\n"))

    def test_bad_base(self):
        """An unknown base, and one whose file is wrong: one line, nothing is made."""
        file = self.patches / "base"
        for text, name, words in (
                (BASE, "9.9", "no base '9.9', choose from: 5.10"),
                (BASE, "../patches/5.10", "no base '../patches/5.10', choose from: 5.10"),
                (BASE + "colour = red\n", "", "5.10/base:8: unknown key 'colour'"),
                (BASE + "package = a\n", "", "5.10/base:8: key 'package' is there twice"),
                (BASE + "package\n", "", "5.10/base:8: not 'key = value': package"),
                *((re.sub(f"(?m)^{key} .*\n", "", BASE), "",
                   f"5.10/base: key '{key}' is missing") for key in (
                       "package", "suites", "version", "kernels", "skip_checks",
                       "debian_kernel")),
                *((re.sub(f"(?m)^{key} .*$", f"{key} =", BASE), "",
                   f"5.10/base: '{key}' has no value") for key in (
                       "package", "suites", "version"))):
            file.write_text(text)
            for script, *args in (("tree",), ("import",), ("series",), ("base", "name"),
                                  ("fetch-base",), ("base-tree",))[:6 if name else 1]:
                with self.subTest(words=words, script=script):
                    status, said = self.run_script(script, *args, BASE=name)
                    self.assertEqual((status, len(said.splitlines())), (2, 1), said)
                    self.assertIn(words, said)
        self.assertFalse((self.repo / "build").exists())


class TwoBases(Repository):
    """Another base beside it, with a new file of the same overlay and one of its own."""

    OTHER = {
        "base": BASE.replace("5.10", "9.1"),
        "series": "third\n",
        "third/cover-letter": "The third series\n\nText.\n",
        "third/0001-KVM-Change-a-row.patch":
            "KVM: Change a row\n\nBecause.\n---\nNew-file: virt/new.c\n"
            "New-file: virt/small.c\ndiff --git a/virt/rows.c b/virt/rows.c\n"
            "--- a/virt/rows.c\n+++ b/virt/rows.c\n@@ -1,3 +1,3 @@\n"
            " row 1\n-row 2\n+row two\n row 3\n"}

    def setUp(self):
        super().setUp()
        self.first = self.patches
        (self.repo / "virt/small.c").write_text("small\n")
        self.add(self.repo / "patches/9.1", self.OTHER)
        self.other = self.base.with_name("other")
        self.add(self.other, {"Makefile": "VERSION = 9\nPATCHLEVEL = 1\nSUBLEVEL = 0\n",
                              ".gitignore": "*.o\n", "virt/rows.c": "row 1\nrow 2\nrow 3\n"})

    @staticmethod
    def add(folder, files):
        """Files by path."""
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    def of_other(self, script, *args):
        """A script for the other base; what it said, it has to succeed."""
        status, said = self.run_script(script, *args, BASE="9.1", LINUX_SRC=str(self.other))
        self.assertEqual(status, 0, said)
        return said

    def other_git(self, *args):
        """git in its tree."""
        return subprocess.run(["git", "-C", self.repo / "build/9.1/linux",
                               "-c", "user.name=a", "-c", "user.email=a@b", *args],
                              text=True, check=True, stdout=subprocess.PIPE).stdout

    def test_there_and_back(self):
        """Both at once: tree and import of one leave the other as it is."""
        self.assertEqual(self.run_script("tree")[0], 0)
        self.assertIn("build/9.1/linux has the 1 patches of 1 series", self.of_other("tree"))
        self.assertEqual(self.other_git("show", "third:virt/new.c"), "one\nzwei\n")
        self.assertEqual(self.other_git("show", "third:virt/rows.c"), "row 1\nrow two\nrow 3\n")
        self.assertEqual(self.show("second", "virt/new.c"), "one\nzwei\n")
        before = {path: path.read_text() for room in ("patches", "virt")
                  for path in (self.repo / room).rglob("*") if path.is_file()}
        self.of_other("import")
        self.assertEqual(self.run_script("import")[0], 0)
        self.assertEqual(before, {path: path.read_text() for path in before})

    def test_check_of_the_way_back(self):
        """checks/roundtrip, of the base that BASE names; it sees what differs."""
        for path in "checks/roundtrip", "lab/host/result.sh":
            (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / path, self.repo / path)
        check = "../checks/roundtrip"
        self.assertIn("1 patches and 2 new files: identical", self.of_other(check))
        self.assertIn("3 patches and 1 new files: identical", self.run_script(check)[1])
        patch = self.repo / "patches/9.1/third/0001-KVM-Change-a-row.patch"
        patch.rename(patch.with_name("0001-KVM-Change-another-row.patch"))
        status, said = self.run_script(check, BASE="9.1", LINUX_SRC=str(self.other))
        self.assertEqual(status, 1, said)
        self.assertIn("the patches differ", said)
        self.assertEqual(self.run_script(check)[0], 0)
        # Neither does it take the place of work that is not imported.
        self.own()
        status, said = self.run_script(check)
        self.assertEqual(status, 1, said)
        self.assertIn("there is no tree of the patches that are here", said)
        self.assertIn("1 commit not imported", said)

    def test_export_of_the_other(self):
        """A folder of mails for it, too."""
        self.of_other("tree")
        self.of_other("series")
        self.assertEqual(sorted(path.name for path in (
            self.repo / "build/9.1/series/third").iterdir()),
            ["0000-cover-letter.patch", "0001-KVM-Change-a-row.patch"])

    def test_a_file_that_both_have(self):
        """If one base has it no more it stays for the other one; its own goes."""
        self.of_other("tree")
        self.other_git("rm", "-q", "virt/new.c", "virt/small.c")
        self.other_git("commit", "-q", "--amend", "--no-edit")
        self.of_other("import")
        self.assertTrue((self.repo / "virt/new.c").is_file())
        self.assertFalse((self.repo / "virt/small.c").exists())

    def test_unknown_is_named(self):
        """With those that there are."""
        self.assertIn("no base '1', choose from: 5.10 9.1", self.run_script("tree", BASE="1")[1])


if __name__ == "__main__":
    unittest.main()
