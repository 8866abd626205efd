# SPDX-License-Identifier: GPL-2.0-only
"""Tests of scripts/release in a small repository, and of the places that have the version."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools import TOP, commit_all, run_git, run_refused

NEWS = """# News

## Next

kvm-stats

- Adds a function, `kvmstats_added()`, and a sentence that is so long that it must be wrapped
  twice.
- 5% faster.

## Version 1.0 (2026-11-21)

kvm-stats

- Old.
"""
CHANGELOG = """{} (1.0) unstable; urgency=medium

  * First package.

 -- Some Body <a@b>  Sat, 21 Nov 2026 10:00:00 +0000
"""
ENTRY = """kvm-stats (1.1) unstable; urgency=medium

  * Adds a function, `kvmstats_added()`, and a sentence that is so long that it
    must be wrapped twice.
  * 5% faster.

 -- Some Body <a@b>  DATE

"""
# The changelog of the RPM packages
SPEC = """
- Adds a function, `kvmstats_added()`, and a sentence that is so long that it
  must be wrapped twice.
- 5%% faster.

* Sat Nov 21 2026 Some Body <a@b> - 1.0-1
- First package.
"""
COPIED = ("scripts/release", "kvm-stats/Makefile", "kvm-stats/rpm", "kvm-stats/container")
SYMBOLS = "kvm-stats/debian/libkvmstats1.symbols"
TARBALL = "kvm-stats/build/kvm-stats-{}.tar.gz"


class Release(unittest.TestCase):
    """Base class: a repository with one commit."""

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in COPIED:
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (TOP / name).is_dir() else shutil.copy)(TOP / name, self.top / name)
        self.write("NEWS.md", NEWS)
        self.write("kvm-stats/debian/changelog", CHANGELOG.format("kvm-stats"))
        self.write("modules/debian/changelog", CHANGELOG.format("kvm-stats-dkms"))
        self.write(SYMBOLS, "library library1\n a@V_1 1.0\n b@V_1 1.1\n")
        self.write(".gitignore", "build/\n")
        commit_all(self.top)
        self.enterContext(mock.patch.dict(os.environ, {
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}))

    def write(self, name, text):
        """Write a file."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def read(self, name):
        """Return the text of a file."""
        return (self.top / name).read_text()

    def state(self):
        """Return the commit, the tags and the changes of the work tree."""
        return [run_git(self.top, *command) for command in (
            ("rev-parse", "HEAD"), ("tag",), ("status", "--porcelain"))]

    def refuse(self, version, reason, **variables):
        """Check that the version is refused with this line, and that nothing changes."""
        before = self.state()
        self.assertEqual(run_refused(self, self.top / "scripts/release", version, **variables),
                         f"release: {reason}\n")
        self.assertEqual(self.state(), before)

    def release(self, version):
        """Release a version; return the lines of the output."""
        return subprocess.run([self.top / "scripts/release", version], text=True, check=True,
                              stdout=subprocess.PIPE).stdout.splitlines()

    def unpack(self, version, name):
        """Return the text of a file in the tarball."""
        return subprocess.run(["tar", "-xOzf", self.top / TARBALL.format(version),
                               f"kvm-stats-{version}/{name}"], text=True, check=True,
                              stdout=subprocess.PIPE).stdout


class Releases(Release):
    """Releases that succeed."""

    def test_next_version(self):
        """The version, its date and its items are in NEWS.md, both changelogs, commit and tag."""
        lines = self.release("1.1")
        self.assertEqual(lines[0], f"version 1.1: tag v1.1, {TARBALL.format('1.1')}")
        date = re.search(r"^## Version 1\.1 \((\d{4}-\d\d-\d\d)\)$", self.read("NEWS.md"), re.M)[1]
        self.assertEqual(self.read("NEWS.md"),
                         NEWS.replace("## Next", f"## Version 1.1 ({date})"))
        self.assertEqual(re.sub(r"(?<=>  )\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "DATE",
                                self.read("kvm-stats/debian/changelog"), count=1),
                         ENTRY + CHANGELOG.format("kvm-stats"))
        self.assertIn("kvm-stats-dkms (1.1) unstable; urgency=medium\n\n  * No changes.\n\n",
                      self.read("modules/debian/changelog"))
        self.assertEqual(run_git(self.top, "log", "-1", "--format=%s %D", "--decorate-refs=refs/tags"),
                         "kvm-stats: Release version 1.1 tag: v1.1\n")
        self.assertEqual(self.state()[2], "")

    def test_tarball(self):
        """The tarball has the version, the tag of the image, and the changelog of the RPMs."""
        self.release("1.1")
        spec = self.unpack("1.1", "rpm/kvm-stats.spec")
        self.assertIn("\nVersion:        1.1\n", spec)
        self.assertEqual(re.sub(r".*\n\* \w{3} \w{3} \d\d \d{4} Some Body <a@b> - 1\.1-1", "",
                                spec.partition("%changelog")[2], count=1), SPEC)
        self.assertIn(" image: kvm-stats:1.1\n", self.unpack("1.1", "container/daemonset.yaml"))

    def test_first_version(self):
        """The version of the changelog can be released while NEWS.md has no date for it."""
        self.write("NEWS.md", "# News\n\n## Version 1.0\n\nkvm-stats\n\n- Works.\n\n"
                              "Kernel series\n\n- Builds.\n")
        self.write(SYMBOLS, "library library1\n a@V_1 1.0\n")
        run_git(self.top, "commit", "-qam", "news")
        self.release("1.0")
        for name, text in ("kvm-stats", "Works."), ("modules", "Builds."):
            self.assertEqual(re.findall(r"^\S.*\(.*|^  .*", self.read(f"{name}/debian/changelog"), re.M)[1:],
                             [f"  * {text}"])

    def test_undo(self):
        """The printed command undoes a release."""
        before = self.state()
        undo = self.release("1.1")[-1].removeprefix("undo: ")
        subprocess.run(undo, shell=True, check=True, cwd=self.top, stdout=subprocess.DEVNULL)
        self.assertEqual(self.state(), before)


