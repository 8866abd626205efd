# SPDX-License-Identifier: GPL-2.0-only
"""The records of kernels, and the exit status of commands for invalid input."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from host import base_file, records
from tools import TOP, commit_all, run_refused

MAKE = ("/usr/bin/make", "check", "-snC")


class Parser(unittest.TestCase):
    """A valid record with one changed line."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
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
        for name in records.list_names():
            with self.subTest(kernel=name):
                record = records.Record(name)
                self.assertTrue(record.fragments[1].is_file())

    def test_every_record_is_for_some_base(self):
        """Every record is listed by a base, and every listed kernel has a record."""
        found = set()
        for base in base_file.list_names():
            found.update(base_file.read_values(base)["kernels"].split())
        self.assertEqual(found, {path.stem for path in records.KERNELS.glob("*.record")})

    def test_options_of_a_base(self):
        """The base's fragment follows those of the lab."""
        of_base = self.folder / "kernels"
        of_base.mkdir()
        (of_base / "common.config").write_text("")
        with unittest.mock.patch.object(base_file, "list_directories", lambda _: [self.folder]):
            record = records.Record(records.list_names()[0])
            self.assertEqual([path.parent for path in record.fragments[-2:]],
                             [records.KERNELS, of_base])

    def test_record_of_a_base(self):
        """Lines of the base replace the lab's, lines of a base like another that one's."""
        folders = [self.folder / "1.0", self.folder / "2.0"]
        for folder, text in zip(folders, ("modules = moved.ko\ncpus = 3\n", "cpus = 4\n")):
            (folder / "kernels").mkdir(parents=True)
            (folder / "kernels/x.record").write_text(text)
        with unittest.mock.patch.object(base_file, "list_directories", lambda _: folders):
            values = self.parse(self.good)
            self.assertEqual((values["modules"], values["arch"], values["cpus"]),
                             ("moved.ko", "x86_64", "4"))
            self.assertEqual(self.parse("like = x", "y")["modules"], "moved.ko")

    def test_kernel_that_the_base_does_not_list(self):
        """The message for an existing record says where to list it."""
        with unittest.mock.patch.object(base_file, "read_values", lambda: {"kernels": "mips x"}):
            with self.assertRaisesRegex(records.Invalid, "no kernel 'x' in lab/kernels"):
                records.list_names()
        with unittest.mock.patch.object(base_file, "read_values", lambda: {"kernels": "mips"}):
            with self.assertRaisesRegex(
                    records.Invalid, f"^base {base_file.NAME} does not list the kernel 'i386': "
                    f"add it to kernels in patches/{base_file.NAME}/base$"):
                records.find_record("i386")
            with self.assertRaisesRegex(records.Invalid, "^no kernel 'vax', choose from: mips$"):
                records.find_record("vax")

    def test_defaults(self):
        values = self.parse(self.good)
        self.assertEqual(values["llvm"], "")
        self.assertEqual(values["config"], "x")
        self.assertEqual(self.parse(self.good + "llvm = -19")["llvm"], "-19")

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
        self.assertIn("occurs twice",
                      self.complaint(self.good + "arch = mips\n"))

    def test_no_key(self):
        self.assertIn("not 'key = value'", self.complaint(self.good + "arch\n"))

    def test_unknown_level(self):
        self.assertIn("unknown level 'most', choose from",
                      self.complaint(self.good + "level = most"))

    def test_unknown_clock(self):
        self.parse(self.good, "other")
        self.assertEqual(self.complaint("like = other\nclock = 2ns\n"),
                         "x.record: unknown clock '2ns', choose from: host 8ns 1ns")

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
        """Only kernels that are not booted may lack qemu."""
        self.assertIn("needs qemu", self.complaint(
            self.good.replace("qemu ", "# qemu ")))

    def test_like(self):
        """Missing keys are inherited from the other record."""
        self.parse(self.good, "other")
        values = self.parse("like = other\nconfig = other more\nmemory = 2G")
        self.assertEqual((values["arch"], values["config"], values["memory"]),
                         ("x86_64", "other more", "2G"))
        self.assertEqual(self.parse("like = other")["config"], "other")

    def test_more_than_like(self):
        """+= appends to the inherited value, or to the default."""
        cmdline = self.parse(self.good, "other")["cmdline"]
        values = self.parse("like = other\nconfig += more\ncmdline+=quiet\nldflags  +=  -lx")
        self.assertEqual(
            [values[key] for key in ("config", "cmdline", "ldflags", "built_as")],
            ["other more", f"{cmdline} quiet", "-lx", "x"])
        for text in ("like = other\nmemory = 1G\nmemory += 2G",
                     self.good + "cpus += 2"):
            self.assertRegex(self.complaint(text),
                             r"x.record: '(memory|cpus) \+= ...' appends to")
        self.assertIn("key 'memory+' occurs twice",
                      self.complaint("like = other\nmemory += 1G\nmemory += 2G"))
        self.assertIn("unknown key 'like+'", self.complaint("like = other\nlike += b"))

    def test_another_machine(self):
        """A record shares the other one's kernel unless a key of the build differs."""
        self.parse(self.good, "other")
        for more, built_as in (("", "other"), ("cpus = 1\nqemu = q\ncmdline += a", "other"),
                               *((f"{line}\n", "x") for line in (
                                   "config = x", "config += x", "image = b",
                                   "arch = i386", "llvm = -19", "extmod = s390-without-sie"))):
            with self.subTest(more=more):
                self.assertEqual(self.parse(f"like = other\n{more}")["built_as"], built_as)

    def test_frozen(self):
        """replace() returns another record; the first one does not change."""
        record = records.Record("x86_64")
        with self.assertRaises(AttributeError):
            record.cpus = "1"
        other = record.replace(cpus="1", modules=())
        self.assertEqual((other.cpus, other.modules, other.name), ("1", (), "x86_64"))
        self.assertNotEqual((record.cpus, record.modules), ("1", ()))
        with self.assertRaises(AttributeError):
            record.replace(colour="red")
        with self.assertRaises(AttributeError):
            record.qemu.append("-S")

    def test_compiler(self):
        """The compiler is the architecture's gcc, or LLVM."""
        record = records.Record("x86_64")
        self.assertEqual(record.compiler, "x86_64-linux-gnu-gcc")
        self.assertNotIn("LLVM=-19", record.make_command("x"))
        record = record.replace(llvm="-19")
        self.assertEqual(record.compiler, "clang-19")
        self.assertIn("LLVM=-19", record.make_command("x"))

    def test_machine_for_long_guests(self):
        """x86_64-long shares kernel and programs with x86_64."""
        for tree in "linux", "linux-base":
            record, other = (records.Record(name, tree) for name in ("x86_64", "x86_64-long"))
            self.assertEqual((record.kernel, record.userland), (other.kernel, other.userland))
            self.assertNotEqual((record.boot, record.cpus, record.qemu),
                                (other.boot, other.cpus, other.qemu))

    def test_headers(self):
        """All kernels of a tree share a directory, so that common headers are generated once."""
        patched, other, base = (records.Record(*which) for which in (
            ("x86_64",), ("s390x",), ("x86_64", "linux-base")))
        self.assertEqual(patched.headers, other.headers)
        self.assertNotEqual(patched.headers, base.headers)
        self.assertIn(f"O={patched.headers}", patched.make_command("x", into=patched.headers))
        self.assertIn(f"O={patched.kernel}", patched.make_command("x"))

    def test_like_what_is_none(self):
        for name in "x", "nosuch":
            self.assertIn(f"like = '{name}': no other record",
                          self.complaint(f"like = {name}"))
        (self.folder / "second.record").write_text("like = x")
        self.assertIn("like = 'x': no other record", self.complaint("like = second"))

    def test_like_a_record_that_is_like_another(self):
        """Values come from the nearest record, programs from the first one."""
        self.parse(self.good, "first")
        self.parse("like = first\nconfig += more\nmemory = 2G", "second")
        values = self.parse("like = second\nmemory = 3G")
        self.assertEqual(
            [values[key] for key in ("like", "built_as", "config", "memory", "arch")],
            ["first", "second", "first more", "3G", "x86_64"])


