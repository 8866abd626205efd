#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Records in, complaint out; and the commands' exit status for wrong input."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import records  # noqa: E402
from records import base_file  # noqa: E402


class Parser(unittest.TestCase):
    """One record, changed by one line."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.good = (records.KERNELS / "x86_64.record").read_text()

    def parse(self, text, name="x"):
        path = self.folder / f"{name}.record"
        path.write_text(text)
        return records.parse(path)

    def complaint(self, text):
        with self.assertRaises(records.Invalid) as caught:
            self.parse(text)
        return str(caught.exception)

    def test_every_record(self):
        for name in records.names():
            with self.subTest(kernel=name):
                record = records.Record(name)
                self.assertTrue(record.fragments[1].is_file())

    def test_every_record_is_for_some_base(self):
        """And every base names kernels and checks that there are."""
        found = set()
        for base in base_file.names():
            values = base_file.lines(TOP / "patches" / base / "base", base_file.KEYS)
            found.update(values["kernels"].split())
            for check in values["skip_checks"].split():
                self.assertTrue((TOP / "checks" / check).is_file(), check)
        self.assertEqual(found, {path.stem for path in records.KERNELS.glob("*.record")})

    def test_options_of_a_base(self):
        """Its fragment comes after those of the lab."""
        (self.folder / "common.config").write_text("")
        with unittest.mock.patch.object(records, "PARTICULAR", self.folder):
            record = records.Record(records.names()[0])
            self.assertEqual([path.parent for path in record.fragments[-2:]],
                             [records.KERNELS, self.folder])

    def test_record_of_a_base(self):
        """Its lines are in place of the lab's, for the record and for those like it."""
        of_base = self.folder / "of_base"
        of_base.mkdir()
        (of_base / "x.record").write_text("modules = moved.ko\n")
        with unittest.mock.patch.object(records, "PARTICULAR", of_base):
            values = self.parse(self.good)
            self.assertEqual((values["modules"], values["arch"]), ("moved.ko", "x86_64"))
            self.assertEqual(self.parse("like = x", "y")["modules"], "moved.ko")

    def test_kernel_of_no_base(self):
        """It is as unknown as one that has no record; one without record is named."""
        with unittest.mock.patch.object(base_file, "values", lambda: {"kernels": "mips x"}):
            with self.assertRaisesRegex(records.Invalid, "no kernel 'x' in lab/kernels"):
                records.names()
        with unittest.mock.patch.object(base_file, "values", lambda: {"kernels": "mips"}):
            with self.assertRaisesRegex(records.Invalid,
                                        "no kernel 'i386', choose from: mips$"):
                records.path("i386")

    def test_defaults(self):
        values = self.parse(self.good)
        self.assertEqual(values["cpus"], "2")
        self.assertEqual(values["config"], "x")
        self.assertEqual(self.parse(self.good + "cpus = 4")["cpus"], "4")

    def test_unknown_key(self):
        last = len(self.good.splitlines()) + 1
        self.assertEqual(self.complaint(self.good + "colour = red\n"),
                         f"x.record:{last}: unknown key 'colour'")

    def test_missing_key(self):
        for key in ("arch", "cross_compile", "packages"):
            with self.subTest(key=key):
                lines = [line for line in self.good.splitlines()
                         if line.split()[0] != key]
                self.assertEqual(self.complaint("\n".join(lines)),
                                 f"x.record: key '{key}' is missing")

    def test_key_twice(self):
        self.assertIn("is there twice",
                      self.complaint(self.good + "arch = mips\n"))

    def test_no_key(self):
        self.assertIn("not 'key = value'", self.complaint(self.good + "arch\n"))

    def test_unknown_level(self):
        self.assertIn("unknown level 'most', choose from",
                      self.complaint(self.good + "level = most"))

    def test_reason_and_level_disagree(self):
        for level in "vcpu", "build":
            self.assertIn("reason", self.complaint(f"{self.good}level = {level}"))
        self.assertIn("reason", self.complaint(self.good + "reason = why"))

    def test_kselftest_and_level_disagree(self):
        self.assertIn("kselftest", self.complaint(
            self.good + "level = own-tests\nreason = why"))
        self.assertIn("kselftest", self.complaint(
            self.good.replace("kselftest     = x86_64", "")))

    def test_no_machine(self):
        """Nothing to boot it with is right for what is only compiled."""
        self.assertIn("needs qemu", self.complaint(
            self.good.replace("qemu ", "# qemu ")))

    def test_like(self):
        """What a record does not say is as in the other one."""
        self.parse(self.good, "other")
        values = self.parse("like = other\nconfig = other more\nmemory = 2G")
        self.assertEqual((values["arch"], values["config"], values["memory"]),
                         ("x86_64", "other more", "2G"))
        self.assertEqual(self.parse("like = other")["config"], "other")

    def test_more_than_like(self):
        """What comes after the other's value, or after the default."""
        cmdline = self.parse(self.good, "other")["cmdline"]
        values = self.parse("like = other\nconfig += more\ncmdline+=quiet\nldflags  +=  -lx")
        self.assertEqual(
            [values[key] for key in ("config", "cmdline", "ldflags", "built_as")],
            ["other more", f"{cmdline} quiet", "-lx", "x"])
        for text in ("like = other\nmemory = 1G\nmemory += 2G",
                     self.good + "cpus += 2"):
            self.assertRegex(self.complaint(text),
                             r"x.record: '(memory|cpus) \+= ...' adds to")
        self.assertIn("key 'memory+' is there twice",
                      self.complaint("like = other\nmemory += 1G\nmemory += 2G"))
        self.assertIn("unknown key 'like+'", self.complaint("like = other\nlike += b"))

    def test_another_machine(self):
        """For the kernel of the other record, unless what makes a kernel differs."""
        self.parse(self.good, "other")
        for more, built_as in (("", "other"), ("cpus = 1\nqemu = q\ncmdline += a", "other"),
                               *((f"{line}\n", "x") for line in (
                                   "config = x", "config += x", "image = b",
                                   "arch = i386", "llvm = -19", "extmod = nosie"))):
            with self.subTest(more=more):
                self.assertEqual(self.parse(f"like = other\n{more}")["built_as"], built_as)

    def test_frozen(self):
        """Another value takes another record; the first one stays as it is."""
        record = records.Record("x86_64")
        with self.assertRaises(AttributeError):
            record.cpus = "1"
        other = record.but(cpus="1", modules=())
        self.assertEqual((other.cpus, other.modules, other.name), ("1", (), "x86_64"))
        self.assertNotEqual((record.cpus, record.modules), ("1", ()))
        with self.assertRaises(AttributeError):
            record.but(colour="red")
        with self.assertRaises(AttributeError):
            record.qemu.append("-S")

    def test_compiler(self):
        """gcc of the architecture, or LLVM."""
        record = records.Record("x86_64")
        self.assertEqual(record.compiler, "x86_64-linux-gnu-gcc")
        self.assertNotIn("LLVM=-19", record.make("x"))
        record = record.but(llvm="-19")
        self.assertEqual(record.compiler, "clang-19")
        self.assertIn("LLVM=-19", record.make("x"))

    def test_machine_for_long_guests(self):
        """Nothing of x86_64 is built twice for it."""
        for tree in "linux", "linux-base":
            record, other = (records.Record(name, tree) for name in ("x86_64", "x86_64-long"))
            self.assertEqual((record.kernel, record.userland), (other.kernel, other.userland))
            self.assertNotEqual((record.boot, record.cpus, record.qemu),
                                (other.boot, other.cpus, other.qemu))

    def test_headers(self):
        """All kernels of a tree make them in one folder, so what is the same is made once."""
        patched, other, base = (records.Record(*which) for which in (
            ("x86_64",), ("mips",), ("x86_64", "linux-base")))
        self.assertEqual(patched.headers, other.headers)
        self.assertNotEqual(patched.headers, base.headers)
        self.assertIn(f"O={patched.headers}", patched.make("x", into=patched.headers))
        self.assertIn(f"O={patched.kernel}", patched.make("x"))

    def test_like_what_is_none(self):
        for name in "x", "nosuch":
            self.assertIn(f"like = '{name}': no other record",
                          self.complaint(f"like = {name}"))
        self.parse(self.good, "first")
        self.parse("like = first", "second")
        self.assertIn("second has a 'like' of its own",
                      self.complaint("like = second"))


