#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The way from patches to a tree and back, on a kernel of three files."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

MAKEFILE = "VERSION = 5\nPATCHLEVEL = 10\nSUBLEVEL = 7\n"
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


class Series(unittest.TestCase):
    """Each test has a repository and a base kernel of its own."""

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.repo = Path(work.name) / "repo"
        self.patches = self.repo / "patches/5.10"
        self.patches.mkdir(parents=True)
        shutil.copytree(TOP / "scripts", self.repo / "scripts")
        (self.repo / "virt").mkdir()
        (self.repo / "virt/new.c").write_text("one\nzwei\n")
        self.base = Path(work.name) / "linux"
        (self.base / "virt").mkdir(parents=True)
        (self.base / "Makefile").write_text(MAKEFILE)
        (self.base / ".gitignore").write_text("*.o\n")
        (self.base / "virt/old.c").write_text(LINES)
        self.write(1, "Change-a-line", EDIT)
        self.write(2, "Change-the-new-file", LATER)

    def write(self, number, subject, text):
        """A patch of the series."""
        name = f"{number:04}-KVM-stats-{subject}.patch"
        (self.patches / name).write_text(text)

    def run_script(self, name, *args):
        """Its exit status and all it said."""
        done = subprocess.run([self.repo / "scripts" / name, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False,
                              env={**os.environ, "LINUX_SRC": str(self.base)})
        return done.returncode, done.stdout

    def show(self, revision, path):
        """A file as a commit of the made tree has it."""
        return subprocess.run(["git", "-C", self.repo / "build/linux", "show",
                               f"{revision}:{path}"], text=True, check=True,
                              stdout=subprocess.PIPE).stdout

    def test_tree(self):
        """A commit per patch; the introduced version is the one before edits."""
        status, said = self.run_script("tree")
        self.assertEqual(status, 0, said)
        self.assertIn("line twelve", self.show("series~1", "virt/old.c"))
        self.assertEqual(self.show("series~1", "virt/new.c"), "one\ntwo\n")
        self.assertEqual(self.show("series", "virt/new.c"), "one\nzwei\n")

    def test_back(self):
        """What comes back is what was there."""
        self.run_script("tree")
        before = {path.name: path.read_text() for path in self.patches.iterdir()}
        status, said = self.run_script("import")
        self.assertEqual(status, 0, said)
        self.assertEqual(before, {path.name: path.read_text()
                                  for path in self.patches.iterdir()})

    def test_work_in_the_tree(self):
        """A commit made there is a patch here, its new file stands here."""
        self.run_script("tree")
        tree = self.repo / "build/linux"
        (tree / "virt/more.c").write_text("more\n")
        subprocess.run(["git", "-C", tree, "add", "-A"], check=True)
        subprocess.run(["git", "-C", tree, "-c", "user.name=a", "-c",
                        "user.email=a@b", "commit", "-qm",
                        "KVM: stats: Add more"], check=True)
        status, said = self.run_script("import")
        self.assertEqual(status, 0, said)
        self.assertEqual((self.repo / "virt/more.c").read_text(), "more\n")
        added = self.patches / "0003-KVM-stats-Add-more.patch"
        self.assertEqual(added.read_text(),
                         "KVM: stats: Add more\n---\nNew-file: virt/more.c\n")

    def test_uncommitted(self):
        """Work that is not committed is neither lost nor brought back."""
        self.run_script("tree")
        (self.repo / "build/linux/virt/old.c").write_text("changed\n")
        for script in ("tree", "import"):
            status, said = self.run_script(script)
            self.assertEqual(status, 2)
            self.assertIn("not committed", said)

    def refuses(self, *words):
        """tree fails with one line that has the words, and leaves no tree."""
        status, said = self.run_script("tree")
        self.assertEqual(status, 2, said)
        for word in words:
            self.assertIn(word, said.splitlines()[-1])
        self.assertFalse((self.repo / "build/linux/virt/new.c").exists())

    def test_does_not_apply(self):
        """Patch, file and hunk are named; zero fuzz."""
        (self.base / "virt/old.c").write_text(LINES.replace("line 10", "line ten"))
        self.refuses("0001-KVM-stats-Change-a-line.patch", "virt/old.c",
                     "@@ -9,7 +9,7 @@")

    def test_missing_new_file(self):
        """A new file that is not in the repository."""
        (self.repo / "virt/new.c").unlink()
        self.refuses("virt/new.c")

    def test_not_a_patch(self):
        """A patch without the rule between message and diff."""
        self.write(3, "Nothing", "KVM: stats: Nothing\n")
        self.refuses("0003-KVM-stats-Nothing.patch")

    def test_other_kernel(self):
        """Another base than 5.10."""
        (self.base / "Makefile").write_text(MAKEFILE.replace("10", "11"))
        status, said = self.run_script("fetch-base")
        self.assertEqual(status, 2)
        self.assertIn("5.11.7", said)
        self.assertFalse((self.repo / "build/base").exists())

    def test_arguments(self):
        """What does not belong there: one line and exit status 2."""
        for script in ("tree", "fetch-base", "base-tree", "check-series",
                       "check-roundtrip", "check-docs", "check-numbers"):
            status, said = self.run_script(script, "nonsense")
            self.assertEqual((status, len(said.splitlines())), (2, 1), script)
        for script in ("check", "install-packages", "fetch-package", "apt-suites"):
            status, said = self.run_script(script)
            self.assertEqual((status, len(said.splitlines())), (2, 1), script)
        for script in ("import", "series"):
            self.assertEqual(self.run_script(script, "-x")[0], 2, script)


if __name__ == "__main__":
    unittest.main()
