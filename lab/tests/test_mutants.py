# SPDX-License-Identifier: GPL-2.0-only
"""The lists of mutants, and the results that lab/checks/long/mutants reports for them."""

import contextlib
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from host import mutant_file, records, results, steps
from tools import load

mutants = load("lab/checks/long/mutants")

GOOD = '[[mutant]]\nname = "a"\nfile = "f"\nwas = "x"\nbecomes = ""\n'


class Lists(unittest.TestCase):
    """The files of mutants."""

    def read(self, *texts):
        """Return the mutants of a list x, which is in several directories."""
        with tempfile.TemporaryDirectory() as top:
            folders = [Path(top) / str(number) for number in range(len(texts))]
            for folder, text in zip(folders, texts):
                folder.mkdir()
                (folder / "x.toml").write_text(text)
            return mutant_file.read(folders)["x"]

    def complaint(self, text):
        """Return the message for an invalid list."""
        with self.assertRaises(records.Invalid) as caught:
            self.read(text)
        return str(caught.exception)

    def test_good(self):
        mutant = self.read(GOOD)["a"]
        self.assertEqual((mutant.file, mutant.was, mutant.survives), (["f"], "x", ""))

    def test_file_of_all(self):
        """A list can name the file of all its mutants."""
        text = 'file = ["g", "h"]\n' + GOOD + GOOD.replace('"a"', '"b"').replace(
            'file = "f"\n', "")
        self.assertEqual({name: mutant.file for name, mutant in self.read(text).items()},
                         {"a": ["f"], "b": ["g", "h"]})

    def test_mutant_of_a_base(self):
        """A mutant of the base replaces the shared one of the same name."""
        found = self.read(GOOD + GOOD.replace('"a"', '"b"'), GOOD.replace('"x"', '"y"'))
        self.assertEqual({name: mutant.was for name, mutant in found.items()},
                         {"a": "y", "b": "x"})

    def test_twice(self):
        self.assertIn("two mutants are called a", self.complaint(GOOD + GOOD))
        self.assertIn("two mutants are called baseline",
                      self.complaint(GOOD.replace('"a"', '"baseline"')))

    def test_missing_and_unknown_key(self):
        self.assertIn("a", self.complaint(GOOD.replace("file", "path")))
        self.assertIn("a", self.complaint(GOOD.replace('was = "x"\n', "")))

    def test_choose(self):
        lists = {"x": {"a": 1, "b": 2}, "y": {"c": 3}}
        for names, chosen in ([], [1, 2, 3]), (["x"], [1, 2]), (["c", "a"], [3, 1]), (
                ["b", "x"], [2, 1]):
            with self.subTest(names=names):
                self.assertEqual(mutant_file.choose(lists, names), chosen)
        with self.assertRaisesRegex(records.Invalid, "no mutant or list 'z', lists: x y"):
            mutant_file.choose(lists, ["a", "z"])


class Apply(unittest.TestCase):
    """A mutant applies to the first of its files that contains its text once."""

    MUTANT = mutant_file.Mutant("a", ["f", "g"], "x;", "y;")

    def setUp(self):
        self.source = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, **texts):
        """Replace the files of the source tree."""
        for file in self.source.iterdir():
            file.unlink()
        for name, text in texts.items():
            (self.source / name).write_text(text)

    def test_once(self):
        for texts, name in (({"f": "a; x; b;"}, "f"), ({"g": "a; x; b;"}, "g"),
                            ({"f": "a; b;", "g": "a; x; b;"}, "g")):
            with self.subTest(texts=texts):
                self.write(**texts)
                self.assertEqual(mutant_file.apply(self.MUTANT, self.source),
                                 (self.source / name, "a; y; b;"))

    def test_never_and_twice(self):
        for texts, words in (({}, "no file f or g"), ({"f": "a; b;"}, "f contains its text 0"),
                             ({"g": "x; x;"}, "g contains its text 2 times")):
            with self.subTest(texts=texts):
                self.write(**texts)
                with self.assertRaisesRegex(records.Invalid, f"does not apply: {words}"):
                    mutant_file.apply(self.MUTANT, self.source)

    def test_before_a_kernel_is_built(self):
        """A mutant that does not apply is reported first; without others nothing is built."""
        self.write(f="a; b;")
        with mock.patch.object(mutants.mutant_file, "read", lambda: {"l": {"a": self.MUTANT}}), \
                mock.patch.object(records.base_file, "TREE", self.source), \
                mock.patch.object(sys, "argv", ["lab/checks/long/mutants"]), \
                mock.patch.object(steps, "use_tree"), \
                mock.patch.object(mutants, "Workshop"), \
                mock.patch.object(mutants, "check"), \
                mock.patch.object(steps, "lock_directory"), \
                mock.patch.object(steps, "install_packages") as install, \
                contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(mutants.main(), 1)
        self.assertIn("does not apply", out.getvalue())
        install.assert_not_called()