class Chosen(unittest.TestCase):
    """Which kernels a check takes."""

    def chosen(self, user, *named, kernels=""):
        with unittest.mock.patch.dict(os.environ, KERNELS=kernels):
            return records.chosen(user, named)

    def test_by_record(self):
        self.assertIn("x86_64-kasan", self.chosen("kernels"))
        self.assertNotIn("x86_64-kcsan", self.chosen("kernels"))
        self.assertEqual(self.chosen("races"), ["x86_64-kcsan"])
        self.assertNotIn("x86_64-kasan", self.chosen("bisect"))

    def test_by_the_environment(self):
        self.assertEqual(self.chosen("kernels", kernels="mips x86_64-kcsan"),
                         ["mips"])
        with self.assertRaises(records.Invalid):
            self.chosen("races", kernels="mips")

    def test_by_name(self):
        """Whoever names a kernel gets it."""
        self.assertEqual(self.chosen("kernels", "x86_64-kcsan"),
                         ["x86_64-kcsan"])

    def test_users_exist(self):
        for name in records.names():
            for user in records.parse(records.path(name))["used_by"].split():
                with self.subTest(kernel=name, user=user):
                    self.assertTrue(any((TOP / room / user).is_file() for room
                                        in ("checks", "checks/long", "lab")))


