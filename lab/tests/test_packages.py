# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/fetch/install-packages with a fake apt-get."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from tools import TOP

LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock",
         "/var/cache/apt/archives/lock")


class Install(unittest.TestCase):
    """Calls of apt-get and output; of two packages, one is missing."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.add_program("dpkg-query", "echo installed here")
        self.add_program("id", "echo 0")

    def add_program(self, name, text):
        """Create a program that takes precedence over the installed one."""
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def install(self, *packages):
        """Return the status, stdout, stderr, and the arguments of all calls of apt-get."""
        done = subprocess.run(
            [TOP / "lab/fetch/install-packages", *packages], capture_output=True, text=True,
            env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}",
                 "CALLS": f"{self.folder}/calls", "TMPDIR": str(self.folder)}, check=False)
        calls = self.folder / "calls"
        return (done.returncode, done.stdout, done.stderr,
                calls.read_text().splitlines() if calls.exists() else [])

    def list_logs(self):
        """Return the logs that were kept."""
        return list(self.folder.glob("*.log"))

    def test_installed(self):
        """Nothing happens if the package is installed."""
        self.add_program("apt-get", "echo \"$*\" >>$CALLS")
        self.assertEqual(self.install("here"), (0, "", "", []))
        self.assertEqual(self.list_logs(), [])

    def test_missing(self):
        """Only the missing package is installed."""
        self.add_program("apt-get", "echo \"$*\" >>$CALLS")
        self.assertEqual(self.install("here", "away"), (
            0, "installing away\n", "", ["install -y --no-install-recommends away"]))
        self.assertEqual(self.list_logs(), [])

    def test_build_dependencies(self):
        """What a source package needs is installed, if its own list of it is not met."""
        (self.folder / "debian").mkdir()
        (self.folder / "debian/control").touch()
        self.add_program("apt-get", "echo \"$*\" >>$CALLS; touch $TMPDIR/met")
        self.add_program("dpkg-checkbuilddeps", "[ -e $TMPDIR/met ]")
        self.add_program("dpkg-query", "echo installed dpkg-dev")
        folder = str(self.folder)
        self.assertEqual(self.install("--to-build", folder), (
            0, f"installing what building {folder} needs\n", "",
            [f"build-dep -y --no-install-recommends {folder}"]))
        self.assertEqual(self.install("--to-build", folder)[1], "")

    def test_usage(self):
        """A directory without a source package, and a second one, are wrong arguments."""
        for arguments in (), ("--to-build", "/"), ("--to-build", "/", "/"), ("-x",):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.install(*arguments)[::2], (
                    2, "usage: install-packages PACKAGE... | --to-build DIR\n"))

    def test_old_lists(self):
        """After a failure, the package lists are updated and the installation is retried."""
        self.add_program("apt-get", "echo \"$*\" >>$CALLS; grep -q ^update $CALLS")
        install = "install -y --no-install-recommends away"
        self.assertEqual(self.install("away"), (
            0, "installing away\n", "", [install, "update", install]))

    def test_locked(self):
        """Each lock of apt and dpkg is waited for and reported once."""
        for number, why in enumerate((*(
                f"E: Could not get lock {lock}. It is held by process 7 (x)"
                for lock in LOCKS),
                "dpkg: error: dpkg frontend lock was locked by another process with pid 7")):
            (self.folder / "calls").unlink(missing_ok=True)
            self.add_program("apt-get", f"""
                echo "$*" >>$CALLS
                [ $(wc -l <$CALLS) -gt 2 ] || {{ echo '{why}'; exit 100; }}""")
            with self.subTest(why=why):
                status, _, stderr, calls = self.install("away")
                self.assertEqual((status, len(calls)), (0, 3))
                self.assertEqual(stderr, f"waiting: {why.removeprefix('E: ')}\n")

    def test_fails(self):
        """Other errors are reported with the path of the log, after three attempts. A package
        that does not exist is not the mirror's fault."""
        for why, expected in (("Failed to fetch away: 404", 75),
                              ("Unable to locate package away", 1),
                              ("You don't have enough free space in /var.", 1)):
            (self.folder / "calls").unlink(missing_ok=True)
            self.add_program("apt-get", f"echo \"$*\" >>$CALLS; echo \"E: {why}\"; exit 100")
            self.add_program("sleep", "")
            with self.subTest(why=why):
                status, _, stderr, calls = self.install("away")
                log, = self.list_logs()
                self.assertEqual((status, stderr), (
                    expected, f"could not install away: E: {why} (log: {log})\n"))
                self.assertEqual([call.split()[0] for call in calls],
                                 ["install", "update", "install", "update", "install"]
                                 [:1 if "space" in why else 5])
                log.unlink()

    def test_not_root(self):
        """Other users get the command to run."""
        self.add_program("id", "echo 1000")
        self.assertEqual(self.install("away")[::2], (
            1, "packages are missing, install them with: "
               "sudo apt-get install -y --no-install-recommends away\n"))
