# SPDX-License-Identifier: GPL-2.0-only
"""Conversion of patches to a kernel tree and back, with a kernel of three files."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tools import TOP, commit_all, run_git


MAKEFILE = "VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 7\n"
BASE = """# A comment.
package = linux-source-5.10
suites = one one-security
version = 5.10.*
kernels =
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
    """Return a patch that changes one line of virt/old.c."""
    lines = [f" line {n}\n" for n in range(number - 3, number + 4)]
    lines[3:4] = [f"-line {number}\n", f"+line {number} changed\n"]
    return (f"{subject}\n\nBecause.\n---\ndiff --git a/virt/old.c b/virt/old.c\n"
            "--- a/virt/old.c\n+++ b/virt/old.c\n"
            f"@@ -{number - 3},7 +{number - 3},7 @@ line {number - 4}\n"
            + "".join(lines))


class Repository(unittest.TestCase):
    """A repository and a base kernel for each test."""

    @classmethod
    def setUpClass(cls):
        # A fixed path, because a tree contains the path of its base kernel.
        cls.work = Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "work"

    def setUp(self):
        self.addCleanup(shutil.rmtree, self.work)
        self.repo = self.work / "repo"
        self.patches = self.repo / "patches/5.10"
        for name in ("first", "second"):
            (self.patches / name).mkdir(parents=True)
            (self.patches / name / "cover-letter").write_text(
                f"The {name} series\n\nWhat it is for.\n")
        (self.patches / "series").write_text("first\nsecond\n")
        (self.patches / "base").write_text(BASE)
        (self.repo / "patches/default").write_text("5.10\n")
        shutil.copytree(TOP / "scripts", self.repo / "scripts", symlinks=True)
        for folder in "lab/host", "lab/fetch":
            shutil.copytree(TOP / folder, self.repo / folder)
        (self.repo / "virt").mkdir()
        (self.repo / "virt/new.c").write_text("one\nzwei\n")
        self.base = self.work / "linux"
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
        """Return the text of all files in patches/5.10 by path."""
        return {path.relative_to(self.patches): path.read_text()
                for path in self.patches.rglob("*") if path.is_file()}

    def run_script(self, name, *args, **variables):
        """Run a program of scripts/ or lab/fetch; return its exit status and output."""
        folder = next(folder for folder in ("scripts", "lab/fetch")
                      if (self.repo / folder / name).exists())
        done = subprocess.run([self.repo / folder / name, *args], text=True,
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

    def run_checked(self, name, *args, **variables):
        """Run a program that must succeed; return its output."""
        status, said = self.run_script(name, *args, **variables)
        self.assertEqual(status, 0, said)
        return said

    def run_refused(self, name, *args, **variables):
        """Run a program that must refuse to do its work; return the line that it prints."""
        status, said = self.run_script(name, *args, **variables)
        self.assertEqual((status, len(said.splitlines())), (2, 1), said)
        return said

    def make_tree(self, **variables):
        """Generate the tree of the unchanged patches, or copy it from an earlier test."""
        build, made = self.repo / "build", self.work.with_name("made")
        if not made.exists():
            self.run_checked("tree", **variables)
            shutil.copytree(build, made)
        else:
            shutil.copytree(made, build)

    def show(self, revision, path):
        """Return a file in a commit of the generated tree."""
        return self.git("show", f"{revision}:{path}")

    def git(self, *args, base="5.10"):
        """Run git in a generated tree; return its output."""
        return run_git(self.repo / "build" / base / "linux", *args)

    def commit(self, path="virt/old.c", line="line 3"):
        """Create a commit in the tree that is not imported."""
        file = self.repo / "build/5.10/linux" / path
        file.write_text(file.read_text().replace(line, f"{line} of mine"))
        self.git("commit", "-qam", "KVM: Mine")


class Series(Repository):
    """Conversion to a tree and back."""

    def test_tree(self):
        """The tree has a commit per patch and a branch per series; a file is introduced in the
        version before later edits."""
        self.assertIn("3 patches of 2 series", self.run_checked("tree"))
        self.assertIn("line twelve", self.show("first", "virt/old.c"))
        self.assertIn("line 22", self.show("first", "virt/old.c"))
        self.assertEqual(self.show("first", "virt/new.c"), "one\ntwo\n")
        self.assertEqual(self.show("second", "virt/new.c"), "one\nzwei\n")
        self.assertEqual(self.git("rev-parse", "second~2"),
                         self.git("rev-parse", "first"))
        self.assertEqual(self.git("symbolic-ref", "HEAD"), "refs/heads/second\n")

    def test_use(self):
        """An up-to-date tree is kept, another one is generated again."""
        self.make_tree()
        head = self.repo / "build/5.10/linux/.git/HEAD"
        written = head.stat().st_mtime_ns
        for options in ["--use"], []:
            self.assertEqual(self.run_checked("tree", *options),
                             "build/5.10/linux (Linux 5.10.7), as made from patches/5.10\n")
            self.assertEqual(head.stat().st_mtime_ns, written)
        self.git("checkout", "-q", "first")
        self.run_checked("tree", "--use")
        self.assertEqual(self.git("symbolic-ref", "HEAD"), "refs/heads/second\n")
        patch, = (self.patches / "second").glob("0001-*.patch")
        patch.write_text("KVM: stats: Say something else\n"
                         + patch.read_text().partition("\n")[2])
        self.run_checked("tree", "--use")
        self.assertIn("Say something else", self.git("log", "--format=%s", "second"))

    def test_partial_tree(self):
        """Git tracks the files that the patches edit and those around them. --whole adds the
        rest; the commits then equal the commits of a tree that was complete from the start."""
        paths = "mm/x.c", "mm/y.c", "arch/x86/kvm/x.c", "arch/x86/mm/x.c", "tools/x.c"
        for path in paths:
            (self.base / path).parent.mkdir(parents=True, exist_ok=True)
            (self.base / path).write_text(LINES)
        self.write("second/0003-Third", edit("Third", 22).replace("virt/old.c", "mm/y.c"))
        tree = self.repo / "build/5.10/linux"
        for options in ["--whole"], []:
            self.run_checked("tree", *options)
            for path in paths:
                self.assertTrue((tree / path).is_file())
            self.assertEqual(self.git("status", "--porcelain"), "")
            tracked = self.git("ls-files").split()
            if options:
                whole = self.git("rev-parse", "base^0", "second")
                self.assertLess(set(paths), set(tracked))
                shutil.rmtree(self.repo / "build")
        self.assertEqual(tracked, ["Makefile", "arch/x86/kvm/x.c", "mm/y.c", "virt/new.c",
                                   "virt/old.c"])
        self.run_checked("base-tree")
        for path in paths:
            self.assertEqual((self.repo / "build/5.10/linux-base" / path).read_text(), LINES)
        self.run_checked("tree", "--whole")
        self.assertEqual(self.git("rev-parse", "base^0", "second"), whole)
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.assertFalse((self.repo / "build/5.10/linux-base").exists())
        self.run_checked("base-tree")

    def test_partial_tree_without_an_edited_file(self):
        """A tree that lacks a file which a new patch edits is completed."""
        (self.base / "mm").mkdir()
        (self.base / "mm/x.c").write_text(LINES)
        self.run_checked("tree", "--use")
        self.write("second/0003-Third", edit("Third", 22).replace("virt/old.c", "mm/x.c"))
        self.run_checked("tree", "--use")
        self.assertIn("line 22 changed", self.show("second", "mm/x.c"))
        self.assertIn("line 22\n", self.show("base", "mm/x.c"))

    def test_import_of_an_ignored_file(self):
        """Import does not mistake a file of the base kernel for a new file of the series."""
        (self.base / "mm").mkdir()
        (self.base / "mm/x.c").write_text(LINES)
        self.run_checked("tree", "--use")
        self.git("add", "-f", "mm/x.c")
        self.git("commit", "-qm", "Mine")
        self.assertIn("git ignores mm/x.c in build/5.10/linux", self.run_refused("import"))
        self.assertFalse((self.repo / "mm").exists())

    def test_edited_new_file(self):
        """An edit of a new file is reported with its patch."""
        (self.patches / "second/0002-KVM-stats-Change-the-new-file.patch").unlink()
        words = ("virt/new.c: the edit is now part of "
                 "first/0001-KVM-stats-Change-a-line.patch; for a separate commit, undo it "
                 "here, run make tree, edit build/5.10/linux/virt/new.c, commit, and run make "
                 "import")
        commit_all(self.repo)
        self.assertNotIn("the edit", self.run_script("tree")[1])
        shutil.rmtree(self.repo / "build")
        for number, options in enumerate(([], [], ["--use"])):
            with (self.repo / "virt/new.c").open("a") as file:
                file.write(f"more {number}\n")
            with self.subTest(number=number):
                self.assertIn(words, self.run_script("tree", *options)[1].splitlines())
                self.assertIn(f"more {number}", self.show("first", "virt/new.c"))
                # It is reported once.
                self.assertNotIn("the edit", self.run_script("tree")[1])

    def test_many_edited_new_files(self):
        """If more than three new files changed, their number is reported."""
        names = [f"virt/more{number}.c" for number in range(4)]
        self.write("second/0003-More", "More\n---\n" + "".join(
            f"New-file: {name}\n" for name in names))
        for text in "one\n", "two\n":
            for name in names:
                (self.repo / name).write_text(text)
            said = self.run_checked("tree")
        self.assertIn("4 new files changed here since build/5.10/linux was made", said)
        self.assertNotIn("virt/more", said)

    def test_import(self):
        """Import restores the same patches."""
        self.make_tree()
        before = self.files()
        self.run_checked("import")
        self.assertEqual(before, self.files())

    def test_one_more_series(self):
        """A further series needs an entry in the list and a directory."""
        (self.patches / "third").mkdir()
        (self.patches / "third/cover-letter").write_text("The third\n\nText.\n")
        self.write("third/0001-KVM-Change-a-third", edit("KVM: Change a third", 5))
        (self.patches / "series").write_text("first\nsecond\nthird\n")
        self.run_checked("tree")
        self.assertIn("line 5 changed", self.show("third", "virt/old.c"))

    def test_export_without_lab(self):
        """The series lab is part of the tree but is not exported."""
        (self.patches / "lab").mkdir()
        (self.patches / "lab/cover-letter").write_text("The lab\n\nText.\n")
        self.write("lab/0001-KVM-Change-a-third", edit("KVM: Change a third", 5))
        (self.patches / "series").write_text("first\nsecond\nlab\n")
        self.run_checked("tree")
        self.assertIn("line 5 changed", self.show("lab", "virt/old.c"))
        self.run_checked("series", str(self.repo / "out"))
        self.assertEqual(sorted(path.name for path in (self.repo / "out").iterdir()),
                         ["first", "second"])

    def test_export(self):
        """Each series is a directory of mails that git am applies in their order."""
        self.run_checked("series", str(self.repo / "out"), LINUX_SRC="",
                         GIT_CONFIG_VALUE_0="Ä. B, C")
        # Export does not fetch a kernel.
        self.assertFalse((self.repo / "build").exists())
        self.assertEqual(sorted(str(path.relative_to(self.repo / "out")) for path
                                in (self.repo / "out").rglob("*.patch")),
                         ["first/0001-KVM-stats-Change-a-line.patch",
                          "second/0000-cover-letter.patch",
                          "second/0001-KVM-stats-Change-another-line.patch",
                          "second/0002-KVM-stats-Change-the-new-file.patch"])
        letter = (self.repo / "out/second/0000-cover-letter.patch").read_text()
        self.assertIn("Subject: [PATCH 0/2] The second series\n", letter)
        self.assertIn("\nWhat it is for.\n", letter)
        self.assertIn("\n\nÄ. B, C (2):\n  KVM: stats: Change another line\n  KVM: stats: "
                      "Change the new file\n\n virt/new.c |    2 +-\n virt/old.c |    2 +-\n",
                      letter)
        # The text of a single patch's cover letter is below its message.
        mail = (self.repo / "out/first/0001-KVM-stats-Change-a-line.patch").read_text()
        self.assertIn("Subject: [PATCH] KVM: stats: Change a line\n", mail)
        self.assertIn("\n---\nWhat it is for.\n\n virt/new.c", mail)
        # The statistics have one line per file, also if two patches change it.
        self.assertIn(" 2 files changed, 3 insertions(+), 1 deletion(-)\n create mode 100644 "
                      "virt/new.c\n", mail)
        self.run_script("tree")
        self.git("checkout", "-q", "base")
        for name in ("first", "second"):
            self.git("am", "-q", *sorted((self.repo / "out" / name).glob("000[1-9]-*.patch")))
            self.assertEqual(self.git("diff", "HEAD", name), "")
        for number in range(3):
            message, author = (self.git("log", "-1", f"--format={what}", f"HEAD~{number}")
                               for what in ("%B", "%an <%ae>"))
            self.assertEqual(author, "Ä. B, C <a@b>\n")
            self.assertEqual(message.strip(), self.git(
                "log", "-1", "--format=%B", f"second~{number}").strip()
                + "\n\nSigned-off-by: Ä. B, C <a@b>")

    def test_export_for_comments(self):
        """The subjects of a series have the tags of its cover letter: for comments, a version."""
        letter = self.patches / "second/cover-letter"
        text = letter.read_text()
        for tag, kind in (("[RFC] ", "RFC PATCH"), ("[v3] ", "PATCH v3"),
                          ("[RFC v12] ", "RFC PATCH v12"), ("", "PATCH")):
            letter.write_text(f"{tag}{text}")
            self.run_checked("series", str(self.repo / "out"), LINUX_SRC="")
            for name, subject in (("second/0000-cover-letter", f"[{kind} 0/2] The second series"),
                                  ("second/0002-KVM-stats-Change-the-new-file",
                                   f"[{kind} 2/2] KVM: stats: Change the new file"),
                                  ("first/0001-KVM-stats-Change-a-line",
                                   "[PATCH] KVM: stats: Change a line")):
                self.assertIn(f"Subject: {subject}\n",
                              (self.repo / f"out/{name}.patch").read_text())
        for tag in "[] ", "[v] ", "[rfc] ", "[v3 RFC] ":
            letter.write_text(f"{tag}{text}")
            self.assertIn(f"second/cover-letter: '{tag}The second series' is not "
                          "'[RFC vN] SUBJECT'",
                          self.run_refused("series", str(self.repo / "out"), LINUX_SRC=""))

    def test_recipients(self):
        """get_maintainer.pl, if a tree exists, names the recipients of each patch; those of a cover
        letter are the recipients of all its patches and those that it names."""
        with (self.patches / "second/cover-letter").open("a") as letter:
            letter.write("Cc: \"C, D\" <c@x>\n")
        self.assertIn("without recipients: no tree of the base",
                      self.run_script("series", str(self.repo / "out"), LINUX_SRC="")[1])
        self.assertIn("\nCc: \"C, D\" <c@x>\nSubject: ", (
            self.repo / "out/second/0001-KVM-stats-Change-another-line.patch").read_text())
        self.run_script("tree")
        script = self.repo / "build/5.10/linux/scripts/get_maintainer.pl"
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n"
                          "echo '\"A (X)\" <a@x> (maintainer:SOME (THING))'; "
                          "echo 'b@x (reviewer:SOME (THING))'; "
                          "case $* in */second/0001*) echo 'l@x (open list:SOME (THING))';; esac; "
                          "case $* in */second/0002*) echo 'm@x (moderated list)';; esac\n")
        script.chmod(0o755)
        self.run_checked("series", str(self.repo / "out"))
        to = 'To: "A (X)" <a@x>,\n b@x\n'
        for name, lines in (("first/0001-KVM-stats-Change-a-line", to),
                            ("second/0001-KVM-stats-Change-another-line",
                             f'{to}Cc: "C, D" <c@x>,\n l@x\n'),
                            ("second/0002-KVM-stats-Change-the-new-file",
                             f'{to}Cc: "C, D" <c@x>,\n m@x\n'),
                            ("second/0000-cover-letter",
                             f'{to}Cc: "C, D" <c@x>,\n l@x,\n m@x\n')):
            mail = (self.repo / f"out/{name}.patch").read_text()
            self.assertIn(f"\n{lines}Subject: ", mail)
            self.assertEqual(mail.count("c@x"), lines.count("c@x"))

    def test_base_in_letter(self):
        """{base} in a cover letter is the release of the tree and the package, or of LINUX_SRC."""
        letter = self.patches / "second/cover-letter"
        letter.write_text(letter.read_text() + "\nBased on {base}, and more.\n")
        self.run_script("series", str(self.repo / "out"), LINUX_SRC="")
        mail = self.repo / "out/second/0000-cover-letter.patch"
        self.assertIn("\n\nBased on Linux 5.10 from Debian's package linux-source-5.10, which has no\n"
                      "commit id, and more.\n\n", mail.read_text())
        self.run_script("tree")
        self.run_script("series", str(self.repo / "out"), LINUX_SRC="")
        self.assertRegex(mail.read_text(), r"Based on Linux 5\.10\.\d+ from Debian's package")

    def test_export_beside_work(self):
        """Export reports work that is not imported, and does not include it."""
        self.make_tree()
        self.assertNotIn("not exported", self.run_script("series")[1])
        self.commit()
        self.assertIn("not exported: 1 commit not imported in build/5.10/linux",
                      self.run_checked("series"))

    def test_export_with_trailers(self):
        """The sign-off is appended to other trailers, once."""
        for trailers in "Cc: x@y\n", "Cc: x@y\nSigned-off-by: a <a@b>\n":
            self.write("first/0001-KVM-stats-Change-a-line",
                       EDIT.replace("to.\n---", f"to.\n\n{trailers}---"))
            self.run_checked("series", str(self.repo / "out"))
            self.assertIn("to.\n\nCc: x@y\nSigned-off-by: a <a@b>\n---\n",
                          (self.repo / "out/first/0001-KVM-stats-Change-a-line.patch"
                           ).read_text())

    def test_export_of_a_file_that_changes(self):
        """A cover letter counts the lines of a new file at the end of its series."""
        (self.patches / "second/0002-KVM-stats-Change-the-new-file.patch").unlink()
        self.write("first/0002-KVM-stats-Change-the-new-file", LATER.replace(
            "+zwei", "+zwei\n+drei").replace("+1,2", "+1,3"))
        (self.repo / "virt/new.c").write_text("one\nzwei\ndrei\n")
        self.run_checked("series", str(self.repo / "out"))
        self.assertIn("\n virt/new.c |    3 +++\n virt/old.c |    2 +-\n",
                      (self.repo / "out/first/0000-cover-letter.patch").read_text())

    def test_export_replaces_patches_only(self):
        """Export refuses to replace a directory that contains other files."""
        out = self.repo / "out"
        for _ in range(2):
            self.run_checked("series", str(out))
        for other in (out / "notes", out / "first/notes", out / "first/deep/0001-a.patch"):
            other.parent.mkdir(exist_ok=True)
            other.write_text("mine\n")
            self.assertIn("contains files that are not patches",
                          self.run_refused("series", str(out)))
            self.assertTrue(other.exists())
            other.unlink()

    def read_stats(self, folder):
        """Return time and size of every file, to compare them later."""
        return {path: (path.stat().st_mtime_ns, path.stat().st_size)
                for path in folder.rglob("*") if path.is_file()}

    def test_export_tried(self):
        """Export tries the patches on LINUX_SRC, without changes to it or to the generated tree."""
        self.make_tree()
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        before = self.read_stats(self.repo / "build"), self.read_stats(other)
        out = self.repo / "out"
        # The hunk applies with an offset, its context differs, or the file is missing.
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
        self.assertEqual(before[0], self.read_stats(self.repo / "build"))
        old.write_text(LINES)
        (other / "virt/new.c").write_text("of theirs\n")
        self.assertIn("introduces virt/new.c, which the base has",
                      self.run_script("series", str(out), LINUX_SRC=str(other))[1])

    def test_export_names_base(self):
        """The first mail of a series names the commit of LINUX_SRC and the patches before it."""
        other, out = self.base.with_name("other"), self.repo / "out"
        shutil.copytree(self.base, other)
        commit_all(other)
        self.run_checked("series", str(out), LINUX_SRC=str(other))
        first = (out / "first/0001-KVM-stats-Change-a-line.patch").read_text()
        patch_id = run_git(other, "patch-id", "--stable", input=first).split()[0]
        base = f"\nbase-commit: {run_git(other, 'rev-parse', 'HEAD')}"
        self.assertIn(f"{base}-- \n", first)
        self.assertIn(f"{base}prerequisite-patch-id: {patch_id}\n-- \n",
                      (out / "second/0000-cover-letter.patch").read_text())
        self.assertNotIn("base-commit", (out / "second/0001-KVM-stats-Change-another-line.patch"
                                         ).read_text())
        run_git(other, "am", "-q", *sorted(out.glob("*/000[1-9]-*.patch")))

    def test_bad_source(self):
        """A tree of another version, no tree, or a tree with changes is refused."""
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        commit_all(other)
        (other / "virt/old.c").write_text("changed\n")
        before = self.read_stats(other)
        older = self.base.with_name("older")
        shutil.copytree(self.base, older)
        (older / "Makefile").write_text(MAKEFILE.replace("10", "9"))
        for source, words in ((other, "has uncommitted changes"),
                              (older, "is Linux 5.9.7, base 5.10 is 5.10.*"),
                              (self.repo, "is not a kernel tree")):
            for script in "fetch-base", "tree", "series":
                with self.subTest(words=words, script=script):
                    self.assertIn(words, self.run_refused(script, LINUX_SRC=str(source)))
                    self.assertFalse((self.repo / "build").exists())
        self.assertEqual(before, self.read_stats(other))

    def test_tree_of_another_source(self):
        """A tree of another source is not replaced, and nothing is copied."""
        self.make_tree()
        other = self.base.with_name("other")
        shutil.copytree(self.base, other)
        self.assertIn(f"build/5.10/linux was made from {self.base}, not from {other}",
                      self.run_refused("tree", LINUX_SRC=str(other)))
        self.assertFalse((self.repo / "build/5.10/base").exists())

    def test_folder_of_another_repository(self):
        """An untracked tree inside of another repository is used as it is."""
        for command in ("init", "-q"), ("commit", "-qm", "a", "--allow-empty"):
            run_git(self.work, *command)
        (self.work / "notes").write_text("staged\n")
        run_git(self.work, "add", "notes")
        self.run_checked("tree")

    def test_work_in_the_tree(self):
        """Import turns a commit into a patch and copies its new file."""
        self.make_tree()
        tree = self.repo / "build/5.10/linux"
        (tree / "virt/more.c").write_text("more\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "KVM: stats: Add foo_bar()")
        self.run_checked("import")
        self.assertEqual((self.repo / "virt/more.c").read_text(), "more\n")
        name = self.git("format-patch", "-1", "-o", self.repo / "out").strip()
        added = self.patches / "second" / Path(name).name.replace("0001", "0003")
        self.assertEqual(added.read_text(),
                         "KVM: stats: Add foo_bar()\n---\nNew-file: virt/more.c\n")

    def test_branch_left_behind(self):
        """Import reports a rebase that moved only one branch."""
        self.make_tree()
        self.git("checkout", "-q", "first")
        self.git("commit", "-q", "--amend", "-m", "KVM: stats: Change one line")
        self.assertIn("second is not on top of first", self.run_refused("import"))

    def test_uncommitted(self):
        """Uncommitted work is neither lost nor imported."""
        self.make_tree()
        (self.repo / "build/5.10/linux/virt/old.c").write_text("changed\n")
        for script in ("tree", "import"):
            self.assertIn("uncommitted", self.run_refused(script))
        self.assertIn("(Linux 5.10.7) with uncommitted changes",
                      self.run_script("tree", "--use")[1])

    def test_not_imported(self):
        """Commits on any branch, or on none, are not lost."""
        def amend_first():
            self.git("checkout", "-q", "first")
            self.git("commit", "-q", "--amend", "-m", "KVM: stats: Change one line")

        def detached():
            self.git("checkout", "-q", "--detach")
            self.commit()

        def rebase():
            subprocess.run(["git", "-C", self.repo / "build/5.10/linux", "rebase", "-q",
                            "--exec", "false", "HEAD^"], check=False, capture_output=True)

        def two():
            self.commit()
            self.commit(line="line 4")

        for work, words in ((self.commit, "1 commit not imported"),
                            (two, "2 commits not imported"),
                            (amend_first, "1 commit not imported"),
                            (detached, "1 commit not imported"),
                            (lambda: self.git("reset", "-q", "--hard", "HEAD^"),
                             "the branch second moved since it was made or imported"),
                            (rebase, "an unfinished rebase")):
            with self.subTest(words=words, work=work):
                self.make_tree()
                work()
                before = self.git("show-ref", "--head", "--heads")
                said = self.run_refused("tree")
                self.assertIn(words, said)
                self.assertEqual(self.git("show-ref", "--head", "--heads"), before)
                # Checks can run on the tree and print its state.
                self.assertIn(f"build/5.10/linux (Linux 5.10.7) with {words}",
                              self.run_checked("tree", "--use"))
                self.assertEqual(self.git("show-ref", "--head", "--heads"), before)
                shutil.rmtree(self.repo / "build")

    def describe_tree(self):
        """Return the description of the tree that checks print."""
        return subprocess.run(
            ["/usr/bin/python3", "-c", "from host import series_file; print(series_file.describe_tree())"],
            cwd=self.repo / "scripts", check=True, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "BASE": ""}).stdout.strip()

    def test_describe(self):
        """The tree is up to date, outdated, contains work, or does not exist."""
        self.assertEqual(self.describe_tree(), "build/5.10/linux does not exist")
        self.run_script("tree")
        self.assertEqual(self.describe_tree(),
                         "build/5.10/linux (Linux 5.10.7), as made from patches/5.10")
        (self.repo / "virt/new.c").write_text("zero\none\nzwei\n")
        self.assertEqual(self.describe_tree(), "build/5.10/linux (Linux 5.10.7), made from older "
                         "patches than those here")
        self.commit()
        self.assertEqual(self.describe_tree(), "build/5.10/linux (Linux 5.10.7) with "
                         "1 commit not imported")

    def test_imported(self):
        """Imported and dropped commits do not prevent a new tree."""
        self.make_tree()
        self.commit()
        self.run_checked("import")
        self.run_checked("tree")
        self.assertIn("line 3 of mine", self.show("second", "virt/old.c"))
        self.commit(line="line 4")
        self.git("reset", "-q", "--hard", "refs/made/second")
        self.run_checked("tree")

    def test_other_patches(self):
        """A tree without unimported work follows the patches, also with --use."""
        self.make_tree()
        self.write("second/0001-KVM-stats-Change-another-line",
                   edit("KVM: stats: Change another line", 25))
        status, said = self.run_script("tree", "--use")
        self.assertEqual((status, said.splitlines()[-1]), (
            0, "build/5.10/linux (Linux 5.10.7), as made from patches/5.10"), said)
        self.assertIn("line 25 changed", self.show("second", "virt/old.c"))

    def test_tree_of_before(self):
        """Trees of older versions, without references, are used as well."""
        self.make_tree()
        for name in self.git("for-each-ref", "--format=%(refname)", "refs/made*").split():
            self.git("update-ref", "-d", name)
        self.run_checked("tree")
        for name in self.git("for-each-ref", "--format=%(refname)", "refs/made*").split():
            self.git("update-ref", "-d", name)
        self.commit()
        self.assertIn("1 commit not imported", self.run_script("tree")[1])

    def test_edited_here(self):
        """Import refuses to overwrite files edited in the repository."""
        for path in ("virt/new.c",
                     "patches/5.10/first/0001-KVM-stats-Change-a-line.patch"):
            with self.subTest(path=path):
                self.make_tree()
                file = self.repo / path
                text = file.read_text()
                file.write_text(text.replace("one", "eins").replace("Because", "As"))
                before = {path: path.read_text() for path in self.repo.rglob("*/*")
                          if path.is_file() and path.suffix in (".c", ".patch")}
                self.commit()
                self.assertIn(f"{path} was changed here since build/5.10/linux was made",
                              self.run_refused("import"))
                for other, was in before.items():
                    if "build" not in other.parts:
                        self.assertEqual(other.read_text(), was)
                file.write_text(text)
                shutil.rmtree(self.repo / "build")

    def test_deleted_here(self):
        """Import does not restore deleted patches."""
        self.make_tree()
        (self.patches / "second/0002-KVM-stats-Change-the-new-file.patch").unlink()
        self.assertIn("second/0002-KVM-stats-Change-the-new-file.patch was changed here",
                      self.run_refused("import"))

    def test_edited_the_same(self):
        """The same change in the tree and in the repository is not a conflict."""
        self.make_tree()
        for file in (self.repo / "virt/new.c", self.repo / "build/5.10/linux/virt/new.c"):
            file.write_text("one\nzwei\ndrei\n")
        self.git("commit", "-qam", "KVM: Mine")
        self.run_checked("import")

    def test_edited_so_that_no_diff_fits(self):
        """An edit of a new file that breaks a later patch is not mistaken for a broken base."""
        (self.repo / "virt/new.c").write_text("one\nzwo\n")
        said = self.refuses("virt/new.c was edited here", "0002-KVM-stats-Change-the-new-file",
                            "edit it in build/5.10/linux", "@@ -1,2 +1,2 @@")
        self.assertNotIn("base:", said[-1])

    def refuses(self, *words):
        """Check that tree fails with one line that contains the words, and leaves no tree."""
        status, said = self.run_script("tree")
        self.assertEqual(status, 2, said)
        for word in words:
            self.assertIn(word, said.splitlines()[-1])
        self.assertFalse((self.repo / "build/5.10/linux/virt/new.c").exists())
        return said.splitlines()

    def test_does_not_apply(self):
        """The message names patch, file and hunk; patches apply without fuzz."""
        (self.base / "virt/old.c").write_text(LINES.replace("line 10", "line ten"))
        self.refuses("0001-KVM-stats-Change-a-line.patch", "virt/old.c",
                     "@@ -9,7 +9,7 @@")

    def test_file_that_the_base_has(self):
        """A patch cannot introduce a file of the base kernel."""
        (self.base / "virt/new.c").write_text("of the base\n")
        status, said = self.run_script("tree")
        self.assertEqual(status, 2, said)
        self.assertIn("introduces virt/new.c, which the base has", said)

    def test_missing_new_file(self):
        """A new file is missing in the repository."""
        (self.repo / "virt/new.c").unlink()
        self.refuses("virt/new.c")

    def test_not_a_patch(self):
        """A patch lacks the line between message and diff."""
        self.write("second/0003-KVM-stats-Nothing", "KVM: stats: Nothing\n")
        self.refuses("0003-KVM-stats-Nothing.patch")

    def test_bad_series(self):
        """Each inconsistency in patches/5.10 is reported in one line."""
        entry = (self.patches / "series")
        for wrong, words in (
                (lambda: entry.unlink(), ("patches/5.10/series",)),
                (lambda: entry.write_text("first\nsecond\nthird\n"), ("third",)),
                (lambda: entry.write_text("first\n"), ("second",)),
                (lambda: entry.write_text("first\nsecond\nfirst\n"), ("twice",)),
                (lambda: entry.write_text("lab\nfirst\nsecond\n"),
                 ("lab must be the last series",)),
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
        """The source is not Linux 5.10."""
        (self.base / "Makefile").write_text(MAKEFILE.replace("10", "11"))
        self.assertIn("5.11.7", self.run_refused("fetch-base"))
        self.assertFalse((self.repo / "build/5.10/base").exists())

    def test_package_that_is_gone(self):
        """A package or suite that Debian no longer has causes one line and exit status 2, a
        mirror that does not deliver it is tried three times and causes status 75. No file is
        left."""
        fake = self.repo / "bin/apt-get"
        fake.parent.mkdir()
        (fake.parent / "sleep").write_text("#!/bin/sh\n")
        (fake.parent / "sleep").chmod(0o755)
        gone = ("fetch-base: base 5.10: Debian no longer offers linux-source-5.10 in "
                "one one-security; LINUX_SRC=DIR names a source instead, such as the unpacked tarball of "
                "kernel.org")
        failed = "E: Failed to fetch the index"
        for error, expected, lines in (
                ("Unable to locate package linux-source-5.10", 2, [gone]),
                ("The repository 'x Release' does not have a Release file.", 2, [gone]),
                ("write (28: No space left on device)", 1, [
                    "fetch-base: base 5.10: apt-suites: E: write (28: No space left on device)"]),
                ("Failed to fetch the index", 75, [
                    f"{failed}; trying again in 10 s", f"{failed}; trying again in 30 s",
                    f"fetch-base: base 5.10: apt-suites: {failed}"])):
            fake.write_text("#!/bin/sh\ncase $* in\nindextargets*) echo http://mirror ;;\n"
                            f"*download*) echo \"E: {error}\"; exit 100 ;;\nesac\n")
            fake.chmod(0o755)
            status, said = self.run_script(
                "tree", LINUX_SRC="", PATH=f"{fake.parent}:{os.environ['PATH']}")
            self.assertEqual((status, said.splitlines()[1:]), (expected, lines), said)
            self.assertEqual([], [str(path) for path in
                                  (self.repo / "build/5.10").glob("*")
                                  if not path.name.endswith("lock")])

    def test_newest_kernel(self):
        """Versions of the newest base are preferred; a later release is not tested unasked."""
        fake = self.repo / "bin"
        (self.repo / "package/DEBIAN").mkdir(parents=True)
        (self.repo / "patches/5.2").mkdir()
        (self.repo / "patches/5.2/base").write_text(BASE.replace("5.10", "5.2"))
        fake.mkdir()
        (fake / "apt-get").write_text(
            "#!/bin/sh\ncase $* in\nindextargets*) echo http://mirror ;;\n"
            f"*download*) dpkg-deb -b {self.repo}/package linux-libc-dev_1_all.deb ;;\nesac\n")
        (fake / "apt-get").chmod(0o755)
        for version, expected, words in (
                ("5.10.9-1", 0, ""),
                ("5.11.1-1", 75, "fetch-package: Debian's newest linux-libc-dev is 5.11.1-1, the "
                                 "newest base 5.10.*: add a base\n")):
            (self.repo / "package/DEBIAN/control").write_text(
                f"Package: linux-libc-dev\nVersion: {version}\nArchitecture: all\n"
                "Maintainer: a <a@b>\nDescription: a\n")
            work = self.repo / version
            work.mkdir()
            with self.subTest(version=version):
                self.assertEqual(self.run_script(
                    "fetch-package", work, "linux-libc-dev", "one",
                    PATH=f"{fake}:{os.environ['PATH']}"), (expected, words))
                self.assertEqual((work / "files").exists(), not expected)

    def test_no_kernel_tree(self):
        """Every script reports in one line that LINUX_SRC is not a kernel tree."""
        for base in (self.repo, self.base / "virt", self.repo / "missing"):
            self.base = base
            for script in ("fetch-base", "tree", "series"):
                self.assertIn(f"LINUX_SRC={base} is not a kernel tree", self.run_refused(script))

    def test_arguments(self):
        """Invalid arguments cause one line and exit status 2."""
        for script in ("tree", "fetch-base", "base-tree"):
            self.run_refused(script, "nonsense")
        for script in ("install-packages", "fetch-package", "apt-suites", "apt-sources",
                       "fetch-consumers", "enter-root"):
            self.run_refused(script)
        self.run_refused("fetch-consumers", "a", "b")
        self.run_refused("make-root", "trixie")
        self.run_refused("enter-root", "/missing")
        self.run_refused("apt-sources", "Trixie")
        for script in ("fetch-consumers", "fetch-debian-kernel", "debian-suites"):
            for release in "Trixie", "a/b", "../x", "a-", "-a", "a b", "":
                self.assertIn(f"no release '{release}'", self.run_refused(script, release))
        for script in ("import", "series"):
            self.assertEqual(self.run_script(script, "-x")[0], 2, script)

    def test_suites(self):
        """Suites such as backports include their release; unreleased suites have no security."""
        for release, suites in (("trixie", "trixie trixie-security"),
                                ("trixie-backports",
                                 "trixie trixie-security trixie-backports"),
                                ("trixie-security", "trixie trixie-security"),
                                ("sid", "sid"), ("experimental", "sid experimental")):
            self.assertEqual(self.run_script("debian-suites", release), (0, f"{suites}\n"))

    def test_bad_base(self):
        """An unknown base or an invalid file causes one line, and nothing is generated."""
        file = self.patches / "base"
        for text, name, words in (
                (BASE, "9.9", "no base '9.9', choose from: 5.10"),
                (BASE, "../patches/5.10", "no base '../patches/5.10', choose from: 5.10"),
                (BASE + "colour = red\n", "", "5.10/base:7: unknown key 'colour'"),
                (BASE + "package = a\n", "", "5.10/base:7: key 'package' occurs twice"),
                (BASE + "package\n", "", "5.10/base:7: not 'key = value': package"),
                *((re.sub(f"(?m)^{key} .*\n", "", BASE), "",
                   f"5.10/base: key '{key}' is missing") for key in (
                       "package", "suites", "version", "kernels", "debian_kernel")),
                *((re.sub(f"(?m)^{key} .*$", f"{key} =", BASE), "",
                   f"5.10/base: '{key}' has no value") for key in (
                       "package", "suites", "version"))):
            file.write_text(text)
            for script, *args in (("tree",), ("import",), ("series",), ("base", "name"),
                                  ("fetch-base",), ("base-tree",))[:6 if name else 1]:
                with self.subTest(words=words, script=script):
                    self.assertIn(words, self.run_refused(script, *args, BASE=name))
        self.assertFalse((self.repo / "build").exists())


class TwoBases(Repository):
    """A second base with a common and a separate new file."""

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
        """Write files, given by path."""
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    def run_other(self, script, *args):
        """Run a script for the other base, which has to succeed; return its output."""
        return self.run_checked(script, *args, BASE="9.1", LINUX_SRC=str(self.other))

    def test_tree_and_import(self):
        """Tree and import of one base do not change the other one."""
        self.make_tree()
        self.assertIn("build/9.1/linux has the 1 patches of 1 series", self.run_other("tree"))
        self.assertEqual(self.git("show", "third:virt/new.c", base="9.1"), "one\nzwei\n")
        self.assertEqual(self.git("show", "third:virt/rows.c", base="9.1"),
                         "row 1\nrow two\nrow 3\n")
        self.assertEqual(self.show("second", "virt/new.c"), "one\nzwei\n")
        before = {path: path.read_text() for room in ("patches", "virt")
                  for path in (self.repo / room).rglob("*") if path.is_file()}
        self.run_other("import")
        self.run_checked("import")
        self.assertEqual(before, {path: path.read_text() for path in before})

    def test_check_of_the_way_back(self):
        """lab/checks/patch-roundtrip detects a difference in the chosen base."""
        for path in "lab/checks/patch-roundtrip", "lab/host/result.sh":
            (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / path, self.repo / path)
        check = "../lab/checks/patch-roundtrip"
        self.assertIn("1 patches in 1 series, 2 new files: identical", self.run_other(check))
        self.assertIn("3 patches in 2 series, 1 new files: identical", self.run_script(check)[1])
        patch = self.repo / "patches/9.1/third/0001-KVM-Change-a-row.patch"
        patch.rename(patch.with_name("0001-KVM-Change-another-row.patch"))
        status, said = self.run_script(check, BASE="9.1", LINUX_SRC=str(self.other))
        self.assertEqual(status, 1, said)
        self.assertIn("the patches differ", said)
        self.run_checked(check)
        # The check does not replace unimported work.
        self.commit()
        status, said = self.run_script(check)
        self.assertEqual(status, 1, said)
        self.assertIn("1 commit not imported", said)

    def test_export_of_the_other(self):
        """The other base is exported to a separate directory."""
        self.run_other("tree")
        self.run_other("series")
        self.assertEqual(sorted(path.name for path in (
            self.repo / "build/9.1/series/third").iterdir()),
            ["0001-KVM-Change-a-row.patch"])

    def test_a_file_that_both_have(self):
        """A new file stays while another base needs it; others are removed."""
        self.run_other("tree")
        self.git("rm", "-q", "virt/new.c", "virt/small.c", base="9.1")
        self.git("commit", "-q", "--amend", "--no-edit", base="9.1")
        self.run_other("import")
        self.assertTrue((self.repo / "virt/new.c").is_file())
        self.assertFalse((self.repo / "virt/small.c").exists())

    def test_unknown_is_named(self):
        """The message lists all bases."""
        self.assertIn("no base '1', choose from: 5.10 9.1", self.run_script("tree", BASE="1")[1])

class Like(Repository):
    """A base that is like another, whose kernel has two more lines at the top of a file."""

    FILE = "like = 5.10\npackage = linux-source-6.0\nversion = 6.0.*\n"
    SECOND = "second/0001-KVM-stats-Change-another-line.patch"

    def setUp(self):
        super().setUp()
        (self.base / "virt/rows.c").write_text("row 1\nrow 2\nrow 3\n")
        with (self.patches / self.SECOND).open("a") as patch:
            patch.write("diff --git a/virt/rows.c b/virt/rows.c\n--- a/virt/rows.c\n"
                        "+++ b/virt/rows.c\n@@ -1,3 +1,3 @@\n row 1\n-row 2\n+row two\n"
                        " row 3\n")
        self.own = self.repo / "patches/6.0"
        self.own.mkdir()
        (self.own / "base").write_text(self.FILE)
        self.source = self.base.with_name("newer")
        self.variables = {"BASE": "6.0", "LINUX_SRC": str(self.source)}
        shutil.copytree(self.base, self.source)
        (self.source / "Makefile").write_text(MAKEFILE.replace("5", "6").replace("10", "0"))
        (self.source / "virt/old.c").write_text("line -1\nline 0\n" + LINES)

    def files(self):
        """Return the text of all patches by path, relative to patches."""
        return {str(path.relative_to(self.repo / "patches")): path.read_text()
                for path in (self.repo / "patches").glob("*/*/*.patch")}

    def run_like(self, script, *args, status=0):
        """Run a script for the base, return its output."""
        found, said = self.run_script(script, *args, **self.variables)
        self.assertEqual(found, status, said)
        return said

    def tree(self, *args):
        """Run git in the base's tree, return its output."""
        return self.git(*args, base="6.0")

    def change_kernel(self):
        """Give the base a kernel in which one patch needs other context."""
        file = self.source / "virt/old.c"
        file.write_text(file.read_text().replace("line 24", "line four"))

    def adapt(self):
        """Write the patch that applies to that kernel, as an override."""
        (self.own / "second").mkdir()
        diff = edit("", 22).partition("---\n")[2].replace(" line 24", " line four")
        diff = diff.replace("-19,7 +19,7", "-21,7 +21,7")
        (self.own / self.SECOND).write_text(f"---\n{diff}")

    def test_new_base(self):
        """Three lines make a base if all patches apply; import adds nothing."""
        self.make_tree(**self.variables)
        self.assertIn("line twelve", self.tree("show", "first:virt/old.c"))
        before = self.files()
        self.assertEqual(self.run_like("import"), "3 patches in 2 series, 1 new files\n")
        self.assertEqual(self.files(), before)
        self.assertIn("second: 2 patches", self.run_like("series"))

    def test_override(self):
        """An override without a message replaces one diff, everything else is inherited."""
        self.change_kernel()
        said = self.run_like("tree", status=2)
        self.assertIn("0001-KVM-stats-Change-another-line.patch does not apply", said)
        self.adapt()
        self.run_like("tree")
        self.assertIn("line 22 changed\nline 23\nline four",
                      self.tree("show", "second:virt/old.c"))
        self.assertIn("row two", self.tree("show", "second:virt/rows.c"))
        self.assertEqual(self.tree("log", "-1", "--format=%B", "second~1").strip(),
                         "KVM: stats: Change another line\n\nBecause.")
        before = self.files()
        self.run_like("import")
        self.assertEqual(self.files(), before)

    def test_number_does_not_matter(self):
        """An override is found by its name; import gives it the inherited number."""
        self.change_kernel()
        self.adapt()
        (self.own / self.SECOND).rename(self.own / self.SECOND.replace("0001", "0009"))
        self.run_like("tree")
        said = self.run_like("import")
        self.assertIn("removed patches/6.0/" + self.SECOND.replace("0001", "0009"), said)
        self.assertTrue((self.own / self.SECOND).is_file())

    def test_import_writes_what_differs(self):
        """Only the changed file of a changed patch is written, to the base's directory."""
        self.make_tree(**self.variables)
        before = self.files()
        self.tree("checkout", "-q", "--detach", "first")
        file = self.repo / "build/6.0/linux/virt/old.c"
        file.write_text(file.read_text().replace("twelve", "dozen"))
        self.tree("commit", "-q", "--amend", "-a", "--no-edit")
        self.tree("branch", "-f", "first")
        self.tree("rebase", "-q", "--onto", "first", "refs/made/first", "second")
        said = self.run_like("import")
        name = "6.0/first/0001-KVM-stats-Change-a-line.patch"
        self.assertEqual(said.splitlines()[:-1], [f"wrote patches/{name}"])
        after = self.files()
        self.assertEqual(after.pop(name), "---\n" + EDIT.partition("New-file: virt/new.c\n")[2]
                         .replace("twelve", "dozen").replace("-9,7 +9,7", "-11,7 +11,7"))
        self.assertEqual(after, before)
        wanted = self.tree("rev-parse", "second^{tree}")
        self.run_like("tree")
        self.assertEqual(self.tree("rev-parse", "second^{tree}"), wanted)
        # The change is undone.
        self.tree("checkout", "-q", "--detach", "first")
        file.write_text(file.read_text().replace("dozen", "twelve"))
        self.tree("commit", "-q", "--amend", "-a", "--no-edit")
        self.tree("branch", "-f", "first")
        self.tree("rebase", "-q", "--onto", "first", "refs/made/first", "second")
        self.assertEqual(self.run_like("import").splitlines()[:-1], [f"removed patches/{name}"])
        self.assertEqual(self.files(), before)

    def test_patch_that_the_base_lacks(self):
        """An empty file drops a patch; exported patches are numbered without it."""
        self.make_tree(**self.variables)
        self.tree("rebase", "-q", "--onto", "second~2", "second~1", "second")
        said = self.run_like("import")
        self.assertEqual(said.splitlines()[:-1], [f"wrote patches/6.0/{self.SECOND}"])
        self.assertEqual((self.own / self.SECOND).read_text(), "")
        self.run_like("tree")
        self.assertEqual(self.tree("rev-list", "--count", "base..second"), "2\n")
        self.run_like("series", str(self.repo / "out"))
        self.assertTrue((self.repo / "out/second/0001-KVM-stats-Change-the-new-file.patch")
                        .is_file())

    def test_file_that_the_base_does_not_edit(self):
        """A header without a diff drops the edit of one file."""
        (self.own / "first").mkdir()
        name = "first/0001-KVM-stats-Change-a-line.patch"
        (self.own / name).write_text("---\ndiff --git a/virt/old.c b/virt/old.c\n")
        self.run_like("tree")
        self.assertEqual(self.tree("diff", "--name-only", "base", "first"), "virt/new.c\n")
        before = self.files()
        self.run_like("import")
        self.assertEqual(self.files(), before)

    def test_whole_patch(self):
        """An override with a message replaces the patch; import does the same."""
        self.make_tree(**self.variables)
        self.tree("commit", "-q", "--amend", "-m", "KVM: stats: Change the new file\n\nOther.")
        self.run_like("import")
        name = "second/0002-KVM-stats-Change-the-new-file.patch"
        self.assertEqual((self.own / name).read_text(),
                         LATER.replace("It was not final.", "Other."))
        self.run_like("tree")
        self.assertEqual(self.tree("log", "-1", "--format=%b", "second").strip(), "Other.")

    def test_what_the_other_base_lacks(self):
        """A commit or an order that the other base does not have is not imported."""
        self.make_tree(**self.variables)
        before = self.files()
        self.tree("commit", "-q", "--allow-empty", "-m", "KVM: More")
        said = self.run_like("import", status=2)
        self.assertEqual(said, "import: 'KVM: More' is not in the series second of base 5.10, or "
                         "not in that order: change base 5.10 first\n")
        self.assertEqual(self.files(), before)

    def test_inherited_patch_edited_here(self):
        """Import refuses if a patch of the other base changed since the tree was generated."""
        self.make_tree(**self.variables)
        name = "patches/5.10/first/0001-KVM-stats-Change-a-line.patch"
        (self.repo / name).write_text(EDIT.replace("Because", "As"))
        self.assertIn(f"{name} was changed here", self.run_like("import", status=2))
        self.run_like("tree")
        self.assertIn("As it has to.", self.tree("log", "-1", "--format=%B", "first"))

    def test_the_other_base_renames_patches(self):
        """Its import renames overrides, by number and by subject."""
        self.change_kernel()
        self.adapt()
        self.run_checked("tree")
        environment = {**os.environ, "GIT_SEQUENCE_EDITOR": "sed -i '1!G;h;$!d'"}
        run_git(self.repo / "build/5.10/linux", "rebase", "-q", "-i", "first", env=environment)
        said = self.run_script("import")[1]
        moved = self.SECOND.replace("0001", "0002")
        self.assertIn(f"renamed patches/6.0/{self.SECOND} to {moved.partition('/')[2]}", said)
        self.assertTrue((self.own / moved).is_file())
        self.git("commit", "-q", "--amend", "-m", "KVM: stats: Alter another line")
        said = self.run_script("import")[1]
        self.assertTrue((self.own / "second/0002-KVM-stats-Alter-another-line.patch").is_file(),
                        said)
        self.run_like("tree")

    def test_the_other_base_drops_a_patch(self):
        """Its import names the override that is left."""
        self.change_kernel()
        self.adapt()
        self.run_checked("tree")
        self.git("rebase", "-q", "--onto", "second~2", "second~1", "second")
        said = self.run_checked("import")
        self.assertIn(f"base 6.0 needs an update: patches/6.0/{self.SECOND}: overrides no patch "
                      "of patches/5.10/second", said)

    def test_bad_input(self):
        """Each error is one line with exit status 2, and nothing is generated."""
        file = self.own / "base"
        for text, words in (
                (self.FILE.replace("5.10", "4.4"), "patches/6.0/base: like = '4.4': choose "
                                                   "another base: 5.10"),
                (self.FILE.replace("5.10", "6.0", 1), "like = '6.0': choose another base: 5.10"),
                (self.FILE.replace("5.10", ""), "key 'suites' is missing")):
            file.write_text(text)
            with self.subTest(words=words):
                self.assertIn(words, self.run_like("tree", status=2))
        file.write_text(self.FILE)
        other = self.patches / "base"
        other.write_text("like = 6.0\n" + BASE)
        for base in "5.10", "6.0":
            said = self.run_refused("series", BASE=base)
            self.assertIn("is itself like another base", said)
        other.write_text(BASE)
        for name, words in (("second/0001-Other.patch", "overrides no patch of "
                                                        "patches/5.10/second"),
                            ("third/0001-Other.patch", "does not list the folder 6.0/third")):
            (self.own / name).parent.mkdir()
            (self.own / name).write_text("---\n")
            for script in "tree", "series":
                with self.subTest(name=name, script=script):
                    said = self.run_like(script, status=2)
                    self.assertEqual(len(said.splitlines()), 1, said)
                    self.assertIn(words, said)
            shutil.rmtree((self.own / name).parent)
        status, said = self.run_script("tree", BASE="5.10 6.0")
        self.assertEqual((status, said), (
            2, "tree: no base '5.10 6.0', choose from: 5.10 6.0\n"))
        self.assertFalse((self.repo / "build").exists())


class Taken(Like):
    """A base that takes each series from another, but is not like it."""

    FILE = BASE.replace("5.10", "6.0")

    def setUp(self):
        super().setUp()
        (self.own / "series").write_text("5.10/first\n5.10/second\n")

    def test_own_series(self):
        """A series of the base itself lies between those that it takes."""
        (self.own / "series").write_text("5.10/first\nown\n5.10/second\n")
        (self.own / "own").mkdir()
        (self.own / "own/cover-letter").write_text("KVM: stats: Own\n\nText.\n")
        (self.own / "own/0001-KVM-stats-Own.patch").write_text(
            "KVM: stats: Own\n---\ndiff --git a/virt/rows.c b/virt/rows.c\n--- a/virt/rows.c\n"
            "+++ b/virt/rows.c\n@@ -1,3 +1,3 @@\n row 1\n row 2\n-row 3\n+row three\n")
        # The context of the last series is the work of the one before.
        (self.own / "second").mkdir()
        (self.own / self.SECOND).write_text(
            "---\ndiff --git a/virt/rows.c b/virt/rows.c\n--- a/virt/rows.c\n+++ b/virt/rows.c\n"
            "@@ -1,3 +1,3 @@\n row 1\n-row 2\n+row two\n row three\n")
        self.run_like("tree")
        self.assertEqual(self.tree("show", "second:virt/rows.c"), "row 1\nrow two\nrow three\n")
        before = self.files()
        self.assertEqual(self.run_like("import"), "4 patches in 3 series, 1 new files\n")
        self.assertEqual(self.files(), before)

    def test_bad_input(self):
        """A series that is not there, and one of the base itself, are one line each."""
        for line in "5.10/third", "6.0/second", "4.4/second":
            (self.own / "series").write_text(f"5.10/first\n{line}\n")
            with self.subTest(line=line):
                self.assertEqual(self.run_like("tree", status=2),
                                 f"tree: patches/6.0/series: there is no other series {line}\n")
        self.assertFalse((self.repo / "build").exists())