class Chosen(unittest.TestCase):
    """The kernels that a check uses."""

    def chosen(self, user, *named, kernels=""):
        with unittest.mock.patch.dict(os.environ, KERNELS=kernels):
            return records.choose(user, named)

    def test_by_record(self):
        self.assertIn("x86_64", self.chosen("kernels"))
        self.assertNotIn("x86_64-bench", self.chosen("kernels"))
        self.assertEqual(self.chosen("bench"), ["x86_64-bench"])

    def test_by_the_environment(self):
        self.assertEqual(self.chosen("kernels", kernels="x86_64 x86_64-bench"), ["x86_64"])
        with self.assertRaises(records.Invalid):
            self.chosen("bench", kernels="x86_64")

    def test_by_name(self):
        """A named kernel is always taken."""
        self.assertEqual(self.chosen("kernels", "x86_64-bench"), ["x86_64-bench"])

    def test_users_exist(self):
        for name in records.list_names():
            for user in records.parse(records.find_record(name))["used_by"].split():
                with self.subTest(kernel=name, user=user):
                    self.assertTrue(any((TOP / room / user).is_file() for room
                                        in ("lab/checks", "lab/checks/long", "lab")))


class Commands(unittest.TestCase):
    """Commands print one line and exit with 2."""

    def bases(self, of_debian):
        """Return the bases with, or without, a kernel in Debian."""
        found = [base for base in base_file.list_names()
                 if bool(base_file.read_values(base)["debian_kernel"]) == of_debian]
        self.assertTrue(found)
        return found

    def test_unknown_kernel(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs",
                        "lab/checks/kernels", "lab/checks/long/bisect",
                        "lab/checks/long/warnings"):
            with self.subTest(command=command):
                self.assertIn(f"{command}: no kernel 'vax', choose from: arm64",
                              run_refused(self, command, "vax"))

    def test_unknown_kernel_in_the_environment(self):
        self.assertIn("no kernel 'vax', choose from: arm64",
                      run_refused(self, "lab/checks/kernels", KERNELS="x86_64 vax"))

    def test_unknown_kernel_of_make(self):
        self.assertIn("no kernel 'vax', choose from: arm64",
                      run_refused(self, *MAKE, TOP, "KERNELS=x86_64 vax"))

    def test_unknown_base(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs", "lab/install",
                        "lab/checks/kernels", "lab/check", "lab/checks/modules",
                        "lab/checks/long/mutants"):
            with self.subTest(command=command):
                self.assertIn("no base '9.9', choose from: ",
                              run_refused(self, command, "x86_64", BASE="9.9"))

    def test_base_without_a_kernel_of_debian(self):
        """lab/checks/modules refuses a base without a kernel in Debian."""
        run_refused(self, "lab/checks/modules", "9.9")
        for base in self.bases(of_debian=False):
            with self.subTest(base=base):
                self.assertEqual(run_refused(self, "lab/checks/modules", base),
                                 f"lab/checks/modules: base {base}: no debian_kernel\n")

    def test_kernel_of_debian(self):
        """lab/run --debian needs a base with a kernel in Debian and a program."""
        tried = [(base, "x86_64", "--", "/bin/true")
                 for base in self.bases(of_debian=False)]
        for base in self.bases(of_debian=True):
            others = [name for name in base_file.read_values(base)["kernels"].split()
                      if not name.startswith("x86_64")]
            tried += [(base, "x86_64"), *((base, name, "--", "/bin/true")
                                          for name in others[:1])]
        for base, *words in tried:
            with self.subTest(base=base, words=words):
                self.assertIn("lab/run: --debian requires a program",
                              run_refused(self, "lab/run", "--debian", *words, BASE=base))

    def test_unknown_base_of_make(self):
        self.assertIn("no base '9.9', choose from: ",
                      run_refused(self, *MAKE, TOP, "BASE=9.9"))

    def test_unknown_option(self):
        for command in ("lab/build", "lab/run", "lab/record-debugfs",
                        "lab/checks/kernels", "lab/check", "lab/checks/consumers"):
            with self.subTest(command=command):
                self.assertIn("unrecognized arguments: --fast",
                              run_refused(self, command, "--fast", "x86_64"))

    def test_program(self):
        for program in ("/nowhere/x", str(TOP), "./none"):
            with self.subTest(program=program):
                self.assertIn(f"no such program: {program}",
                              run_refused(self, "lab/run", "x86_64", "--", program))
        for typed, reason in (([], "required: kernel"),
                              (["x86_64", "--"], "no program after --"),
                              (["x86_64", "debugfs", "--", "/bin/true"], "not both"),
                              (["mips64", "debugfs"], "mips64 does not boot: "),
                              (["mips64", "--", "/bin/true"], "mips64 does not boot: ")):
            with self.subTest(typed=typed):
                self.assertIn(reason, run_refused(self, "lab/run", *typed))

    def test_unknown_test(self):
        """The message lists the tests of the kernel."""
        text = run_refused(self, "lab/run", "x86_64", "debugfs", "nonsense")
        self.assertIn("no test 'nonsense' on x86_64, choose from: kvm_", text)
        self.assertIn(" debugfs ", text)
        self.assertNotIn("kmemleak", text)
        self.assertIn("kmemleak", run_refused(self, "lab/run", "x86_64-kasan", "nonsense"))

    def test_program_of_another_kind(self):
        """A script and a dynamically linked program are refused."""
        self.assertIn("is not an ELF program",
                      run_refused(self, "lab/run", "x86_64", "--", str(TOP / "lab/demo")))
        self.assertIn("is dynamically linked: it must be static",
                      run_refused(self, "lab/run", "x86_64", "--", sys.executable))

    def test_root(self):
        self.assertIn("no folder /nowhere",
                      run_refused(self, "lab/run", "--root", "/nowhere", "x86_64", "--",
                                  sys.executable))


