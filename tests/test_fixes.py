#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""What checks/fixes says of messages that speak of later kernels."""

import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import records  # noqa: E402
import steps  # noqa: E402

loader = importlib.machinery.SourceFileLoader("fixes", str(TOP / "checks/fixes"))
fixes = importlib.util.module_from_spec(importlib.util.spec_from_loader("fixes", loader))
loader.exec_module(fixes)

WRITTEN = r"""[[fix]]
subject = "KVM: Count once"
says = "Mainline has the same bug"
state = "there"
file = "f.c"
function = "count"
bug = 'n\+\+;\s+n\+\+'
gone = '\{\s+n\+\+;\s+\}'
"""
MESSAGE = "KVM: Count once\n\nMainline has\nthe same bug.\n"
OTHER = "int other(void)\n{\n\tn++;\n\tn++;\n}\n\n"
BUG = OTHER.replace("other", "count")
FIXED = BUG.replace("n++;\n\tn++", "n++")


class Fixes(unittest.TestCase):
    """One fix, three kernels."""

    def problems(self, written=WRITTEN, message=MESSAGE, newest=OTHER + BUG, base=OTHER + BUG,
                 series=OTHER + FIXED):
        """As the check looks."""
        fix, = fixes.read(written)
        return fixes.problems(fix, message, {"base": base, "series": series,
                                             "newest": newest})

    def test_right(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(WRITTEN.replace('"there"', '"gone"'),
                                       newest=OTHER + FIXED), [])

    def test_claim_that_is_no_longer_true(self):
        self.assertEqual(self.problems(newest=OTHER + FIXED),
                         ["the bug is gone in newest, and should be there"])

    def test_claim_that_was_never_true(self):
        self.assertEqual(self.problems(WRITTEN.replace('"there"', '"gone"')),
                         ["the bug is there in newest, and should be gone"])

    def test_message_that_says_something_else(self):
        found, = self.problems(message="KVM: Count once\n\nMainline has no such bug.\n")
        self.assertIn("does not say", found)

    def test_expressions_that_see_nothing(self):
        for change in {"base": OTHER + FIXED}, {"series": OTHER + BUG}:
            with self.subTest(**change):
                self.assertEqual(len(self.problems(**change)), 1)

    def test_source_that_has_changed(self):
        for newest in OTHER, OTHER + BUG.replace("n++", "n += 1"):
            with self.subTest(newest=newest):
                found, = self.problems(newest=newest)
                self.assertIn("newest: f.c has ", found)

    def test_file_that_is_gone(self):
        self.assertEqual(self.problems(newest=None),
                         ["newest has no such file as upstream.toml names"])

    def test_other_words(self):
        for written in (WRITTEN.replace("there", "perhaps"), WRITTEN + 'more = 1\n'):
            with self.subTest(written=written):
                self.assertRaises(records.Invalid, fixes.read, written)

    def test_versions(self):
        self.assertLess(fixes.version("linux-source 7.3.4-1~bpo13+1"), fixes.version("7.10"))
        self.assertEqual(fixes.version("5.10"), (5, 10))


class Newest(unittest.TestCase):
    """Debian has a kernel that is newer than all bases."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.fetched = []

    def fetch(self, script, folder, package, *suites):
        """As scripts/fetch-package leaves it; linux-source only names another one."""
        self.assertEqual(script, "fetch-package")
        self.fetched.append((package, suites))
        version = "99.1~rc3-1~exp1"
        (folder / "version").write_text(f"{package} {version}\n")
        if package != "linux-source":
            tarball = folder / f"files/usr/src/{package}.tar.xz"
            tarball.parent.mkdir(parents=True)
            with tarfile.open(tarball, "w:xz") as tar:
                for name, text in ("virt/f.c", BUG), ("arch/g.c", FIXED):
                    member = tarfile.TarInfo(f"{package}/{name}")
                    member.size = len(text)
                    tar.addfile(member, io.BytesIO(text.encode()))

    def newest(self, files):
        """As the check finds it, where only fetching is not done."""
        with mock.patch.object(steps, "script", self.fetch):
            return fixes.newest(self.folder, files)

    def test_fetched(self):
        name, text = self.newest(["virt/f.c", "arch/gone.c"])
        self.assertEqual(name, "linux-source-99.1")
        self.assertEqual([package for package, _ in self.fetched],
                         ["linux-source", "linux-source-99.1"])
        self.assertEqual({suites for _, suites in self.fetched},
                         {("trixie-backports", "sid", "experimental")})
        self.assertEqual((text("virt/f.c"), text("arch/gone.c")), (BUG, None))

    def test_nothing_said(self):
        base = next(name for name in records.base_file.names()
                    if not (TOP / "patches" / name / "upstream.toml").exists())
        done = subprocess.run([TOP / "checks/fixes"], env={**os.environ, "BASE": base},
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, f"^checks/fixes: base {base} has no upstream.toml: .*\n$")

    def test_nothing_to_read(self):
        with self.assertRaisesRegex(steps.Failed, "linux-source-99.1: .*Not found"):
            self.newest(["arch/gone.c"])

    def test_commit(self):
        """The same of a kernel that is there as a tree."""
        git = ["git", "-C", self.folder, "-c", "user.name=n", "-c", "user.email=e"]
        (self.folder / "f.c").write_text(BUG)
        for command in ["init", "-q"], ["add", "f.c"], ["commit", "-qm", "base"]:
            subprocess.run([*git, *command], check=True)
        text = fixes.git_source(self.folder, "HEAD")
        self.assertEqual((text("f.c"), text("gone.c")), (BUG, None))


if __name__ == "__main__":
    unittest.main()
