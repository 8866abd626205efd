#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Which tests a kernel gets, and what is made of a boot."""

import contextlib
import importlib.machinery
import importlib.util
import io
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab/host"))

import records  # noqa: E402
import results  # noqa: E402
import suite  # noqa: E402


class Selftests(unittest.TestCase):
    """The options of the kernel choose, arguments are given."""

    def chosen(self, config, level="guest", of_kernel=False):
        with tempfile.TemporaryDirectory() as folder:
            fragment = Path(folder) / "x.config"
            fragment.write_text(config)
            path = Path(folder) / "tools/testing/selftests/kvm/kvm_binary_stats_test.c"
            if of_kernel:
                path.parent.mkdir(parents=True)
                path.touch()
            with mock.patch.object(suite.records.base_file, "TREE", Path(folder)), \
                    mock.patch.object(suite.programs, "selftests", return_value=[
                        Path(name) for name in ("plain", "kvm_stats_torn",
                                                "kvm_stats_stress")]):
                return suite.selftests(types.SimpleNamespace(
                    fragments=[fragment], level=level))

    def test_chosen(self):
        everywhere = [["plain"], ["kvm_stats_torn"]]
        for config in "", "CONFIG_KASAN=m\n", "# CONFIG_KASAN is not set\n":
            self.assertEqual(self.chosen(config), everywhere)
        stress = ["kvm_stats_stress", "-n", "30000"]
        self.assertEqual(self.chosen("CONFIG_KASAN=y\n"), [*everywhere, stress])
        self.assertEqual(self.chosen("CONFIG_KCSAN=y\n"), [
            ["plain"], ["kvm_stats_torn", "-m", "5000"], stress])

    def test_of_the_kernel(self):
        """Newer kernels have one; a vCPU runs in it."""
        names = [["plain"], ["kvm_stats_torn"]]
        self.assertEqual(self.chosen("", of_kernel=True),
                         [["kvm_binary_stats_test"], *names])
        self.assertEqual(self.chosen("", "vcpu", of_kernel=True), names)


class Skips(unittest.TestCase):
    """A test may skip only what its machine does not have."""

    def test_huge_page(self):
        output = "ok 1 a page of 2 MB\nok 2 # SKIP the host has no page of 1 GB\n1..2\n"
        for name, passes in ("x86_64", False), ("x86_64-kasan", True):
            record = records.Record(name)
            with mock.patch.object(suite, "selftests", return_value=[
                    ["kvm_stats_mmu"], ["kvm_stats_torn"]]):
                mmu, torn = suite.tests(record)[:2]
            self.assertEqual(mmu.judge(output, 0)[0], passes)
            self.assertFalse(torn.judge(output, 0)[0])


class Modules(unittest.TestCase):
    """In the kernel of which base modules of its series are loaded."""

    def test_base(self):
        loader = importlib.machinery.SourceFileLoader(
            "modules", str(records.TOP / "checks/modules"))
        modules = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("modules", loader))
        loader.exec_module(modules)
        kernels = {"5.10": "", "6.2": "a", "6.12": "b"}
        with mock.patch.multiple(
                records.base_file, names=lambda: list(kernels),
                values=lambda name: {"debian_kernel": kernels[name]}):
            for chosen, named, base in (("5.10", None, "6.12"), ("6.2", None, "6.2"),
                                        ("6.2", "6.12", "6.12"), ("5.10", "6.2", "6.2")):
                with mock.patch.object(records.base_file, "NAME", chosen):
                    self.assertEqual(modules.which(named), base)
            with self.assertRaises(records.Invalid):
                modules.which("5.10")


class Order(unittest.TestCase):
    """Which kernel is built first."""

    def test_order(self):
        loader = importlib.machinery.SourceFileLoader(
            "kernels", str(records.TOP / "checks/kernels"))
        kernels = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("kernels", loader))
        loader.exec_module(kernels)

        def order(took):
            with mock.patch.object(suite.durations, "last",
                                   lambda _, name: took.get(name, float("inf"))):
                return sorted(("arm64", "mips", "mips64", "x86_64", "x86_64-kasan"),
                              key=lambda name: kernels.place(records.Record(name)))

        self.assertEqual(order({}), ["x86_64", "x86_64-kasan", "arm64", "mips", "mips64"])
        self.assertEqual(order({"arm64": 3.0, "mips": 9.0, "x86_64": 1.0, "x86_64-kasan": 5.0}),
                         ["x86_64", "mips", "x86_64-kasan", "arm64", "mips64"])


class Boot:
    """A boot that goes as it is told; see machine.Boot."""

    def __init__(self, *ends, problem=None):
        self.ends = ends
        self.problem = problem
        self.console = "console.log"
        self.seconds = 1.0
        self.times = {name: 0.5 for name, _ in ends}
        self.channel = types.SimpleNamespace(
            output={name: b"said" for name, _ in ends}, status={})

    def __call__(self, record, folder):
        return self

    def run(self, limit, memory):
        for name, status in self.ends:
            self.channel.status[name] = status
            yield "exit", name, b""

    def last_lines(self):
        return ["last words"]