class Refusals(Release):
    """Versions that are refused: one line, and nothing changes."""

    def test_version(self):
        for version in "", "1", "1.1.1", "v1.1", "01.1", "1.-1", "1.1 ", "$(date)":
            with self.subTest(version=version):
                self.refuse(version, f"version '{version}': not two numbers; make release VERSION=1.1")

    def test_smaller_version(self):
        self.write("kvm-stats/debian/changelog",
                   CHANGELOG.format("kvm-stats").replace("1.0", "1.10"))
        run_git(self.top, "commit", "-qam", "1.10")
        self.refuse("1.9", "version '1.9': not greater than 1.10")
        # The command line of make sets the variable in all Makefiles.
        self.refuse("0.11", "version '0.11': not greater than 1.10", MAKEFLAGS=" -- VERSION=0.11")

    def test_released_version(self):
        self.release("1.1")
        self.refuse("1.1", "tag 'v1.1': exists already")
        run_git(self.top, "tag", "-d", "v1.1")
        self.refuse("1.1", "NEWS.md: has 0 sections '## Next' or '## Version 1.1', must have one")

    def test_changed_tree(self):
        for name in "NEWS.md", "new file":
            with self.subTest(name=name):
                path = self.write(name, "changed\n")
                self.refuse("1.1", "work tree has changes: "
                            f"{name if name == 'NEWS.md' else chr(34) + name + chr(34)}; "
                            "commit or remove them")
                path.unlink()
                run_git(self.top, "checkout", "-q", ".")

    def test_news(self):
        for text, reason in (
                (NEWS.replace("## Next", "## Soon"),
                 "has 0 sections '## Next' or '## Version 1.1', must have one"),
                (NEWS + "\n## Version 1.1\n",
                 "has 2 sections '## Next' or '## Version 1.1', must have one"),
                (NEWS.replace("kvm-stats\n", "Program\n", 1),
                 "version 1.1 has the parts 'Program', not 'kvm-stats, Kernel series'"),
                (NEWS.replace("- ", ""), "version 1.1 has the parts '', not 'kvm-stats, Kernel series'")):
            with self.subTest(reason=reason):
                self.write("NEWS.md", text)
                run_git(self.top, "commit", "-qam", "news")
                self.refuse("1.1", f"NEWS.md: {reason}")

    def test_symbol_of_a_later_version(self):
        self.write(SYMBOLS, "library library1\n a@V_1 1.2\n")
        run_git(self.top, "commit", "-qam", "symbol")
        self.refuse("1.1", f"{SYMBOLS}: a@V_1 has version 1.2, which is greater than 1.1")

    def test_no_identity(self):
        self.refuse("1.1", "git has no user.name and user.email: git config user.name NAME, "
                           "git config user.email ADDRESS",
                    GIT_AUTHOR_NAME="", GIT_COMMITTER_NAME="")

    def fail_step(self, reason):
        """Check that a step fails with a line that matches, and that nothing changes."""
        before = self.state()
        self.assertRegex(run_refused(self, self.top / "scripts/release", "1.1"),
                         f"^release: {reason}")
        self.assertEqual(self.state(), before)

    def test_failed_step(self):
        """A release whose tarball, commit or tag fails is taken back."""
        hook = self.write(".git/hooks/pre-commit", "#!/bin/sh\necho >&2 refused by a hook\nexit 1\n")
        hook.chmod(0o755)
        self.fail_step("git commit: refused by a hook")
        hook.unlink()
        run_git(self.top, "config", "tag.gpgSign", "true")
        run_git(self.top, "config", "gpg.program", "false")
        self.fail_step("git tag: error: gpg failed to sign the data")
        run_git(self.top, "config", "tag.gpgSign", "false")
        (self.top / "kvm-stats/rpm/changelog.awk").unlink()
        run_git(self.top, "commit", "-qam", "broken")
        self.fail_step("make -s: .*changelog.awk")


class Version(unittest.TestCase):
    """The version in this repository."""

    def test_changelogs(self):
        """The source packages have one version: a release changes both."""
        first = [re.search(r"\((.*?)\)", (TOP / name / "debian/changelog").read_text())[1]
                 for name in ("kvm-stats", "modules")]
        self.assertEqual(first[0], first[1])

    def test_nowhere_else(self):
        """No other file names a version of kvm-stats, which the next release would leave behind."""
        found = subprocess.run(
            ["git", "grep", "-nE", r"kvm-stats(-dkms)?[-_:/ ]\(?v?[0-9]+\.[0-9]|^Version: +[0-9]",
             "--", ":!*/debian/changelog", ":!lab/tests/test_release.py"],
            cwd=TOP, text=True, check=False, stdout=subprocess.PIPE).stdout
        self.assertEqual(found, "")