class Order(unittest.TestCase):
    """The order of the tests in a boot."""

    def test_order(self):
        tests = [types.SimpleNamespace(name=name) for name in (
            "slow", "new", "quick", "likely", "unload", "kmemleak")]
        took = {"slow": 9.0, "quick": 1.0, "likely": 5.0, "unload": 3.0, "kmemleak": 2.0}
        mutant = mutant_file.Mutant("a", ["f"], "x", "", first=("likely",))
        with mock.patch.object(mutants.durations, "read",
                               lambda _, __, name: took.get(name, float("inf"))):
            self.assertEqual(
                [test.name for test in mutants.sort_tests(tests, mutant, "x86_64")],
                ["likely", "quick", "slow", "new", "unload", "kmemleak"])


class Confirm(unittest.TestCase):
    """The failure that several boots of one mutant agree on."""

    def confirm(self, *lines, test="t"):
        boots = iter(lines)
        self.only = []

        def boot(only):
            self.only.append(only)
            line = next(boots)
            return line and test, line
        return mutants.confirm(boot)

    def test_no_failure(self):
        self.assertIsNone(self.confirm(None))
        self.assertEqual(self.only, [None])

    def test_same_failure(self):
        """Numbers, addresses and the functions that use memory may differ."""
        self.assertEqual(self.confirm("not ok 3 - 504 of 16", "not ok 3 - 27 of 16"),
                         "not ok 3 - 27 of 16")
        self.assertEqual(self.only, [None, "t"])
        self.assertEqual(self.confirm("data-race in read / run", "data-race in put / read"),
                         "data-race in put / read")
        self.assertEqual(self.confirm("KASAN: use-after-free in read+0x8/0x10",
                                      "KASAN: use-after-free in put+0x5/0x20"),
                         "KASAN: use-after-free in put+0x5/0x20")
        self.assertEqual(self.confirm("page fault for address: ff3d8ab83832d3f8",
                                      "page fault for address: ff48893c3832d038"),
                         "page fault for address: ff48893c3832d038")
        self.assertEqual(self.confirm("a", None, "a"), "a")
        self.assertEqual(self.only, [None, "t", None])
        self.assertEqual(self.confirm("a", "b", "b"), "b")

    def test_no_standalone_test(self):
        self.assertEqual(self.confirm("a", "a", test=None), "a")
        self.assertEqual(self.only, [None, None])

    def test_coincidence(self):
        for lines in ("a", "b", "c"), ("a", None, "b"), ("a", None, None):
            with self.subTest(lines=lines), self.assertRaises(steps.Failed) as caught:
                self.confirm(*lines)
            self.assertIn("a", str(caught.exception))


class Boot(unittest.TestCase):
    """The failure of one boot; the baseline run records the durations of tests."""

    def boot(self, is_baseline, passed=True, name="test", output=b"1 of 2", splats=()):
        workshop = object.__new__(mutants.Workshop)
        workshop.record = types.SimpleNamespace(name="kernel")
        boot = types.SimpleNamespace(
            run=mock.Mock(return_value=[("exit", name, None)]), times={name: 1.5}, problem=None,
            find_splats=lambda: splats,
            channel=types.SimpleNamespace(output={name: output}, status={name: 0},
                                          running=None))
        tests = {name: types.SimpleNamespace(judge=lambda output, _: (passed, output))}
        with mock.patch.object(mutants.machine, "Boot", return_value=boot), \
                mock.patch.object(mutants.durations, "read", return_value=4), \
                mock.patch.object(mutants.durations, "write") as write:
            failure = workshop.boot(workshop.record, None, tests, is_baseline)
        self.limit, = boot.run.call_args.args
        return failure, write.call_args

    def test_boot(self):
        self.assertEqual(self.boot(True), (
            (None, None), mock.call(1.5, "tests", "kernel", "test")))
        self.assertEqual(self.limit, mutants.LIMIT)
        self.assertEqual(self.boot(False), ((None, None), None))
        self.assertEqual(self.limit, 4 * mutants.SLOWER)
        self.assertEqual(self.boot(False, passed=False), (
            ("test", "kernel/test: 1 of 2"), None))
        self.assertEqual(self.boot(False, output=b"not ok 2 x\n"), (
            ("test", "kernel/test: not ok 2 x"), None))
        self.assertEqual(self.boot(False, splats=["BUG: x", "BUG: y"]), (
            ("test", "kernel/test: BUG: x"), None))

    def test_test_of_the_final_state(self):
        """A failed test of the final state is not run separately."""
        self.assertEqual(self.boot(False, passed=False, name="unload"), (
            (None, "kernel/unload: 1 of 2"), None))