class Copy(unittest.TestCase):
    """A copy of the lab with broken records and options, and a kernel of one file."""

    # Configures a kernel that does not have one of the options.
    MAKEFILE = "allnoconfig:\n\tgrep -v CONFIG_KVM_AMD $(KCONFIG_ALLCONFIG) >$(O)/.config\n"

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in ("lab", "scripts", "patches"):
            shutil.copytree(TOP / folder, self.top / folder, symlinks=True)
        # Nothing is fetched, installed or compiled.
        for script in "tree", "install-packages":
            (self.top / "scripts" / script).write_text("#!/bin/sh\n")
        tree = self.top / records.BASE_BUILD_DIR.relative_to(TOP) / "linux"
        tree.mkdir(parents=True)
        (tree / "Makefile").write_text(self.MAKEFILE)
        commit_all(tree)

    def build(self, kernel):
        """Return the last line of lab/build, which fails."""
        done = subprocess.run([self.top / "lab/build", kernel],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done)
        return done.stderr.splitlines()[-1]

    def append(self, name, line):
        with (self.top / "lab/kernels" / name).open("a") as file:
            file.write(line + "\n")

    def test_record_that_no_base_lists(self):
        """make and the lab say where to list it."""
        shutil.copy(TOP / "Makefile", self.top)
        (self.top / "lab/kernels/tiny.record").write_text("like = x86_64\n")
        self.assertIn("does not list the kernel 'tiny': add it to kernels in patches/",
                      self.build("tiny"))
        self.assertIn("no base lists the kernel 'tiny': add it to kernels in patches/BASE/base",
                      run_refused(self, *MAKE, self.top, "KERNELS=tiny"))

    def test_option_that_does_not_stick(self):
        """The compiler of the kernel is run: that of the build host is always installed."""
        self.assertIn("does not take CONFIG_KVM_AMD", self.build("x86_64"))

    def test_unknown_key(self):
        self.append("arm64.record", "colour = red")
        self.assertIn("unknown key 'colour'", self.build("arm64"))

    def test_no_fragment(self):
        (self.top / "lab/kernels/arm64.config").unlink()
        self.assertIn("arm64.config", self.build("arm64"))

    def test_no_extmod(self):
        shutil.rmtree(self.top / "lab/inside/s390-without-sie")
        self.assertIn("no folder lab/inside/s390-without-sie", self.build("s390x"))
