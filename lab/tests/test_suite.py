# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/suite.py: the tests of a kernel and the results of a boot."""

import contextlib
import io
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from host import records, results, suite
from tools import load


class Selftests(unittest.TestCase):
    """Selftests depend on the options of the kernel and get arguments."""

    def chosen(self, config, level="guest", of_kernel=False):
        with tempfile.TemporaryDirectory() as folder:
            fragment = Path(folder) / "x.config"
            fragment.write_text(config)
            path = Path(folder) / "tools/testing/selftests/kvm/kvm_binary_stats_test.c"
            if of_kernel:
                path.parent.mkdir(parents=True)
                path.touch()
            with mock.patch.object(suite.records.base_file, "TREE", Path(folder)), \
                    mock.patch.object(suite.programs, "list_selftests", return_value=[
                        Path(name) for name in ("plain", "kvm_stats_torn",
                                                "kvm_stats_stress")]):
                return suite.list_selftests(types.SimpleNamespace(
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
        """Mainline's test runs on newer kernels if guests can run."""
        names = [["plain"], ["kvm_stats_torn"]]
        self.assertEqual(self.chosen("", of_kernel=True),
                         [["kvm_binary_stats_test"], *names])
        self.assertEqual(self.chosen("", "vcpu", of_kernel=True), names)


class Debugfs(unittest.TestCase):
    """The listing of debugfs files: of the base, or of the base that it is like."""

    def judge(self, files, output):
        """Return the text of the result with these files in the directories of both bases."""
        with tempfile.TemporaryDirectory() as folder:
            folders = [Path(folder, name) for name in ("like", "own")]
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            test = next(test for test in suite.list_all_tests(records.Record("x86_64"))
                        if test.name == "debugfs")
            with mock.patch.object(suite.records.base_file, "list_directories",
                                   lambda name: folders):
                return test.judge(output, 0)[1]

    def test_inherited(self):
        """A base takes both lists from the base that it is like, and its own replace them."""
        inherited = {"like/kernels/x86_64.debugfs": "a\n",
                     "like/kernels/x86_64.debugfs-added": "new\n"}
        self.assertEqual(self.judge(inherited, "a\nnew\n"), "1 files and 1 of the series")
        own = inherited | {"own/kernels/x86_64.debugfs": "a\nb\n"}
        self.assertEqual(self.judge(own, "a\nb\nnew\n"), "2 files and 1 of the series")
        self.assertEqual(self.judge(own, "a\nnew\n"), "1 missing: b")
        self.assertEqual(self.judge({}, "a\n"),
                         "no x86_64.debugfs; run lab/record-debugfs")


class Skips(unittest.TestCase):
    """A test may skip only tests of features that its test machine lacks."""

    def test_huge_page(self):
        output = "ok 1 a page of 2 MB\nok 2 # SKIP the host has no page of 1 GB\n1..2\n"
        for name, passes in ("x86_64-npt", True), ("x86_64-kasan-npt", True):
            record = records.Record(name)
            with mock.patch.object(suite, "list_selftests", return_value=[
                    ["kvm_stats_mmu"], ["kvm_stats_torn"]]):
                mmu, torn = suite.list_all_tests(record)[:2]
            self.assertEqual(mmu.judge(output, 0)[0], passes)
            self.assertFalse(torn.judge(output, 0)[0])


class Example(unittest.TestCase):
    """The program in stats.rst."""

    PAGE = ("Text::\n\n\tint main(void);\n\n.. code-block:: c\n\n\t/* part */\n\n"
            ".. code-block:: c\n\n\tint main(void)\n\t{\n\n\t\treturn 0;\n\t}\n\nOutput:\n\n"
            ".. code-block:: none\n\n\tone 1\n\ttwo 2\n\nWith older headers:\n\n"
            ".. code-block:: none\n\n\tone 1\n\tstats-example: old\n\n"
            "Elsewhere:\n\n.. code-block:: none\n\n\tone 1\n\nText\n")

    def read(self, page):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "stats.rst")
            path.write_text(page)
            with mock.patch.object(suite.programs, "PAGE", path):
                return suite.programs.read_example()

    def test_found(self):
        """The block with main() is the program, the next three are its outputs."""
        program, output, older, released = self.read(self.PAGE)
        self.assertEqual(program.strip(), "int main(void)\n{\n\n\treturn 0;\n}")
        self.assertEqual(output, "one 1\ntwo 2\n")
        self.assertEqual(older, "one 1\nstats-example: old\n")
        self.assertEqual(released, "one 1\n")

    def test_missing(self):
        """A page without a program or without one of its outputs is an error."""
        for page in ("", self.PAGE.replace("main(", "other("), self.PAGE.replace("none", "text"),
                     self.PAGE.partition("With")[0], self.PAGE.partition("Elsewhere")[0]):
            with self.assertRaisesRegex(records.Invalid, "no program"):
                self.read(page)

    def test_older_headers(self):
        """With older headers, the program must print what they support, the message, and exit
        with 2."""
        documented, *_ = suite.programs.read_example()[1].partition("one file for all")
        with mock.patch.object(suite.patch_file, "list_series", return_value=["stats", "next"]):
            complete, *older = suite.make_example_tests()
        self.assertTrue(complete.judge(suite.programs.read_example()[1], 0)[0])
        self.assertEqual([test.name for test in older],
                         ["stats-example-without-series", "stats-example-without-next"])
        for test, printed in zip(older, (
                documented, suite.programs.read_example()[1].partition("a file for each")[0])):
            message = f"{test.name}: compiled with headers that lack features of this kernel\n"
            self.assertTrue(test.judge(message + printed, 2)[0], test.name)
            for output, status in (printed, 0), (printed, 2), (message + printed, 0):
                self.assertFalse(test.judge(output, status)[0], test.name)

class Machines(unittest.TestCase):
    """The machines for one kernel divide its tests."""

    def run_on(self, name):
        """Return the names of the tests that a record runs, of three selftests."""
        with mock.patch.object(suite, "list_selftests", return_value=[
                ["kvm_stats_lifetime"], ["kvm_stats_mmu"], ["kvm_stats_torn"]]):
            record = records.Record(name)
            return ([test.name for test in suite.list_tests(record)],
                    {test.name for test in suite.list_all_tests(record)})

    def test_every_test_runs(self):
        """Each test of a kernel runs on at least one machine for it."""
        for kernel in "x86_64", "x86_64-kasan":
            machines = [machine.name for machine in records.list_machines(records.Record(kernel))]
            self.assertEqual(machines, [kernel, f"{kernel}-npt"])
            found, every = (set().union(*each) for each in zip(*map(self.run_on, machines)))
            self.assertEqual(found, every)

    def test_nested_paging(self):
        """The machine with nested paging runs the tests that need it and those it names."""
        self.assertEqual(self.run_on("x86_64-npt")[0], [
            "kvm_stats_lifetime", "kvm_stats_mmu", "kvm_stats_lifetime-with-busy-vms",
            "kvm_stats_mmu-with-busy-vms", "unload"])
        self.assertNotIn("kvm_stats_mmu", self.run_on("x86_64")[0])
        self.assertIn("kvm_stats_lifetime", self.run_on("x86_64")[0])

    def test_no_nested_paging_on_two_cpus(self):
        """No machine has both nested paging and two CPUs."""
        for name in records.list_names():
            record = records.Record(name)
            if record.image and record.arch == "x86_64":
                self.assertTrue(record.cpus == "1" or "max,-npt,-erms,-fsrm" in record.qemu,
                                name)


class Modules(unittest.TestCase):
    """The base for lab/checks/modules."""

    def test_base(self):
        modules = load("lab/checks/modules")
        kernels = {"5.10": "", "6.2": "a", "6.12": "b"}
        with mock.patch.multiple(
                records.base_file, list_names=lambda: list(kernels),
                read_values=lambda name: {"debian_kernel": kernels[name]}):
            for chosen, named, base in (("5.10", None, "6.12"), ("6.2", None, "6.2"),
                                        ("6.2", "6.12", "6.12"), ("5.10", "6.2", "6.2")):
                with mock.patch.object(records.base_file, "NAME", chosen):
                    self.assertEqual(modules.choose_base(named), base)
            with self.assertRaises(records.Invalid):
                modules.choose_base("5.10")


class Order(unittest.TestCase):
    """The order in which kernels are built."""

    def test_order(self):
        kernels = load("lab/checks/kernels")

        def order(took):
            with mock.patch.object(suite.durations, "read",
                                   lambda _, name: took.get(name, float("inf"))):
                return sorted(("arm64", "s390x", "mips64", "x86_64", "x86_64-kasan"),
                              key=lambda name: kernels.build_order(records.Record(name)))

        self.assertEqual(order({}), ["x86_64", "x86_64-kasan", "arm64", "s390x", "mips64"])
        self.assertEqual(order({"arm64": 3.0, "s390x": 9.0, "x86_64": 1.0, "x86_64-kasan": 5.0}),
                         ["x86_64", "s390x", "x86_64-kasan", "arm64", "mips64"])


class Boot:
    """A simulated boot, see machine.Boot."""

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

    def read_last_lines(self):
        return ["last words"]


class Boots(unittest.TestCase):
    """A boot has a result per test and one for the boot itself."""

    def said(self, boot, *names, judge=lambda output, status: (not status, output), **options):
        with tempfile.TemporaryDirectory() as folder:
            record = types.SimpleNamespace(boot=Path(folder) / "x", reason="why", level="guest")
            (Path(folder) / "here").mkdir()
            tests = [suite.Test(name, [name], judge) for name in names]
            found = results.Results()
            with mock.patch.object(suite.machine, "pack"), \
                    mock.patch.object(suite.machine, "Boot", boot), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                suite.boot(found, "here", record, tests, **options)
        return found, out.getvalue().splitlines()

    def test_passed(self):
        found, lines = self.said(Boot(("a", 0), ("b", 0)), "a", "b")
        self.assertEqual((found.passed, found.failed), (3, 0))
        self.assertRegex(lines[0], r"^ok +- here/a +said  0\.5 s  \[why\]$")
        self.assertRegex(lines[2], r"^ok +- here/boot +1\.0 s in all$")

    def test_tap(self):
        """The output of a test without a judge is TAP."""
        for output, line in ((b"ok 1\n1..1\n", "^ok     - here/a +1 ok  "),
                             (b"ok 1 # SKIP x\nok 2\n1..2\n", "^not ok - here/a +skipped ")):
            boot = Boot(("a", 0))
            boot.channel.output["a"] = output
            self.assertRegex(self.said(boot, "a", judge=None)[1][0], line)

    def test_a_test_fails(self):
        found, lines = self.said(Boot(("a", 1)), "a")
        self.assertEqual((found.passed, found.failed), (1, 1))
        self.assertRegex(lines[0], r"^not ok - here/a +said .*\(log: .*/a\.log\)$")

    def test_no_verdict(self):
        found, lines = self.said(Boot(("a", 0), problem="hangs in b"), "a", "b")
        self.assertEqual((found.passed, found.failed), (1, 2))
        self.assertRegex(lines[1], r"^not ok - here/b +has no verdict$")
        self.assertRegex(lines[3], r"^not ok - here/boot +hangs in b \(console: ")
        self.assertEqual(lines[4], "# last words")

    def test_rerun(self):
        """Each failure is followed by a command to rerun it, by default the check."""
        boot = Boot(("a", 1), problem="hangs in b")
        for options, said in (
                ({"rerun": lambda *test: " ".join(["lab/run here", *test])},
                 ["lab/run here a", "lab/run here b", "lab/run here"]),
                ({}, [results.get_command()] * 3)):
            boot.channel.status.clear()
            lines = self.said(boot, "a", "b", **options)[1]
            self.assertEqual([line for line in lines if "rerun" in line],
                             [f"# rerun: {command}" for command in said])

    def test_two_of_one_name(self):
        with self.assertRaises(records.Invalid) as caught:
            self.said(Boot(), "a", "b", "a")
        self.assertIn("duplicate test name in a b a", str(caught.exception))


class Run(unittest.TestCase):
    """The tests that run on a kernel, and the commands to rerun them."""

    def run_on(self, name, *names, tree="linux", build=lambda record: None):
        """Return the tests that were booted and the commands to rerun them."""
        with mock.patch.object(suite, "boot") as boot, \
                contextlib.redirect_stdout(io.StringIO()) as out:
            suite.run(results.Results(), records.Record(name, tree), build, names)
        if not boot.called:
            return out.getvalue()
        rerun = boot.call_args[1]["rerun"]
        return [test.name for test in boot.call_args[0][3]], rerun("x"), rerun()

    def test_all(self):
        names, one, whole = self.run_on("x86_64")
        self.assertIn("debugfs", names)
        self.assertEqual((one, whole), ("lab/run x86_64 x", "lab/run x86_64"))
        self.assertEqual(names[-1], "unload")

    def test_named(self):
        """Named tests run in the fixed order: those that inspect the final state are last."""
        self.assertEqual(self.run_on("x86_64", "unload", "debugfs", "debugfs"), (
            ["debugfs", "unload"], "lab/run x86_64 x",
            "lab/run x86_64 unload debugfs debugfs"))

    def test_base(self):
        self.assertEqual(self.run_on("x86_64", tree="linux-base")[1],
                         "lab/run --base x86_64 x")

    def test_kept(self):
        """Durations are recorded only for complete boots with all tests."""
        for names, problem, kept in (((), None, [(1.0, "boots", "x86_64"),
                                                 (0.5, "tests", "x86_64", "unload")]),
                                     (("unload",), None, []), ((), "hangs", [])):
            with self.subTest(names=names, problem=problem), \
                    mock.patch.object(suite, "boot",
                                      return_value=Boot(("unload", 0), problem=problem)), \
                    mock.patch.object(suite.durations, "write") as keep:
                suite.run(results.Results(), records.Record("x86_64"), lambda _: None, names)
                self.assertEqual([call[0] for call in keep.call_args_list], kept)

    def test_not_built(self):
        def build(record):
            raise suite.steps.Failed("broken")
        said = self.run_on("x86_64", build=build)
        self.assertRegex(said, "^not ok - x86_64/build +broken\n# rerun: lab/build x86_64\n$")