class Check(unittest.TestCase):
    """The result for a mutant, from the failures on several kernels."""

    class Workshop:
        """A workshop with a given failure, or exception; False: the baseline run fails."""

        def __init__(self, failure):
            self.failure = failure
            self.booted = False

        def prepare(self, _):
            return not isinstance(self.failure, bool)

        def find_failure(self, _):
            self.booted = True
            if isinstance(self.failure, Exception):
                raise self.failure
            return self.failure

    def check(self, *failures, survives="", reason="", posted=False):
        """Return True if the mutant passes, and the output.

        reason: why the mailed tests do not detect it; posted: only they run.
        """
        self.workshops = {str(number): self.Workshop(failure)
                          for number, failure in enumerate(failures)}
        mutant = mutant_file.Mutant("a", ["f"], "x", "", survives, tuple(self.workshops),
                                    posted=reason)
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            mutants.check(mutant, self.workshops, found, posted)
        self.assertEqual(found.passed + found.failed, 1)
        return bool(found.passed), out.getvalue()

    def test_detected(self):
        """The second kernel does not boot."""
        passed, out = self.check("some test", None)
        self.assertTrue(passed)
        self.assertIn("detected by some test", out)
        self.assertFalse(self.workshops["1"].booted)

    def test_detected_by_the_second_kernel(self):
        self.assertTrue(self.check(None, "some test")[0])

    def test_survives(self):
        self.assertFalse(self.check(None, None)[0])

    def test_survives_for_a_reason(self):
        passed, out = self.check(None, None, survives="the same code")
        self.assertTrue(passed)
        self.assertIn("survives: the same code", out)

    def test_detected_in_spite_of_a_reason(self):
        self.assertFalse(self.check("some test", survives="the same code")[0])

    def test_posted(self):
        """A reason for the mailed tests does not count for all tests."""
        passed, out = self.check(None, reason="a race", posted=True)
        self.assertTrue(passed)
        self.assertIn("survives: a race", out)
        self.assertFalse(self.check(None, reason="a race")[0])
        self.assertFalse(self.check(None, posted=True)[0])
        self.assertFalse(self.check("some test", reason="a race", posted=True)[0])

    def test_baseline_that_fails(self):
        passed, out = self.check(False, survives="the same code")
        self.assertFalse(passed)
        self.assertIn("fail on 0 without the mutant", out)
        self.assertFalse(self.workshops["0"].booted)

    def test_does_not_compile_or_apply(self):
        for error in (steps.Failed("error: x"), records.Invalid("no f")):
            with self.subTest(error=error):
                passed, out = self.check(error, survives="the same code")
                self.assertFalse(passed)
                self.assertIn(str(error), out)


class Machines(unittest.TestCase):
    """A mutant is tried on each machine for a kernel until one detects it."""

    def find(self, *failures):
        """Return the failure that is found and the modules that each machine booted with."""
        workshop = object.__new__(mutants.Workshop)
        workshop.record = types.SimpleNamespace(name="x86_64")
        workshop.machines = [records.Record(name) for name in ("x86_64", "x86_64-npt")]
        workshop.rebuilt = ["arch/x86/kvm/kvm.ko"]
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(mutants, "OUT", Path(folder)), \
                mock.patch.object(workshop, "build", return_value=["mutant/kvm.ko"]), \
                mock.patch.object(workshop, "find_failure_on", side_effect=failures) as boots:
            found = workshop.find_failure(types.SimpleNamespace(name="mutant"))
        for call in boots.call_args_list:
            self.assertIn("mutant/kvm.ko", call[0][0].modules)
            self.assertNotIn("arch/x86/kvm/kvm.ko", call[0][0].modules)
        return found, [call[0][0].name for call in boots.call_args_list]

    def test_the_first_machine_detects_it(self):
        self.assertEqual(self.find("failure"), ("failure", ["x86_64"]))

    def test_only_the_second_machine_detects_it(self):
        self.assertEqual(self.find(None, "failure"), ("failure", ["x86_64", "x86_64-npt"]))

    def test_it_survives(self):
        self.assertEqual(self.find(None, None), (None, ["x86_64", "x86_64-npt"]))