class Commands(unittest.TestCase):
    """One clear line and exit 2."""

    def bases(self, of_debian):
        """Those with a kernel of Debian, or those without; there are some."""
        found = [base for base in base_file.names()
                 if bool(base_file.values(base)["debian_kernel"]) == of_debian]
        self.assertTrue(found)
        return found

    def complaint(self, *command, **variables):
        done = subprocess.run([TOP / command[0], *command[1:]],
                              env={**os.environ, **variables},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_unknown_kernel(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs",
                        "checks/kernels", "checks/long/bisect",
                        "checks/long/warnings"):
            with self.subTest(command=command):
                text = self.complaint(command, "vax")
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn(f"{command}: no kernel 'vax', choose from: arm64", text)

    def test_unknown_kernel_in_the_environment(self):
        self.assertIn("no kernel 'vax', choose from: arm64",
                      self.complaint("checks/kernels", KERNELS="mips vax"))

    def test_unknown_kernel_of_make(self):
        done = subprocess.run(["make", "-nC", TOP, "check", "KERNELS=mips vax"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no kernel 'vax', choose from: arm64", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_unknown_base(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs", "lab/install",
                        "checks/kernels", "checks/all", "checks/modules",
                        "checks/long/mutants"):
            with self.subTest(command=command):
                text = self.complaint(command, "x86_64", BASE="9.9")
                self.assertEqual(text.count("\n"), 1, text)
                self.assertIn("no base '9.9', choose from: ", text)

    def test_base_without_a_kernel_of_debian(self):
        """It is the check of those that have one."""
        self.assertEqual(self.complaint("checks/modules", "9.9").count("\n"), 1)
        for base in self.bases(of_debian=False):
            with self.subTest(base=base):
                self.assertEqual(self.complaint("checks/modules", base),
                                 f"checks/modules: base {base}: no debian_kernel\n")

    def test_kernel_of_debian(self):
        """It is booted with a program, of a base that has one."""
        tried = [(base, "x86_64", "--", "/bin/true")
                 for base in self.bases(of_debian=False)]
        for base in self.bases(of_debian=True):
            others = [name for name in base_file.values(base)["kernels"].split()
                      if not name.startswith("x86_64")]
            tried += [(base, "x86_64"), *((base, name, "--", "/bin/true")
                                          for name in others[:1])]
        for base, *words in tried:
            with self.subTest(base=base, words=words):
                self.assertIn("lab/run: --debian boots a program",
                              self.complaint("lab/run", "--debian", *words, BASE=base))

    def test_unknown_base_of_make(self):
        done = subprocess.run(["make", "-nC", TOP, "check", "BASE=9.9"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn("no base '9.9', choose from: ", done.stderr)

    def test_unknown_option(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs",
                        "checks/kernels", "checks/all", "checks/consumers"):
            with self.subTest(command=command):
                self.assertIn("unrecognized arguments: --fast",
                              self.complaint(command, "--fast", "x86_64"))

    def test_program(self):
        for program in ("/nowhere/x", str(TOP)):
            with self.subTest(program=program):
                self.assertIn(f"no such program: {program}",
                              self.complaint("lab/run", "x86_64", "--", program))

    def test_program_of_another_kind(self):
        """A script, and a program that wants a loader which is not there."""
        self.assertIn("is not an ELF program", self.complaint(
            "lab/run", "x86_64", "--", str(TOP / "lab/demo")))
        text = self.complaint("lab/run", "x86_64", "--", sys.executable)
        self.assertIn("is dynamically linked: it must be static", text)
        self.assertEqual(text.count("\n"), 1)

    def test_root(self):
        self.assertIn("no folder /nowhere",
                      self.complaint("lab/run", "--root", "/nowhere", "x86_64",
                                     "--", sys.executable))


class Copy(unittest.TestCase):
    """A copy of the lab whose records and fragments are broken."""

    def setUp(self):
        self.top = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        for folder in ("lab", "scripts", "patches"):
            shutil.copytree(TOP / folder, self.top / folder)
        made = records.OF_BASE.relative_to(TOP)
        (self.top / made).mkdir(parents=True)
        (self.top / made / "linux").symlink_to(TOP / made / "linux")

    def build(self, kernel):
        done = subprocess.run([self.top / "lab/build", kernel],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done)
        return done.stderr.splitlines()[-1]

    def append(self, name, line):
        with (self.top / "lab/kernels" / name).open("a") as file:
            file.write(line + "\n")

    def test_option_that_does_not_stick(self):
        # That of the repository, which the copy's own would take for another one.
        subprocess.run([TOP / "scripts/tree", "--use"], check=True, capture_output=True)
        (self.top / "scripts/tree").write_text("#!/bin/sh\n")
        self.append("mips.config", "CONFIG_KVM_AMD=m")
        self.assertIn("does not take CONFIG_KVM_AMD", self.build("mips"))

    def test_unknown_key(self):
        self.append("mips.record", "colour = red")
        self.assertIn("unknown key 'colour'", self.build("mips"))

    def test_no_fragment(self):
        (self.top / "lab/kernels/mips.config").unlink()
        self.assertIn("mips.config", self.build("mips"))

    def test_no_extmod(self):
        shutil.rmtree(self.top / "lab/inside/nosie")
        self.assertIn("no folder lab/inside/nosie", self.build("s390x"))


if __name__ == "__main__":
    unittest.main()