class Boots(unittest.TestCase):
    """One result per test, and one of the boot."""

    def said(self, boot, *names, **options):
        with tempfile.TemporaryDirectory() as folder:
            record = types.SimpleNamespace(boot=Path(folder) / "x", reason="why")
            (Path(folder) / "here").mkdir()
            tests = [suite.Test(name, [name],
                                lambda output, status: (not status, output))
                     for name in names]
            found = results.Results()
            with mock.patch.object(suite.machine, "pack"), \
                    mock.patch.object(suite.machine, "Boot", boot), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                suite.boot(found, "here", record, tests, **options)
        return found, out.getvalue().splitlines()

    def test_passed(self):
        found, lines = self.said(Boot(("a", 0), ("b", 0)), "a", "b")
        self.assertEqual((found.passed, found.failed), (3, 0))
        self.assertRegex(lines[0], r"^PASS here/a +said  0\.5 s  \[why\]$")
        self.assertRegex(lines[2], r"^PASS here/boot +1\.0 s in all$")

    def test_a_test_fails(self):
        found, lines = self.said(Boot(("a", 1)), "a")
        self.assertEqual((found.passed, found.failed), (1, 1))
        self.assertRegex(lines[0], r"^FAIL here/a +said .*\(log: .*/a\.log\)$")

    def test_no_verdict(self):
        found, lines = self.said(Boot(("a", 0), problem="hangs in b"), "a", "b")
        self.assertEqual((found.passed, found.failed), (1, 2))
        self.assertRegex(lines[1], r"^FAIL here/b +has no verdict$")
        self.assertRegex(lines[3], r"^FAIL here/boot +hangs in b \(console: ")
        self.assertEqual(lines[4], "    last words")

    def test_again(self):
        """What to type after each failure; the check, where nothing is said."""
        boot = Boot(("a", 1), problem="hangs in b")
        for options, said in (
                ({"again": lambda *test: " ".join(["lab/run here", *test])},
                 ["lab/run here a", "lab/run here b", "lab/run here"]),
                ({}, [results.this_command()] * 3)):
            boot.channel.status.clear()
            lines = self.said(boot, "a", "b", **options)[1]
            self.assertEqual([line for line in lines if "again" in line],
                             [f"    again: {command}" for command in said])

    def test_two_of_one_name(self):
        with self.assertRaises(records.Invalid) as caught:
            self.said(Boot(), "a", "b", "a")
        self.assertIn("two tests of one name among a b a", str(caught.exception))


class Run(unittest.TestCase):
    """Which tests of a kernel run, and what is said when they fail."""

    def run_on(self, name, *names, tree="linux", build=lambda record: None):
        """The tests that were booted and what is said of a failure."""
        with mock.patch.object(suite, "boot") as boot, \
                contextlib.redirect_stdout(io.StringIO()) as out:
            suite.run(results.Results(), records.Record(name, tree), build, names)
        if not boot.called:
            return out.getvalue()
        again = boot.call_args[1]["again"]
        return [test.name for test in boot.call_args[0][3]], again("x"), again()

    def test_all(self):
        names, one, whole = self.run_on("x86_64")
        self.assertIn("debugfs", names)
        self.assertEqual((one, whole), ("lab/run x86_64 x", "lab/run x86_64"))
        self.assertEqual(names[-1], "unload")

    def test_named(self):
        """In the order in which they run: what looks at all of them is last."""
        self.assertEqual(self.run_on("x86_64", "unload", "debugfs", "debugfs"), (
            ["debugfs", "unload"], "lab/run x86_64 x",
            "lab/run x86_64 unload debugfs debugfs"))

    def test_base(self):
        self.assertEqual(self.run_on("x86_64", tree="linux-base")[1],
                         "lab/run --base x86_64 x")

    def test_kept(self):
        """How long a boot of all tests took, if it came to its end."""
        for names, problem, kept in (((), None, [(1.0, "boots", "x86_64"),
                                                 (0.5, "tests", "x86_64", "unload")]),
                                     (("unload",), None, []), ((), "hangs", [])):
            with self.subTest(names=names, problem=problem), \
                    mock.patch.object(suite, "boot",
                                      return_value=Boot(("unload", 0), problem=problem)), \
                    mock.patch.object(suite.durations, "keep") as keep:
                suite.run(results.Results(), records.Record("x86_64"), lambda _: None, names)
                self.assertEqual([call[0] for call in keep.call_args_list], kept)

    def test_not_built(self):
        def build(record):
            raise suite.steps.Failed("broken")
        said = self.run_on("x86_64", build=build)
        self.assertRegex(said, "^FAIL x86_64/build +broken\n    again: lab/build x86_64\n$")


class Typed(unittest.TestCase):
    """lab/run: what is wrong is one line, before anything is built."""

    def complaint(self, *words):
        done = subprocess.run([records.LAB / "run", *words], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")),
                         (2, "", 1), done.stderr)
        return done.stderr

    def test_unknown(self):
        text = self.complaint("x86_64", "debugfs", "nonsense")
        self.assertIn("no test 'nonsense' on x86_64, choose from: kvm_", text)
        self.assertIn(" debugfs ", text)
        self.assertNotIn("kmemleak", text)
        self.assertIn("kmemleak", self.complaint("x86_64-kasan", "nonsense"))
        self.assertIn("no kernel 'nonsense', choose from: arm64", self.complaint("nonsense"))

    def test_not_booted(self):
        for words in ("debugfs",), ("--", "/bin/true"):
            self.assertIn("mips64 does not boot: ", self.complaint("mips64", *words))

    def test_program(self):
        self.assertIn("no program after --", self.complaint("x86_64", "--"))
        self.assertIn("not both", self.complaint("x86_64", "debugfs", "--", "/bin/true"))
        self.assertIn("no such program: ./none", self.complaint("x86_64", "--", "./none"))

    def test_nothing(self):
        self.assertIn("required: kernel", self.complaint())


if __name__ == "__main__":
    unittest.main()
