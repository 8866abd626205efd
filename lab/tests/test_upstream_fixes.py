# SPDX-License-Identifier: GPL-2.0-only
"""Statements about later kernels in commit messages, as upstream-fixes reads them."""

import io
import subprocess
import tarfile
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from host import records, steps
from tools import load

fixes = load("lab/checks/upstream-fixes")

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

    def find_problems(self, written=WRITTEN, message=MESSAGE, newest=OTHER + BUG, base=OTHER + BUG,
                 series=OTHER + FIXED):
        """Return the problems that the check finds."""
        fix, = fixes.read(written)
        return fixes.find_problems(fix, message, {"base": base, "series": series,
                                             "newest": newest})

    def test_true_statement(self):
        self.assertEqual(self.find_problems(), [])
        self.assertEqual(self.find_problems(WRITTEN.replace('"there"', '"gone"'),
                                       newest=OTHER + FIXED), [])

    def test_outdated_statement(self):
        self.assertEqual(self.find_problems(newest=OTHER + FIXED),
                         ["the bug is gone in newest, expected there"])

    def test_false_statement(self):
        self.assertEqual(self.find_problems(WRITTEN.replace('"there"', '"gone"')),
                         ["the bug is there in newest, expected gone"])

    def test_message_without_the_statement(self):
        found, = self.find_problems(message="KVM: Count once\n\nMainline has no such bug.\n")
        self.assertIn("does not contain", found)

    def test_expressions_that_match_nothing(self):
        for change in {"base": OTHER + FIXED}, {"series": OTHER + BUG}:
            with self.subTest(**change):
                self.assertEqual(len(self.find_problems(**change)), 1)

    def test_source_that_has_changed(self):
        for newest in OTHER, OTHER + BUG.replace("n++", "n += 1"):
            with self.subTest(newest=newest):
                found, = self.find_problems(newest=newest)
                self.assertIn("newest: f.c has ", found)

    def test_missing_file(self):
        self.assertEqual(self.find_problems(newest=None),
                         ["newest does not have the file that upstream.toml names"])

    def test_renamed_file(self):
        fix, = fixes.read(WRITTEN.replace('"f.c"', '["new.c", "f.c"]'))
        self.assertEqual(fix["files"], ["new.c", "f.c"])

    def test_invalid_keys(self):
        for written in (WRITTEN.replace("there", "perhaps"), WRITTEN + 'more = 1\n'):
            with self.subTest(written=written):
                self.assertRaises(records.Invalid, fixes.read, written)

    def test_versions(self):
        self.assertLess(fixes.parse_version("linux-source 7.3.4-1~bpo13+1"),
                        fixes.parse_version("7.10"))
        self.assertEqual(fixes.parse_version("5.10"), (5, 10))


class Newest(unittest.TestCase):
    """Debian has a kernel that is newer than all bases."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.fetched = []

    def fetch(self, script, folder, package, *suites):
        """Write the files of lab/fetch/fetch-package; linux-source only names another package."""
        self.assertEqual(script, "lab/fetch/fetch-package")
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

    def fetch_newest(self, files):
        """Return the newest kernel; only fetching is replaced."""
        with mock.patch.object(steps, "run_script", self.fetch):
            return fixes.fetch_newest(self.folder, files)

    def test_fetched(self):
        name, text = self.fetch_newest(["virt/f.c", "arch/gone.c"])
        self.assertEqual(name, "linux-source-99.1")
        self.assertEqual([package for package, _ in self.fetched],
                         ["linux-source", "linux-source-99.1"])
        self.assertEqual({suites for _, suites in self.fetched},
                         {("trixie-backports", "sid", "experimental")})
        self.assertEqual((text("virt/f.c"), text("arch/gone.c")), (BUG, None))

    def test_base_without_statements(self):
        find = fixes.base_file.find
        with mock.patch.object(fixes.base_file, "find", lambda name, *base: (
                None if name == "upstream.toml" else find(name, *base))), \
                mock.patch.object(sys, "argv", ["upstream-fixes"]), \
                self.assertRaisesRegex(records.Invalid, "has no upstream.toml"):
            fixes.main()

    def test_package_without_the_files(self):
        with self.assertRaisesRegex(steps.Failed, "linux-source-99.1: .*Not found"):
            self.fetch_newest(["arch/gone.c"])

    def test_commit(self):
        """A git tree gives the same results."""
        git = ["git", "-C", self.folder, "-c", "user.name=n", "-c", "user.email=e"]
        (self.folder / "f.c").write_text(BUG)
        for command in ["init", "-q"], ["add", "f.c"], ["commit", "-qm", "base"]:
            subprocess.run([*git, *command], check=True)
        text = fixes.git_source(self.folder, "HEAD")
        self.assertEqual((text("f.c"), text("gone.c")), (BUG, None))
