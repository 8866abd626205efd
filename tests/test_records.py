#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Records in, complaint out; and the commands' exit status for wrong input."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab"))

import records  # noqa: E402


class Parser(unittest.TestCase):
    """One record, changed by one line."""

    def setUp(self):
        self.good = (records.KERNELS / "x86_64.record").read_text()

    def complaint(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.record"
            path.write_text(text)
            with self.assertRaises(records.Invalid) as caught:
                records.parse(path)
        return str(caught.exception)

    def test_every_record(self):
        for name in records.names():
            with self.subTest(kernel=name):
                record = records.Record(name)
                self.assertTrue(record.fragments[1].is_file())

    def test_unknown_key(self):
        last = len(self.good.splitlines()) + 1
        self.assertEqual(self.complaint(self.good + "colour = red\n"),
                         f"x.record:{last}: unknown key 'colour'")

    def test_missing_key(self):
        for key in records.WORDS + records.LISTS:
            with self.subTest(key=key):
                lines = [line for line in self.good.splitlines()
                         if line.split()[0] != key]
                self.assertEqual(self.complaint("\n".join(lines)),
                                 f"x.record: key '{key}' is missing")

    def test_key_twice(self):
        self.assertIn("stands there twice",
                      self.complaint(self.good + "arch = mips\n"))

    def test_no_key(self):
        self.assertIn("not 'key = value'", self.complaint(self.good + "arch\n"))

    def test_unknown_level(self):
        text = self.good.replace("= guest", "= most")
        self.assertIn("level 'most' is none of", self.complaint(text))

    def test_reason_and_level_disagree(self):
        without = self.good.replace("kselftest     = x86_64", "kselftest =")
        for level, good in (("vcpu", self.good), ("own-tests", without),
                            ("build", self.good)):
            text = good.replace("= guest", f"= {level}")
            self.assertIn("reason", self.complaint(text))
        self.assertIn("reason", self.complaint(
            self.good.replace("reason        =", "reason = why")))

    def test_kselftest_and_level_disagree(self):
        for change in (("= guest", "= own-tests"),
                       ("kselftest     = x86_64", "kselftest =")):
            self.assertIn("kselftest",
                          self.complaint(self.good.replace(*change)))


class Commands(unittest.TestCase):
    """One clear line and exit 2."""

    def complaint(self, *command):
        done = subprocess.run([TOP / "lab" / command[0], *command[1:]],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_unknown_kernel(self):
        for command in ("build", "userland", "run", "record-debugfs", "check"):
            with self.subTest(command=command):
                text = self.complaint(command, "vax")
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn("no kernel 'vax', there are: arm64", text)

    def test_unknown_kernel_of_make(self):
        done = subprocess.run(["make", "-nC", TOP, "check", "KERNELS=mips vax"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no kernel 'vax', there are: arm64", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_unknown_option(self):
        for command in ("build", "userland", "run", "record-debugfs", "check"):
            with self.subTest(command=command):
                self.assertIn("unrecognized arguments: --fast",
                              self.complaint(command, "--fast", "x86_64"))

    def test_program(self):
        for program in ("/nowhere/x", str(TOP), __file__.replace(".py", "")):
            with self.subTest(program=program):
                self.assertIn(f"no program {program}",
                              self.complaint("run", "x86_64", "--", program))

    def test_root(self):
        self.assertIn("no folder /nowhere",
                      self.complaint("run", "--root", "/nowhere", "x86_64",
                                     "--", sys.executable))


class Copy(unittest.TestCase):
    """A copy of the lab whose records and fragments are broken."""

    def setUp(self):
        self.top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for folder in ("lab", "scripts"):
            shutil.copytree(TOP / folder, self.top / folder)

    def build(self, kernel):
        source = os.environ.get("LAB_SOURCE", TOP / "build/linux")
        done = subprocess.run([self.top / "lab/build", kernel],
                              env={**os.environ, "LAB_SOURCE": str(source)},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done)
        return done.stderr.splitlines()[-1]

    def append(self, name, line):
        with (self.top / "lab/kernels" / name).open("a") as file:
            file.write(line + "\n")

    def test_option_that_does_not_stick(self):
        self.append("mips.config", "CONFIG_KVM_AMD=m")
        self.assertIn("does not take CONFIG_KVM_AMD", self.build("mips"))

    def test_unknown_key(self):
        self.append("mips.record", "colour = red")
        self.assertIn("unknown key 'colour'", self.build("mips"))

    def test_no_fragment(self):
        (self.top / "lab/kernels/mips.config").unlink()
        self.assertIn("mips.config", self.build("mips"))

    def test_no_extmod(self):
        shutil.rmtree(self.top / "lab/s390x")
        self.assertIn("no folder lab/s390x", self.build("s390x"))


if __name__ == "__main__":
    unittest.main()
